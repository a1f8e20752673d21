"""How stale metadata reads were, for `checkers.promises.stale_metadata`: figures, and how many
there were to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.answers import with_forged
from checkers.facts.floods import flooded
from checkers.facts.histogram import bucket_of, gather, grouped
from checkers.facts.leadership import TP, epochs_table
from checkers.facts.segments import with_segment
from checkers.facts.unions import BY_OTHERS, by_two
from checkers.judging.outcome import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

READS: Final = "metadata reads"


def _reads(history: History) -> DataFrame:
    """Answers that name a leader epoch, with ``forged``: a forger was there."""
    rows = history.frame("metadata").where(
        "type = 'ok' and leader_epoch >= 0 and node is not null and topic is not null "
        "and invoke_t is not null"
    )
    return with_forged(history, rows)


def _over(history: History, seen: DataFrame) -> DataFrame:
    """Superseded epochs: TP, leader_epoch, superseded_t, valid_from, valid_to. Whoever showed a
    higher epoch proves that it had been committed, maybe before anybody saw the commit."""
    shown = seen.groupBy(*TP, "leader_epoch").agg(F.min("first_t").alias("_shown_t"))
    rows = epochs_table(history).join(shown, [*TP, "leader_epoch"], "left")
    rows = rows.withColumn("_shown_t", F.when(F.col("incarnations") == 1, F.col("_shown_t")))
    down = Window.partitionBy(*TP).orderBy(F.col("leader_epoch").desc())
    higher = F.min("_shown_t").over(down.rowsBetween(Window.unboundedPreceding, -1))
    rows = rows.withColumn("_higher_t", higher)
    sooner = F.coalesce("superseded_t", "_higher_t") >= F.col("_higher_t")
    over = F.when(sooner, F.col("_higher_t")).otherwise(F.col("superseded_t"))
    rows = rows.withColumn("superseded_t", over).where("superseded_t is not null")
    return rows.select(*TP, "leader_epoch", "superseded_t", "valid_from", "valid_to")


def measure(history: History, outcome: Outcome, seen: DataFrame) -> None:
    """Figures of how stale reads were; and of how long reads of a flooded broker took."""
    _read_waits(history, outcome)
    table = _over(history, seen)
    reads = with_segment(history, _reads(history), F.col("invoke_t"))
    reads = reads.select(*TP, "leader_epoch", "node", "t", "invoke_t", "segment", "forged")
    same = F.lit(True)
    for name in (*TP, "leader_epoch"):
        same = same & (F.col(f"r.{name}") == F.col(f"e.{name}"))
    at = (F.col("r.t") >= F.col("e.valid_from")) & (F.col("r.t") < F.col("e.valid_to"))
    joined = reads.alias("r").join(F.broadcast(table).alias("e"), same & at, "left")
    stale = (F.col("superseded_t") < F.col("invoke_t")) & ~F.col("forged")
    age = F.when(stale, F.col("invoke_t") - F.col("superseded_t"))
    each = joined.select("r.arm", "r.trial", "r.node", "segment", "forged", age.alias("age_ns"))
    each = each.withColumn("bucket", bucket_of(F.col("age_ns")))
    keys, of_trial = ["arm", "node", "segment", "forged", "bucket"], ["arm", "trial", "forged"]
    # One pass: how old they were, and how many there were in each trial.
    sums = F.count("*").alias("n"), F.max("age_ns").alias("max_ns")
    found = by_two(each, keys, of_trial, *sums)
    rows = []
    for row in grouped(found):
        if not row[BY_OTHERS]:
            rows.append(row)
            continue
        outcome.saw(row["arm"], row["trial"], READS, row["n"])
        if row["forged"]:
            because = ("metadata-never-committed", "forged")
            outcome.excuse(row["arm"], row["trial"], *because, of=READS, n=row["n"])
    old = [r for r in rows if r["bucket"] is not None]
    _totals(outcome, rows)
    for (arm,), histogram in gather(old, "arm").items():
        outcome.arm(arm)["staleness"] = histogram.summary()
    for (arm, node), histogram in gather(old, "arm", "node").items():
        outcome.arm(arm).setdefault("staleness_by_node", {})[str(node)] = histogram.summary()
    for (arm, segment), histogram in gather(old, "arm", "segment").items():
        outcome.arm(arm).setdefault("staleness_by_segment", {})[segment] = histogram.summary()
    outcome.figures["staleness"] = [
        {k: r[k] for k in ("arm", "node", "segment", "bucket", "n", "max_ns")} for r in old
    ]


def _read_waits(history: History, outcome: Outcome) -> None:
    """How long reads of a flooded broker took. They are data requests and wait in its queue in
    every plane mode; in one queue they wait behind the update itself and come back fresh."""
    if not flooded(history).rows:
        return
    reads = history.frame("metadata").where("type = 'ok' and invoke_t is not null")
    reads = flooded(history).at(history, reads, F.col("invoke_t"), "inner")
    once = reads.groupBy("arm", "trial", "process", "read")
    took = once.agg((F.min("t") - F.min("invoke_t")).alias("took_ns"))
    found = (
        took.groupBy("arm", bucket_of(F.col("took_ns")).alias("bucket"))
        .agg(F.count("*").alias("n"), F.max("took_ns").alias("max_ns"))
        .toArrow()
    )
    for (arm,), histogram in gather(found.to_pylist(), "arm").items():
        outcome.arm(arm)["reads_flooded"] = histogram.summary()


def _totals(outcome: Outcome, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        figures = outcome.arm(row["arm"])
        figures["reads"] = figures.get("reads", 0) + row["n"]
        old = row["n"] if row["bucket"] is not None else 0
        figures["stale_reads"] = figures.get("stale_reads", 0) + old
        by_node = figures.setdefault("reads_by_node", {})
        by_node[str(row["node"])] = by_node.get(str(row["node"]), 0) + row["n"]
        if row["forged"]:
            figures["forged_reads"] = figures.get("forged_reads", 0) + row["n"]
    for figures in outcome.arms.values():
        if figures.get("reads"):
            figures["stale_share"] = round(figures["stale_reads"] / figures["reads"], 6)
