"""Strangers: who never was a member of a group, or not of its present generation, and commits for
it (role group-stranger), for `checkers.promises.groups`; and what they and members were told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.in_calm import BY, in_calm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

REFUSED: Final = "commits of strangers refused"
_TP: Final = ["arm", "trial", "topic", "partition"]
WHO: Final = ["arm", "trial", "process"]
_REFUSALS: Final = (22, 25)
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID: what a coordinator says to a stranger."""
_REFUSED: Final = 3
"""So often each stranger must have been refused as such."""


def obeyed(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """Each finding, and for how many commits it stands."""
    for row in _strangers(history, outcome):
        yield _obeyed(row), row["n"]


def _strangers(history: History, outcome: Outcome) -> list[dict[str, Any]]:
    """What was acknowledged to those whose part it is to be refused: by partition, the first."""
    commits = history.frame("commit").join(F.broadcast(strangers(history)), WHO)
    refused = F.count(F.when(F.col("error").isin(*_REFUSALS), 1)).alias("n")
    there = F.count(F.when(F.col("type") == "ok", 1)).alias("obeyed")
    told = strangers(history).join(commits.groupBy(*WHO).agg(refused, there), [*WHO], "left")
    for row in told.na.fill(0).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], REFUSED, row["n"])
        if row["n"] < _REFUSED and not row["obeyed"]:
            says = f"{row['process']}: {row['n']} of its commits were refused as a stranger's"
            outcome.unknown(row["arm"], row["trial"], f"{says}: too few to tell")
    names = (*_TP, "group", "process")
    obeyed = commits.where("type = 'ok'").groupBy(*names)
    found = obeyed.agg(F.count("*").alias("n"), F.min("t").alias("t"))
    return list(found.toArrow().to_pylist())


def _obeyed(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "process": row["process"]}
    return Finding(
        "stranger-committed",
        f"{row['process']}, which is no member of group {row['group']}, had {row['n']} commits for "
        f"{row['topic']}-{row['partition']} acknowledged",
        row["arm"],
        row["trial"],
        (Pick("commit", {**at, "t": row["t"]}, rows=1),),
    )


def answers(history: History) -> DataFrame:
    """What anybody was told of kept offsets."""
    return history.frame("committed").where("type = 'ok' and topic is not null")


def members_answers(history: History) -> DataFrame:
    """What members were told. They ask the coordinator; who asks every broker (role group-stranger)
    may ask one of the past that has not heard of that."""
    return answers(history).join(F.broadcast(strangers(history)), WHO, "left_anti")


def strangers_answers(history: History) -> DataFrame:
    """What others were told by who coordinates the group, has for long, and goes on to."""
    told = answers(history).join(F.broadcast(strangers(history)), WHO, "left_semi")
    told = told.where("node is not null and group is not null")
    last = told.groupBy(*BY).agg(F.max("t").alias("t")).toArrow().to_pylist()
    calm = in_calm(history, last)
    if calm is None:
        return told.limit(0)
    late = told.join(F.broadcast(calm), BY).where("_leads = 1 and invoke_t > _owed")
    return late.drop("_owed", "_leads")


def strangers(history: History) -> DataFrame:
    """arm, trial, process."""
    return history.table(
        [
            {"arm": arm, "trial": trial, "process": one.process}
            for (arm, trial), workloads in history.run.workloads.items()
            for one in workloads
            if one.role == "group-stranger"
        ],
        "arm string, trial int, process string",
    )
