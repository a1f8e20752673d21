"""Records refused for nothing: for `checkers.promises.records`.

What clients of a run send is sound: no error says that a record is malformed, too large or
forbidden lawfully (Kafka's Errors; LogValidator, KafkaApis.handleProduceRequest). That a partition
is led elsewhere, too few are in sync, or a producer's sequence is unknown are answers of other
promises, and lawful as such; but how many are in sync concerns nobody who does not ask for all of
them (Partition.appendRecordsToLeader).

A broker that failed is another matter (`checkers.facts.failings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.witness import Finding, Pick
from checkers.promises.refusals.failures import AUTHORIZER

if TYPE_CHECKING:
    from checkers.history.frames import History

_NEVER: Final = (2, 10, 17, 18, 21, 32, 35, 42, 43, 76, 87)
"""CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TOPIC, RECORD_LIST_TOO_LARGE, INVALID_REQUIRED_ACKS,
INVALID_TIMESTAMP, UNSUPPORTED_VERSION, INVALID_REQUEST, UNSUPPORTED_FOR_MESSAGE_FORMAT,
UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD."""
_FORBIDDEN: Final = (29, 30, 31, 58)
_TOO_FEW: Final = (19, 20)
"""NOT_ENOUGH_REPLICAS, before and after the append: of acks=all alone."""


def judge_refused(history: History) -> Iterator[Finding]:
    never = _NEVER if AUTHORIZER in history.run.brokers else (*_NEVER, *_FORBIDDEN)
    unasked = F.col("error").isin(*_TOO_FEW) & (F.col("acks") != -1)
    rows = history.frame("produce").where(F.col("error").isin(*never) | unasked)
    by = rows.groupBy("arm", "trial", "error").agg(
        F.count("*").alias("n"), F.min_by("value", "t").alias("value"), F.min("t").alias("t")
    )
    for row in sorted(by.toArrow().to_pylist(), key=lambda r: (r["arm"], r["trial"], r["t"])):
        error = row["error"]
        says = f"{row['n']} records were refused with error {error}, the first value {row['value']}"
        picks = (Pick("produce", {"error": error}, rows=3),)
        yield Finding("refused-for-nothing", says, row["arm"], row["trial"], picks)
