"""What is told of the members of a stable group, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.groups.described_members import DESCRIBED, described_members
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

RULE = "members-untold"


def described(story: Story, t: float, untold: int | None = 0, node: int = 2, **more: Any) -> None:
    own = {"group": "g", "node": node, "offset": -1, "invoke_t": t - 1, "step": "describe"}
    own |= {"error": 0, "state": "Stable", "untold": untold}
    story.add("group_step", t, **{"type": "ok", **own, **more})


CASES: dict[str, tuple[Any, int, int]] = {
    "all is told": (lambda s: described(s, 100), 0, 1),
    "of one nothing": (lambda s: described(s, 100, 1), 1, 1),
    "of one nothing, twice": (lambda s: (described(s, 100, 1), described(s, 200, 1)), 2, 2),
    "by another broker": (
        lambda s: (described(s, 100), described(s, 200, 2, node=3), described(s, 300)),
        1,
        3,
    ),
    "nobody is told": (lambda s: described(s, 100, None, step="look"), 0, 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(described_members))
def test_who_is_told_of_a_stable_group_is_told_of_its_members(name: str) -> Asks:
    tell, broken, asked = CASES[name]
    story = Story()
    tell(story)
    found = yield story
    assert found.counts == ({RULE: broken} if broken else {})
    assert found.evidence[story.arm, 0, DESCRIBED] == asked
