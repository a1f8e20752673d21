"""What a coordinator tells of a group's members, for `checkers.promises.groups`.

A group's leader assigns by what the coordinator tells it of the members (JoinGroup), each member
reads what it is given through the coordinator (SyncGroup), and an operator sees who reads what
(DescribeGroups). All of it the coordinator was told by members: whatever it confuses, an assignor
gives partitions to who did not ask for them, a member reads another's, or nobody reads any.

- ``member-told-otherwise``: a member was told of another id than its own, of a leader that there is
  not, of members otherwise than they had joined, or was given what the leader had given to another;
  or a stable group was described with another client, subscription, assignment, protocol or
  instance (KIP-345).

Held against what members said by the one who plays all members of its group (role group-pair, which
writes down what it was told otherwise), or knows that they are all one instance (role
group-stranger); nothing excuses it: answers are made under the group's lock
(GroupMetadata.currentMemberMetadata, summary).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "member-told-otherwise"
ALIKE: Final = "answers held against what members had said"
_BY: Final = ["arm", "trial", "group", "node", "step"]


def told_otherwise(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """Each finding, and for how many answers it stands."""
    if not history.has("group_step"):
        return
    told = history.frame("group_step").where("type = 'ok' and otherwise is not null")
    is_otherwise = F.col("otherwise") != ""
    by_node = told.groupBy(*_BY).agg(
        F.count("*").alias("all"),
        F.count(F.when(is_otherwise, 1)).alias("n"),
        F.min(F.when(is_otherwise, F.struct("t", "otherwise"))).alias("first"),
    )
    for row in by_node.orderBy(*_BY).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], ALIKE, row["all"])
        if row["n"]:
            first = row["first"]
            at = {name: row[name] for name in ("group", "node", "step")}
            yield (
                Finding(
                    RULE,
                    f"node {row['node']} told of group {row['group']}, when asked for {row['step']}"
                    f", otherwise than its members had said: {first['otherwise']}",
                    row["arm"],
                    row["trial"],
                    (Pick("group_step", {**at, "t": first["t"]}, rows=1),),
                ),
                row["n"],
            )
