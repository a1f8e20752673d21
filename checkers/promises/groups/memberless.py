"""Groups that never had a member, and are treated as if they had, for `checkers.promises.groups`.

Who keeps a position by nobody's generation, or deletes one, or the group, is held to no membership
while the group has no members (GroupCoordinator.validateOffsetCommit, handleDeleteGroups): it is
not told that it is no member, of a generation of the past, or that the group has members.

- ``memberless-refused``: it was told so.

Lawful, and looks similar: the same of a group that somebody asked to join before, whatever came of
it. That there is no such group (GROUP_ID_NOT_FOUND) may be so. Before 2.3 who asks for a group that
is let go at that moment is called no member of it (`DEAD`: run.json says of which arms).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "memberless-refused"
DEAD: Final = "dead_groups_unknown"
"""In run.json, of an arm: its system may be one of before 2.3; so where nobody knows."""
_UNKNOWN_MEMBER_ID: Final = 25
UNJOINED: Final = "questions about groups that never had a member"
_STEPS: Final = ("commit", "raise", "ask", "see", "spare", "clear", "delete", "look")
_JOINS: Final = ("enter", "join")
_REFUSED: Final = (22, 25, 27, 68, 82)
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, NON_EMPTY_GROUP,
FENCED_INSTANCE_ID."""
_BY: Final = ["arm", "trial", "group"]


def memberless(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """Each finding, and of how many questions it is so."""
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("group is not null and step is not null")
    joined_t = F.min(F.when(F.col("step").isin(*_JOINS), F.col("invoke_t")))
    joined = steps.groupBy(*_BY).agg(joined_t.alias("joined_t"))
    asked = steps.where(F.col("step").isin(*_STEPS) & F.col("error").isNotNull())
    asked = asked.join(joined, _BY).where("joined_t is null or t < joined_t")
    old = [arm for arm in history.arms if history.run.may(arm, DEAD)]
    spared = F.col("arm").isin(old) & (F.col("error") == _UNKNOWN_MEMBER_ID)
    refused = F.col("error").isin(*_REFUSED) & ~spared
    first = F.min(F.when(refused, F.struct("t", "group", "step", "error"))).alias("first")
    sums = asked.groupBy("arm", "trial", "node").agg(
        F.count("*").alias("asked"),
        F.count(F.when(refused, 1)).alias("n"),
        first,
        F.count(F.when(spared, 1)).alias("spared"),
    )
    for row in sums.orderBy("arm", "trial", "node").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], UNJOINED, row["asked"])
        if row["spared"]:
            says = f"{row['spared']} times, asked for a group without members, node {row['node']} "
            says += "knew of no such member: it may be of before 2.3, and let the group go"
            outcome.unjudged(row["arm"], says)
        if row["n"]:
            one = row["first"]
            says = f"node {row['node']} refused ({one['step']}) group {one['group']} with "
            says += f"error {one['error']}, as if that had members; nobody had asked to join it"
            at = {"node": row["node"], "group": one["group"], "t": one["t"]}
            pick = Pick("group_step", at, rows=1)
            yield Finding(RULE, says, row["arm"], row["trial"], (pick,)), row["n"]
