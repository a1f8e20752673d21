"""What was seen of znodes, and is not so in ZooKeeper's log; and what only looks like it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.evidence.seen_znodes import unlogged
from tests.checkers.conftest import Story
from tests.checkers.promises.evidence.test_znodes import rows_alone

STATES = ((20, 1, 0, [1, 2]), (30, 2, 1, [1, 2]), (9_000, 2, 1, [2]))
"""When (ms), leader, leader epoch, in-sync set."""


def sound() -> Story:
    """A broker registers, a partition has three states, another topic is removed. All is seen."""
    story = Story()
    for node in (1, 2):
        write(story, node, "broker", "created", node=node, topic=None, partition=None)
        detail = json.dumps({"broker_epoch": node})
        story.add("node_event", 2, node=node, event="registered", detail=detail)
        story.add("source", 9_900, node=node, process=f"node-{node}", last_seq=5)
    for version, (t, leader, epoch, isr) in enumerate(STATES):
        state = {"leader": leader, "leader_epoch": epoch, "isr": isr, "controller_epoch": 1}
        write(story, t, "state", "set", partition_epoch=version, **state)
        story.commit(t + 1, **{**state, "partition_epoch": version}, commit_ms=t)
    write(story, 40, "topic", "removed", topic="gone", partition=None)
    story.add("topic_deletion", 41, topic="gone", step="gone", commit_ms=40)
    story.add("topic_deletion", 39, topic="gone", step="requested", commit_ms=39)
    story.add("isr_change", 9_001, node=2, isr=[2], leader_epoch=1, partition_epoch=2)
    story.add("final_state", 9_500, what="partition", leader=2, leader_epoch=1, isr=[2])
    return story


def write(story: Story, t: float, what: str, step: str, **more: Any) -> None:
    more = {"zxid": int(t), "commit_ms": int(t), **more}
    story.add("zk_write", t, what=what, step=step, **more)


def seen(number: int = 1, **more: Any) -> Callable[[Story], Any]:
    return lambda story: story.rows["leadership"][number].update(more)


def taken_up(**more: Any) -> Callable[[Story], Any]:
    return lambda story: story.rows["isr_change"][0].update({"seq": 1, **more})


def ended(t: float = 9_500, **more: Any) -> Callable[[Story], Any]:
    return lambda story: story.rows["final_state"][0].update(t=int(t * 1_000_000), **more)


def forged(story: Story, lie: str, error: int) -> None:
    of = {"api": "LEADER_AND_ISR", "lie": lie, "controller_epoch": 7, "leader_epoch": 1}
    story.add("forged", 32, node=2, error=error, leader=2, **of)


def role(**more: Any) -> Callable[[Story], Any]:
    fields = {"node": 2, "role": "leader", "leader": 2, "leader_epoch": 1, **more}
    return lambda story: story.add("leader_change", 31, **fields)


def moved(to: int | None = 2, t: float = 35, took_hold: bool = True, **more: Any) -> Any:
    """A fault that was to make that broker leader of the partition, and says that it did."""
    detail = json.dumps({"moves": [{"partition": "t-0", "from": 1, "to": to, **more}]})
    if to is None:
        detail = json.dumps({"moves": [{"partition": "t-0", "added": [3], "removed": [1]}]})
    step = {"fault": "move", "phase": "injected", "took_hold": took_hold, "detail": detail}
    return lambda story: story.add("fault", t, **step)


def dying(event: str, t: float, node: int = 2) -> Callable[[Story], Any]:
    def edit(story: Story) -> None:
        story.rows["isr_change"].clear()
        story.add("node_event", t, node=node, event=event)

    return edit


def followed(t: float) -> Callable[[Story], Any]:
    """By a leader who was elected then."""

    def edit(story: Story) -> None:
        story.rows["isr_change"].clear()
        new = {"leader": 1, "leader_epoch": 2, "isr": [1], "partition_epoch": 3}
        write(story, t, "state", "set", **new, controller_epoch=1)
        story.rows["final_state"].clear()

    return edit


CASES: dict[str, tuple[Callable[[Story], Any], str]] = {
    "all as it was": (lambda s: None, ""),
    "in-sync sets in another order": (seen(isr=[2, 1]), ""),
    "another leader": (seen(leader=1), "1 states of partitions were watched"),
    "another version": (seen(partition_epoch=7), "1 states of partitions were watched"),
    "another controller epoch": (seen(controller_epoch=2), "1 states of partitions were watched"),
    "another in-sync set": (seen(isr=[1, 2, 3]), "1 states of partitions were watched"),
    "another time": (seen(commit_ms=31), "1 states of partitions were watched"),
    "nobody says when": (seen(commit_ms=None, leader=1), ""),
    "by its writer": (seen(source="controller", leader=1), ""),  # `succession` holds it to that
    "before the log begins": (seen(commit_ms=1, leader=1), ""),
    "one that nobody saw": (lambda s: s.rows["leadership"].pop(1), ""),
    "gone at another time": (
        lambda s: s.rows["topic_deletion"][0].update(commit_ms=50),
        "1 topics were seen to be gone",
    ),
    "gone, and it was another": (
        lambda s: s.rows["topic_deletion"][0].update(topic="t"),
        "1 topics were seen to be gone",
    ),
    "a registration twice": (
        lambda s: s.add("node_event", 3, node=1, event="registered", detail='{"broker_epoch": 1}'),
        "1 registrations of node 1 were seen",
    ),
    "a registration more": (
        lambda s: [s.add("node_event", 3_000 + n, node=1, event="registered") for n in range(2)],
        "1 registrations of node 1 were seen",
    ),
    "a registration more, perhaps of before the log": (
        lambda s: s.add("node_event", 3, node=1, event="registered"),
        "",
    ),
    "a registration that nobody saw": (lambda s: s.rows["node_event"].pop(), ""),
    "a registration of before the log begins": (
        lambda s: s.rows["zk_write"].pop(0),
        "",
    ),
    "registrations that nobody saw": (
        lambda s: s.rows["node_event"].clear(),
        "1 brokers were never seen to register",
    ),
    "a registration of another broker epoch": (
        lambda s: s.rows["node_event"][1].update(detail='{"broker_epoch": 1}'),
        "1 registrations of node 2 were seen to have broker epoch 1",
    ),
    "a registration of no broker epoch": (
        lambda s: s.rows["node_event"][1].update(detail=None),
        "",
    ),
    "a role under its controller": (role(controller_epoch=1), ""),
    "a role under another controller": (
        role(controller_epoch=2),
        "1 roles were taken up under controller epochs",
    ),
    "a role under the first that was elected": (
        lambda s: (
            write(s, 3, "controller_epoch", "set", controller_epoch=4, topic=None, partition=None),
            role(controller_epoch=4)(s),
        ),
        "",
    ),
    "a role under nobody": (
        lambda s: (
            write(
                s, 0, "controller_epoch", "created", controller_epoch=0, topic=None, partition=None
            ),
            role(controller_epoch=0)(s),
        ),
        "1 roles were taken up under controller epochs",
    ),
    "a role under one that a forger made up": (
        lambda s: (role(controller_epoch=7)(s), forged(s, "future_controller_epoch", 0)),
        "",
    ),
    "a role under one that a forger made up in vain": (
        lambda s: (role(controller_epoch=7)(s), forged(s, "future_controller_epoch", 11)),
        "1 roles were taken up under controller epochs",
    ),
    "a role of another under one that a forger made up": (
        lambda s: (role(controller_epoch=7, node=1)(s), forged(s, "future_controller_epoch", 0)),
        "1 roles were taken up under controller epochs",
    ),
    "a role under nobody knows whom": (role(), ""),
    "an in-sync set that its leader does not know": (
        lambda s: s.rows["isr_change"].clear(),
        "1 in-sync sets were not taken up by their leaders",
    ),
    "an in-sync set that another knows": (
        lambda s: s.rows["isr_change"][0].update(node=1),
        "1 in-sync sets were not taken up by their leaders",
    ),
    "an in-sync set as it was taken up": (taken_up(), ""),
    "an in-sync set, taken up in another leader epoch": (
        taken_up(leader_epoch=2),
        "1 in-sync sets were taken up",
    ),
    "an in-sync set, of which another was taken up": (
        taken_up(isr=[1, 2]),
        "1 in-sync sets were taken up",
    ),
    "an in-sync set, taken up in another way by who does not number it": (
        taken_up(leader_epoch=2, seq=None),
        "",
    ),
    "an in-sync set of who was killed then": (dying("kill", 9_002), ""),
    "an in-sync set, and another was killed then": (
        dying("kill", 9_002, node=1),
        "1 in-sync sets were not taken up by their leaders",
    ),
    "an in-sync set of who was paused": (dying("pause", 8_000), ""),
    "an in-sync set of who was killed long before": (
        dying("kill", 100),
        "1 in-sync sets were not taken up by their leaders",
    ),
    "an in-sync set of who is followed at once": (followed(9_006), ""),
    "an in-sync set of who tells nothing by numbers": (
        lambda s: (s.rows["isr_change"].clear(), s.rows["source"][1].update(last_seq=None)),
        "",
    ),
    "a leader was moved": (moved(), ""),
    "to who never led": (moved(to=3), "1 moves of leaders were put in place"),
    "of another partition": (moved(partition="t-7"), "1 moves of leaders were put in place"),
    "before it was": (moved(t=25), "1 moves of leaders were put in place"),
    "that did not take hold": (moved(to=3, took_hold=False), ""),
    "replicas were moved": (moved(to=None), ""),
    "another leader in the end": (ended(leader=1), "1 states of partitions were read in the end"),
    "an in-sync set of before": (ended(isr=[1, 2]), ""),  # it was so a moment ago
    "an in-sync set of long before": (
        ended(t=12_000, isr=[1, 2]),
        "1 states of partitions were read in the end",
    ),
    "a leader of long before": (
        ended(leader=1, leader_epoch=0, isr=[1, 2]),
        "1 states of partitions were read in the end",
    ),
    "of a topic that the log does not have": (ended(topic="u", leader=3), ""),
    "of a topic that the log of all does not have": (
        lambda s: (
            write(s, 0, "controller_epoch", "created", topic=None, partition=None),
            ended(topic="u", leader=3)(s),
        ),
        "1 states of partitions were read in the end",
    ),
    "nobody reads the log": (
        lambda s: (s.rows["zk_write"].clear(), s.rows["leadership"][0].update(leader=9)),
        "",
    ),
}


@pytest.mark.parametrize("how", CASES)
def test_what_was_seen_is_in_the_log(how: str) -> None:
    edit, says = CASES[how]
    story = sound()
    edit(story)
    found = [why for _, why in unlogged(rows_alone(story.rows))]
    assert [why.partition(", and by")[0] for why in found] == ([says] if says else [])
