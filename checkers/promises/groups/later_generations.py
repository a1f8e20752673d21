"""Generations of a group, for `checkers.promises.groups`.

Each time a group comes together anew its members are of a later generation than before
(GroupMetadata.initNextGeneration), also when somebody left and nobody came. By that number, and by
nothing else, a coordinator tells who speaks of what he was given before.

- ``generation-not-raised``: a member was told to join anew (``live``, REBALANCE_IN_PROGRESS), and
  whoever was let in next (``enter``) is of the generation that the group had been given its
  partitions in before (``sync``), or of an earlier one.

Lawful, and looks similar: a member that joins a group which is stable is told the generation that
it is of; so may be one whose coordinator was deposed meanwhile, as the next one knows of no
rebalance. A group that its coordinator has forgotten (UNKNOWN_MEMBER_ID) begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.living_groups import (
    REBALANCE_IN_PROGRESS,
    Row,
    group_of,
    living_groups,
)
from checkers.promises.groups.offices import Offices, offices

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "generation-not-raised"
LATER: Final = "groups that came together anew"
_UNKNOWN_MEMBER_ID: Final = 25
_SLACK_NS: Final = 1_000_000_000
"""Between what ZooKeeper holds of who leads, and what a broker knows of it."""


def later_generations(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    steps = ("enter", "sync", "live", "keep")
    yield from living_groups(history, outcome, steps, partial(_of_group, offices(history)))


def _of_group(offices: Offices, rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    arm, trial, _ = key = group_of(rows)
    moved = [state.t for state in offices.of(*key)]
    entered = settled = told = None
    for row in rows:
        step, ok = row["step"], row["type"] == "ok"
        if row["error"] == _UNKNOWN_MEMBER_ID:
            entered = settled = told = None
        elif step == "sync" and ok:
            settled, told = entered, None
        elif step == "live" and row["error"] == REBALANCE_IN_PROGRESS:
            told = told or row
        elif step == "enter" and ok and row["generation"] is not None:
            entered = row
            if settled is None or told is None:
                continue
            if told["node"] == row["node"] and not _between(settled, moved, row):
                outcome.saw(arm, trial, LATER)
                if row["generation"] <= settled["generation"]:
                    yield _finding(settled, told, row)
                    return
            told = None


def _between(one: Row, moved: list[int], other: Row) -> bool:
    return any(one["t"] - _SLACK_NS <= t <= other["t"] + _SLACK_NS for t in moved)


def _finding(settled: Row, told: Row, row: Row) -> Finding:
    group = {"group": row["group"]}
    return Finding(
        RULE,
        f"group {row['group']}: node {row['node']} told a member to join anew, and that it is of "
        f"generation {row['generation']} then; the group had come together in generation "
        f"{settled['generation']} before",
        row["arm"],
        row["trial"],
        tuple(
            Pick("group_step", {**group, "step": one["step"], "t": one["t"]}, rows=1)
            for one in (settled, told, row)
        ),
    )
