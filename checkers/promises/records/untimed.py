"""Answers without an append time, for `checkers.promises.records`.

On a topic with ``message.timestamp.type=LogAppendTime``, of its own or by its brokers' default
(``log.message.timestamp.type``), the broker dates what it appends, and its answer says when that
was (ProduceResponse, KIP-32). One that says nothing of it appended as if the topic were configured
otherwise: it does not know the topic's configuration, or not what that is laid over
(LogConfig.fromProps).

Lawful, and looks similar: acks=0, which nobody answers; a topic that was deleted, and made again
without that configuration; a black box, of which nobody knows what it makes of configurations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP, black_boxes
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "append-time-missing"
DATED: Final = "acknowledged records of topics whose broker dates them"


def judge_untimed(history: History, outcome: Outcome) -> None:
    boxes = set(black_boxes(history))
    gone = {(row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")}
    acked = history.frame("produce").where("type = 'ok' and acks != 0 and offset >= 0")
    missing = F.coalesce("log_append_time_ms", F.lit(-1)) < 0
    sums = (
        acked.where("topic is not null")
        .groupBy(*TP)
        .agg(
            F.count("*").alias("n"),
            F.count(F.when(missing, 1)).alias("missing"),
            F.min_by("value", F.when(missing, F.col("t"))).alias("value"),
        )
    )
    for row in sums.orderBy(*TP).toArrow().to_pylist():
        topic = (row["arm"], row["trial"], row["topic"])
        if topic in gone or row["arm"] in boxes or not history.run.topic(*topic).log_append_time:
            continue
        outcome.saw(*topic[:2], DATED, row["n"])
        if row["missing"]:
            outcome.add(_finding(row), row["missing"])


def _finding(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        RULE,
        f"{row['missing']} of {row['n']} acknowledgements of {row['topic']}-{row['partition']} say "
        "nothing of when the record was appended, though its topic has LogAppendTime",
        row["arm"],
        row["trial"],
        (Pick("produce", {**at, "value": row["value"]}, rows=1),),
    )
