"""Who cut what its leader had given it, and who may have cut what another had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.replicas.cut_while_fetching import cut_while_fetching
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import said_of_each


def role(story: Story, t: float, seq: int, **more: Any) -> None:
    fields = {"node": 2, "process": "node-2", "boot": 1, "seq": seq, "role": "follower"}
    story.add("leader_change", t, **{**fields, "leader": 3, "log_end_offset": 10, **more})


def fetched_and_cut() -> Story:
    """Broker 2 follows 1, which dies, and then 3, from offset 10 on; it has 15, and cuts to 12."""
    story = Story()
    story.rows["leader_change"], story.rows["truncation"] = [], []
    role(story, 500, 3, leader=1, leader_epoch=2, log_end_offset=0)
    role(story, 3_000, 5, leader_epoch=3)
    cut(story)
    story.add("node_event", 1_000, node=1, event="kill")
    return story


def cut(story: Story, t: float = 3_100, **more: Any) -> None:
    fields = {"node": 2, "process": "node-2", "boot": 1, "seq": 7, "leader_epoch": 3}
    offsets = {"from_offset": 15, "to_offset": 12, "reason": "diverging epoch"}
    story.rows["truncation"] = []
    story.add("truncation", t, **{**fields, **offsets, **more})


def without_the_first(story: Story, *more: Callable[[Story], Any]) -> None:
    story.rows["leader_change"] = [r for r in story.rows["leader_change"] if r["seq"] != 3]
    for change in more:
        change(story)


def as_last(**more: Any) -> Callable[[Story], Any]:
    def change(story: Story) -> None:
        story.rows["leader_change"][-1].update(more)

    return change


leads = as_last(role="leader", leader=2)


def killed_at(t: float) -> Callable[[Story], Any]:
    def change(story: Story) -> None:
        story.rows["node_event"] = []
        story.add("node_event", t, node=1, event="kill")

    return change


def led_itself(story: Story) -> None:
    without_the_first(story)
    role(story, 500, 3, role="leader", leader=2, leader_epoch=2, log_end_offset=0)
    story.rows["node_event"] = []


def one_more_role(story: Story) -> None:
    """Told again in the same leader epoch: it has fetched from 3 since."""
    role(story, 3_050, 6, leader_epoch=3, log_end_offset=13)


BROKEN: dict[str, Callable[[Story], Any]] = {
    "the leader before was gone": lambda s: None,
    "below where it had begun": lambda s: cut(s, to_offset=4),
    "by whatever reason": lambda s: cut(s, reason=None),
    "it had just been started": lambda s: without_the_first(s, killed_at(9_000)),
    "it had led itself": led_itself,
    "in its next life": lambda s: (cut(s, boot=2), as_last(boot=2)(s), killed_at(9_000)(s)),
}
LED: dict[str, Callable[[Story], Any]] = {
    "a leader": leads,
    "a leader, in whatever epoch": lambda s: (leads(s), cut(s, leader_epoch=4)),
    "a leader, what it began with": lambda s: (leads(s), cut(s, from_offset=10, to_offset=4)),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "as it begins": lambda s: cut(s, from_offset=10, to_offset=4),
    "twice as it begins": lambda s: cut(s, from_offset=7, to_offset=4),
    "the leader before still answered": killed_at(2_500),
    "the leader before lives": killed_at(9_000),
    "told again, of a fetch that was under way": one_more_role,
    "in another leader epoch": lambda s: cut(s, leader_epoch=4),
    "in another life": lambda s: cut(s, boot=2),
    "before it was told": lambda s: cut(s, seq=4),
    "a leader, the head of its log": lambda s: (leads(s), cut(s, reason="log start: retention")),
    "a leader, before it led": lambda s: (leads(s), cut(s, seq=4)),
    "a leader, in another life": lambda s: (leads(s), cut(s, boot=2)),
    "a leader, nothing": lambda s: (leads(s), cut(s, from_offset=12)),
    "it does not say where its log ended": as_last(log_end_offset=None),
    "the head of its log": lambda s: cut(s, reason="log start: deleted on request"),
    "by a log that nobody numbered": lambda s: cut(s, seq=None),
    "nothing": lambda s: cut(s, from_offset=12),
    "of another partition": lambda s: cut(s, partition=1),
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    def says(rows: dict[str, list[dict[str, Any]]]) -> Any:
        for found in cut_while_fetching(History.of(spark, rows, fetched_and_cut().run)):
            yield (ARM, found.finding.trial), found.finding.rule

    return said_of_each({**BROKEN, **LED, **LAWFUL}, fetched_and_cut, says)


@pytest.mark.parametrize("why", [*BROKEN, *LED, *LAWFUL])
def test_cuts(told: dict[str, list[str]], why: str) -> None:
    wanted = ["cut-while-fetching"] * (why in BROKEN) + ["cut-while-leading"] * (why in LED)
    assert told.get(why, []) == wanted
