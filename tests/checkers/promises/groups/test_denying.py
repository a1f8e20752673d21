"""Coordinators that say they are none, and others that act as one, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.groups.denying import SERVED, denying
from tests.checkers.conftest import Story
from tests.checkers.promises.groups.test_coordinators import GROUP, LATE, story
from tests.checkers.together import Asks, judging, ruled


def step(told: Story, t: float, node: int, error: int, **more: Any) -> None:
    own = {"step": "ask", "offset": -1, "invoke_t": t - 1, "group": GROUP, "error": error}
    told.add("group_step", t, node=node, type="fail" if error else "ok", **own, **more)


def position(told: Story, node: int, **more: Any) -> None:
    told.add("committed", LATE, node=node, group=GROUP, invoke_t=LATE - 1, **more)


RULE, OTHER = "coordinator-denies", "another-coordinates"
CASES: dict[str, tuple[Any, int]] = {
    "it serves": (lambda s: step(s, LATE, 2, 0), 0),
    "it loads for ever": (lambda s: step(s, LATE, 2, 14), 1),
    "there is none": (lambda s: step(s, LATE, 2, 15), 1),
    "it is another": (lambda s: (step(s, LATE, 2, 16), step(s, LATE + 100, 2, 0)), 1),
    "a member's position": (
        lambda s: position(s, 2, type="fail", error=16),
        1,
    ),
    "amid all that happens": (lambda s: step(s, 1_100, 2, 14), 0),
    "another does not": (lambda s: (step(s, LATE, 1, 16), step(s, LATE, 2, 0)), 0),
    "to who is no member": (lambda s: step(s, LATE, 2, 25), 0),
    "who has just come back": (
        lambda s: (step(s, LATE, 2, 14), s.add("node_event", 39_000, node=2, event="resume")),
        0,
    ),
}
OTHERS: dict[str, tuple[Any, int]] = {
    "it sends away": (lambda s: step(s, LATE, 1, 16), 0),
    "it does what it is asked for": (lambda s: (step(s, LATE, 1, 0), step(s, LATE, 2, 0)), 1),
    "it gives an id": (lambda s: step(s, LATE, 1, 79), 1),
    "it knows members": (lambda s: step(s, LATE, 3, 25), 1),
    "it tells a position": (lambda s: position(s, 1, error=None, offset=5), 1),
    "it had led, and may not have heard": (lambda s: step(s, 2_000, 1, 0), 0),
    "it knows of no such partition": (lambda s: step(s, LATE, 1, 3), 0),
    "it says nothing": (
        lambda s: s.add("group_step", LATE, node=1, type="info", error=None, group=GROUP,
                        step="ask", invoke_t=LATE - 1),
        0,
    ),
    "it has just come back": (
        lambda s: (step(s, LATE, 1, 0), s.add("node_event", 39_000, node=1, event="resume")),
        0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
@judging(ruled(denying))
def test_who_does_not_coordinate_a_group_does_nothing_for_it(name: str) -> Asks:
    tell, broken = OTHERS[name]
    told = story()
    tell(told)
    found = yield told
    assert [f.rule for f in found.findings] == [OTHER] * broken


@pytest.mark.parametrize("name", CASES)
@judging(ruled(denying))
def test_who_coordinates_a_group_says_so(name: str) -> Asks:
    tell, broken = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert [f.rule for f in found.findings] == [RULE] * broken
    assert not broken or found.evidence[told.arm, 0, SERVED]


@pytest.mark.parametrize("leader", [-1, 3])
@judging(ruled(denying))
def test_who_does_not_lead_owes_nothing(leader: int) -> Asks:
    told = story(leader=leader)
    step(told, LATE, 2, 16)
    found = yield told
    assert not found.findings
