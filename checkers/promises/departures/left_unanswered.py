"""Left unanswered: acks=all that is committed, and waits on, for `checkers.promises.departures`.

Who waits for acks=all waits for the high watermark and nothing else (DelayedProduce.tryComplete);
whatever raises the high watermark looks at all that wait for it. A consumer is given only what lies
below it: a record that one was given is committed. A producer was left unanswered when it was told
that its time was up (REQUEST_TIMED_OUT) although somebody had been given that very record more than
`SOON_NS` before its time can have been up: the time that it allows, counted from when it sent the
request, which the broker cannot have had before that.

And it waits for as long as it allows (DelayedOperation's own timeout): who is told so before that
time, counted likewise, was given up too soon (``given-up-too-soon``), whatever kept it waiting.

A request for several partitions waits for the last of them, and tells of each by itself: its time
is up for those that are not committed by then (DelayedProduce.onComplete).

Lawful, and looks similar: a leader that is cut off or paused while a successor commits
the record (no later leader epoch may have been committed by then, and nothing may have been done to
the broker); an answer that is late on its way: its sending does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.demotions import troubles
from checkers.facts.leadership import TP
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

RULE: Final = "left-unanswered"
TIMED: Final = "records whose time was up at their leader"
SOON_NS: Final = 500_000_000
"""What takes less than a millisecond, and on a busy machine some."""
TICK_NS: Final = 20_000_000
"""Kafka's timers count milliseconds, and cut off what is less; some more, for any other's."""
_HEARD_NS: Final = 1_000_000_000
"""So long after its commit a leader epoch may be seen by who writes the history."""
_TIMED_OUT: Final = 7
_DIRECT: Final = "direct-producer"
_JOINT: Final = "joint-producer"
_SENDERS: Final = "arm string, trial int, process string, _allowed bigint"
_TROUBLES: Final = "arm string, trial int, node int, _from bigint, _to bigint"
Row = Mapping[str, Any]


def given_up_too_soon(history: History, outcome: Outcome) -> Iterator[Finding]:
    sent = _timed_out(history)
    if sent is None:
        return
    for row in sent.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], TIMED, row["count"])
    waited = (F.col("t") - F.col("invoke_t")).alias("waited")
    soon = sent.where(F.col("t") - F.col("invoke_t") + TICK_NS < F.col("_allowed"))
    found = soon.groupBy(*TP, "process", "_allowed").agg(
        F.count("*").alias("n"), F.min_by(F.struct("value", waited), "t").alias("first")
    )
    for row in found.orderBy(*TP, "process").toArrow().to_pylist():
        at = {"topic": row["topic"], "partition": row["partition"], "process": row["process"]}
        yield Finding(
            "given-up-too-soon",
            f"{row['process']} allowed {row['_allowed'] / 1e9:.2f} s, and was told for "
            f"{row['n']} records of {row['topic']}-{row['partition']} that its time was up before "
            f"that; for the first after {row['first']['waited'] / 1e9:.2f} s",
            row["arm"],
            row["trial"],
            (Pick("produce", {**at, "value": row["first"]["value"]}, rows=1),),
        )


def left_unanswered(history: History) -> Iterator[Finding]:
    sent = _timed_out(history)
    if sent is None or not history.has("fetch"):
        return
    given = history.frame("fetch").where("type = 'ok' and value is not null")
    given = given.join(sent.select(*TP, "value"), [*TP, "value"], "left_semi")
    given = given.groupBy(*TP, "value").agg(
        F.min("t").alias("given_t"),
        F.min_by("leader_epoch", "t").alias("_epoch"),
        F.min_by("process", "t").alias("consumer"),
    )
    # Whose leader epoch nobody tells may be a successor's.
    late = sent.join(given.where("_epoch >= 0"), [*TP, "value"])
    late = late.where(F.col("given_t") + SOON_NS < F.col("invoke_t") + F.col("_allowed"))
    epochs = history.frame("leadership").groupBy(*TP, F.col("leader_epoch").alias("_later"))
    raised = epochs.agg(F.min("t").alias("_seen_t"))
    succeeded = (F.col("_later") > F.col("_epoch")) & (F.col("_seen_t") <= F.col("t") + _HEARD_NS)
    late = undisturbed(history, without(late, raised, TP, succeeded))
    found = late.groupBy(*TP, "process").agg(
        F.count("*").alias("n"),
        F.min_by(F.struct("value", "t", "invoke_t", "given_t", "consumer"), "t").alias("first"),
    )
    for row in found.orderBy(*TP, "process").toArrow().to_pylist():
        yield _finding(row)


def _timed_out(history: History) -> DataFrame | None:
    """Those whose time was up; None: there is no such producer."""
    sent = senders(history, (_DIRECT, _JOINT))
    return None if sent is None else sent.where(f"error = {_TIMED_OUT}")


def senders(history: History, roles: Sequence[str] = (_DIRECT,)) -> DataFrame | None:
    """Records with acks=all of producers that say how long they allow, with that time (ns), unless
    told otherwise of those that name one partition; None: there is no such producer."""
    told = [
        {
            "arm": arm,
            "trial": trial,
            "process": one.process,
            "_allowed": one.ack_timeout_ms * 1_000_000,
        }
        for (arm, trial), workloads in history.run.workloads.items()
        for one in workloads
        if one.role in roles and one.acks == -1 and one.ack_timeout_ms is not None
    ]
    if not told or not history.has("produce"):
        return None
    sent = history.frame("produce").where("acks = -1")
    sent = sent.join(F.broadcast(history.table(told, _SENDERS)), ["arm", "trial", "process"])
    names = ("process", "node", "value", "type", "error", "failure", "invoke_t", "t", "_allowed")
    return sent.select(*TP, *names)


def undisturbed(history: History, sent: DataFrame) -> DataFrame:
    """Records to a broker to which nothing was done from when they were sent to their answer."""
    spans = history.table(list(_spans(history)), _TROUBLES)
    meets = (F.col("_from") <= F.col("t")) & (F.col("_to") >= F.col("invoke_t"))
    return without(sent, spans, ("arm", "trial", "node"), meets)


def without(
    rows: DataFrame, others: DataFrame, keys: Iterable[str], when: Column, how: str = "left_anti"
) -> DataFrame:
    """Rows that none of the others, of the same keys, speaks against; with left_semi, those that
    some of them speak for."""
    same = when
    for key in keys:
        same = same & (F.col(f"r.{key}") == F.col(f"o.{key}"))
    return rows.alias("r").join(F.broadcast(others).alias("o"), same, how)


def _spans(history: History) -> Iterator[dict[str, Any]]:
    named: dict[tuple[str, int], set[int]] = {}
    for arm, trial, node in _brokers(history):
        named.setdefault((arm, trial), set()).add(node)
    for key, nodes in sorted(named.items()):
        for node in sorted(nodes):
            for from_t, to_t in troubles(history, key, node):
                yield {"arm": key[0], "trial": key[1], "node": node, "_from": from_t, "_to": to_t}


def _brokers(history: History) -> set[tuple[str, int, int]]:
    return {(row["arm"], row["trial"], row["node"]) for row in history.rows("node_event")}


def _finding(row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    first = row["first"]
    waited = (first["t"] - first["given_t"]) / 1e9
    return Finding(
        RULE,
        f"{row['process']} was told that its time was up for {row['n']} records of "
        f"{row['topic']}-{row['partition']} that consumers had been given by then; the first "
        f"{waited:.1f} s before",
        row["arm"],
        row["trial"],
        (
            Pick("fetch", {**at, "process": first["consumer"], "value": first["value"]}, rows=1),
            Pick("produce", {**at, "process": row["process"], "value": first["value"]}, rows=1),
        ),
    )
