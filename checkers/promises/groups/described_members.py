"""What is told of the members of a stable group, for `checkers.promises.groups`.

Whoever asks what a group is like (DescribeGroups) is told of each member, once the group is stable,
what it subscribes to and what it was given: that is how an operator sees who reads what, and how
tools tell lag by member (GroupMetadata.summary). State and members are read under the group's lock,
so that nothing excuses it: before the group is stable its state says so.

- ``members-untold``: a broker says that the group is stable, and tells of a member nothing but its
  name, or of no member what it was given.

Asked by role group-stranger, of groups whose members' leader gives each something (librdkafka's).
Whether what is told is what members know is judged of others (`told_otherwise`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "members-untold"
DESCRIBED: Final = "stable groups described"
_BY: Final = ["arm", "trial", "group", "node"]


def described_members(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """Each finding, and for how many answers it stands."""
    if not history.has("group_step"):
        return
    told = history.frame("group_step").where("step = 'describe' and type = 'ok'")
    told = told.where("untold is not null")
    is_untold = F.coalesce(F.col("untold") > 0, F.lit(False))
    by_node = told.groupBy(*_BY).agg(
        F.count("*").alias("all"),
        F.count(F.when(is_untold, 1)).alias("n"),
        F.min(F.when(is_untold, F.struct("t", "untold"))).alias("first"),
    )
    for row in by_node.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], DESCRIBED, row["all"])
        if row["n"]:
            first = row["first"]
            at = {"group": row["group"], "node": row["node"], "t": first["t"]}
            yield (
                Finding(
                    RULE,
                    f"node {row['node']} said that group {row['group']} is stable, and told "
                    f"nothing of {first['untold']} of its members but their names",
                    row["arm"],
                    row["trial"],
                    (Pick("group_step", at, rows=1),),
                ),
                row["n"],
            )
