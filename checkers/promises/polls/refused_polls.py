"""Polls that are refused although nothing is in their way, for `checkers.promises.polls`.

A consumer looks for a partition's leader by itself, and polls there. Once all is calm
(`checkers.facts.calm`) the leader is who was committed last, every broker has heard of it, and the
consumer has had its time to find it: what it is told of that partition is what the leader says, or
what a broker says of where it is led. An error that denies the partition, its leader or the epoch
in which it is read (`checkers.facts.calm_leaders`) is then of a broker that has forgotten the
partition, or answers from a role of the past. The client tries again by itself, so that nothing is
lost by it but time.

- ``poll-refused``: such an error, of a partition whose leader lives.

Lawful, and looks similar: a topic that is being deleted; a leader that is elected after all else
was healed, or a broker that comes back (both have their time); what a coordinator says to a member
of a group, and positions out of range, which are others' (`checkers.promises.groups`,
``position-lost``). What was told before all was calm is given with the first poll after that. Who
answered, a consumer is not told: every broker that runs must owe the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.calm_leaders import DENIALS, LEADER, asked_in_calm
from checkers.facts.leadership import TP, key_of
from checkers.facts.timeline import FROM
from checkers.judging.excuses import Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "poll-refused"
POLLED: Final = "polls in calm"


def refused_polls(
    history: History, outcome: Outcome, known: Excuses
) -> Iterator[tuple[Finding, int]]:
    """One finding for each consumer and partition, and how many polls."""
    polls = history.frame("fetch").where("topic is not null and invoke_t is not null")
    polls = polls.select(*TP, "process", "poll", "invoke_t", "t", "error")
    asked = asked_in_calm(history, polls)
    if asked is None:
        return
    is_denied = F.coalesce(F.col("error").isin(*DENIALS), F.lit(False))
    by = (*TP, "process", LEADER)
    sums = asked.groupBy("arm", "trial", is_denied.alias("_denied")).count().toArrow().to_pylist()
    for row in sums:
        outcome.saw(row["arm"], row["trial"], POLLED, row["count"])
    if not any(row["_denied"] for row in sums):
        return
    # What was told while nobody polled is given with the next poll.
    each = history.frame("fetch").where("poll is not null")
    each = each.groupBy("arm", "trial", "process", "poll").agg(F.max("t").alias("_before_t"))
    each = each.withColumn("poll", F.col("poll") + 1)
    denied = asked.where(is_denied).join(each, ["arm", "trial", "process", "poll"])
    found = (
        denied.where(f"_before_t >= {FROM}")
        .groupBy(*by)
        .agg(F.count("*").alias("n"), F.min("t").alias("t"), F.min_by("error", "t").alias("error"))
    )
    for row in found.orderBy(*by).toArrow().to_pylist():
        excuse = known.of(*key_of(row), row["t"])
        if excuse is None:
            yield _finding(row), row["n"]
        else:
            outcome.excuse(row["arm"], row["trial"], RULE, excuse, of=POLLED, n=row["n"])


def _finding(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        RULE,
        f"{row['process']} polled {row['topic']}-{row['partition']} long after all was healed, and "
        f"was refused {row['n']} times with error {row['error']}; node {row[LEADER]} led it "
        "all the while",
        row["arm"],
        row["trial"],
        (
            Pick("leadership", at, to_t=row["t"], last=True, rows=1),
            Pick("fetch", {**at, "process": row["process"], "error": row["error"]}, rows=3),
        ),
    )
