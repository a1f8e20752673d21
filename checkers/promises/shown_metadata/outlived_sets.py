"""In-sync sets that are shown long after another was committed, for
`checkers.promises.shown_metadata`.

Whoever commits an in-sync set, all brokers are told of it at once (UpdateMetadata;
KafkaController's processAlterPartition, onBrokerFailure). In the end it is seen whether the last
one came (``metadata-isr-behind``). One that shrank and grew again ends as it began, and says
nothing of whether anybody heard of it. So it is asked meanwhile: a set that was committed `TOLD_NS`
ago, and for which none has come yet in that leader epoch, is the one that a broker shows
(``metadata-isr-outlived``).

From `BEFORE_NS` before its commit to the answer one broker was controller. The time runs from when
no fault named that one any more. Nor did one name the broker that answers since, which was
registered all the time: who is cut off, or stopped, is told when it can be. Of what a forger told,
the forger (`checkers.facts.forgeries`).
Blind: without ZooKeeper's own log; where leaders write in-sync sets themselves, and tell of them
when they have done with them (`checkers.facts.in_sync_writes`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import with_forged
from checkers.facts.faults import ASKING, Fault, faults_within
from checkers.facts.in_sync_writes import leaders_write
from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.office import elections, in_order
from checkers.facts.registrations import absences
from checkers.facts.timeline import FOREVER
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "metadata-isr-outlived"
OUTLIVED: Final = "answers while an in-sync set was committed, and had been for long"
TOLD_NS: Final = 5_000_000_000
"""As `checkers.promises.departures.still_named` has it."""
BEFORE_NS: Final = 5_000_000_000
"""So long a controller that was elected may have other things to tell."""
Row = Mapping[str, Any]
Trial = tuple[str, int]


def outlived(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """By broker and in-sync set that lasted: the first answer with another one, and how many."""
    spans = list(_spans(history))
    if not spans:
        return
    columns = "leader_epoch int, _isr string, _from bigint, _to bigint, _spared array<bigint>"
    table = history.table(spans, f"arm string, trial int, topic string, partition int, {columns}")
    rows = history.frame("metadata").where("type = 'ok' and isr is not null")
    rows = rows.join(F.broadcast(table), [*TP, "leader_epoch"])
    rows = rows.where("invoke_t > _from and t < _to")
    rows = rows.where(~F.array_contains("_spared", F.col("node").cast("bigint")))
    rows = with_forged(history, rows).where("not forged")
    shown = F.concat_ws(", ", F.array_sort("isr").cast("array<string>"))
    rows = rows.withColumn("_shown", shown).withColumn("_odd", F.col("_shown") != F.col("_isr"))
    found = rows.groupBy(*TP, "node", "leader_epoch", "_isr", "_from").agg(
        F.count("*").alias("asked"),
        F.sum(F.col("_odd").cast("long")).alias("n"),
        F.min(F.when(F.col("_odd"), F.col("t"))).alias("first_t"),
        F.min_by("_shown", F.when(F.col("_odd"), F.col("t")).otherwise(FOREVER)).alias("shown"),
    )
    for row in found.orderBy("_from", *TP, "node").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], OUTLIVED, row["asked"])
        if row["n"]:
            yield _finding(row), row["n"]


def _finding(row: Row) -> Finding:
    arm, trial, topic, partition = key_of(row)
    at = {"topic": topic, "partition": partition}
    late_s = (row["first_t"] - row["_from"] + TOLD_NS) / 1e9
    return Finding(
        RULE,
        f"node {row['node']} showed {topic}-{partition} with in-sync set [{row['shown']}]"
        f" in leader epoch {row['leader_epoch']}, {late_s:.1f} s after [{row['_isr']}] had been "
        "committed, which was the last one then",
        arm,
        trial,
        (
            Pick("zk_write", {**at, "what": "state"}, to_t=row["first_t"], rows=2, last=True),
            Pick("metadata", {**at, "node": row["node"], "t": row["first_t"]}, rows=1),
        ),
    )


def _spans(history: History) -> Iterator[dict[str, Any]]:
    """Of each state that lasted: from when to when an answer has to show it, and who need not."""
    states: dict[Key, Row] = {}
    for row in in_order(history):
        if row["what"] != "state" or row["topic"] is None or row["partition"] is None:
            continue
        key = key_of(row)
        before = states.pop(key, None)
        if before is not None and not leaders_write(history, key[0]):
            error_ns = (before["error_ns"] or 0) + (row["error_ns"] or 0)
            to_t = row["t"] - error_ns
            since_t = _undisturbed(history, key[:2], before["t"] + error_ns, to_t)
            if since_t is not None and since_t + TOLD_NS < to_t:
                yield {
                    **dict(zip(TP, key, strict=True)),
                    "leader_epoch": before["leader_epoch"],
                    "_isr": ", ".join(map(str, sorted(before["isr"]))),
                    "_from": since_t + TOLD_NS,
                    "_to": to_t,
                    "_spared": sorted(_spared(history, key[:2], since_t, to_t)),
                }
        if row["step"] != "removed" and row["isr"] and row["leader_epoch"] is not None:
            states[key] = row


def _undisturbed(history: History, trial: Trial, from_t: int, to_t: int) -> int | None:
    """Since when (ns) in that span nothing keeps a controller from telling of it; None: for all of
    it something does."""
    calm_t = from_t - BEFORE_NS
    controller, changed = _office(history, trial, calm_t)
    if controller is None or changed < to_t:
        return None
    over = [f.to_t for f in _felt(history, trial, from_t, to_t) if f.concerns(controller)]
    since_t = max(over, default=from_t)
    return since_t if since_t < to_t else None


def _office(history: History, trial: Trial, t: int) -> tuple[int | None, int]:
    """Who was controller at a moment (None: nobody yet), and when the office changed hands, or was
    left, for the first time after it (ns)."""

    def make() -> list[int]:
        left = [
            row["t"]
            for row in rows_of(history, "zk_write", trial)
            if (row["what"], row["step"]) == ("controller", "removed")
        ]
        return sorted([*left, *(one.t for one in elections(history).get(trial, []))])

    changes: list[int] = history.memo(f"{RULE}: changes of office, {trial}", make)
    before = [one for one in elections(history).get(trial, []) if one.t <= t]
    after = changes[bisect_right(changes, t) :]
    return (before[-1].node if before else None), min(after[:1], default=FOREVER)


def _spared(history: History, trial: Trial, from_t: int, to_t: int) -> set[int]:
    """Who is not to be judged in that span (ns)."""
    away = {
        node
        for (*whose, node), gone in absences(history).items()
        if tuple(whose) == trial
        and any(one.from_t < to_t and (one.to_t or FOREVER) > from_t for one in gone)
    }
    return away.union(*(fault.nodes for fault in _felt(history, trial, from_t, to_t)))


def _felt(history: History, trial: Trial, from_t: int, to_t: int) -> list[Fault]:
    return [f for f in faults_within(history, trial, from_t, to_t) if f.name not in ASKING]
