"""Brokers that act otherwise than was decided, and who only seems to: for `epochs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.promises.epochs import check
from tests.checkers.conftest import Story, judged_together


def decided(*, log: bool = True) -> Story:
    """1 leads in epoch 0, then 2 in epoch 1; its set shrinks and grows."""
    story = Story()
    states = [(1, 0, [1, 2, 3]), (2, 1, [2, 3]), (2, 1, [1, 2, 3])]
    for version, (leader, epoch, isr) in enumerate(states):
        fields = {"isr": isr, "partition_epoch": version, "commit_ms": version}
        story.commit(version, leader, epoch, **fields)
        if log:
            story.add(
                "zk_write", version, what="state", step="set" if version else "created",
                zxid=version, controller_epoch=1, leader=leader, leader_epoch=epoch, **fields,
            )  # fmt: skip
    return story


def headless(story: Story) -> Story:
    """ZooKeeper's log begins with the last state."""
    del story.rows["zk_write"][:2]
    return story


def role(story: Story, node: int, leader: int, epoch: int, t: float = 10, **more: Any) -> Story:
    what = "leader" if node == leader else "follower"
    story.add("leader_change", t, node=node, role=what, leader=leader, leader_epoch=epoch, **more)
    return story


def follows_itself(story: Story) -> Story:
    """Broker 2 was committed as leader, and says that it follows: itself."""
    role(story, 2, 2, 1)
    story.rows["leader_change"][-1]["role"] = "follower"
    return story


def cached(story: Story, leader: int, epoch: int, t: float = 10, **more: Any) -> Story:
    story.add("metadata_update", t, node=3, leader=leader, leader_epoch=epoch, **more)
    return story


def sent(story: Story, enqueue_t: float, api: str = "LEADER_AND_ISR") -> Story:
    part = {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 1}
    story.add("control_send", 5, node=1, to=3, api=api, enqueue_t=enqueue_t, partitions=[part])
    return story


def shown(story: Story, t: float) -> Story:
    """Asked long before, answered then."""
    story.read(t, 3, 1, leader=2, isr=[2, 3], invoke_t=t - 5)
    return story


def counts_on(story: Story, version: int, *isr: int, epoch: int = 1, **more: Any) -> Story:
    own = {"isr": list(isr), "leader_epoch": epoch, "partition_epoch": version, **more}
    story.add("isr_change", 10, node=2, **own)
    return story


def acked(
    story: Story, node: int | None, epoch: int | None = None, acks: int = -1, t: float = 10
) -> Story:
    story.produce(t, 1, 0, acks, node=node, leader_epoch=epoch)
    return story


def delivered(story: Story, node: int) -> Story:
    story.add("fetch", 10, node=node, offset=0, value=1, poll=0, leader_epoch=1)
    return story


def end_told(story: Story, node: int, epoch: int, asked_ms: int = -1) -> Story:
    """`epoch`: the leader's own with an end, the record's with a beginning."""
    own = {"offset": 1, "believed_epoch": -1, "leader_epoch": epoch}
    story.add("listed_offset", 10, node=node, asked_ms=asked_ms, **own)
    return story


def asked_believing(story: Story, kind: str, node: int, epoch: int, **more: Any) -> Story:
    """`kind`: read_at or epoch_end; answered to one who believes in that leader epoch."""
    story.add(kind, 10, **{"node": node, "believed_epoch": epoch, "offset": 1, **more})
    return story


def deleted(story: Story) -> Story:
    story.add("topic_deletion", 15, step="requested")
    return story


def lied(story: Story, api: str, epoch: int, node: int = 3) -> Story:
    story.add(
        "forged", 9, node=node, api=api, lie="future_leader_epoch", error=0, partition_error=0,
        leader=3, leader_epoch=epoch,
    )  # fmt: skip
    return story


