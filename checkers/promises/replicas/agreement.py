"""What logs hold, for `checkers.promises.replicas`: records that differ, records that lack, and
leader epochs that were never committed or stand out of order.

Folded logs are compared (`checkers.facts.log_blocks`), and single records only where two folds are
not alike. A finding stands for all of its kind in one partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.blocks import BLOCK, block_of, chosen
from checkers.facts.committed import committed
from checkers.facts.decisions import from_copies, from_log
from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.log_blocks import by_block, must_agree, reigns
from checkers.facts.replicas import Replica, compared, replicas
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

COMPARED: Final = "records compared with another replica"
Row = Mapping[str, Any]


class Found(NamedTuple):
    """A finding about a partition; it stands for ``n`` of a kind."""

    key: Key
    finding: Finding
    n: int = 1


def found_at(rule: str, says: str, key: Key, *picks: Pick, n: int = 1) -> Found:
    return Found(key, Finding(rule, says, key[0], key[1], picks), n)


def place_of(key: Key) -> str:
    return f"{key[2]}-{key[3]}"


def disagreements(history: History, outcome: Outcome) -> Iterator[Found]:
    """All that logs hold otherwise than they should, counted by records, or by epochs of a log."""
    yield from _differences(history, outcome)
    yield from _holes(history, outcome)
    yield from _disorder(history)
    yield from _of_no_epoch(history)


def _differences(history: History, outcome: Outcome) -> Iterator[Found]:
    """Offsets at which records differ. Where all replicas of a block of offsets are alike none do;
    the others are looked at record by record."""
    each = (
        by_block(history)
        .groupBy(*TP, "block")
        .agg(
            F.count("*").alias("logs"),
            F.sum("n").alias("rows"),
            F.max("n").alias("n"),
            F.max("held").alias("held"),
            (
                (F.min("held") == F.max("held"))
                & (F.min("print") == F.max("print"))
                & (F.max("n") == F.max(F.bit_count("held")))
            ).alias("alike"),
        )
    )
    alike = F.col("alike")
    found = each.groupBy(*TP).agg(
        F.sum(F.when(alike & (F.col("logs") > 1), F.col("rows")).otherwise(0)).alias("compared"),
        F.sum(F.when(alike, F.col("n")).otherwise(0)).alias("offsets"),
        F.sum((~alike).cast("int")).alias("unlike"),
    )
    unlike = 0
    for row in found.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], COMPARED, row["compared"])
        outcome.saw(row["arm"], row["trial"], "offsets", row["offsets"])
        unlike += row["unlike"]
    if unlike:
        rows = compared(history).where(must_agree()).withColumn("block", block_of("offset"))
        own = chosen(rows, each.where(~alike), [*TP, "block"])
        yield from _one_by_one(outcome, own)


def _one_by_one(outcome: Outcome, rows: DataFrame) -> Iterator[Found]:
    """One aggregation by offset, on primitives."""
    value = F.coalesce("value", F.lit(-(2**63)))
    # A batch is copied as it is: also what is not told of it is the same everywhere.
    stamp, epoch = (F.coalesce(name, F.lit(-1)) for name in ("append_time_ms", "leader_epoch"))
    life = F.coalesce("producer_epoch", F.lit(-1))
    by_offset = rows.groupBy(*TP, "offset").agg(
        F.min(value).alias("_low"),
        F.max(value).alias("_high"),
        F.min(epoch).alias("_old"),
        F.max(epoch).alias("_new"),
        F.min(stamp).alias("_early"),
        F.max(stamp).alias("_late"),
        F.min(life).alias("_first_life"),
        F.max(life).alias("_last_life"),
        F.count("*").alias("_n"),
    )
    differs = (F.col("_low") != F.col("_high")) | (F.col("_old") != F.col("_new"))
    differs = differs | (F.col("_early") != F.col("_late"))
    differs = differs | (F.col("_first_life") != F.col("_last_life"))
    found = by_offset.groupBy(*TP).agg(
        F.sum(F.when(F.col("_n") > 1, F.col("_n")).otherwise(0)).alias("compared"),
        F.count("*").alias("offsets"),
        F.sum(differs.cast("int")).alias("n"),
        F.min(F.when(differs, F.col("offset"))).alias("first"),
    )
    for row in sorted(found.toArrow().to_pylist(), key=key_of):
        key = key_of(row)
        outcome.saw(*key[:2], COMPARED, row["compared"])
        outcome.saw(*key[:2], "offsets", row["offsets"])
        if row["n"]:
            at = {"topic": row["topic"], "partition": row["partition"]}
            says = (
                f"replicas of {place_of(key)} hold different records at {row['n']} offsets below "
                f"their high watermarks, the first at offset {row['first']}"
            )
            log = Pick("log_read", {**at, "offset": row["first"]}, rows=9)
            ends = Pick("log_end", at, rows=9)
            yield found_at("replica-differs", says, key, log, ends, n=row["n"])


def _holes(history: History, outcome: Outcome) -> Iterator[Found]:
    """Equal counts mean no hole, where the values agree. Every readable replica is asked, were its
    log empty."""
    rows = (
        by_block(history)
        .groupBy(*TP, "node")
        .agg(F.sum(F.bit_count("held")).alias("n"), F.sum("n").alias("rows"))
    )
    counts = {(*key_of(row), row["node"]): row for row in rows.toArrow().to_pylist()}
    lacking: list[tuple[Replica, int]] = []
    for one in replicas(history):
        counted = counts.get((*one.key, one.node))
        have = counted["n"] if counted else 0
        if counted and counted["rows"] > have:
            twice = f"node {one.node}'s log of {place_of(one.key)} was read with an offset twice"
            outcome.unknown(*one.key[:2], twice)
        if one.error is None and have < max(0, one.bound - one.leader_start):
            lacking.append((one, have))
    firsts = _first_missing(history, lacking)
    for one, have in lacking:
        first, span = firsts[one.key, one.node], one.bound - one.leader_start
        what = "the leader's own log" if one.is_leader else f"node {one.node}'s log"
        says = (
            f"{what} of {place_of(one.key)} lacks {span - have} of the {span} records from "
            f"{one.leader_start} to {one.bound - 1}, the first at offset {first}"
        )
        at = {"topic": one.key[2], "partition": one.key[3]}
        picks = (
            Pick("log_read", {**at, "offset": first}, rows=3),
            Pick("log_end", {**at, "node": one.node}, rows=1),
            Pick("log_end", {**at, "is_leader": True}, rows=1),
        )
        yield found_at("replica-hole", says, one.key, *picks, n=span - have)


def _first_missing(
    history: History, lacking: list[tuple[Replica, int]]
) -> dict[tuple[Key, int], int]:
    """Of logs that are known to have a hole, each with how many records it has, the lowest offset
    that it lacks: it is in the first block that does not hold all that it should, or before the
    first that comes too late."""
    if not lacking:
        return {}
    table = history.table(
        [
            {
                **dict(zip(TP, one.key, strict=True)),
                "node": one.node,
                "_start": one.leader_start,
                "_end": one.bound,
            }
            for one, _ in lacking
        ],
        "arm string, trial int, topic string, partition int, node int, _start bigint, _end bigint",
    )
    own = by_block(history).join(F.broadcast(table), [*TP, "node"])
    order = Window.partitionBy(*TP, "node").orderBy("block")
    n = F.bit_count("held")
    before = F.sum(n).over(order.rowsBetween(Window.unboundedPreceding, -1))
    own = own.withColumn("_whole", F.col("_start") + F.coalesce(before, F.lit(0)))
    own = own.withColumn("_from", F.greatest("_start", F.col("block") * BLOCK))
    to = F.least("_end", (F.col("block") + 1) * BLOCK)
    odd = own.where((F.col("_from") > F.col("_whole")) | (n < to - F.col("_from")))
    # Of those that hold all that they should as far as they go nothing lacks but the end.
    found = {(one.key, one.node): one.leader_start + have for one, have in lacking}
    one_each = odd.groupBy(*TP, "node").agg(F.min(F.struct("block", "held", "_whole")).alias("at"))
    for row in one_each.toArrow().to_pylist():
        block, held, whole = row["at"]["block"], row["at"]["held"], row["at"]["_whole"]
        found[key_of(row), row["node"]] = next(
            offset
            for offset in range(whole, (block + 1) * BLOCK)
            if offset < block * BLOCK or not held >> (offset % BLOCK) & 1
        )
    return found


def _of_no_epoch(history: History) -> Iterator[Found]:
    """Leader epochs in logs, and in what is kept of them beside (leader-epoch-checkpoint), that
    ZooKeeper's own log, or a metadata log, never had."""
    whole = from_log(history) | from_copies(history)
    epochs = {
        key: set(of.leaders)
        for key, of in committed(history).items()
        if key[:2] in whole and key[:3] not in deletion_steps(history)
    }
    told = [
        {**dict(zip(TP, key, strict=True)), "leader_epoch": epoch}
        for key, of in epochs.items()
        for epoch in of
    ]
    names = "arm string, trial int, topic string, partition int"
    known = F.broadcast(history.table(told, f"{names}, leader_epoch int"))
    rows = reigns(history).where("leader_epoch >= 0")
    rows = rows.join(F.broadcast(known.select(*TP).distinct()), TP, "left_semi")
    for row in _by_log(rows.join(known, [*TP, "leader_epoch"], "left_anti")):
        key, one = key_of(row), row["one"]
        says = (
            f"node {row['node']}'s log of {place_of(key)} has records of leader epoch "
            f"{one['leader_epoch']}, which was never committed, the first at offset {one['first']}"
        )
        at = {"topic": row["topic"], "partition": row["partition"], "node": row["node"]}
        pick = Pick("log_read", {**at, "offset": one["first"]}, rows=1)
        yield found_at("epoch-never-committed", says, key, pick, n=row["n"])
    for folder in history.rows("log_folder"):
        key = key_of(folder)
        noted = [one["leader_epoch"] for one in folder["checkpoint"] or ()]
        strange = sorted(set(noted) - epochs[key]) if key in epochs else []
        if strange:
            says = (
                f"the leader-epoch-checkpoint of {place_of(key)} on node {folder['node']} has "
                f"leader epoch {strange[0]}, which was never committed"
            )
            at = {"topic": folder["topic"], "partition": folder["partition"]}
            pick = Pick("log_folder", {**at, "node": folder["node"]}, rows=1)
            yield found_at("epoch-never-committed", says, key, pick, n=len(strange))


