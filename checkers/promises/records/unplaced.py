"""Acknowledgements without an offset, for `checkers.promises.records`.

Who acknowledges a record says at which offset it is (ProduceResponse, ``base_offset``). Where there
is none, the producer cannot tell its record from another, and whoever goes on from what it was told
reads from somewhere else.

Lawful, and looks similar: acks=0, which nobody answers; a batch that an idempotent producer sent
again, and of which the leader remembers no more than that it has it (DUPLICATE_SEQUENCE_NUMBER).
Who is not idempotent is known by nobody again. Of producers that nobody calls one or the other,
nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "acknowledged-nowhere"
_KNOWN_AGAIN: Final = "idempotent"


def unplaced(history: History) -> Iterator[tuple[Finding, int]]:
    """One finding a partition and producer, and how many records it stands for."""
    own = [
        {"arm": arm, "trial": trial, "process": process}
        for (arm, trial, process), how in history.run.deliveries().items()
        if how != _KNOWN_AGAIN
    ]
    if not own:
        return
    table = F.broadcast(history.table(own, "arm string, trial int, process string"))
    acked = history.frame("produce").where("type = 'ok' and acks != 0 and topic is not null")
    nowhere = acked.where("coalesce(offset, -1) < 0").join(table, ["arm", "trial", "process"])
    counted = nowhere.groupBy(*TP, "process").agg(
        F.count("*").alias("n"), F.min_by("value", "t").alias("value"), F.min("t").alias("t")
    )
    for row in counted.orderBy(*TP, "process").toArrow().to_pylist():
        yield _finding(row), row["n"]


def _finding(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "process": row["process"]}
    return Finding(
        RULE,
        f"{row['process']} was told that value {row['value']} is in {row['topic']}-"
        f"{row['partition']}, and at no offset",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {**at, "value": row["value"], "t": row["t"]}, rows=1),
            Pick("log_read", {"value": row["value"]}, rows=3),
        ),
    )
