"""Who came into sync and cut its log afterwards, and who may have cut it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.replicas.cut_in_sync import cut_in_sync
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import said_of_each


def states(story: Story, *of: tuple[int, int, list[int]]) -> None:
    """Time (ms), leader epoch and in-sync set, led by 1."""
    story.rows["leadership"] = []
    for version, (t, epoch, isr) in enumerate(of):
        story.commit(t, 1, epoch, isr=isr, partition_epoch=version)


def joined_and_cut() -> Story:
    """Broker 2 was out, came into sync in leader epoch 3 at 2000, and cut its log at 2300."""
    story = Story()
    states(story, (500, 2, [1, 2, 3]), (1_000, 3, [1, 3]), (2_000, 3, [1, 2, 3]))
    cut(story)
    return story


def cut(story: Story, t: float = 2_300, **more: Any) -> None:
    fields = {"node": 2, "process": "node-2", "boot": 1, "seq": 5, "leader_epoch": 3}
    story.rows["truncation"] = []
    offsets = {"from_offset": 10, "to_offset": 4, "reason": "diverging epoch"}
    story.add("truncation", t, **{**fields, **offsets, **more})


BROKEN: dict[str, Callable[[Story], Any]] = {
    "after it had joined": lambda s: None,
    "before another joined": lambda s: states(
        s, (1_000, 3, [1]), (2_000, 3, [1, 2]), (2_200, 3, [1, 2, 3])
    ),
    "long after it had joined": lambda s: cut(s, 9_000),
    "after it had left and come again": lambda s: states(
        s, (1_000, 3, [1, 3]), (1_500, 3, [1, 2, 3]), (1_600, 3, [1, 3]), (2_000, 3, [1, 2, 3])
    ),
    "as another began anew": lambda s: s.add("node_event", 2_100, node=3, event="start"),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "before it joined": lambda s: cut(s, 1_990),
    "in sync from the epoch's beginning": lambda s: states(
        s, (500, 2, [1, 2, 3]), (1_000, 3, [1, 2, 3]), (2_000, 3, [1, 2])
    ),
    "after it had left again": lambda s: states(
        s, (1_000, 3, [1, 3]), (2_000, 3, [1, 2, 3]), (2_200, 3, [1, 3])
    ),
    "in a later leader epoch": lambda s: cut(s, leader_epoch=4),
    "as it began anew": lambda s: s.add("node_event", 2_100, node=2, event="start"),
    "another, which is out": lambda s: cut(s, node=4),
    "the head of its log": lambda s: cut(s, reason="log start: deleted on request"),
    "by a log that nobody numbered": lambda s: cut(s, seq=None),
    "nothing": lambda s: cut(s, from_offset=4),
    "of another partition": lambda s: cut(s, partition=1),
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    def says(rows: dict[str, list[dict[str, Any]]]) -> Any:
        for found in cut_in_sync(History.of(spark, rows, joined_and_cut().run)):
            assert found.finding.rule == "cut-in-sync"
            yield (ARM, found.finding.trial), found.finding.says

    return said_of_each({**BROKEN, **LAWFUL}, joined_and_cut, says)


@pytest.mark.parametrize("why", [*BROKEN, *LAWFUL])
def test_cuts(told: dict[str, list[str]], why: str) -> None:
    assert len(told.get(why, [])) == (why in BROKEN)
