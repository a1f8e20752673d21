"""Members whose group another broker coordinates now: known to it, or denied; both ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from checkers.promises.groups.known_members import KNOWN, known_members
from checkers.promises.groups.offices import OFFSETS_TOPIC
from tests.checkers.conftest import Story
from tests.checkers.promises.groups import steps
from tests.checkers.together import Asks, judging, ruled

SESSION = 4_000
MOVED = 20_000
"""From node 1 to node 2."""
ILLEGAL, UNKNOWN, REBALANCE, ELSEWHERE = 22, 25, 27, 16
step = partial(steps.step, session_ms=SESSION)


def story() -> Story:
    told = Story()
    told.commit(1_000, 1, 0, topic=OFFSETS_TOPIC, partition=0)
    told.commit(MOVED, 2, 1, topic=OFFSETS_TOPIC, partition=0)
    step(told, 10_000, "enter")
    step(told, MOVED - 100, "live")
    step(told, MOVED - 50, "live", ELSEWHERE, node=2)
    return told


def denied(told: Story, t: float = MOVED + 200, error: int = ILLEGAL, **more: Any) -> None:
    step(told, t, "live", error, **{"node": 2, **more})


def paused(told: Story, node: int) -> None:
    for at, phase in ((MOVED - 900, "inject"), (MOVED - 890, "injected"), (MOVED - 500, "healed")):
        more = {"phase": phase, "detail": "{}", "nodes": [node]}
        told.add("fault", at, id="p", fault="pause", took_hold=True, **more)


CASES: dict[str, tuple[Callable[[Story], Any], str | None, int]] = {
    "goes on": (lambda s: step(s, MOVED + 200, "live", node=2), None, 1),
    "of another generation": (denied, "member-denied", 0),
    "no member": (lambda s: denied(s, error=UNKNOWN), "member-denied", 0),
    "just within its session": (
        lambda s: denied(s, MOVED + SESSION - 150),
        "member-denied",
        0,
    ),
    "not heard of for a session": (lambda s: denied(s, MOVED + SESSION), None, 0),
    "told to join anew": (
        lambda s: (step(s, MOVED - 20, "live", REBALANCE), denied(s)),
        None,
        0,
    ),
    "has joined anew": (lambda s: (step(s, MOVED - 20, "enter", None), denied(s)), None, 0),
    "another asks to join meanwhile": (
        lambda s: (denied(s), step(s, MOVED + 900, "enter", invoke_t=MOVED + 100)),
        None,
        0,
    ),
    "told by who coordinates it no more": (lambda s: denied(s, node=1), None, 0),
    "told by who had stood still": (lambda s: (paused(s, 2), denied(s)), None, 0),
    "told after the other had stood still": (
        lambda s: (paused(s, 1), denied(s)),
        "member-denied",
        0,
    ),
    "still being read": (lambda s: denied(s, error=14), None, 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(known_members))
def test_who_is_a_member_of_a_group_that_moved(name: str) -> Asks:
    tell, rule, known = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert found.counts == ({} if rule is None else {rule: 1})
    assert found.evidence[told.arm, 0, KNOWN] == known
