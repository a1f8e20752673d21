"""What state a group is said to be in, for `checkers.promises.groups`.

Operators act by it: they reset the positions of a group that is empty, and delete it. A member that
is told before and after that it lives in the group's generation is of one that was stable all the
while: to be otherwise it would have had to form anew, which raises the generation, and until then
the member would have been told so (GroupCoordinator.doHeartbeat: REBALANCE_IN_PROGRESS).

- ``state-otherwise``: between two such answers, of the same broker, it says that the group is in
  another state; or between one of them and one by which the member is to join anew, that the group
  is neither stable nor about to form anew: it forms with that member, or without it, which is told
  by another answer (UNKNOWN_MEMBER_ID).

Asked by role group-pair, whose member asks over one connection, one question after the other, and
only once it was given its assignment. Lawful and alike: a member that joins in between
(``enter``, ``sync``): nothing is said of what was told then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "state-otherwise"
STATES: Final = "states of groups whose member lives"
_STABLE: Final = "Stable"
_ABOUT_TO_FORM: Final = "PreparingRebalance"
_REBALANCE_IN_PROGRESS: Final = 27
_BY: Final = ("arm", "trial", "group", "node", "process")


def described_states(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """Each finding, and for how many answers it stands."""
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("step in ('live', 'enter', 'sync', 'describe')")
    course = Window.partitionBy(*_BY).orderBy("invoke_t", "t")
    lives = F.when(F.expr("step = 'live' and type = 'ok'"), F.struct("invoke_t", "t"))
    is_member = F.expr(f"step = 'live' and (type = 'ok' or error = {_REBALANCE_IN_PROGRESS})")
    heard = F.when(is_member, F.struct("invoke_t", (F.col("type") != "ok").alias("forms")))
    each = steps.select(
        *(*_BY, "step", "type", "state", "invoke_t", "t"),
        F.lag(lives).over(course).alias("_before"),
        F.lead(heard).over(course).alias("_after"),
    )
    told = each.where("step = 'describe' and type = 'ok' and state is not null")
    told = told.where("_before.t <= invoke_t and t <= _after.invoke_t")
    forms = F.col("_after.forms") & (F.col("state") == _ABOUT_TO_FORM)
    odd = (F.col("state") != _STABLE) & ~forms
    by_node = told.groupBy(*_BY).agg(
        F.count("*").alias("all"),
        F.count(F.when(odd, 1)).alias("n"),
        F.min(F.when(odd, F.struct("t", "state"))).alias("first"),
    )
    for row in by_node.orderBy(*_BY).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], STATES, row["all"])
        if row["n"]:
            first = row["first"]
            at = {name: row[name] for name in ("group", "node", "process")}
            says = (
                f"node {row['node']} said {row['n']} times that group {row['group']} is not stable "
                f"(first: {first['state'] or 'in no state'}), between two answers to its member "
                "as to one that lives in it"
            )
            picks = (
                Pick("group_step", {**at, "step": "live"}, to_t=first["t"], last=True, rows=1),
                Pick("group_step", {**at, "t": first["t"]}, rows=1),
                Pick("group_step", {**at, "step": "live"}, from_t=first["t"], rows=1),
            )
            yield Finding(RULE, says, row["arm"], row["trial"], picks), row["n"]
