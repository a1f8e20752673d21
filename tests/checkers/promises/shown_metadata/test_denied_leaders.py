"""Leaders that are said to be missing by who names them as live, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.shown_metadata import check
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

RULE = "metadata-leader-denied"


def shown(story: Story, t: float, leader: int, *live: int, **more: Any) -> None:
    """One answer about two partitions; its live brokers stand with the other one."""
    own = {"node": 3, "process": "reader", "leader_epoch": 1, "invoke_t": t - 1}
    error = 0 if leader >= 0 else 5
    story.add("metadata", t, **{**own, "error": error, "leader": leader, **more})
    other = {"error": 0, "leader": 1, "partition": 1, "brokers": list(live) or None}
    story.add("metadata", t, **{**own, **other, "node": more.get("node", 3)})


def denied(story: Story, *times: float, live: tuple[int, ...] = (1, 2, 3), **more: Any) -> None:
    for t in times:
        shown(story, t, -1, *live, **more)


CASES: dict[str, tuple[Any, int]] = {
    "the leader": (lambda s: (shown(s, 200, 1, 1, 2, 3), shown(s, 300, 1, 1, 2, 3)), 0),
    "none, twice": (lambda s: denied(s, 200, 300), 1),
    "none, three times": (lambda s: denied(s, 200, 300, 400), 2),
    "none, once": (lambda s: denied(s, 200), 0),
    "none, twice apart": (
        lambda s: (denied(s, 200), shown(s, 300, 1, 1, 2, 3), denied(s, 400)),
        0,
    ),
    "none, and it is not named as live": (lambda s: denied(s, 200, 300, live=(2, 3)), 0),
    "none, and nobody is named as live": (lambda s: denied(s, 200, 300, live=()), 0),
    "none, for want of a listener": (lambda s: denied(s, 200, 300, error=72), 0),
    "none, of an epoch without one": (lambda s: denied(s, 200, 300, leader_epoch=2), 0),
    "none, by two brokers": (lambda s: (denied(s, 200), denied(s, 300, node=2)), 0),
    "none, of a topic that is deleted": (
        lambda s: (s.add("topic_deletion", 150, step="requested"), denied(s, 200, 300)),
        0,
    ),
    "none, as a forger told it": (
        lambda s: (
            s.add(
                "forged", 150, node=3, api="UPDATE_METADATA", lie="future_leader_epoch", error=0,
                leader=-1, leader_epoch=1,
            ),
            denied(s, 200, 300),
        ),
        0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_names_a_leader_as_live_does_not_hide_it(name: str) -> Asks:
    tell, broken = CASES[name]
    story = Story()
    for partition in (0, 1):
        story.commit(10, 1, 1, partition=partition)
        story.commit(1000, -1, 2, partition=partition)
    tell(story)
    found = yield story
    assert found.counts.get(RULE, 0) == broken
