"""Reads at the end of a log by those who say what they believe, for `checkers.promises.offsets`.

A consumer says in its Fetch in which leader epoch it believes (KIP-320), and is given what is
committed, by nobody but the leader of just that epoch. Which one that was, the broker says itself,
with the ends that it tells (ListOffsets). So

- ``fetch-fence-ignored``: it served one who believed in an epoch of the past: older than one in
  which it had told an end before, or in which it had taken up a role;
- ``fetch-unheard-served``: it served one who believed in a later epoch than one in which it told an
  end afterwards;
- ``given-beyond-end``: what it gave goes beyond the end that it told afterwards in that epoch: a
  leader's high watermark does not go back;
- ``watermark-told-otherwise``: the high watermark that was told with it (by which a consumer knows
  how far behind it is) lies below an end that the same broker had told before in that epoch, or
  beyond the one that it told next; or it is no end that the log can have had by then: beyond the
  final log's, behind a record of a later leader epoch, or behind one that was not there yet;
- ``start-told-otherwise``: with it a beginning was told that lies behind the log's;
- ``given-in-another-epoch``: the last record that it gave, which is committed, was of another
  leader epoch than the one that is there in the final log;
- ``read-refused``: who reads where an end was told before, in the leader epoch in which it
  believes, was told that this is out of range: a leader cuts nothing, and a consumer that is told
  so begins anew somewhere else (``auto.offset.reset``).

Lawful, and looks similar: whoever does not lead (any more) refuses, and that is a failed operation;
who has not heard of its successor serves on, in its own epoch; leader epochs of a topic that is
deleted begin anew; a new leader has yet to hear how far its predecessor had committed; a record
that an idempotent producer sent again the next leader may have acknowledged (`NO_RETRY_NS`); and
what is committed while a read goes on may be given, beyond the high watermark told with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import NO_RETRY_NS, leaders_table
from checkers.facts.leadership import TP
from checkers.facts.unions import united
from checkers.judging.outcome import Outcome
from checkers.promises.offsets.fenced import served
from checkers.promises.offsets.waits import waits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

READS: Final = "reads at the end of a log"
_LATEST: Final = -1
_OUT_OF_RANGE: Final = 1
"""OFFSET_OUT_OF_RANGE."""


def reads(history: History, outcome: Outcome, log: DataFrame) -> list[DataFrame]:
    """What is broken, by rule: `TP`, node, t, asked (what was believed), offset, known. ``log``:
    the final one, with when each of its records can have been there (``there_t``)."""
    given = history.keep("reads at ends", lambda: _given(history))
    for row in given.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], READS, row["count"])
    found = [_begins(history, given), _in_another_epoch(history, given), _fallen(history, given)]
    found += [_refused(history, given), _ahead(history, given, log)]
    past = _answers(served(history, given), F.col("known"))
    if history.has("listed_offset"):
        beside = _beside_ends(history, given)
        before, later = F.col("_before.epoch"), F.col("_after.epoch")
        told = beside.where(before > F.col("believed_epoch"))
        past = past.unionByName(_answers(told, before))
        found += [
            _broken("fetch-unheard-served", beside.where(later < F.col("believed_epoch")), later),
            _broken(
                "given-beyond-end",
                beside.where((later == F.col("believed_epoch")) & F.expr("found_end > _after.end")),
                F.col("_after.end"),
            ),
            *_watermarks(beside),
        ]
    once = past.dropDuplicates([*TP, "node", "t"])
    return [*found, _named("fetch-fence-ignored", once), *waits(history, outcome, given)]


def _given(history: History) -> DataFrame:
    """Of topics that nobody deletes."""
    gone = {(row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")}
    given = history.frame("read_at").where("type = 'ok' and topic is not null")
    if not gone:
        return given
    names = [dict(zip(("arm", "trial", "topic"), topic, strict=True)) for topic in sorted(gone)]
    table = history.table(names, "arm string, trial int, topic string")
    return given.join(F.broadcast(table), ["arm", "trial", "topic"], "left_anti")


def _watermarks(beside: DataFrame) -> list[DataFrame]:
    """A leader's high watermark, which is the end that it tells, only rises in a leader epoch."""
    told = beside.drop("found_end").withColumnRenamed("high_watermark", "found_end")
    return [
        _broken(
            "watermark-told-otherwise",
            told.where((F.col(f"{of}.epoch") == F.col("believed_epoch")) & F.expr(wrong)),
            F.col(f"{of}.end"),
        )
        for of, wrong in (
            ("_before", "found_end < _before.end"),
            ("_after", "found_end > _after.end"),
        )
    ]


