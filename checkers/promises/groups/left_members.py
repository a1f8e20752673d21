"""Who left its group in order, for `checkers.promises.groups`.

A member that leaves says so (LeaveGroup): it is none from the coordinator's answer on, and the
others are given what it had at once, not when its session would be over. So who says afterwards
that it lives (Heartbeat) is told that it is no member (UNKNOWN_MEMBER_ID).

- ``left-and-member``: the coordinator that had let it go tells it that all is well.

Lawful, and looks similar: what is written of a member that left is not waited for, so that the next
coordinator may have it still. Judged is what the same broker says, within `SOON_NS`, while it went
on leading the group's partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.kept_groups import MOVED_NS, was_replaced
from checkers.promises.groups.offices import Offices, offices

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "left-and-member"
PARTED: Final = "members that left in order, and said then that they live"
SOON_NS: Final = MOVED_NS
_UNKNOWN_MEMBER_ID: Final = 25
_BY: Final = ["arm", "trial", "group", "node"]
Row = Mapping[str, Any]


def left_members(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("group is not null and step in ('leave', 'beat')")
    let_go = steps.where("step = 'leave' and type = 'ok'").groupBy(*_BY)
    left = let_go.agg(F.max("t").alias("left_t"))
    told = f"type = 'ok' or error = {_UNKNOWN_MEMBER_ID}"
    beats = steps.where(f"step = 'beat' and ({told})").join(left, _BY)
    soon = beats.where(f"invoke_t >= left_t and t < left_t + {SOON_NS}").groupBy(*_BY, "left_t")
    first = soon.agg(F.min(F.when(F.col("type") == "ok", F.col("t"))).alias("obeyed_t"))
    yield from in_courses(outcome, first, _BY, (), partial(_of_group, offices(history)))


def _of_group(offices: Offices, rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    (row,) = rows
    if was_replaced(offices, row, row["node"], row["left_t"]):
        return
    outcome.saw(row["arm"], row["trial"], PARTED)
    if row["obeyed_t"] is not None:
        at = {"group": row["group"], "node": row["node"]}
        yield Finding(
            RULE,
            f"group {row['group']}: node {row['node']} told a member that it is one, "
            f"{(row['obeyed_t'] - row['left_t']) / 1e6:.0f} ms after it had let it go",
            row["arm"],
            row["trial"],
            (
                Pick("group_step", {**at, "step": "leave", "t": row["left_t"]}, rows=1),
                Pick("group_step", {**at, "step": "beat", "t": row["obeyed_t"]}, rows=1),
            ),
        )
