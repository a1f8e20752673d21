"""Live brokers that a broker ceases to name, for `checkers.promises.whole_metadata`.

A controller tells of all brokers that are registered, also of those that are being stopped and
serve on (ControllerContext.liveOrShuttingDownBrokers, UpdateMetadata), and of nobody less before
ZooKeeper says that its registration is gone. Whom a broker named it goes on naming so long.

- ``live-broker-forgotten``: in one life, a broker answered with one less, who was registered all
  the while, by ZooKeeper's log and the watch of it.

Lawful, and looks similar: who comes back may be named since before it was gone, by a broker that
has not been told of that yet, and hears of it only now. Of a registration that is not the first one
this holds once that broker was seen to know that the former was gone. What a forger told is the
forger's, and counted. Without ZooKeeper brokers are fenced while they are registered: not judged.
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
from checkers.facts.timeline import FOREVER
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "live-broker-forgotten"
_TOLD_NS: Final = 5_000_000_000
"""In which whoever a prober left out is named again: by the next event of the controller."""
_BY: Final = ("arm", "trial", "node", "life", "process")
Node = tuple[str, int, int]
Row = Mapping[str, Any]


def forgotten_brokers(history: History, excused: Callable[[Node, int], bool]) -> Iterator[Finding]:
    """``excused``: whether what that broker said when it was asked (ns) may be a forger's."""
    gone, seen, probed = absences(history), in_zookeeper(history), _probed(history)
    by_reader: dict[tuple[Any, ...], list[Row]] = {}
    for change in _changes(history):
        if (change["arm"], change["trial"]) in seen:
            by_reader.setdefault(tuple(change[name] for name in _BY), []).append(change)
    told: set[tuple[Node, int, int]] = set()
    for key, changes in sorted(by_reader.items()):
        broker: Node = key[:3]
        first_t, last_t = probed.get(broker, (FOREVER, FOREVER))
        rows = [row for row in changes if not first_t <= row["t"] <= last_t + _TOLD_NS]
        for place, row in enumerate(rows):
            for other in sorted(set(row["before"] or ()) - set(row["brokers"])):
                spans = gone.get((*broker[:2], other))
                if spans is None or not _stood(spans, row, rows[:place], other):
                    continue
                one = (broker, other, bisect_right(spans, row["t"], key=lambda span: span.from_t))
                if one not in told and not excused(broker, row["invoke_t"]):
                    told.add(one)
                    yield _finding(row, other)


def _probed(history: History) -> dict[Node, tuple[int, int]]:
    """By broker, from when until when (ns) a prober told it who lives."""
    if not history.has("probe"):
        return {}
    rows = history.frame("probe").where("api = 'UPDATE_METADATA' and node is not null")
    spans = rows.groupBy("arm", "trial", "node").agg(
        F.min("invoke_t").alias("first_t"), F.max("t").alias("last_t")
    )
    return {
        (row["arm"], row["trial"], row["node"]): (row["first_t"], row["last_t"])
        for row in spans.toArrow().to_pylist()
    }


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