def _fallen(history: History, given: DataFrame) -> DataFrame:
    """Below what was committed in that leader epoch by its leader's own earlier answers: what it
    served, and which of its records it had acknowledged with acks=all."""
    epoch, at = F.col("believed_epoch").alias("epoch"), F.col("t").alias("_at")
    told = given.where("high_watermark >= 0 and believed_epoch >= 0")
    before = told.select(*TP, epoch, at, F.greatest("high_watermark", "found_end").alias("_end"))
    acked = _own_acks(history).select(*TP, "offset", "value", at)
    leaders = F.broadcast(leaders_table(history).select(*TP, "leader_node"))
    final = history.frame("log_read").join(leaders, TP).where("node = leader_node")
    final = final.select(*TP, "offset", "value", F.col("leader_epoch").alias("epoch"))
    promised = acked.join(final, [*TP, "offset", "value"])
    promised = promised.select(*TP, "epoch", "_at", (F.col("offset") + 1).alias("_end"))
    names = [*TP, "node", "t", "believed_epoch", "high_watermark"]
    asked_at, no_end = F.col("invoke_t").alias("_at"), F.lit(None).cast("long").alias("_end")
    asked = told.select(*names, epoch, asked_at, no_end)
    rows = united(asked, before.unionByName(promised))
    order = Window.partitionBy(*TP, "epoch").orderBy("_at", F.col("_end").isNotNull())
    so_far = F.max("_end").over(order.rowsBetween(Window.unboundedPreceding, 0))
    rows = rows.withColumn("_known", so_far).where("_end is null and high_watermark < _known")
    rows = rows.withColumnRenamed("high_watermark", "found_end")
    return _broken("watermark-told-otherwise", rows, F.col("_known"))


def _ahead(history: History, given: DataFrame, log: DataFrame) -> DataFrame:
    """A high watermark ahead of the log: what lies below one is there, and stays."""
    ends = F.broadcast(leaders_table(history).select(*TP, "log_start", "log_end"))
    rows = given.drop("found_end").withColumnRenamed("high_watermark", "found_end")
    rows = rows.join(ends, TP).where("found_end > log_start")
    last = log.select(
        *TP,
        (F.col("offset") + 1).alias("found_end"),
        F.col("leader_epoch").alias("_in"),
        "there_t",
    )
    rows = rows.join(last, [*TP, "found_end"], "left")
    later = "(_in is not null and believed_epoch >= 0 and _in > believed_epoch)"
    rows = rows.where(f"found_end > log_end or {later} or coalesce(t < there_t, false)")
    return _broken("watermark-told-otherwise", rows, F.col("log_end"))


def _refused(history: History, given: DataFrame) -> DataFrame:
    """Out of range, at an end that was told before in that leader epoch, and that the final log
    reaches back to."""
    starts = F.broadcast(leaders_table(history).select(*TP, "log_start"))
    refused = history.frame("read_at").where(f"error = {_OUT_OF_RANGE} and believed_epoch >= 0")
    refused = refused.join(starts, TP).where("offset >= log_start")
    names = [*TP, "node", "t", "believed_epoch", "offset"]
    epoch, no_end = F.col("believed_epoch").alias("epoch"), F.lit(None).cast("long").alias("_end")
    refused = refused.select(*names, epoch, F.col("invoke_t").alias("_at"), no_end)
    read = F.greatest("high_watermark", "found_end").alias("_end")
    told = given.select(*TP, epoch, F.col("t").alias("_at"), read)
    if history.has("listed_offset"):
        ends = history.frame("listed_offset").where(f"type = 'ok' and asked_ms = {_LATEST}")
        own = F.col("leader_epoch").alias("epoch")
        ends = ends.select(*TP, own, F.col("t").alias("_at"), F.col("offset").alias("_end"))
        told = told.unionByName(ends)
    rows = united(refused, told.where("_end >= 0"))
    order = Window.partitionBy(*TP, "epoch").orderBy("_at", F.col("_end").isNotNull())
    so_far = F.max("_end").over(order.rowsBetween(Window.unboundedPreceding, 0))
    rows = rows.withColumn("_known", so_far).where("_end is null and offset <= _known")
    rows = rows.withColumnRenamed("offset", "found_end")
    return _broken("read-refused", rows, F.col("_known"))


