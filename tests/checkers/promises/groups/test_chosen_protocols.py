"""By which protocol a group goes, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.groups.chosen_protocols import CHOSEN, chosen_protocols
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

RULE = "protocol-otherwise"


def enters(
    story: Story, t: float, protocol: str | None, offers: str = "range", **more: Any
) -> None:
    own = {"group": "g", "node": 2, "offset": -1, "invoke_t": t - 1, "step": "enter", "error": 0}
    own |= {"type": "ok", "offers": offers, "protocol": protocol}
    story.add("group_step", t, **{**own, **more})


CASES: dict[str, tuple[Any, int, int]] = {
    "its own": (lambda s: enters(s, 100, "range"), 0, 1),
    "the second that it offers": (lambda s: enters(s, 100, "range", "sticky,range"), 0, 1),
    "a part of a name": (lambda s: enters(s, 100, "stick", "sticky,range"), 1, 1),
    "another's": (lambda s: enters(s, 100, "sticky"), 1, 1),
    "none": (lambda s: enters(s, 100, ""), 1, 1),
    "none, not even an empty one": (lambda s: enters(s, 100, None), 1, 1),
    "another's, twice": (
        lambda s: (enters(s, 100, "sticky"), enters(s, 200, "sticky"), enters(s, 300, "range")),
        *(2, 3),
    ),
    "it was not let in": (
        lambda s: enters(s, 100, None, type="fail", error=79),
        *(0, 0),
    ),
    "nobody wrote down what it offers": (
        lambda s: enters(s, 100, None, offers=None),
        *(0, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(chosen_protocols))
def test_a_group_goes_by_a_protocol_that_its_members_offer(name: str) -> Asks:
    tell, broken, told = CASES[name]
    story = Story()
    tell(story)
    found = yield story
    assert found.counts == ({RULE: broken} if broken else {})
    assert found.evidence[story.arm, 0, CHOSEN] == told
