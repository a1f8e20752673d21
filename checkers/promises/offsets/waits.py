"""Reads that wait, for `checkers.promises.offsets` (Kafka's DelayedFetch).

Who reads where a log ends says how much there must be before the answer (``min_bytes``), and how
long the broker may wait for that (``max_wait_ms``). A leader answers when either has come about,
and looks again with each move of its high watermark: what is appended and not committed is nothing
to a consumer. So

- ``answered-too-soon``: given nothing, before the time was up;
- ``answered-with-too-little``: given less than ``min_bytes``, of all partitions together, before
  the time was up, and no segment began there, or up to where it ended;
- ``answered-late``: answered when the time was up, `HEALED_NS` and more after the last fault; the
  broker had told an end behind that offset in the same leader epoch `LATE_NS` before: it need not
  hear of anything any more.

Lawful, and looks similar: less than was asked for where the log goes on in another segment, of
which nobody looks how much there is, also where that one begins with the first record that is given
(an answer never spans two: that a later one has what lies on both sides of it all tells that there
was none); who asks for what lies beyond a new leader's high watermark,
and is answered at once; who is refused, as somebody else leads, and with that of whatever else was
asked for. Who waits for several partitions is answered when one of them has enough, whichever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.facts.leadership import TP
from checkers.facts.unions import united
from checkers.judging.outcome import Outcome

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

WAITS: Final = "reads that waited where a log ends"
LATE_NS: Final = 1_000_000_000
"""How much later than it could have been an answer is late: it takes milliseconds."""
HEALED_NS: Final = 2_000_000_000
"""By then what a link had kept back has come."""
_EARLY_NS: Final = 20_000_000
"""Clocks of milliseconds may be off by one; this is ample."""
_SOON_NS: Final = 5_000_000_000
_LEADER: Final = [*TP, "node", "believed_epoch"]
_ANSWER: Final = ["arm", "trial", "process", "node", "op"]
_WANTED: Final = "least(min_bytes, max_bytes, partition_max_bytes)"
_SINCE: Final = "arm string, trial int, _since bigint"


def waits(history: History, outcome: Outcome, given: DataFrame) -> list[DataFrame]:
    """What is broken, by rule: `TP`, node, t, asked (bytes, or ms), offset, known. ``given``: reads
    that were answered."""
    rows = given.where("max_wait_ms > 0 and min_bytes > 0 and believed_epoch >= 0")
    over = F.col("invoke_t") + F.col("max_wait_ms") * 1_000_000 - _EARLY_NS
    rows = history.keep("reads that waited", lambda: rows.withColumn("_over", F.expr("t") >= over))
    for row in rows.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], WAITS, row["count"])
    soon = rows.where("not _over").join(_whole(history), _ANSWER).where("_refused = 0")
    nothing = soon.where("_given = 0 and offset between log_start_offset and high_watermark")
    before = _told(history, given, nothing, F.col("invoke_t")).where("offset <= _known")
    little = soon.where(f"given_bytes > 0 and _given < {_WANTED}")
    return [
        _broken("answered-too-soon", before, "max_wait_ms", "_known"),
        _broken("answered-with-too-little", _amid(given, little), "min_bytes", "given_bytes"),
        _broken("answered-late", _late(history, given, rows), "max_wait_ms", "_known"),
    ]


def _whole(history: History) -> DataFrame:
    """Of each answer to who waited: ``_given``, bytes in all, and how many partitions of it were
    ``_refused``."""
    told = history.frame("read_at").where("max_wait_ms > 0 and topic is not null")
    return told.groupBy(*_ANSWER).agg(
        F.sum(F.coalesce("given_bytes", F.lit(0)).cast("long")).alias("_given"),
        F.count(F.when(F.col("type") != "ok", 1)).alias("_refused"),
    )


def _late(history: History, given: DataFrame, rows: DataFrame) -> DataFrame:
    since = [
        {"arm": arm, "trial": trial, "_since": of.healed_t + HEALED_NS}
        for (arm, trial), of in calm(history).items()
    ]
    healed = F.broadcast(history.table(since, _SINCE))
    late = rows.where("_over and min_bytes <= 1").join(healed, ["arm", "trial"])
    late = late.where("invoke_t > _since").drop("_since")
    return _told(history, given, late, F.col("t") - LATE_NS).where("offset < _known")


def _told(history: History, given: DataFrame, asked: DataFrame, by: Column) -> DataFrame:
    """``_known``: the farthest end that the same broker had told in that leader epoch ``by`` then
    (ns, a column)."""
    names = [*_LEADER, "t", "offset", "max_wait_ms"]
    asked = asked.select(*names, by.alias("_at"), F.lit(None).cast("long").alias("_end"))
    read = F.greatest("high_watermark", "found_end").alias("_end")
    told = given.select(*_LEADER, F.col("t").alias("_at"), read)
    if history.has("listed_offset"):
        ends = history.frame("listed_offset").where("type = 'ok' and asked_ms = -1")
        epoch = F.col("leader_epoch").alias("believed_epoch")
        own = ends.select(
            *TP, "node", epoch, F.col("t").alias("_at"), F.col("offset").alias("_end")
        )
        told = told.unionByName(own)
    rows = united(asked, told)
    order = Window.partitionBy(*_LEADER).orderBy("_at", F.col("_end").isNotNull())
    so_far = F.max("_end").over(order.rowsBetween(Window.unboundedPreceding, 0))
    return rows.withColumn("_known", so_far).where("_end is null")


def _amid(given: DataFrame, little: DataFrame) -> DataFrame:
    """Those amid a segment: a later answer has records from before and behind."""
    mine = [*_LEADER, "t", "offset", "found_end", "min_bytes", "given_bytes"]
    after = given.select(
        *_LEADER,
        F.col("invoke_t").alias("_later_t"),
        F.col("offset").alias("_from"),
        F.col("found_end").alias("_to"),
    )
    rows = F.broadcast(little.select(*mine)).join(after, _LEADER)
    amid = "_from < offset and found_end < _to"
    return rows.where(f"{amid} and _later_t between t and t + {_SOON_NS}").select(*mine).distinct()


def _broken(rule: str, rows: DataFrame, asked: str, known: str) -> DataFrame:
    return rows.select(
        *TP,
        "node",
        "t",
        F.col(asked).cast("long").alias("asked"),
        "offset",
        F.col(known).cast("long").alias("known"),
        F.lit(rule).alias("rule"),
        F.lit(WAITS).alias("of"),
    )
