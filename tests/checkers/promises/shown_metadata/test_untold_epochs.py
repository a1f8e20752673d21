"""Leaders, or none, that are named without their leader epoch, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.shown_metadata import check
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging


def shown(story: Story, t: float, epoch: int | None, leader: int = 1, **more: Any) -> None:
    own = {"node": 3, "process": "reader", "error": 0, "leader": leader, "leader_epoch": epoch}
    story.add("metadata", t, **{**own, **more})


def may(story: Story, whether: bool = True) -> None:
    story.run["arms"][story.arm] = {"leaderless_untold": whether}


RULE = "metadata-epoch-untold"
CASES: dict[str, tuple[Any, int]] = {
    "with its epoch": (lambda s: shown(s, 200, 1), 0),
    "without": (lambda s: shown(s, 200, -1), 1),
    "without, twice": (lambda s: (shown(s, 200, -1), shown(s, 300, -1)), 2),
    "and there is no column for it": (lambda s: shown(s, 200, None), 1),
    "of another partition": (lambda s: shown(s, 200, -1, partition=1), 1),
    "no leader, with its epoch": (lambda s: shown(s, 200, 1, -1, error=5), 0),
    "no leader, without": (lambda s: shown(s, 200, -1, -1, error=3), 1),
    "no leader, by who may be of before 2.5": (lambda s: (may(s), shown(s, 200, -1, -1)), 0),
    "a leader, by who may be of before 2.5": (lambda s: (may(s), shown(s, 200, -1)), 1),
    "who asks by an older version, of nobody and a leader": (
        lambda s: (
            may(s),
            shown(s, 200, -1, -1, process="old"),
            shown(s, 300, -1, process="old"),
        ),
        0,
    ),
    "no topic": (lambda s: shown(s, 200, -1, -1, error=3, partition=None), 0),
    "to who asks by an older version": (lambda s: shown(s, 200, -1, process="old"), 0),
    "by a broker of an older release": (lambda s: shown(s, 200, -1, node=2), 0),
    "in an answer that failed": (lambda s: shown(s, 200, -1, type="fail", error=3), 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_names_a_leader_tells_its_epoch(name: str) -> Asks:
    tell, broken = CASES[name]
    story = Story()
    story.commit(10, 1, 1)
    may(story, whether=False)
    shown(story, 100, 1)
    tell(story)
    found = yield story
    assert found.counts.get(RULE, 0) == broken


@judging(check)
def test_what_releases_of_old_may_leave_out_is_counted() -> Asks:
    story = Story()
    story.commit(10, 1, 1)
    may(story)
    for t, epoch, leader in ((100, 1, 1), (200, -1, -1), (300, -1, -1)):
        shown(story, t, epoch, leader)
    found = yield story
    says = "2 partitions without a leader and its epoch: it may be of before 2.5"
    assert f"{story.arm}: {says}" in found.not_judged
