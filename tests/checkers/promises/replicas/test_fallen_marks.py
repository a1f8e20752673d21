"""High watermarks that fell within a broker's life, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.replicas.fallen_marks import fallen_marks
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging


def role(story: Story, t: float, node: int, epoch: int, mark: int, **more: Any) -> None:
    """Node 1 leads in epoch 1, 2 in epoch 2, 3 in epoch 3."""
    own = {"role": "leader" if node == epoch else "follower", "leader": epoch, "boot": 1}
    own |= {"leader_epoch": epoch, "log_end_offset": 50, "high_watermark": mark}
    story.add("leader_change", t, **{"node": node, "process": f"node-{node}", **own, **more})


def cut(story: Story, t: float, to: int, **more: Any) -> None:
    own = {"boot": 1, "leader_epoch": 2, "from_offset": 50, "to_offset": to}
    story.add("truncation", t, **{"node": 3, "process": "node-3", **own, **more})


def stopped(story: Story, *, delete: bool) -> None:
    story.add("replica_stop", 250, node=3, process="node-3", boot=1, delete=delete)


def forged(story: Story, **more: Any) -> None:
    story.add(
        "forged", 150, **{"node": 3, "api": "LEADER_AND_ISR", "lie": "future_leader_epoch", **more},
        error=0, partition_error=0, leader=1, leader_epoch=9,
    )  # fmt: skip


CASES: dict[str, tuple[Any, int]] = {
    "it rises": (lambda s: role(s, 300, 3, 3, 40), 0),
    "it stays": (lambda s: role(s, 300, 3, 3, 30), 0),
    "down to its leader's": (lambda s: role(s, 300, 3, 3, 28), 0),
    "below its leader's": (lambda s: role(s, 300, 3, 3, 27), 1),
    "to nothing": (lambda s: role(s, 300, 3, 3, 0), 1),
    "as a follower once more": (lambda s: role(s, 300, 3, 2, 5), 1),
    "with a cut": (lambda s: (cut(s, 200, 20), role(s, 300, 3, 3, 20)), 0),
    "with a cut that it tells of later": (
        lambda s: (role(s, 300, 3, 3, 20), cut(s, 310, 20)),
        0,
    ),
    "below a cut": (lambda s: (cut(s, 200, 20), role(s, 300, 3, 3, 19)), 1),
    "with a cut of another's": (
        lambda s: (cut(s, 200, 20, node=2, process="node-2"), role(s, 300, 3, 3, 20)),
        1,
    ),
    "in another boot": (lambda s: role(s, 300, 3, 3, 5, boot=2), 0),
    "at another broker": (lambda s: role(s, 300, 1, 3, 5), 0),
    "of a log that was deleted": (
        lambda s: (stopped(s, delete=True), role(s, 300, 3, 3, 5)),
        0,
    ),
    "of a log that was kept": (lambda s: (stopped(s, delete=False), role(s, 300, 3, 3, 5)), 1),
    "of a topic that is deleted": (
        lambda s: (role(s, 300, 3, 3, 5), s.add("topic_deletion", 400, step="requested")),
        0,
    ),
    "and a leader in between says nothing": (
        lambda s: (role(s, 300, 3, 4, 5), s.commit(290, 1, 4)),
        0,
    ),
    "a forger's doing": (lambda s: (forged(s), role(s, 300, 3, 3, 5)), 0),
    "and a forger is refused": (
        lambda s: (forged(s, lie="stale_controller_epoch"), role(s, 300, 3, 3, 5)),
        1,
    ),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    for found in fallen_marks(history, outcome):
        outcome.add(found.finding, found.n)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_a_high_watermark_falls_to_no_less_than_a_leaders(name: str) -> Asks:
    tell, broken = CASES[name]
    story = Story()
    for epoch in (1, 2, 3):
        story.commit(epoch, epoch, epoch)
    role(story, 100, 2, 2, 28)
    role(story, 150, 3, 2, 30)
    tell(story)
    found = yield story
    assert found.counts == ({"high-watermark-fell": broken} if broken else {})
