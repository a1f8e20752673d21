"""What is told of a group's members, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.groups.told_otherwise import ALIKE, told_otherwise
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

RULE = "member-told-otherwise"


def told(story: Story, t: float, otherwise: str | None, step: str = "sync", **more: Any) -> None:
    own = {"group": "g", "node": 2, "offset": -1, "invoke_t": t - 1, "step": step, "error": 0}
    story.add("group_step", t, **{**own, "type": "ok", "otherwise": otherwise, **more})


CASES: dict[str, tuple[Any, int, int]] = {
    "as it was said": (lambda s: told(s, 100, ""), 0, 1),
    "another's assignment": (lambda s: told(s, 100, "b'm-2' is given to m-1"), 1, 1),
    "one of three": (
        lambda s: (told(s, 100, ""), told(s, 200, "nobody leads", "enter"), told(s, 300, "")),
        *(1, 3),
    ),
    "in each step": (
        lambda s: [told(s, 100, "wrong", step) for step in ("enter", "sync", "describe")],
        *(3, 3),
    ),
    "nobody compared it": (lambda s: told(s, 100, None, "describe", state="Stable"), 0, 0),
    "it was refused": (lambda s: told(s, 100, "wrong", type="fail", error=27), 0, 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(told_otherwise))
def test_of_members_is_told_what_they_said(name: str) -> Asks:
    tell, broken, compared = CASES[name]
    story = Story()
    tell(story)
    found = yield story
    assert found.counts == ({RULE: broken} if broken else {})
    assert found.evidence[story.arm, 0, ALIKE] == compared
