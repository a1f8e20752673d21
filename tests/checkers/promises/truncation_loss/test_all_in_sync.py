"""acks=all says that all in sync have it: whoever does not run has nothing new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.truncation_loss import check
from checkers.promises.truncation_loss.all_in_sync import UNABLE
from tests.checkers.conftest import ARM, Story, judged_together

DOWN, DROPPED, BACK, GROWN = 500, 1_000, 1_500, 2_000
"""When (ms) broker 2 ended, was committed out of the set, began again, and was in sync again."""


def one_down(event: str = "kill", *, elects: bool = False) -> Story:
    story = Story()
    story.run["topics"] = {"t": {"configs": {"min.insync.replicas": "1"}}}
    replicas = [1, 2, 3]
    common = {"leader": 1, "controller_epoch": 1, "leader_epoch": 0}
    story.add("zk_write", 0, what="topic", step="created", zxid=1, replicas=replicas)
    states = [(0, [1, 2, 3]), (DROPPED, [1, 3]), (GROWN, [1, 3, 2])]
    if elects:  # another leads meanwhile, and 2 stays in sync at first
        states.insert(1, (700, [3, 2]))
        states[2] = (DROPPED, [3])
    for version, (t, isr) in enumerate(states):
        own = {"leader": isr[0], "leader_epoch": version} if elects else {}
        step = "set" if version else "created"
        story.add(
            "zk_write", t, what="state", step=step, zxid=10 + version, isr=isr,
            partition_epoch=version, commit_ms=t, **{**common, **own},
        )  # fmt: skip
    story.add("node_event", 10, node=2, event="start")
    story.add("node_event", DOWN, node=2, event=event)
    story.add("node_event", BACK, node=2, event="resume" if event == "pause" else "start")
    story.final_log({0: 1})
    return story


def acked(story: Story, invoke_t: float, t: float, acks: int = -1, **more: Any) -> Story:
    story.produce(t, 1, 0, acks, invoke_t=invoke_t, **more)
    return story


BROKEN: dict[str, Callable[[], Story]] = {
    "while it is dead": lambda: acked(one_down(), 600, 700),
    "while it is paused": lambda: acked(one_down("pause"), 600, 700),
    "just after it ended": lambda: acked(one_down(), 501, 505),
    "just before it is dropped": lambda: acked(one_down(), 990, 998),
    "by another leader that has it in sync": lambda: acked(one_down(elects=True), 750, 800),
    "by one after the other": lambda: acked(one_down(elects=True), 600, 800),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "offered before": lambda: acked(one_down(), 499, 600),
    "answered after it was dropped": lambda: acked(one_down(), 600, 1_001),
    "offered after it was dropped": lambda: acked(one_down(), 1_100, 1_200),
    "acks=1": lambda: acked(one_down(), 600, 700, acks=1),
    "nobody knows": lambda: acked(one_down(), 600, 700, type="info"),
    "a controlled stop has begun": lambda: acked(one_down("stop"), 600, 700),
}


def again_before_it_is_dropped() -> Story:
    story = acked(one_down(), 600, 700)
    story.rows["node_event"][-1]["t"] = 650_000_000
    return story


def another_partition() -> Story:
    story = one_down()
    story.final_log({0: 2}, partition=1)
    story.produce(700, 2, 0, -1, invoke_t=600, partition=1)
    return story


def a_write_is_missing() -> Story:
    """Whether it was out of the set, and in it again, nobody can say."""
    story = acked(one_down(), 600, 700)
    for row in story.rows["zk_write"][2:]:
        row["partition_epoch"] += 1
    return story


def a_forger_was_believed() -> Story:
    story = acked(one_down(), 600, 700)
    story.add("forged", 400, node=1, api="LEADER_AND_ISR", lie="future_leader_epoch", error=0,
              partition_error=0, leader=1, leader_epoch=9)  # fmt: skip
    return story


LAWFUL["a write is missing"] = a_write_is_missing
LAWFUL["a forger was believed"] = a_forger_was_believed
LAWFUL["answered after it ran again"] = again_before_it_is_dropped
LAWFUL["another partition"] = another_partition


@pytest.fixture(scope="module")
def judged(spark: Any) -> dict[str, Any]:
    made = {name: make() for name, make in (BROKEN | LAWFUL).items()}
    return judged_together(spark, check, made)


@pytest.mark.parametrize("name", BROKEN)
def test_who_does_not_run_has_nothing_new(judged: Any, name: str) -> None:
    assert judged[name][0] == {"acked-without-in-sync": 1}


@pytest.mark.parametrize("name", LAWFUL)
def test_what_looks_alike_is_lawful(judged: Any, name: str) -> None:
    assert judged[name][0] == {}


def test_what_was_offered_meanwhile_is_evidence(spark: Any) -> None:
    story = acked(one_down(), 600, 700, type="info")
    acked(story, 600, 1_001)
    acked(story, 1_100, 1_200)
    assert check(story.history(spark)).evidence[ARM, 0, UNABLE] == 2
