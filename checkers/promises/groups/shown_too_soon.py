"""Shown too soon: positions that a coordinator told of before they were kept, and then refused to
keep, for `checkers.promises.groups`.

A position is taken in when all in sync have it (GroupMetadata.onOffsetCommitAppend); until then
whoever asks (OffsetFetch) is told the one before. Who begins at one that never is kept leaves out
records that nobody was given.

- ``shown-before-kept``: while it was being asked to keep a position, which it then refused, a
  broker told that very position to somebody else (role group-riser asks for each position once).

Lawful, and looks similar: to tell of a position whose keeping was answered with success, or by
nobody: it may have been kept a moment before. A broker that had to give the group up, was given it
again and read there what its followers had kept, all while one answer was on its way, is no
broker's case.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "shown-before-kept"
SEEN: Final = "positions asked for while one waited to be kept, and was refused"
_BY: Final = ["arm", "trial", "group", "node"]


def shown_too_soon(history: History, outcome: Outcome) -> Iterator[Finding]:
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("group is not null")
    raised = steps.where("step = 'raise' and type = 'fail'").select(
        *_BY,
        F.col("offset").alias("_raised"),
        F.col("invoke_t").alias("_from"),
        F.col("t").alias("refused_t"),
        F.col("error").alias("why"),
    )
    seen = steps.where("step = 'see' and type = 'ok'").join(raised, _BY)
    seen = seen.where("invoke_t > _from and t < refused_t")
    told = F.when(F.col("offset") == F.col("_raised"), F.struct("t", "offset", "refused_t", "why"))
    found = seen.groupBy(*_BY).agg(
        F.countDistinct("op").alias("n"), F.count(told).alias("broken"), F.min(told).alias("first")
    )
    for row in found.orderBy(*_BY).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], SEEN, row["n"])
        if row["first"] is None:
            continue
        first, at = row["first"], {"group": row["group"], "node": row["node"]}
        yield Finding(
            RULE,
            f"node {row['node']} told offset {first['offset']} of group {row['group']}, and "
            f"{(first['refused_t'] - first['t']) / 1e6:.0f} ms later refused to keep it, with "
            f"error {first['why']}; so it did {row['broken']} times",
            row["arm"],
            row["trial"],
            (
                Pick("group_step", {**at, "step": "see", "t": first["t"]}, rows=1),
                Pick("group_step", {**at, "step": "raise", "t": first["refused_t"]}, rows=1),
            ),
        )
