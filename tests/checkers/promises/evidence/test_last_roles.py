"""Who tells of no role in the last leader epoch, though it was in sync to the end; both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.evidence.last_roles import without_roles
from tests.checkers.conftest import Story

CALM = 60_000


def told(*nodes: int, end: float = CALM) -> Story:
    """Node 2 leads 1 and 3 from 1 s on; those that are named tell of their roles."""
    story = Story()
    for node in (1, 2, 3):
        story.add("node_event", 1, node=node, event="ready")
        role(story, 510, node, 0)
    story.commit(500, 1, 0)
    story.commit(1_000, 2, 1)
    for node in nodes:
        role(story, 1_010, node, 1)
    story.add("phase", end, name="settle", event="end")
    return story


def role(story: Story, t: float, node: int, epoch: int) -> None:
    story.add("leader_change", t, node=node, role="follower", leader=2, leader_epoch=epoch)


def also(story: Story, kind: str, t: float, **fields: Any) -> Story:
    story.add(kind, t, **fields)
    return story


def shrunk(story: Story) -> Story:
    story.commit(2_000, 2, 1, isr=[1, 2], partition_epoch=2)
    return story


def silent() -> Story:
    story = told()
    del story.rows["leader_change"]
    return story


def shown(story: Story) -> Story:
    for row in story.rows["leadership"]:
        row["source"] = "shown"
    return story


STORIES: dict[str, tuple[Story, list[int]]] = {
    "all do": (told(1, 2, 3), []),
    "a follower does not": (told(1, 2), [3]),
    "the leader does not": (told(1, 3), [2]),
    "who is out of sync does not": (shrunk(told(1, 2)), []),
    "who is just back in sync does not": (
        also(shrunk(told(1, 2)), "leadership", CALM - 2_000, leader=2, leader_epoch=1,
             partition_epoch=3, isr=[1, 2, 3], source="zk"),
        [],
    ),
    "of an epoch that has just begun": (
        also(told(1, 2, 3), "leadership", CALM - 2_000, leader=3, leader_epoch=2,
             partition_epoch=2, isr=[1, 2, 3], source="zk"),
        [],
    ),
    "an epoch that began after the end": (
        also(told(1, 2), "leadership", CALM + 2_000, leader=3, leader_epoch=2,
             partition_epoch=2, isr=[1, 2, 3], source="zk"),
        [3],
    ),
    "who ended": (also(told(1, 2), "node_event", CALM - 5_000, node=3, event="kill"), []),
    "of a topic that is deleted": (
        also(told(1, 2), "topic_deletion", 30_000, step="requested"),
        [],
    ),
    "no broker tells of any": (silent(), []),
    "nobody could read what was committed": (shown(told(1, 2)), []),
    "the load ended at once": (told(1, 2, end=3_000), []),
}  # fmt: skip


@pytest.mark.parametrize("name", STORIES)
def test_who_tells_of_no_role(spark: Any, name: str) -> None:
    story, nodes = STORIES[name]
    found = [says for _, says in without_roles(story.history(spark))]
    assert [int(says.split()[1]) for says in found] == nodes