BROKEN: dict[str, tuple[Callable[[], Story], str]] = {
    "leads a partition of nobody's": (
        lambda: role(decided(), 3, 3, 0, partition=7),
        "led-by-another",
    ),
    "a partition of nobody's in the cache": (
        lambda: cached(decided(), 1, 0, partition=7),
        "cached-otherwise",
    ),
    "follows itself": (lambda: follows_itself(decided()), "led-by-another"),
    "leads in an epoch of nobody's": (lambda: role(decided(), 3, 3, 7), "led-by-another"),
    "follows in an epoch of nobody's": (lambda: role(decided(), 3, 2, 7), "led-by-another"),
    "follows another": (lambda: role(decided(), 3, 1, 1), "led-by-another"),
    "another in the cache": (lambda: cached(decided(), 3, 1), "cached-otherwise"),
    "the cache is ahead": (lambda: cached(decided(), 2, 7), "cached-otherwise"),
    "another set": (lambda: counts_on(decided(), 1, 2), "in-sync-otherwise"),
    "a set too early": (lambda: counts_on(decided(), 7, 1, 2, 3), "in-sync-otherwise"),
    "a set of a partition of nobody's": (
        lambda: counts_on(decided(), 1, 2, 3, partition=7),
        "in-sync-otherwise",
    ),
    "a set of another epoch": (
        lambda: counts_on(decided(), 1, 2, 3, epoch=0),
        "in-sync-otherwise",
    ),
    "acked in another's epoch": (lambda: acked(decided(), 1, 1), "served-by-another"),
    "acked by who never led": (lambda: acked(decided(), 3), "served-by-another"),
    "acked with acks=1 by who never led": (
        lambda: acked(decided(), 3, acks=1),
        "served-by-another",
    ),
    "acked by who led only later": (lambda: acked(decided(), 2, t=-9), "served-by-another"),
    "delivered by who never led": (lambda: delivered(decided(), 3), "served-by-another"),
    "an end told in another's epoch": (lambda: end_told(decided(), 3, 1), "served-by-another"),
    "an end told in an epoch that is over": (
        lambda: end_told(decided(), 2, 0),
        "served-by-another",
    ),
    "a read served in another's epoch": (
        lambda: asked_believing(decided(), "read_at", 3, 1),
        "served-by-another",
    ),
    "an epoch's end told in another's": (
        lambda: asked_believing(decided(), "epoch_end", 1, 1, asked_epoch=0),
        "served-by-another",
    ),
    "a set of who was not lied to": (
        lambda: lied(counts_on(decided(), 7, 2), "LEADER_AND_ISR", 7),
        "in-sync-otherwise",
    ),
    "goes back before its deletion": (
        lambda: deleted(role(role(decided(), 3, 2, 1), 3, 1, 0, t=14)),
        "role-went-back",
    ),
    "leads before it was committed": (
        lambda: role(decided(), 2, 2, 1, t=0.5),
        "acted-before-commit",
    ),
    "follows before it was committed": (
        lambda: role(decided(), 3, 2, 1, t=0.5),
        "acted-before-commit",
    ),
    "cached before it was committed": (
        lambda: cached(cached(decided(), 2, 1), 2, 1, t=0.9),
        "acted-before-commit",
    ),
    "shown before it was committed": (lambda: shown(decided(), 0.5), "acted-before-commit"),
    "sent before it was committed": (lambda: sent(decided(), 0.5), "acted-before-commit"),
    "told before it was committed": (
        lambda: sent(decided(), 0.5, "UPDATE_METADATA"),
        "acted-before-commit",
    ),
    "before it was committed, and another was lied to": (
        lambda: lied(role(decided(), 2, 2, 1, t=0.5), "LEADER_AND_ISR", 7),
        "acted-before-commit",
    ),
    "goes back": (lambda: role(role(decided(), 3, 2, 1), 3, 1, 0, t=20), "role-went-back"),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "all as decided": lambda: acked(
        counts_on(cached(role(decided(), 3, 2, 1), 2, 1), 2, 3, 2, 1), 2, 1
    ),
    "old, and true": lambda: cached(role(decided(), 3, 1, 0), 1, 0),
    "a topic's deletion": lambda: cached(decided(), -2, 1),
    "a watch may miss an epoch": lambda: cached(role(decided(log=False), 3, 3, 7), 3, 7),
    "a watch may miss a set": lambda: counts_on(decided(log=False), 7, 1),
    "who led once may not know that it is over": lambda: acked(decided(), 1),
    "as it was committed": lambda: sent(shown(cached(role(decided(), 2, 2, 1, t=1), 2, 1, t=1), 1),
                                       1),
    "within the clocks' error": lambda: role(decided(), 2, 2, 1, t=0.5, error_ns=500_000),
    "its first write is not in the log": lambda: headless(role(decided(), 2, 2, 1, t=1.5)),
    "a set whose write is not in the log": lambda: headless(counts_on(decided(), 1, 2, 3)),
    "nobody's own log dates it": lambda: role(decided(log=False), 2, 2, 1, t=0.5),
    "a forged leadership of what came later": lambda: lied(
        role(decided(), 3, 2, 1, t=0.5), "LEADER_AND_ISR", 1
    ),
    "a process anew": lambda: role(role(decided(), 3, 2, 1, boot=1), 3, 1, 0, t=20, boot=2),
    "told within the error": lambda: role(
        role(decided(), 3, 2, 1), 3, 1, 0, t=11, error_ns=2_000_000
    ),
    "another life of the topic": lambda: deleted(role(role(decided(), 3, 2, 1), 3, 1, 0, t=20)),
    "an end told by who led then": lambda: end_told(end_told(decided(), 1, 0), 2, 1),
    "a beginning is of its record's epoch": lambda: end_told(decided(), 2, 0, asked_ms=-2),
    "an end told without an epoch": lambda: end_told(decided(), 3, -1),
    "a read served by who led then": lambda: asked_believing(
        asked_believing(decided(), "read_at", 1, 0), "read_at", 2, 1
    ),
    "a read that is refused": lambda: asked_believing(
        decided(), "read_at", 3, 1, type="fail", error=6
    ),
    "an epoch's end told by its leader": lambda: asked_believing(
        decided(), "epoch_end", 2, 1, asked_epoch=0
    ),
    "a read of who believes in nothing": lambda: asked_believing(decided(), "read_at", 3, -1),
    "delivered by an old leader": lambda: delivered(decided(), 1),
    "acks=0 is no acknowledgement": lambda: acked(decided(), 3, acks=0),
    "nobody says whom it asked": lambda: acked(decided(), None),
    "a forged leadership": lambda: lied(role(decided(), 3, 3, 7), "LEADER_AND_ISR", 7),
    "a forged update": lambda: lied(cached(decided(), 3, 7), "UPDATE_METADATA", 7),
    "a forged leadership's set": lambda: lied(counts_on(decided(), 7, 2), "LEADER_AND_ISR", 7, 2),
}  # fmt: skip


