"""By which protocol a group goes, for `checkers.promises.groups`.

Members offer protocols (assignors), and a group goes by one that all of its members offer: who
cannot offer one in common is not let in (GroupMetadata.selectProtocol, supportsProtocols). So
members can be given another assignor one by one. Who is let in and told of one that it does not
know, or of none, can read nothing of what it is given.

- ``protocol-otherwise``: a member was let in (``enter``), and told that its group goes by a
  protocol that it had not offered, or by none.

Judged by what each member offered itself (role group-pair, of which one offers more than the
other); nothing excuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "protocol-otherwise"
CHOSEN: Final = "protocols that members were told their group goes by"
_BY: Final = ["arm", "trial", "group", "node"]


def chosen_protocols(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """Each finding, and for how many answers it stands."""
    if not history.has("group_step"):
        return
    told = history.frame("group_step").where("step = 'enter' and type = 'ok'")
    told = told.where("offers is not null")
    is_offered = F.array_contains(F.split("offers", ","), F.col("protocol"))
    is_strange = ~F.coalesce(is_offered, F.lit(False))
    by_node = told.groupBy(*_BY).agg(
        F.count("*").alias("all"),
        F.count(F.when(is_strange, 1)).alias("n"),
        F.min(F.when(is_strange, F.struct("t", "offers", "protocol"))).alias("first"),
    )
    for row in by_node.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], CHOSEN, row["all"])
        if row["n"]:
            first = row["first"]
            at = {"group": row["group"], "node": row["node"], "t": first["t"]}
            yield (
                Finding(
                    RULE,
                    f"node {row['node']} let a member into group {row['group']} that offers "
                    f"{first['offers']}, and told it that the group goes by "
                    f"{first['protocol'] or 'none'}",
                    row["arm"],
                    row["trial"],
                    (Pick("group_step", at, rows=1),),
                ),
                row["n"],
            )
