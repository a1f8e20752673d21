"""Generations that a group comes together in, and each way in which one may come twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.groups.later_generations import LATER, later_generations
from tests.checkers.conftest import Story
from tests.checkers.promises.groups import test_told_members
from tests.checkers.promises.groups.test_told_members import moved, step
from tests.checkers.together import Asks, judging, ruled

AT = 20_000
RULE = "generation-not-raised"


def story() -> Story:
    """Node 1 coordinates the group; two were given its partitions, in generation 4."""
    told = test_told_members.story()
    lets_in(told, AT, 4)
    lets_in(told, AT + 10, 4)
    step(told, AT + 100, "sync")
    step(told, AT + 120, "sync")
    return told


def lets_in(told: Story, t: float, generation: int | None, **more: Any) -> None:
    step(told, t, "enter", keep_ms=4_000, generation=generation, **more)


def anew(told: Story, generation: int | None, **more: Any) -> None:
    """It hears that another left, commits, and joins."""
    step(told, AT + 1_000, "live", 27)
    step(told, AT + 1_100, "keep", offset=1)
    lets_in(told, AT + 1_200, generation, **more)


Case = tuple[Callable[[Story], Any], str | None, int]
CASES: dict[str, Case] = {
    "in a later one": (lambda s: anew(s, 5), None, 1),
    "in the same": (lambda s: anew(s, 4), RULE, 1),
    "in an earlier one": (lambda s: anew(s, 3), RULE, 1),
    "both in the later one": (lambda s: (anew(s, 5), lets_in(s, AT + 1_210, 5)), None, 1),
    "nobody says in which": (lambda s: anew(s, None), None, 0),
    "it was not told to": (lambda s: lets_in(s, AT + 1_200, 4), None, 0),
    "refused": (lambda s: anew(s, None, type="fail", error=16), None, 0),
    "at another coordinator, which knows of no rebalance": (
        lambda s: (anew(s, None, type="fail", error=16), lets_in(s, AT + 1_300, 4, node=2)),
        *(None, 0),
    ),
    "another coordinated it meanwhile": (
        lambda s: (moved(s, AT + 1_050, 2, 1), moved(s, AT + 1_150, 1, 2), anew(s, 4)),
        *(None, 0),
    ),
    "another coordinated it before": (
        lambda s: (moved(s, AT - 5_000, 2, 1), moved(s, AT - 4_000, 1, 2), anew(s, 4)),
        *(RULE, 1),
    ),
    "forgotten, and begun anew": (
        lambda s: (
            step(s, AT + 1_000, "live", 27),
            step(s, AT + 1_100, "keep", 25),
            lets_in(s, AT + 1_200, 1),
        ),
        *(None, 0),
    ),
    "given its partitions in a generation that nobody was told of": (
        lambda s: (lets_in(s, AT + 500, 5), step(s, AT + 600, "sync", 27), anew(s, 5)),
        *(None, 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(later_generations))
def test_generations_rise(name: str) -> Asks:
    tell, rule, seen = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert found.counts == ({} if rule is None else {rule: 1})
    assert found.evidence[told.arm, 0, LATER] == seen