def test_broken_and_lawful(spark: Any) -> None:
    stories = {name: make() for name, (make, _) in BROKEN.items()}
    stories |= {name: make() for name, make in LAWFUL.items()}
    found = judged_together(spark, check, stories)
    rules = {name: rules for name, (rules, _) in found.items()}
    wanted = {name: {rule: 1} for name, (_, rule) in BROKEN.items()}
    assert rules == wanted | {name: {} for name in LAWFUL}


def lacks(how: str) -> Story:
    story = decided()
    writes, watched = story.rows["zk_write"], story.rows["leadership"]
    if how == "a write":
        del writes[1], watched[1]
    if how == "the last write":
        del writes[2]
    if how == "all of a partition":
        writes[:] = [{**w, "topic": "u"} for w in writes]
    if how == "what a leader counted on":
        watched.clear()
        headless(counts_on(story, 1, 2, 3))
    if how == "what was watched":
        watched[1]["isr"] = [2]
    if how == "what was there in the end":
        story.add("final_state", 90, what="partition", leader=2, leader_epoch=1, isr=[2, 1])
    if how == "nothing":
        watched[1]["isr"] = [3, 2]  # a set has no order
        del watched[2]  # a watch may miss what comes and goes
        story.add("final_state", 90, what="partition", leader=2, leader_epoch=1, isr=[3, 2, 1])
    return story


LACKS = (
    *("a write", "the last write", "all of a partition", "what was watched"),
    "what a leader counted on",
)


def test_a_log_that_is_not_whole_is_unknown(spark: Any) -> None:
    names = (*LACKS, "what was there in the end", "nothing")
    found = judged_together(spark, check, {name: lacks(name) for name in names})
    assert [name for name, (rules, _) in found.items() if rules] == []
    assert [name for name, (_, why) in found.items() if not why] == ["nothing"]
