"""Records refused for nothing: for `checkers.promises.records`.

What clients of a run send is sound: no error says that a record is malformed, too large or
forbidden lawfully (Kafka's Errors; LogValidator, KafkaApis.handleProduceRequest). That a partition
is led elsewhere, too few are in sync, or a producer's sequence is unknown are answers of other
promises, and lawful as such; but how many are in sync concerns nobody who does not ask for all of
them (Partition.appendRecordsToLeader).

UNKNOWN_SERVER_ERROR and KAFKA_STORAGE_ERROR tell of a broker that failed: where the harness had
broken its disk that is the harness's doing; else nobody can say whose (`unknown`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.refusals.failures import AUTHORIZER, BREAKERS

if TYPE_CHECKING:
    from checkers.history.frames import History

_NEVER: Final = (2, 10, 17, 18, 21, 32, 35, 42, 43, 76, 87)
"""CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TOPIC, RECORD_LIST_TOO_LARGE, INVALID_REQUIRED_ACKS,
INVALID_TIMESTAMP, UNSUPPORTED_VERSION, INVALID_REQUEST, UNSUPPORTED_FOR_MESSAGE_FORMAT,
UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD."""
_FORBIDDEN: Final = (29, 30, 31, 58)
_FAILED: Final = (-1, 56)
_TOO_FEW: Final = (19, 20)
"""NOT_ENOUGH_REPLICAS, before and after the append: of acks=all alone."""


def judge_refused(history: History, outcome: Outcome) -> Iterator[Finding]:
    never = _NEVER if AUTHORIZER in history.run.brokers else (*_NEVER, *_FORBIDDEN)
    broken = {
        (row["arm"], row["trial"]) for row in history.rows("fault") if row["fault"] in BREAKERS
    }
    unasked = F.col("error").isin(*_TOO_FEW) & (F.col("acks") != -1)
    rows = history.frame("produce").where(F.col("error").isin(*never, *_FAILED) | unasked)
    by = rows.groupBy("arm", "trial", "error").agg(
        F.count("*").alias("n"), F.min_by("value", "t").alias("value"), F.min("t").alias("t")
    )
    for row in sorted(by.toArrow().to_pylist(), key=lambda r: (r["arm"], r["trial"], r["t"])):
        arm, trial, error, n = row["arm"], row["trial"], row["error"], row["n"]
        if error not in _FAILED:
            says = f"{n} records were refused with error {error}, the first value {row['value']}"
            picks = (Pick("produce", {"error": error}, rows=3),)
            yield Finding("refused-for-nothing", says, arm, trial, picks)
        elif (arm, trial) not in broken:
            why = f"{n} records were answered with error {error}, and nobody had broken a disk"
            outcome.unknown(arm, trial, why)
