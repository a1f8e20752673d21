"""Positions in topics that are deleted: gone with them, and each way in which one may be told all
the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.topic_deletion import check
from checkers.promises.topic_deletion.outlived_positions import OUTLIVED
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import Asks, judging

ASKED, STOPPED, GONE = 20_000, 20_200, 20_400
RULE = "position-outlived-topic"


def step(told: Story, t: float, what: str, offset: int, **more: Any) -> None:
    fields = {"node": 1, "group": "g", "process": "riser", "type": "ok", "error": 0}
    told.add("group_step", t, step=what, offset=offset, **{**fields, "invoke_t": t - 5, **more})


def story() -> Story:
    """Node 1 coordinates the group, and keeps 7 for it in a topic that is deleted."""
    told = Story()
    workload = {"process": "riser", "role": "group-riser", "topics": {"t": [0]}}
    told.run["trials"] = [{"arm": ARM, "trial": 0, "workloads": [workload]}]
    step(told, ASKED - 500, "raise", 7)
    step(told, ASKED - 300, "see", 7)
    told.add("topic_deletion", ASKED, topic="t", step="requested")
    for node in (1, 2):
        stop = {"topic": "t", "partition": 0, "delete": True, "leader_epoch": -2}
        told.add("replica_stop", STOPPED, node=node, **stop)
    told.add("topic_deletion", GONE, topic="t", step="gone")
    return told


def moved(told: Story, t: float, to: int = 2) -> None:
    """From node 1, which had coordinated all groups."""
    for at, leader, epoch in ((0, 1, 4), (t, to, 5)):
        told.commit(at, leader, epoch, topic="__consumer_offsets", partition=0)


def next_tells(told: Story, offset: int = 7, *, t: float = STOPPED + 5_100, **more: Any) -> None:
    """The next coordinator, which took over then, is asked a few seconds later."""
    moved(told, t)
    step(told, t + 3_000, "see", offset, **{"node": 2, **more})


CASES: dict[str, tuple[Callable[[Story], Any], int, int]] = {
    "told of none": (lambda s: step(s, GONE + 100, "see", -1), 0, 1),
    "told as before": (lambda s: step(s, GONE + 100, "see", 7), 1, 1),
    "told before it is gone, and after its replica is": (
        lambda s: step(s, STOPPED + 100, "see", 7),
        *(1, 1),
    ),
    "told of as of its namesake": (
        lambda s: (step(s, GONE + 200, "raise", 9), step(s, GONE + 300, "see", 9)),
        *(0, 1),
    ),
    "kept while it was being deleted": (
        lambda s: (step(s, ASKED + 100, "raise", 8), step(s, GONE + 300, "see", 8)),
        *(0, 1),
    ),
    "asked for before its replica was gone": (
        lambda s: step(s, STOPPED + 100, "see", 7, invoke_t=STOPPED - 10),
        *(0, 0),
    ),
    "told by another, who coordinates it by now": (
        lambda s: step(s, GONE + 100, "see", 7, node=2),
        *(0, 0),
    ),
    "told by the next coordinator": (next_tells, 1, 1),
    "told by the next, as of its namesake": (
        lambda s: (step(s, GONE + 200, "raise", 9), next_tells(s, 9)),
        *(0, 1),
    ),
    "the next tells of none": (lambda s: next_tells(s, -1), 0, 1),
    "the next took over soon": (lambda s: next_tells(s, t=STOPPED + 4_900), 0, 0),
    "the next took over as the topic was deleted": (
        lambda s: next_tells(s, t=ASKED - 100),
        *(0, 0),
    ),
    "groups have several coordinators": (
        lambda s: (
            next_tells(s),
            s.commit(0, 3, 1, topic="__consumer_offsets", partition=1),
        ),
        *(0, 0),
    ),
    "refused": (lambda s: step(s, GONE + 100, "see", -1, type="fail", error=16), 0, 0),
    "of somebody else's topic": (
        lambda s: step(s, GONE + 100, "see", 7, process="other"),
        *(0, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_positions_go_with_their_topic(name: str) -> Asks:
    tell, broken, asked = CASES[name]
    told = story()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == [RULE] * broken
    assert outcome.evidence[ARM, 0, OUTLIVED] == asked
