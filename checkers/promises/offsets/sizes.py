"""How much a read gives, for `checkers.promises.offsets` (KIP-74; Kafka's readFromLog).

Who reads says how many bytes an answer may have, of each partition and in all. The first partition
that has anything may give one batch that is larger than that, or nobody would ever come past such
a batch; all others give what the limits leave. So

- ``given-too-much``: an answer had more in all than it was to have, or of one partition, and that
  was not one batch, of the only one that exceeds its own limit;
- ``given-nothing``: an answer without any record, although a partition was told to be committed
  beyond the offset that was asked for.

Lawful, and looks similar: a partition that gives nothing where another one gave something; one that
is refused; a last batch that is cut off (Kafka slices its files at the limit). Answers are judged
as a whole, of clients that write down what they asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP
from checkers.promises.offsets.reads import READS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_ANSWER: Final = ["arm", "trial", "process", "node", "op"]
_EXCEEDS: Final = "given_bytes > partition_max_bytes"
_ALONE: Final = "given_bytes <= first_bytes"
"""No more than its first batch."""


def sizes(history: History) -> list[DataFrame]:
    """What is broken, by rule: `TP`, node, t, asked (bytes in all), offset, known."""
    told = history.frame("read_at").where("type = 'ok' and max_bytes is not null")
    given = told.where("given_bytes > 0")
    whole = given.groupBy(*_ANSWER).agg(
        F.sum(F.col("given_bytes").cast("long")).alias("_given"),
        F.count("*").alias("_partitions"),
        F.count(F.when(F.expr(_EXCEEDS), 1)).alias("_larger"),
        F.count(F.when(F.expr(f"{_EXCEEDS} and not {_ALONE}"), 1)).alias("_much_larger"),
    )
    in_all = f"_given > max_bytes and (_partitions > 1 or not {_ALONE})"
    rows = given.join(whole, _ANSWER)
    too_much = rows.where(f"({in_all}) or _larger > 1 or _much_larger > 0")
    there = told.where("offset < high_watermark and offset >= coalesce(log_start_offset, 0)")
    nothing = there.join(whole, _ANSWER, "left_anti")
    return [
        _broken("given-too-much", too_much, "_given"),
        _broken("given-nothing", nothing, "high_watermark"),
    ]


def _broken(rule: str, rows: DataFrame, known: str) -> DataFrame:
    return rows.select(
        *TP,
        "node",
        "t",
        F.col("max_bytes").cast("long").alias("asked"),
        "offset",
        F.col(known).cast("long").alias("known"),
        F.lit(rule).alias("rule"),
        F.lit(READS).alias("of"),
    )
