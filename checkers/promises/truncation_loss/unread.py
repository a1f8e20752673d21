"""Records of which no final log tells, for `checkers.promises.truncation_loss`: those of partitions
whose log nobody could read, and those from before the log's beginning, where that may have moved
(`checkers.facts.accounts.lawful_start`).

What became of most of them nobody can say. But what acks=all has acknowledged at an offset is
committed there, and an offset has one record for ever: where two are acknowledged at one, or a
consumer read another, one of them is lost or moved, whatever the log may hold. A watch tells of the
same while a run goes on (`checkers.live.offsets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import accounts, final_leaders, leaders_table
from checkers.facts.disputes import NO_VALUE
from checkers.facts.leadership import TP, key_of
from checkers.judging.excuses import EXCUSES, Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

TWICE: Final = "acked-twice-otherwise"
NOT_READ: Final = "acked-not-read"
_UNTOLD: Final = ("unread", "purged")
Row = Mapping[str, Any]


def judge_unread(history: History, outcome: Outcome, known: Excuses, *, of: str) -> None:
    """``of``: the evidence of which excused records are a share."""
    unread = not final_leaders(history) or any(r["class"] in _UNTOLD for r in accounts(history))
    if not unread or not history.has("produce"):
        return
    wrong = _wrong(history)
    n = wrong.count()
    if not n:
        return
    found = tally(wrong, n, partial(_sort, known))
    add(outcome, found, _finding)
    for (arm, trial, topic, partition, rule, excuse), count in found.in_order():
        if excuse is not None:
            outcome.excuse(arm, trial, rule, excuse, of=of, n=count)
        if excuse == "untold":
            outcome.unknown(arm, trial, f"{topic}-{partition}: {EXCUSES[excuse].because}")


def _wrong(history: History) -> DataFrame:
    """TP, offset, wrong (the rule), acked and other (the two values), t (the first of both)."""
    none = F.lit(None).cast("bigint")
    acked = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    said = acked.select(*TP, "offset", F.col("value").alias("acked"), none.alias("read"), "t")
    if history.has("fetch"):
        read = history.frame("fetch").where("type = 'ok' and offset >= 0")
        value = F.coalesce(F.col("value"), F.lit(NO_VALUE)).alias("read")
        said = said.unionAll(read.select(*TP, "offset", none.alias("acked"), value, "t"))
    if final_leaders(history):
        was_read = F.broadcast(leaders_table(history).select(*TP, "log_start"))
        said = said.join(was_read, TP, "left").where("log_start is null or offset < log_start")
    each = said.groupBy(*TP, "offset").agg(
        F.min("acked").alias("acked"),
        F.max("acked").alias("again"),
        F.min("read").alias("least"),
        F.max("read").alias("most"),
        F.min("t").alias("t"),
    )
    differs = F.col("least") != F.col("acked")
    rule = F.when(F.col("again") != F.col("acked"), TWICE).when(
        differs | (F.col("most") != F.col("acked")), NOT_READ
    )
    other = F.when(F.col("again") != F.col("acked"), F.col("again")).otherwise(
        F.when(differs, F.col("least")).otherwise(F.col("most"))
    )
    named = each.withColumn("wrong", rule).where("wrong is not null")
    return named.select(*TP, "offset", "wrong", "acked", other.alias("other"), "t")


def _sort(known: Excuses, row: Row) -> Sort:
    key, rule = key_of(row), row["wrong"]
    excuse = known.of(*key, row["t"], row["offset"])
    order = (row["t"], *key, row["offset"])
    return Sort((*key, rule, excuse), order, rule if excuse is None else None)


def _finding(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "offset": row["offset"]}
    says = (
        f"acks=all acknowledged value {row['acked']} at {row['topic']}-{row['partition']} offset "
        f"{row['offset']}, and "
    )
    again = f"value {row['other']} there as well"
    says += again if rule == TWICE else f"a consumer read value {row['other']} there"
    picks = (Pick("produce", {**at, "type": "ok"}, rows=2), Pick("fetch", at, rows=2))
    return Finding(rule, says, row["arm"], row["trial"], picks)
