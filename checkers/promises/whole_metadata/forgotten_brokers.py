"""Live brokers that a broker ceases to name, for `checkers.promises.whole_metadata`.

A controller tells of all brokers that are registered, also of those that are being stopped and
serve on (ControllerContext.liveOrShuttingDownBrokers, UpdateMetadata), and of nobody less before
ZooKeeper says that its registration is gone. Whom a broker named it goes on naming so long.

- ``live-broker-forgotten``: in one life, a broker answered with one less, who was registered all
  the while, by ZooKeeper's log and the watch of it.

Lawful, and looks similar: who comes back may be named since before it was gone, by a broker that
has not been told of that yet, and hears of it only now. Of a registration that is not the first one
this holds once that broker was seen to know that the former was gone. What a forger told is the
forger's, and what a prober told between the two answers, from a list of its own, the prober's; both
are counted. Without ZooKeeper brokers are fenced while they are registered: not judged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.lives import with_life
from checkers.facts.office import in_zookeeper
from checkers.facts.registrations import Absence, absences
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.whole_metadata.named_brokers import LISTS

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "live-broker-forgotten"
_LATE_NS: Final = 5_000_000_000
"""So long after it was given up a probe may still be handled."""
_BY: Final = ("arm", "trial", "node", "life", "process")
Node = tuple[str, int, int]
Row = Mapping[str, Any]


def forgotten_brokers(
    history: History, outcome: Outcome, forged: Callable[[Node, int], bool]
) -> Iterator[Finding]:
    """``forged``: whether what that broker said when it was asked (ns) may be a forger's, which is
    counted there."""
    gone, seen = absences(history), in_zookeeper(history)
    by_reader: dict[tuple[Any, ...], list[Row]] = {}
    for change in _changes(history):
        if (change["arm"], change["trial"]) in seen:
            by_reader.setdefault(tuple(change[name] for name in _BY), []).append(change)
    found: list[tuple[Row, int, int]] = []
    for key, rows in sorted(by_reader.items()):
        for place, row in enumerate(rows):
            for other in sorted(set(row["before"] or ()) - set(row["brokers"])):
                spans = gone.get((*key[:2], other))
                if spans is not None and _stood(spans, row, rows[:place], other):
                    life = bisect_right(spans, row["t"], key=lambda span: span.from_t)
                    found.append((row, other, life))
    probed = _probed(history, [row for row, _, _ in found])
    told: set[tuple[Node, int, int]] = set()
    for number, (row, other, life) in enumerate(found):
        broker: Node = row["arm"], row["trial"], row["node"]
        if (broker, other, life) in told:
            continue
        if number in probed:
            outcome.excuse(*broker[:2], RULE, "probed", of=LISTS)
        elif not forged(broker, row["invoke_t"]):
            told.add((broker, other, life))
            yield _finding(row, other)


def _probed(history: History, rows: Sequence[Row]) -> set[int]:
    """The places of those before which, since the answer before, a prober may have told that broker
    who lives, as it knew it."""
    if not rows or not history.has("probe"):
        return set()
    table = [
        {
            **{name: row[name] for name in ("arm", "trial", "node")},
            **{"_number": number, "_from": row["before_invoke_t"], "_to": row["t"]},
        }
        for number, row in enumerate(rows)
    ]
    of = "arm string, trial int, node int, _number int, _from bigint, _to bigint"
    probes = history.frame("probe").where("api = 'UPDATE_METADATA'")
    late = F.expr(f"if(type = 'ok', t, t + {_LATE_NS})")
    probes = probes.select("arm", "trial", "node", "invoke_t", late.alias("_by"))
    both = probes.join(F.broadcast(history.table(table, of)), ["arm", "trial", "node"])
    hit = both.where("invoke_t <= _to and _by >= _from").select("_number").distinct()
    return {row["_number"] for row in hit.toArrow().to_pylist()}


def _stood(spans: Sequence[Absence], row: Row, earlier: Sequence[Row], other: int) -> bool:
    """Whether ``other`` was registered from the answer that named it until the one that did not,
    and the broker knew of the absence before that, if there was one."""
    place = bisect_right(spans, row["t"], key=lambda span: span.from_t)
    if row["before_t"] >= row["invoke_t"]:
        return False  # both were under way at once
    if not place:
        return True
    last = spans[place - 1]
    if last.to_t is None or row["before_invoke_t"] <= last.to_t:
        return False
    return any(other not in each["brokers"] and each["invoke_t"] > last.from_t for each in earlier)


def _changes(history: History) -> list[dict[str, Any]]:
    """By life and reader, in order: each first answer, and each that names other brokers than the
    one before (``before``, asked and answered at ``before_invoke_t`` and ``before_t``)."""
    rows = history.frame("metadata").where(
        "type = 'ok' and node is not null and brokers is not null and invoke_t is not null"
    )
    rows = rows.select(
        *("arm", "trial", "node", "process", "invoke_t", "t"),
        F.array_sort("brokers").alias("brokers"),
    )
    rows = with_life(history, rows, F.col("invoke_t"), F.col("t")).where("life is not null")
    order = Window.partitionBy(*_BY).orderBy("invoke_t", "t")
    lagged = rows.select(
        "*",
        F.lag("brokers").over(order).alias("before"),
        F.lag("invoke_t").over(order).alias("before_invoke_t"),
        F.lag("t").over(order).alias("before_t"),
    )
    changed = lagged.where("before is null or before <> brokers")
    found: list[dict[str, Any]] = changed.toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["invoke_t"], row["t"]))


def _finding(row: Row, other: int) -> Finding:
    node = row["node"]
    return Finding(
        RULE,
        f"node {node} named node {other} as live, and {(row['t'] - row['before_t']) / 1e6:.0f} ms "
        f"later brokers {list(row['brokers'])}; node {other} was registered all the while",
        row["arm"],
        row["trial"],
        (
            Pick("zk_write", {"what": "broker", "node": other}, to_t=row["t"], last=True, rows=1),
            Pick("node_event", {"event": "registered", "node": other}, to_t=row["t"], last=True,
                 rows=1),
            Pick("metadata", {"node": node, "t": row["before_t"]}, rows=1),
            Pick("metadata", {"node": node, "t": row["t"]}, rows=1),
            Pick("node_event", {"event": "unregistered", "node": other}, from_t=row["t"], rows=1),
        ),
    )  # fmt: skip
