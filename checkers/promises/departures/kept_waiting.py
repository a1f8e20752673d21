"""Kept waiting: acks=all beyond the time that its sender allows (`checkers.promises.departures`).

Who cannot be acknowledged in time is told so when its time is up (REQUEST_TIMED_OUT, Kafka's
DelayedProduce): with the timeout of its own request, not with anybody else's. A producer was kept
waiting when it was answered, whatever the answer, or gave up waiting, more than `LATE_NS` after
that, although the broker had meanwhile answered somebody (a reader of metadata) who came later than
that too: so it was neither busy nor out of reach.

Lawful, and looks similar: a broker that was paused or began anew meanwhile counts from when it took
the request up, and so does one whose links a fault had slowed (nothing may have been done to it
while the producer waited).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.departures.left_unanswered import senders, undisturbed, without

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "kept-waiting"
HELD_TO: Final = "records answered to who said how long to wait"
LATE_NS: Final = 1_500_000_000
"""A timer is late by milliseconds, and on a busy machine by some hundreds of them."""


def kept_waiting(history: History, outcome: Outcome) -> Iterator[Finding]:
    sent = senders(history)
    if sent is None:
        return
    # Who lost its connection was answered nothing, and waits no more.
    sent = sent.where("type = 'ok' or error is not null or failure = 'timeout'")
    for row in sent.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], HELD_TO, row["count"])
    late = sent.withColumn("_owed_t", F.expr(f"invoke_t + _allowed + {LATE_NS}"))
    late = late.where(F.col("t") > F.col("_owed_t"))
    asked = history.frame("metadata").where("type = 'ok'")
    asked = asked.select(
        *("arm", "trial", "node"), F.col("invoke_t").alias("asked_t"), F.col("t").alias("told_t")
    )
    meanwhile = (F.col("asked_t") > F.col("_owed_t")) & (F.col("told_t") < F.col("t"))
    late = without(late, asked, ("arm", "trial", "node"), meanwhile, how="left_semi")
    late = undisturbed(history, late)
    found = late.groupBy(*TP, "process", "node", "_allowed").agg(
        F.count("*").alias("n"), F.max(F.struct(F.expr("t - invoke_t"), "value")).alias("longest")
    )
    for row in found.orderBy(*TP, "process", "node").toArrow().to_pylist():
        yield _finding(row)


def _finding(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "process": row["process"]}
    waited_ns, value = row["longest"].values()
    return Finding(
        RULE,
        f"{row['process']} allowed {row['_allowed'] / 1e9:.2f} s, and for {row['n']} records of "
        f"{row['topic']}-{row['partition']} broker {row['node']} kept it waiting for up to "
        f"{waited_ns / 1e9:.2f} s, though it answered others who came later",
        row["arm"],
        row["trial"],
        (Pick("produce", {**at, "value": value}, rows=1),),
    )
