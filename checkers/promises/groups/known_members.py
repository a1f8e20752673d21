"""Members that another coordinator goes on with, for `checkers.promises.groups`.

A group outlives its coordinator: who is in it, and in which generation, lies in the log before the
members are given anything (GroupMetadataManager.storeGroup), and whoever leads the group's
partition next reads it there and lets everybody have a session anew
(GroupCoordinator.onGroupLoaded). So a member that goes on saying that it lives (Heartbeat, role
group-pair, ``live``) hears that all is well, or that the group comes together anew, whoever
coordinates it by then: it need not join again, and nobody reads anything twice because a broker
went.

- ``member-denied``: who leads the group's partition told a member that it is none
  (UNKNOWN_MEMBER_ID), or of another generation (ILLEGAL_GENERATION), although it had been told that
  all is well within its session, and nobody had asked to join meanwhile.

Lawful, and looks similar: a member of which nobody heard for a session; one that was told to join
anew and did not; a coordinator that stood still, and goes on with what it knew before another took
its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from checkers.facts.committed import State
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

RULE: Final = "member-denied"
KNOWN: Final = "members that another coordinator went on with"
_STOOD_NS: Final = 5_000_000_000
"""How long after a trouble of its own a broker may still say what it knew before."""
_DENIALS: Final = frozenset({22, 25})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID."""
_MS: Final = 1_000_000


def known_members(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    judge = partial(_of_group, offices(history))
    yield from living_groups(history, outcome, ("enter", "live"), judge)


def _of_group(offices: Offices, rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    arm, trial, _ = key = group_of(rows)
    states = offices.of(*key)
    enters = [row for row in rows if row["step"] == "enter"]
    session_ns = max((row["keep_ms"] or 0 for row in enters), default=0) * _MS
    last: Row | None = None
    for row in rows:
        if row["step"] == "enter" or row["error"] == REBALANCE_IN_PROGRESS:
            last = None
        elif row["type"] == "ok":
            if last is not None and last["node"] != row["node"]:
                outcome.saw(arm, trial, KNOWN)
            last = row
        elif row["error"] in _DENIALS and last is not None:
            since, denied, last = last, row, None
            asked = any(e["invoke_t"] <= denied["t"] <= e["t"] for e in enters)
            is_early = denied["t"] < since["invoke_t"] + session_ns
            if is_early and not asked and _coordinates(offices, denied, states):
                yield _finding(since, denied)


def _coordinates(offices: Offices, row: Row, states: Sequence[State]) -> bool:
    """Whether the row's broker led the group's partition as it was asked and answered, and nothing
    had kept it from knowing that."""
    before = [state for state in states if state.t <= row["invoke_t"]]
    after = [state for state in states if row["invoke_t"] < state.t <= row["t"]]
    if not before or any(state.row["leader"] != row["node"] for state in (before[-1], *after)):
        return False
    return not offices.had_trouble(row, row["invoke_t"] - _STOOD_NS, row["t"])


def _finding(since: Row, denied: Row) -> Finding:
    group = {"group": denied["group"], "step": "live"}
    told = "is none" if denied["error"] == 25 else "is of another generation"
    return Finding(
        RULE,
        f"group {denied['group']}: node {denied['node']} told a member that it {told}, "
        f"{(denied['t'] - since['invoke_t']) / 1e6:.0f} ms after it had said that it lives, and "
        f"node {since['node']} that all is well",
        denied["arm"],
        denied["trial"],
        (
            Pick("group_step", {**group, "node": since["node"], "t": since["t"]}, rows=1),
            Pick("group_step", {**group, "node": denied["node"], "t": denied["t"]}, rows=1),
        ),
    )
