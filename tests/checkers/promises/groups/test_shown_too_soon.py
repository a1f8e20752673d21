"""Positions that are told of before they are kept, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.groups.shown_too_soon import SEEN, shown_too_soon
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

RULE = "shown-before-kept"
ASKED, REFUSED = 10_000, 10_400
NOT_COORDINATOR = 16


def story(**answer: Any) -> Story:
    """Node 1 is asked to keep 7, has kept 6, and refuses."""
    told = Story()
    fields = {"node": 1, "group": "g", "type": "fail", "error": NOT_COORDINATOR}
    told.add(
        "group_step",
        REFUSED,
        step="raise",
        offset=7,
        **{**fields, "invoke_t": ASKED, **answer},
    )
    return told


def see(told: Story, t: float, offset: int, **more: Any) -> None:
    fields = {"node": 1, "group": "g", "type": "ok", "error": 0, "invoke_t": t - 5}
    told.add("group_step", t, step="see", offset=offset, **{**fields, **more})


CASES = {
    "told of the one before": (story(), lambda s: see(s, 10_200, 6), 1, 0),
    "told of what it refused": (story(), lambda s: see(s, 10_200, 7), 1, 1),
    "told of both": (story(), lambda s: (see(s, 10_100, 6), see(s, 10_200, 7)), 2, 1),
    "told after its answer": (story(), lambda s: see(s, REFUSED + 100, 7), 0, 0),
    "asked before": (story(), lambda s: see(s, 10_200, 7, invoke_t=ASKED - 10), 0, 0),
    "told by another": (story(), lambda s: see(s, 10_200, 7, node=2), 0, 0),
    "another group": (story(), lambda s: see(s, 10_200, 7, group="h"), 0, 0),
    "it was kept": (story(type="ok", error=0), lambda s: see(s, 10_200, 7), 0, 0),
    "nobody knows": (story(type="info", error=None), lambda s: see(s, 10_200, 7), 0, 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(shown_too_soon))
def test_a_position_is_told_of_when_it_is_kept(name: str) -> Asks:
    told, tell, seen, broken = CASES[name]
    tell(told)
    found = yield told
    assert found.counts == ({RULE: broken} if broken else {})
    assert found.evidence[told.arm, 0, SEEN] == seen