def _disorder(history: History) -> Iterator[Found]:
    """Along one log, each leader epoch has one span of offsets, and they stand in order."""
    order = Window.partitionBy(*TP, "node").orderBy("leader_epoch")
    before = F.max("last").over(order.rowsBetween(Window.unboundedPreceding, -1))
    spans = reigns(history).withColumn("before", before)
    for row in _by_log(spans.where("first < before"), "before"):
        key, one = key_of(row), row["one"]
        says = (
            f"node {row['node']}'s log of {place_of(key)} has a record of leader epoch "
            f"{one['leader_epoch']} at offset {one['first']}, before one of an older epoch at "
            f"{one['before']}"
        )
        at = {"topic": row["topic"], "partition": row["partition"], "node": row["node"]}
        picks = (
            Pick("log_read", {**at, "offset": one["first"]}, rows=1),
            Pick("log_read", {**at, "offset": one["before"]}, rows=1),
        )
        yield found_at("epochs-out-of-order", says, key, *picks, n=row["n"])


def _by_log(spans: DataFrame, *more: str) -> list[Row]:
    """How many of the spans there are in each log, and the first."""
    one = F.struct("leader_epoch", "first", *more)
    found = spans.groupBy(*TP, "node").agg(F.count("*").alias("n"), F.min(one).alias("one"))
    return sorted(found.toArrow().to_pylist(), key=lambda row: (*key_of(row), row["node"]))