def _own_acks(history: History) -> DataFrame:
    """What acks=all acknowledged by whoever had appended it. Where an idempotent producer may have
    sent again, another leader that has it already may have, for it."""
    acked = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    names = ("arm", "trial", "process")
    appended = [
        dict(zip(names, writer, strict=True))
        for writer, how in history.run.deliveries().items()
        if how != "idempotent"
    ]
    table = history.table(appended, "arm string, trial int, process string")
    always = F.broadcast(table.withColumn("_always", F.lit(True)))
    acked = acked.join(always, list(names), "left")
    return acked.where(f"_always or t - invoke_t < {NO_RETRY_NS}")


def _beside_ends(history: History, given: DataFrame) -> DataFrame:
    """Reads with the newest leader epoch in which their broker had told an end before, and the
    highest one of that (``_before``), and with the epoch and end that it told next (``_after``)."""
    ends = history.frame("listed_offset").where(
        f"type = 'ok' and topic is not null and asked_ms = {_LATEST} and leader_epoch >= 0"
    )
    mine = [*TP, "node", "t", "invoke_t", "believed_epoch", "found_end", "high_watermark"]
    told = F.struct(F.col("leader_epoch").alias("epoch"), F.col("offset").alias("end"))
    by = Window.partitionBy(*TP, "node")
    # Before what was invoked stands what had been answered by then; behind an answer what was
    # invoked after it.
    asked = given.select(*mine, F.col("invoke_t").alias("_at"), F.lit(0).alias("_end"))
    known = ends.select(*TP, "node", F.col("t").alias("_at"), told.alias("_told"))
    rows = united(asked, known)
    so_far = by.orderBy("_at", F.col("_end").isNotNull())
    so_far = so_far.rowsBetween(Window.unboundedPreceding, 0)
    rows = rows.withColumn("_before", F.max("_told").over(so_far)).where("_end = 0")
    rows = rows.select(*mine, "_before", F.col("t").alias("_at"), F.lit(0).alias("_end"))
    known = ends.select(*TP, "node", F.col("invoke_t").alias("_at"), told.alias("_told"))
    rows = united(rows, known)
    from_now = by.orderBy(F.desc("_at"), F.col("_end").isNotNull())  # from the end backwards
    from_now = from_now.rowsBetween(Window.unboundedPreceding, 0)
    rows = rows.withColumn("_after", F.last("_told", ignorenulls=True).over(from_now))
    return rows.where("_end = 0").select(*mine, "_before", "_after")


def _begins(history: History, given: DataFrame) -> DataFrame:
    starts = leaders_table(history).select(*TP, "log_start")
    rows = given.join(F.broadcast(starts), TP).where("log_start_offset > log_start")
    rows = rows.drop("found_end").withColumnRenamed("log_start_offset", "found_end")
    return _broken("start-told-otherwise", rows, F.col("log_start"))


def _in_another_epoch(history: History, given: DataFrame) -> DataFrame:
    leaders = F.broadcast(leaders_table(history).select(*TP, "leader_node"))
    final = history.frame("log_read").join(leaders, TP).where("node = leader_node")
    last = final.select(
        *TP, (F.col("offset") + 1).alias("found_end"), F.col("leader_epoch").alias("_in")
    )
    rows = given.where("found_end >= 0 and leader_epoch >= 0").join(last, [*TP, "found_end"])
    return _broken("given-in-another-epoch", rows.where("leader_epoch != _in"), F.col("_in"))


def _broken(rule: str, rows: DataFrame, known: Column) -> DataFrame:
    return _named(rule, _answers(rows, known))


def _named(rule: str, answers: DataFrame) -> DataFrame:
    return answers.select("*", F.lit(rule).alias("rule"), F.lit(READS).alias("of"))


def _answers(rows: DataFrame, known: Column) -> DataFrame:
    return rows.select(
        *TP,
        "node",
        "t",
        F.col("believed_epoch").cast("long").alias("asked"),
        F.col("found_end").alias("offset"),
        known.cast("long").alias("known"),
    )
