"""Positions that nobody committed, told to who asks for them, for `checkers.promises.groups`.

``committed-never``, of groups that one client alone does everything with (kind ``group_step``): it
is told a position (step ``ask``, ``own`` or ``see``) that it had not asked anybody to keep by then
(``commit``, ``keep``, ``raise``), in that group, whatever came of it. Whoever begins there skips
records, or is given them twice.

Lawful, and looks similar: what was asked for and refused, or never answered (it may be kept all the
same); an older one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "committed-never"
TOLD_ALONE: Final = "positions told to who alone commits them"
_BY: Final = ["arm", "trial", "group"]


def invented_positions(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """The first of each group, and how many there are."""
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("group is not null and offset >= 0")
    tried = steps.where("step in ('commit', 'keep', 'raise')")
    first = tried.groupBy(*_BY, "offset").agg(F.min("invoke_t").alias("_tried_t"))
    told = steps.where("step in ('ask', 'own', 'see') and type = 'ok'")
    told = told.select(*_BY, "node", "step", "offset", "t").join(first, [*_BY, "offset"], "left")
    odd_t = F.when(F.expr("_tried_t is null or _tried_t > t"), F.col("t"))
    sums = told.groupBy(*_BY).agg(
        F.count("*").alias("asked"),
        F.count(odd_t).alias("n"),
        F.min(odd_t).alias("t"),
        *(F.min_by(name, odd_t).alias(name) for name in ("node", "step", "offset")),
    )
    sums = sums.groupBy("arm", "trial").agg(
        F.sum("asked").alias("asked"),
        F.collect_list(
            F.when(F.col("n") > 0, F.struct("t", "group", "node", "step", "offset", "n"))
        ).alias("odd"),
    )
    for row in sums.orderBy("arm", "trial").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], TOLD_ALONE, row["asked"])
        for one in sorted(row["odd"], key=lambda each: each["t"]):
            at = {"group": one["group"]}
            said = {**at, "node": one["node"], "step": one["step"], "t": one["t"]}
            yield (
                Finding(
                    RULE,
                    f"node {one['node']} told position {one['offset']} of group {one['group']} "
                    f"({one['step']}), which nobody had asked anybody to keep",
                    row["arm"],
                    row["trial"],
                    (
                        Pick("group_step", {**at, "step": "commit"}, last=True, rows=1),
                        Pick("group_step", said, rows=1),
                    ),
                ),
                one["n"],
            )
