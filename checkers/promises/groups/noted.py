"""What is kept with a position, for `checkers.promises.groups`.

With an offset a member commits metadata, which is its own, and the leader epoch of the record
before it (KIP-320), by which the next member sees that a log was truncated; who asks for the
position is told both (OffsetFetch). Here the metadata says offset and leader epoch once more
(`harness.workload.group_consumer`), so that who is told them sees whether all three were committed
together (``whole`` of the rows).

Nothing lawful looks like it. Unjudged where nobody looked, as in histories of before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.strangers import members_answers

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "committed-otherwise"
NOTED: Final = "positions told with what was committed with them"
_BY: Final = ["arm", "trial", "group", "topic", "partition"]


def noted(history: History, outcome: Outcome) -> None:
    told = members_answers(history).where("offset >= 0")
    altered = F.expr("not whole")
    sums = told.groupBy(*_BY).agg(
        F.count("*").alias("told"),
        F.count("whole").alias("looked"),
        F.count(F.when(altered, 1)).alias("n"),
        F.min(F.when(altered, F.struct("t", "offset"))).alias("first"),
    )
    for row in sums.orderBy(*_BY).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], NOTED, row["looked"])
        if row["looked"] < row["told"]:
            outcome.unjudged(row["arm"], "metadata and leader epochs kept with a group's positions")
        if row["n"]:
            outcome.add(_finding(row), row["n"])


def _finding(row: dict[str, Any]) -> Finding:
    first = row["first"]
    at = {name: row[name] for name in ("topic", "partition", "group")}
    return Finding(
        RULE,
        f"{row['n']} times a member of group {row['group']} was told a position of "
        f"{row['topic']}-{row['partition']} with metadata, or a leader epoch, that nobody had "
        f"committed with it, first with offset {first['offset']}",
        row["arm"],
        row["trial"],
        (
            Pick("commit", {**at, "offset": first["offset"]}, rows=2),
            Pick("committed", {**at, "t": first["t"]}, rows=1),
        ),
    )
