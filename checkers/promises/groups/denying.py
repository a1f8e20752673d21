"""Coordinators that say they are none, and others that act as one, for `checkers.promises.groups`.

Who leads a group's partition of ``__consumer_offsets`` coordinates that group as soon as it has
loaded what is kept there (GroupCoordinator.onElection). Once all is calm and it has had its time
(`checkers.facts.calm`) it no longer answers that it loads (COORDINATOR_LOAD_IN_PROGRESS), that
there is no coordinator, or that it is another (NOT_COORDINATOR): its members would ask for ever.
And nobody else does anything for that group by then (GroupCoordinator.validateGroupStatus): who
goes on with groups of which it does not keep the positions has members that no other broker knows.

Lawful, and looks similar: other brokers, which send whoever asks them away; refusals by the
coordinator of who is no member, or one of the past; one of the past that has not heard of its
successor; members that do not say whom they asked are not heard.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.in_calm import BY, in_calm

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "coordinator-denies"
SERVED: Final = "questions about groups once all was calm"
KINDS: Final = ("commit", "committed", "group_step")
_DENIED: Final = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
OTHER: Final = "another-coordinates"
DONE: Final = (0, 22, 25, 27, 68, 69, 79, 81, 82)
"""Done, or refused by who looked at its own group: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
REBALANCE_IN_PROGRESS, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED,
GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID."""


def denying(history: History, outcome: Outcome) -> Iterator[Finding]:
    kinds = [kind for kind in KINDS if history.has(kind)]
    if not kinds:
        return
    frames = [
        history.frame(kind)
        .where("node is not null and group is not null and type != 'info'")
        .select(*BY, "invoke_t", "t", "error", F.lit(kind).alias("kind"))
        for kind in kinds
    ]
    asked = functools.reduce(lambda one, other: one.unionAll(other), frames)
    last = asked.groupBy(*BY).agg(F.max("t").alias("t")).toArrow().to_pylist()
    calm = in_calm(history, last)
    if calm is None:
        return
    late = asked.join(F.broadcast(calm), BY).where("invoke_t > _owed")
    error = F.coalesce("error", F.lit(0))
    wrong = F.when(F.col("_leads") == 1, error.isin(*_DENIED)).otherwise(error.isin(*DONE))
    wrong_t = F.when(wrong, F.col("t"))
    sums = late.groupBy(*BY, "_leads").agg(
        F.count("*").alias("asked"),
        F.count(wrong_t).alias("n"),
        F.max(wrong_t).alias("t"),
        F.max_by("kind", wrong_t).alias("kind"),
        F.max_by(error, wrong_t).alias("error"),
    )
    for row in sums.orderBy(*BY).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], SERVED, row["asked"])
        if row["n"]:
            yield _finding(row)


def _finding(row: Mapping[str, Any]) -> Finding:
    of = f"{row['n']} of {row['asked']} times, once all was calm"
    group = f"the partition of group {row['group']}"
    if row["_leads"]:
        rule = RULE
        says = f"leads {group}, denied {of}, that it coordinates it (error {row['error']})"
    else:
        rule = OTHER
        says = f"does not lead {group}, acted as its coordinator {of} (error {row['error']})"
    return Finding(
        rule,
        f"node {row['node']}, which in the end {says}",
        row["arm"],
        row["trial"],
        (Pick(row["kind"], {"node": row["node"], "t": row["t"]}, rows=1),),
    )
