"""Still named: answers that tell of a broker that is gone as if it were there, for
`checkers.promises.departures`.

Who is gone is no live broker (``dead-named``), and an offline replica of each partition that it is
a replica of (``dead-not-offline``: MetadataCache's offline replicas, which is what an operator's
tools show). `TOLD_NS` after a registration is gone every broker has been told of both. Who names it
as live no more has been told, and hears of all its replicas in the same event of the controller
(ReplicaStateMachine's OfflineReplica, of those in sync and of those that were not): `SAME_NS` later
it has to say so. Most absences are shorter than `TOLD_NS`.

Lawful, and looks similar: a broker that is itself not registered, or has not been for long, is told
nothing, and names itself and whoever was there when its session ended (a zombie that woke up takes
its time to register anew); answers of a broker that a fault names, and what a fault kept the
controller from saying, are not judged; of a topic whose deletion was asked for nothing new is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.registrations import absences as unregistered
from checkers.facts.timeline import FOREVER, FROM, TO, Timeline
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

TOLD_NS: Final = 5_000_000_000
"""So long after a registration is gone every broker has been told; 3.8 s were seen, of a controller
on a busy machine."""
SAME_NS: Final = 2_000_000_000
"""Between the first and the last request of that event Kafka 2.4 took 1.0 s, on a busy machine."""
NAMED: Final = "answers that could have named who was gone"
OFFLINE: Final = "answers about partitions with a replica that was gone"
VALUES: Final = {"gone": "int", "gone_t": "bigint", "troubled": "array<bigint>"}
Trial = tuple[str, int]
Absences = Mapping[Trial, list[tuple[int, int, int]]]
"""By trial: broker, from, to (ns) in which it was gone and its controller could say so."""
Disturbances = Callable[[Trial], Iterable[tuple[int, str, Any]]]
"""When faults began and were over, each with whom it names."""


def still_named(
    history: History, outcome: Outcome, absences: Absences, besides: Disturbances
) -> Iterator[Finding]:
    if not history.has("metadata"):
        return
    spans = list(_spans(absences, besides))
    if not spans:
        return
    absent = Timeline(spans, ("arm", "trial"), VALUES)
    told = ["arm", "trial", "node", "topic", "partition", "invoke_t", "t"]
    answers = _untold(history).at(history, history.frame("metadata"), F.col("t"))
    answers = answers.where(f"{FROM} is null").drop(FROM, TO)
    live = answers.where("brokers is not null").select(*told, "brokers")
    named = F.array_contains("brokers", F.col("gone"))
    for row in _asked(history, _later(absent, TOLD_NS), live, named):
        _count(outcome, row, NAMED)
        if row["wrong"] and not row["excused"]:
            yield _as_live(row)
    known = answers.where("replicas is not null and offline is not null")
    known = known.select(*told, "replicas", "offline")
    dying = [
        {"arm": row["arm"], "trial": row["trial"], "topic": row["topic"]}
        for row in history.rows("topic_deletion")
    ]
    if dying:
        table = F.broadcast(history.table(dying, "arm string, trial int, topic string"))
        known = known.join(table, ["arm", "trial", "topic"], "left_anti")
    of_it = F.array_contains("replicas", F.col("gone"))
    online = ~F.array_contains("offline", F.col("gone"))
    for row in _asked(history, _heard(history, absent, answers, named), known, online, of_it):
        _count(outcome, row, OFFLINE)
        if row["wrong"] and not row["excused"]:
            yield _as_online(row)


def _untold(history: History) -> Timeline:
    """When each broker was not registered itself, or had not been for long: nobody told it
    anything."""
    rows: list[dict[str, Any]] = []
    for (arm, trial, node), spans in sorted(unregistered(history).items()):
        known_t = -FOREVER
        for one in spans:
            to_t = FOREVER if one.to_t is None else one.to_t + TOLD_NS
            if one.from_t < known_t:
                rows[-1][TO] = to_t
            else:
                place = {"arm": arm, "trial": trial, "node": node}
                rows.append({**place, FROM: one.from_t, TO: to_t})
            known_t = to_t
    return Timeline(rows, ("arm", "trial", "node"))


def _spans(absences: Absences, besides: Disturbances) -> Iterator[dict[str, Any]]:
    """When somebody was gone, and whose answers are not to be judged by that."""
    for (arm, trial), of in absences.items():
        troubled = _Troubled(besides((arm, trial)))
        for gone, gone_t, to_t in of:
            if gone_t < to_t:
                nodes = sorted(troubled.during(gone_t, to_t))
                span = {FROM: gone_t, TO: to_t, "gone": gone, "gone_t": gone_t, "troubled": nodes}
                yield {"arm": arm, "trial": trial, **span}


def _later(absent: Timeline, told_ns: int) -> Timeline:
    """The same spans, from when all have been told."""
    rows = [{**row, FROM: row[FROM] + told_ns} for row in absent.rows]
    return Timeline([row for row in rows if row[FROM] < row[TO]], absent.keys, VALUES)


def _heard(history: History, absent: Timeline, answers: DataFrame, named: Column) -> Timeline:
    """The same spans by who answers, from when it has heard of them: `TOLD_NS` after a registration
    was gone, or `SAME_NS` after it ceased to name as live who is gone, whichever is sooner."""
    inside = absent.during(history, answers, F.col("invoke_t"), F.col("t"))
    inside = inside.where(f"invoke_t > {FROM} and t < {TO}").withColumn("named", named)
    ceased = inside.groupBy("arm", "trial", "node", "gone", "gone_t").agg(
        F.min(F.when(~F.col("named"), F.col("t"))).alias("first_without"),
        F.max(F.when(F.col("named"), F.col("t"))).alias("last_with"),
    )
    rows = []
    spans = {(row["arm"], row["trial"], row["gone"], row["gone_t"]): row for row in absent.rows}
    for row in ceased.toArrow().to_pylist():
        span = spans[row["arm"], row["trial"], row["gone"], row["gone_t"]]
        from_t = span["gone_t"] + TOLD_NS
        if row["first_without"] is not None:
            heard_t = max(row["first_without"], row["last_with"] or 0)
            from_t = min(from_t, heard_t + SAME_NS)
        if from_t < span[TO]:
            rows.append({**span, "node": row["node"], FROM: from_t})
    return Timeline(rows, (*absent.keys, "node"), VALUES)


def _asked(
    history: History,
    absent: Timeline,
    answers: DataFrame,
    wrong: Column,
    of_it: Column | None = None,
) -> list[dict[str, Any]]:
    """Answers that were asked for and given within one span, by who answered and who was gone: how
    many there are (``asked``), how many of them ``wrong``, and the first of these."""
    inside = absent.during(history, answers, F.col("invoke_t"), F.col("t"))
    inside = inside.where(f"invoke_t > {FROM} and t < {TO}").withColumnRenamed(FROM, "from_t")
    if of_it is not None:
        inside = inside.where(of_it)
    inside = inside.withColumn("excused", F.expr("array_contains(troubled, bigint(node))"))
    found = inside.groupBy("arm", "trial", "node", "gone", "gone_t", "from_t", "excused").agg(
        F.count("*").alias("asked"),
        F.sum(wrong.cast("long")).alias("wrong"),
        F.min(F.when(wrong, F.struct("t", "topic", "partition"))).alias("first"),
    )
    return list(found.orderBy("arm", "trial", "from_t", "gone", "node").toArrow().to_pylist())


def _count(outcome: Outcome, row: Mapping[str, Any], what: str) -> None:
    outcome.saw(row["arm"], row["trial"], what, 0 if row["excused"] else row["asked"])
    if row["wrong"] and row["excused"]:
        figures = outcome.arm(row["arm"])
        figures["named_by_disturbed"] = figures.get("named_by_disturbed", 0) + row["wrong"]
        says = "answers of brokers that a fault named, and that named who was gone"
        outcome.unjudged(row["arm"], says)


def _late_s(row: Mapping[str, Any]) -> float:
    return float(row["first"]["t"] - row["gone_t"]) / 1e9


def _as_live(row: Mapping[str, Any]) -> Finding:
    return Finding(
        "dead-named",
        f"node {row['node']} named node {row['gone']} as a live broker {_late_s(row):.1f} s after "
        "its registration was gone",
        row["arm"],
        row["trial"],
        (
            Pick("node_event", {"node": row["gone"], "event": "unregistered"}, rows=3),
            Pick("metadata", {"node": row["node"], "t": row["first"]["t"]}, rows=1),
        ),
    )


def _as_online(row: Mapping[str, Any]) -> Finding:
    at = {"topic": row["first"]["topic"], "partition": row["first"]["partition"]}
    return Finding(
        "dead-not-offline",
        f"node {row['node']} did not name node {row['gone']} among the offline replicas of "
        f"{at['topic']}-{at['partition']} {_late_s(row):.1f} s after its registration was gone, "
        f"and in {row['wrong']} of {row['asked']} answers about its partitions in all",
        row["arm"],
        row["trial"],
        (
            Pick("node_event", {"node": row["gone"], "event": "unregistered"}, rows=3),
            Pick("metadata", {**at, "node": row["node"], "t": row["first"]["t"]}, rows=1),
        ),
    )


class _Troubled:
    """Which brokers a fault named, and when: from the first that began until the last was over."""

    def __init__(self, besides: Iterable[tuple[int, str, Any]]) -> None:
        self._begun: dict[int, list[int]] = {}
        self._over: dict[int, list[int]] = {}
        for t, step, what in besides:
            if step in ("begun", "over"):
                of = self._begun if step == "begun" else self._over
                for node in what:
                    if node is not None:
                        of.setdefault(node, []).append(t)
        self._first = {node: min(times) for node, times in self._begun.items()}
        self._last = {
            node: FOREVER if len(self._over.get(node, ())) < len(times) else max(self._over[node])
            for node, times in self._begun.items()
        }

    def during(self, from_t: int, to_t: int) -> set[int]:
        return {n for n, t in self._first.items() if t <= to_t and self._last[n] >= from_t}
