"""Members that are fenced although nobody came in their name; both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.groups.fenced_members import fenced_members
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

GIVEN = 10_000
FENCED, UNKNOWN = 82, 25


def given(told: Story, t: float, process: str = "m") -> Story:
    return told.add("assignment", t, process=process, group="g", event="assigned")


def commits(told: Story, t: float, error: int = 0, process: str = "m") -> Story:
    came_of = {"type": "fail" if error else "ok", "error": error, "offset": 3}
    return told.add("commit", t, process=process, group="g", invoke_t=t - 5, **came_of)


Then = Callable[[Story], object]
CASES: dict[str, tuple[Then, int]] = {
    "after something was kept": (lambda s: (commits(s, 10_500), commits(s, 11_000, FENCED)), 1),
    "twice after it": (
        lambda s: (commits(s, 10_500), commits(s, 11_000, FENCED), commits(s, 11_100, FENCED)),
        1,
    ),
    "before anything was kept": (lambda s: commits(s, 11_000, FENCED), 0),
    "before, for what was on its way as it came": (
        lambda s: (commits(s, 10_004), commits(s, 11_000, FENCED)),
        0,
    ),
    "given its partitions anew, and nothing kept": (
        lambda s: (commits(s, 10_500), given(s, 10_600), commits(s, 11_000, FENCED)),
        0,
    ),
    "asked before that was kept": (
        lambda s: (commits(s, 10_500), commits(s, 10_504, FENCED)),
        0,
    ),
    "another was kept something": (
        lambda s: (given(s, 10_100, "n"), commits(s, 10_500, 0, "n"), commits(s, 11_000, FENCED)),
        0,
    ),
    "refused as none": (lambda s: (commits(s, 10_500), commits(s, 11_000, UNKNOWN)), 0),
    "kept": (lambda s: (commits(s, 10_500), commits(s, 11_000)), 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(fenced_members))
def test_fenced_in_its_own_name(story: Any, name: str) -> Asks:
    then, found = CASES[name]
    given(story, GIVEN)
    then(story)
    outcome = yield story
    assert outcome.counts == ({"member-fenced": found} if found else {})
