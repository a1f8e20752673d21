"""Records that are not as anybody sent them, for `checkers.promises.records`.

What a record holds (key, value, headers) is its producer's. A broker writes offsets, epochs and
append times into a batch, and the whole batch anew where the topic wants another codec or its
cleaner goes over it (Kafka's LogValidator, LogCleaner); never what its records hold. All of what a
workload's record holds follows from one number (`harness.workload.values`), so that whoever reads
it, consumers and the final read alike, sees whether it is whole (``whole`` of the rows).

Lawful, and looks alike: what a flood writes to a topic of the run. Where it may, no workload writes
(no ``produce`` row tells of the topic), and nobody says what a record is to hold.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.blocks import chosen
from checkers.facts.leadership import TP
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "altered"
WHOLE: Final = "records looked at as a whole"
_READERS: Final = {"fetch": "given to consumers", "log_read": "in logs at the end"}


def judge_altered(history: History, outcome: Outcome) -> None:
    for kind, where in _READERS.items():
        if not history.has(kind):
            continue
        altered = F.expr("not whole")
        sums = (
            history.frame(kind)
            .where("topic is not null and offset is not null")
            .transform(partial(_written_by_workloads, history))
            .groupBy(*TP)
            .agg(
                F.count("whole").alias("looked"),
                F.count(F.when(altered, 1)).alias("n"),
                F.min(F.when(altered, F.struct("offset", "value"))).alias("first"),
            )
        )
        for row in sums.orderBy(*TP).toArrow().to_pylist():
            outcome.saw(row["arm"], row["trial"], WHOLE, row["looked"])
            if row["n"]:
                outcome.add(_finding(row, where), row["n"])


def _written_by_workloads(history: History, rows: DataFrame) -> DataFrame:
    if not history.has("produce"):
        return rows
    topic = ["arm", "trial", "topic"]
    written = history.frame("produce").where("topic is not null").select(*topic).distinct()
    return chosen(rows, written, topic)


def _finding(row: dict[str, Any], where: str) -> Finding:
    first, at = row["first"], {"topic": row["topic"], "partition": row["partition"]}
    picks = [Pick(kind, {**at, "offset": first["offset"]}, rows=3) for kind in _READERS]
    if first["value"] is not None:
        picks.insert(0, Pick("produce", {**at, "value": first["value"]}, rows=2))
    says = (
        f"{row['n']} of {row['looked']} records of {row['topic']}-{row['partition']} {where} are "
        f"not as anybody sent them, the first at offset {first['offset']}"
    )
    return Finding(RULE, says, row["arm"], row["trial"], tuple(picks))
