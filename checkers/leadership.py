"""Committed leadership: which leader epochs a partition went through, and when each was over.

Evidence: `leadership` rows, whose ``t`` is never before the commit. Three facts shape this module:

- Leader epochs are dense: every one from 0 up was committed once. A watch may see epoch e and then
  e+2 only; then e+1 was committed in between, and both e and e+1 were over when e+2 was seen. So
  an epoch is *superseded* at the earliest sighting of any higher one, and gaps are filled in.
- A topic that is deleted and created again starts at epoch 0: a new *incarnation*. It shows in the
  watch's rows as a leader epoch or a partition epoch that went back (or the same ones at another
  commit time). An incarnation may have begun as early as the last sighting of the one before.
- A partition with several incarnations is judged by the watch's rows alone: the order between two
  writers' rows is not sharp enough to tell a late row from a new incarnation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.frames import History

TP: Final = ["arm", "trial", "topic", "partition"]
_WIDEST_GAP: Final = 10_000


def sightings(history: History) -> DataFrame:
    """`leadership` rows with ``incarnation`` (from 0), ``born_after`` (ns, null for the first) and
    ``incarnations`` (how many the partition had)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rows = history.frame("leadership").where("topic is not null and leader_epoch >= 0")
    watched = F.max(F.when(F.col("source") == "zk", 1).otherwise(0)).over(Window.partitionBy(*TP))
    rows = rows.withColumn("_watched", watched)
    rows = rows.withColumn("_main", (F.col("source") == "zk") | (F.col("_watched") == 0))
    order = Window.partitionBy(*TP, "_main").orderBy("t", "leader_epoch", "partition_epoch")
    before = {
        name: F.lag(name).over(order)
        for name in ("t", "leader_epoch", "partition_epoch", "commit_ms")
    }
    back = (F.col("leader_epoch") < before["leader_epoch"]) | (
        F.col("partition_epoch") < before["partition_epoch"]
    )
    again = (F.col("partition_epoch") == before["partition_epoch"]) & (
        (F.col("leader_epoch") != before["leader_epoch"])
        | (F.col("commit_ms") != before["commit_ms"])
    )
    reborn = F.col("_main") & F.coalesce(back | again, F.lit(False))
    rows = rows.withColumn("_reborn", reborn.cast("int"))
    rows = rows.withColumn("_before_t", F.when(F.col("_reborn") == 1, before["t"]))
    rows = rows.withColumn("incarnation", F.sum("_reborn").over(order))
    rows = rows.withColumn("incarnations", F.sum("_reborn").over(Window.partitionBy(*TP)) + 1)
    # Rows of other writers are only used where there is nothing to be told apart.
    rows = rows.where(F.col("_main") | (F.col("incarnations") == 1))
    born = F.max("_before_t").over(Window.partitionBy(*TP, "incarnation"))
    return rows.withColumn("born_after", born).drop("_watched", "_main", "_reborn", "_before_t")


def epochs(history: History) -> DataFrame:
    """One row per committed leader epoch, seen or implied (shared, small).

    Columns: TP, ``leader_epoch``, ``incarnation``, ``incarnations``, ``committed_t`` (ns, null when
    implied), ``superseded_t`` (null: the incarnation's last), ``leader`` (null when implied),
    ``isr_size`` (smallest seen), ``valid_from``/``valid_to`` (ns): a row with this epoch at time t
    means this incarnation when valid_from <= t < valid_to; the spans of one epoch are disjoint.
    """
    found: DataFrame = history.memo("epochs", lambda: history.pin(_epochs(history)))
    return found


def _epochs(history: History) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    seen = (
        sightings(history)
        .groupBy(*TP, "incarnation", "leader_epoch")
        .agg(
            F.min("t").alias("committed_t"),
            F.min_by("leader", "t").alias("leader"),
            F.min(F.size("isr")).alias("isr_size"),
            F.max("incarnations").alias("incarnations"),
            F.max("born_after").alias("born_after"),
        )
    )
    by_epoch = Window.partitionBy(*TP, "incarnation").orderBy("leader_epoch")
    later = by_epoch.rowsBetween(1, Window.unboundedFollowing)
    seen = seen.withColumn("superseded_t", F.min("committed_t").over(later))
    next_epoch = F.lead("leader_epoch").over(by_epoch)
    # The condition matters: least() skips nulls, and the last epoch has no gap to be filled.
    last_of_gap = F.when(
        next_epoch.isNotNull(), F.least(next_epoch - 1, F.col("leader_epoch") + _WIDEST_GAP)
    )
    seen = seen.withColumn("_to", F.coalesce(last_of_gap, F.col("leader_epoch")))
    filled = seen.withColumn("_epoch", F.explode(F.sequence("leader_epoch", "_to")))
    implied = F.col("_epoch") != F.col("leader_epoch")
    filled = filled.withColumn("committed_t", F.when(~implied, F.col("committed_t")))
    filled = filled.withColumn("leader", F.when(~implied, F.col("leader")))
    filled = filled.withColumn("leader_epoch", F.col("_epoch"))
    filled = filled.withColumn("valid_from", F.coalesce("born_after", F.lit(-(2**62))))
    same = Window.partitionBy(*TP, "leader_epoch").orderBy("incarnation")
    filled = filled.withColumn(
        "valid_to", F.coalesce(F.lead("valid_from").over(same), F.lit(2**62))
    )
    return filled.drop("_epoch", "_to", "born_after")


def last_sighting(history: History) -> dict[tuple[str, int], int]:
    """By (arm, trial): until when (ns) leadership was certainly being watched: the last row, or
    the end of a phase in which the harness and its watch were alive."""
    from pyspark.sql import functions as F

    def find() -> dict[tuple[str, int], int]:
        rows = (
            epochs(history).groupBy("arm", "trial").agg(F.max("committed_t").alias("t")).collect()
        )
        until = {(r["arm"], r["trial"]): r["t"] or 0 for r in rows}
        for row in history.rows("phase"):
            key = (row["arm"], row["trial"])
            if row["name"] in ("chaos", "heal", "quiesce") and key in until:
                until[key] = max(until[key], row["t"])
        return until

    found: dict[tuple[str, int], int] = history.memo("last_sighting", find)
    return found
