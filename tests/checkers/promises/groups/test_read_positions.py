"""Positions in what a member reads, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.groups.read_positions import READ, read_positions
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

RULE = "read-position-lost"


def step(story: Story, t: float, step: str, offset: int = -1, error: int = 0, **more: Any) -> None:
    own = {"group": "g", "node": 2, "offset": offset, "invoke_t": t - 1, "step": step}
    own |= {"error": error, "type": "fail" if error else "ok"}
    story.add("group_step", t, **{**own, **more})


def asked(story: Story, told: int, *between: tuple[str, int], after: int = 0, **by: Any) -> None:
    """Offset 5 is kept, steps with their errors follow, and then it is asked for; ``after``: what
    the member hears as it says that it lives."""
    step(story, 100, "keep", 5)
    for number, (name, error) in enumerate(between):
        step(story, 200 + 10 * number, name, error=error)
    step(story, 300, "own", told, **by)
    step(story, 400, "live", error=after)


CASES: dict[str, tuple[Any, int, int]] = {
    "it is kept": (lambda s: asked(s, 5), 0, 1),
    "a later one is kept": (lambda s: asked(s, 6), 0, 1),
    "none is": (lambda s: asked(s, -1), 1, 1),
    "one before it is": (lambda s: asked(s, 4), 1, 1),
    "none is, as all join anew": (
        lambda s: asked(s, -1, ("enter", 0), ("sync", 0), ("live", 0), after=27),
        1,
        1,
    ),
    "it was a member no more": (lambda s: asked(s, -1, ("live", 25)), 0, 0),
    "it joined as another": (lambda s: asked(s, -1, ("enter", 79), ("enter", 0)), 0, 0),
    "it is a member no more": (lambda s: asked(s, -1, after=25), 0, 1),
    "another told of none": (lambda s: asked(s, -1, node=3), 0, 0),
    "nobody told it anything": (lambda s: asked(s, -1, type="info", error=None), 0, 0),
    "as it was kept": (lambda s: asked(s, -1, invoke_t=90), 0, 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(read_positions))
def test_a_position_stays_as_long_as_who_reads_there(name: str) -> Asks:
    tell, broken, asked_for = CASES[name]
    story = Story()
    tell(story)
    found = yield story
    assert found.counts == ({RULE: broken} if broken else {})
    assert found.evidence[story.arm, 0, READ] == asked_for
