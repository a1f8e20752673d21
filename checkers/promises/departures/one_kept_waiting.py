"""Kept waiting: acks=1 beyond its leader's own append, for `checkers.promises.departures`.

acks=1 is answered when its leader has the record, whoever else has it (ReplicaManager.appendRecords
answers at once what `delayedProduceRequestRequired` does not name: that is acks=all alone). A
producer was kept waiting when its answer came more than `LATE_NS` after the same leader had
appended a later record to that partition, which it can only have done once it had the earlier one,
and although it had meanwhile answered somebody (a reader of metadata) who came later than that too.

Judged of producers that have one request at a time on a connection, on topics with LogAppendTime.

Lawful, and looks similar: a disk that stands still, which keeps whoever is next from being
appended, too; a broker that was paused, began anew, or whose clients' links a fault had slowed; one
that leads again, and had taken other records at those offsets before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.append_clock import slack_ns
from checkers.facts.leadership import TP
from checkers.facts.told_numbers import monotonic_ns
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.departures.left_unanswered import undisturbed, without

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "one-kept-waiting"
ANSWERED: Final = "records with acks=1 whose leader took more after them"
LATE_NS: Final = 1_000_000_000
"""What takes a millisecond, and on a busy machine some hundreds of them."""
_ONE: Final = "direct-producer"
_SENDERS: Final = "arm string, trial int, process string"


def one_kept_waiting(history: History, outcome: Outcome) -> Iterator[Finding]:
    senders = [
        {"arm": arm, "trial": trial, "process": one.process}
        for (arm, trial), workloads in history.run.workloads.items()
        for one in workloads
        if one.role == _ONE and one.acks == 1
    ]
    offset_ns = history.run.clock_offset_ns
    if not senders or offset_ns is None or not history.has("produce"):
        return
    sent = history.frame("produce").where(
        "acks = 1 and type = 'ok' and offset >= 0 and log_append_time_ms >= 0 and node is not null"
    )
    sent = sent.join(F.broadcast(history.table(senders, _SENDERS)), ["arm", "trial", "process"])
    # Who led and was succeeded may lead again, and take other records at the same offsets.
    log = Window.partitionBy(*TP, "node", "leader_epoch").orderBy("offset")
    next_ms = F.lead("log_append_time_ms").over(log)
    later_ms = F.when(next_ms >= F.col("log_append_time_ms"), next_ms)
    # A millisecond is told by its beginning.
    later_t = monotonic_ns(later_ms + 1, offset_ns)
    owed = later_t + slack_ns(history) + LATE_NS
    names = ("process", "node", "value", "offset", "invoke_t", "t")
    sent = sent.select(*TP, *names, owed.alias("_owed_t")).where("_owed_t is not null")
    for row in sent.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], ANSWERED, row["count"])
    late = sent.where("t > _owed_t")
    asked = history.frame("metadata").where("type = 'ok'")
    asked = asked.select(
        *("arm", "trial", "node"), F.col("invoke_t").alias("asked_t"), F.col("t").alias("told_t")
    )
    meanwhile = (F.col("asked_t") > F.col("_owed_t")) & (F.col("told_t") < F.col("t"))
    late = without(late, asked, ("arm", "trial", "node"), meanwhile, how="left_semi")
    late = undisturbed(history, late)
    by = F.expr(f"t - _owed_t + {LATE_NS}")
    found = late.groupBy(*TP, "process", "node").agg(
        F.count("*").alias("n"), F.max(F.struct(by.alias("by"), "value", "offset")).alias("longest")
    )
    for row in found.orderBy(*TP, "process", "node").toArrow().to_pylist():
        yield _finding(row)


def _finding(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    by_ns, value, offset = row["longest"].values()
    return Finding(
        RULE,
        f"{row['process']} sent {row['n']} records to {row['topic']}-{row['partition']} with "
        f"acks=1, and leader {row['node']} answered up to {by_ns / 1e9:.1f} s after it had "
        f"appended the next one, though it answered others who came later",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {**at, "process": row["process"], "value": value}, rows=1),
            Pick("produce", {**at, "offset": offset + 1}, rows=1),
        ),
    )
