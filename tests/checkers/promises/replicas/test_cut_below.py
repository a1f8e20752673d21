"""Who cut what it had called committed, and who may have cut what nobody did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.replicas.cut_below import cut_below
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import said_of_each

LOG = {"node": 2, "process": "node-2"}


def role(story: Story, t: float, seq: int, **more: Any) -> None:
    fields = {"boot": 1, "seq": seq, "role": "follower", "leader": 3, "leader_epoch": 3}
    story.add("leader_change", t, **{**LOG, **fields, "log_end_offset": 20, **more})


def led_and_cut() -> Story:
    """Broker 2 led, with 10 committed; it follows 3, has 12 committed, and cuts to 12."""
    story = Story()
    story.rows["leader_change"], story.rows["replica_stop"] = [], []
    role(story, 500, 3, role="leader", leader=2, leader_epoch=2, high_watermark=10)
    role(story, 3_000, 5, high_watermark=12)
    cut(story)
    return story


def cut(story: Story, to: int = 12, **more: Any) -> None:
    fields = {"boot": 1, "seq": 7, "leader_epoch": 3, "from_offset": 20, "to_offset": to}
    story.rows["truncation"] = []
    story.add("truncation", 3_100, **{**LOG, **fields, "reason": "diverging epoch", **more})


def stopped(story: Story) -> None:
    cut(story, 4)
    story.add("replica_stop", 3_050, boot=1, seq=6, delete=True, **LOG)


def fell(story: Story) -> None:
    """The watermark of its last role is lower than the one before, and lower than the cut."""
    story.rows["leader_change"][0]["high_watermark"] = 15
    cut(story, 13)


BROKEN: dict[str, Callable[[Story], Any]] = {
    "below its last": lambda s: cut(s, 11),
    "to nothing": lambda s: cut(s, 0),
    "below an earlier one": fell,
    "in its next life": lambda s: (role(s, 4_000, 3, boot=2, high_watermark=12), cut(s, 9, boot=2)),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "down to it": lambda s: None,
    "above it": lambda s: cut(s, 15),
    "in a life in which it has not said": lambda s: cut(s, 0, boot=2),
    "before it said so": lambda s: cut(s, 0, seq=2),
    "once it was stopped": stopped,
    "the head of its log": lambda s: cut(s, 4, reason="log start: deleted on request"),
    "nothing": lambda s: cut(s, 4, from_offset=4),
    "of another partition": lambda s: cut(s, 4, partition=1),
    "by a log that nobody numbered": lambda s: cut(s, 4, seq=None),
    "it never says": lambda s: (
        [r.update(high_watermark=None) for r in s.rows["leader_change"]],
        cut(s, 4),
    ),
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    def says(rows: dict[str, list[dict[str, Any]]]) -> Any:
        for found in cut_below(History.of(spark, rows, led_and_cut().run)):
            assert found.finding.rule == "cut-below-watermark"
            yield (ARM, found.finding.trial), found.finding.says

    return said_of_each({**BROKEN, **LAWFUL}, led_and_cut, says)


@pytest.mark.parametrize("why", [*BROKEN, *LAWFUL])
def test_cuts(told: dict[str, list[str]], why: str) -> None:
    assert len(told.get(why, [])) == (why in BROKEN)
