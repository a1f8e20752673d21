"""What copies of a metadata log say, of themselves and of those who act on it: for `epochs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.promises.epochs import check
from tests.checkers.conftest import Story, judged_together

STATES = [(1, 0, [1, 2, 3]), (2, 1, [2, 3]), (2, 1, [1, 2, 3])]
OTHER = "1" * 8


def decided(*lone: dict[str, Any], nodes: tuple[int, ...] = (1, 2, 3)) -> Story:
    """1 leads in epoch 0, then 2 in epoch 1; its set shrinks and grows. What is ``lone`` node 1
    tells in place of what it has at that partition epoch."""
    instead = {one["partition_epoch"]: one for one in lone}
    story = Story()
    for version, (leader, epoch, isr) in enumerate(STATES):
        for node in nodes:
            own = {"isr": isr, "partition_epoch": version, "incarnation": "0", "elr": []}
            own |= {"process": f"node-{node}", "source": "controller", "controller_epoch": 1}
            own |= {"replicas": [1, 2, 3]}
            own |= instead.get(version, {}) if node == 1 else {}
            story.commit(version, leader, epoch, **own)
    return story


def added(story: Story, version: int, leader: int = 2, epoch: int = 1, **more: Any) -> Story:
    """One more state, in two copies."""
    for node in (1, 2):
        own = {"isr": [1, 2, 3], "partition_epoch": version, "incarnation": "0"}
        own |= {"process": f"node-{node}", "source": "controller", "controller_epoch": 1, **more}
        story.commit(50 + version, leader, epoch, **own)
    return story


def replaced(story: Story) -> Story:
    """The end of node 1's copy was cut off, and it has what was committed since."""
    own = {"isr": [2, 3], "partition_epoch": 1, "incarnation": "0", "controller_epoch": 1}
    story.commit(40, 2, 1, process="node-1", source="controller", **own)
    return story


def role(story: Story, node: int, leader: int, epoch: int, **more: Any) -> Story:
    what = "leader" if node == leader else "follower"
    own = {"node": node, "role": what, "leader": leader, "leader_epoch": epoch, **more}
    story.add("leader_change", 90, **own)
    return story


def cached(story: Story, leader: int, epoch: int) -> Story:
    story.add("metadata_update", 90, node=3, leader=leader, leader_epoch=epoch)
    return story


def counts_on(story: Story, version: int, *isr: int, epoch: int = 1, node: int = 2) -> Story:
    own = {"isr": list(isr), "leader_epoch": epoch, "partition_epoch": version}
    story.add("isr_change", 90, node=node, **own)
    return story


def made_anew(
    *, asked_ms: float | None = None, about: str = "t", told: bool = True, **more: Any
) -> Story:
    """The topic has another id at 60 ms."""
    story = decided()
    if told:
        story.add("admin_request", 1, api="CREATE_TOPICS", about="t")
    if asked_ms is not None:
        story.add("admin_request", asked_ms, api="DELETE_TOPICS", about=about)
    for node in (1, 2):
        own = {"isr": [1, 2, 3], "partition_epoch": 0, "incarnation": OTHER}
        own |= {"process": f"node-{node}", "source": "controller", "controller_epoch": 1}
        story.commit(60, 1, 0, **{**own, **more})
    return story


LONE = {"partition_epoch": 1, "isr": [2]}
BROKEN: dict[str, tuple[Callable[[], Story], str]] = {
    "a copy with another state amid the others": (lambda: decided(LONE), "copies-differ"),
    "a member twice": (lambda: added(decided(), 3, isr=[2, 2, 3]), "twice-in-sync"),
    "in sync, and eligible": (lambda: added(decided(), 3, elr=[3]), "eligible-and-in-sync"),
    "leads in an epoch of nobody's": (lambda: role(decided(), 3, 3, 7), "led-by-another"),
    "an epoch of nobody's in the cache": (lambda: cached(decided(), 2, 7), "cached-otherwise"),
    "a set of nobody's": (lambda: counts_on(decided(), 1, 1, 2), "in-sync-otherwise"),
    "a set of the future": (lambda: counts_on(decided(), 7, 2, 3), "in-sync-otherwise"),
    "a set in an older epoch": (lambda: counts_on(decided(), 1, 2, 3, epoch=0),
                                "in-sync-otherwise"),
    "who does not lead counts on it": (lambda: counts_on(decided(), 1, 2, 3, node=3),
                                       "in-sync-otherwise"),
    "in sync, and no replica": (lambda: added(decided(), 3, isr=[1, 2, 3, 4]), "not-a-replica"),
    "a replica of before it was made anew": (
        lambda: made_anew(asked_ms=20, replicas=[2, 3], commit_ms=60), "not-a-replica"),
    "another id": (made_anew, "topic-vanished"),
    "another id, asked for later": (lambda: made_anew(asked_ms=70), "topic-vanished"),
    "another id, another was asked for": (lambda: made_anew(asked_ms=20, about="u"),
                                          "topic-vanished"),
}  # fmt: skip
LAWFUL: dict[str, Callable[[], Story]] = {
    "nothing": decided,
    "the end of one copy": lambda: decided({"partition_epoch": 2, "isr": [2]}),
    "an end that was replaced": lambda: replaced(decided(LONE)),
    "one of two": lambda: decided(LONE, nodes=(1, 2)),
    "eligible when out of sync": lambda: added(decided(), 3, isr=[2, 3], elr=[1]),
    "a replica that was added": lambda: added(
        decided(), 3, isr=[1, 2, 3, 4], replicas=[4, 1, 2, 3]
    ),
    "the same replicas when made anew": lambda: made_anew(
        asked_ms=20, replicas=[3, 1, 2], commit_ms=60
    ),
    "follows": lambda: role(decided(), 3, 2, 1),
    "in the cache": lambda: cached(decided(), 2, 1),
    "a partition of nobody's": lambda: role(decided(), 3, 3, 0, partition=7),
    "a set": lambda: counts_on(decided(), 1, 3, 2),
    "the end of one copy, counted on": lambda: counts_on(
        decided({"partition_epoch": 2, "isr": [2]}), 2, 2
    ),
    "another id, as was asked for": lambda: made_anew(asked_ms=20),
    "another id, where nobody tells what was asked for": lambda: made_anew(told=False),
}


def test_broken_and_lawful(spark: Any) -> None:
    stories = {name: make() for name, (make, _) in BROKEN.items()}
    stories |= {name: make() for name, make in LAWFUL.items()}
    found = judged_together(spark, check, stories)
    rules = {name: rules for name, (rules, _) in found.items()}
    wanted = {name: {rule: 1} for name, (_, rule) in BROKEN.items()}
    assert rules == wanted | {name: {} for name in LAWFUL}
    assert [name for name, (_, why) in found.items() if why and name in LAWFUL] == ["one of two"]


def test_a_state_that_no_copy_has_is_unknown(spark: Any) -> None:
    found = judged_together(spark, check, {"lacks": added(decided(), 5), "has": decided()})
    assert [bool(why) for _, why in found.values()] == [True, False]
