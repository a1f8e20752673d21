"""Elections and in-sync sets of which somebody was never told (``election-untold``,
``in-sync-untold``), or in the wrong order (``metadata-before-roles``), and leaders that say that
they are none (``leader-denies``): both ways."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from checkers.judging.outcome import Outcome
from checkers.promises.epochs.denials import ASKED, denials
from checkers.promises.epochs.told_elections import IN_ORDER, TOLD, told_elections
from tests.checkers.conftest import Story, judged_together

UNTOLD, DENIES = "election-untold", "leader-denies"
IN_SYNC, BEFORE = "in-sync-untold", "metadata-before-roles"
LISR, UPDATE, STOP = "LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA"


def check(history: Any) -> Outcome:
    outcome = Outcome()
    for finding in (*told_elections(history, outcome), *denials(history, outcome)):
        outcome.add(finding)
    return outcome


def sent(story: Story, t: float, to: int, api: str, *epochs: int, **more: Any) -> None:
    """By controller 1, which numbers what it sends; a partition for each leader epoch. Partition
    epochs are the same, if no other are given."""
    parts = [{"topic": "t", "partition": 0, "leader": 2, "leader_epoch": e} for e in epochs]
    own = {"controller_epoch": 1, "broker_epoch": 10 + to, "correlation_id": int(t), "attempt": 1}
    seq = len(story.rows.get("control_send", ()))
    story.add("control_send", t + 1, node=1, boot=1, seq=seq, to=to, api=api, enqueue_t=t,
              **{**own, "partitions": parts, "partition_epochs": list(epochs), **more})  # fmt: skip


def elected(*lost: tuple[int, str], isr: tuple[int, ...] = (2, 3), again_ms: int = 0,
            first: int = 2) -> Story:  # fmt: skip
    """Brokers 2 and 3 are told of a new topic, then of an election at 1,000 ms but for what is
    ``lost``, then of something else. The ``first`` leader is succeeded by broker 2."""
    story = Story()
    for node in (2, 3):
        own = {"what": "broker", "step": "created", "node": node}
        story.add("zk_write", 1, zxid=10 + node, **own)
    story.add("zk_write", 90, zxid=18, what="topic", step="created", replicas=[2, 3])
    for number, t in enumerate((100, 1_000, *((again_ms,) if again_ms else ()))):
        leader = 2 if number else first
        fields = {
            "leader": leader,
            "leader_epoch": number,
            "partition_epoch": number,
            "isr": list(isr),
        }
        step = "set" if number else "created"
        story.add("zk_write", t, zxid=20 + number, what="state", step=step,
                  controller_epoch=1, **fields)  # fmt: skip
        for to in (2, 3):
            for at, api in ((2, LISR), (3, UPDATE)):
                if number != 1 or (to, api) not in lost:
                    sent(story, t + at, to, api, number)
    for to in (2, 3):
        sent(story, 3_000, to, UPDATE)
    return story


def reassigned() -> Story:
    story = elected((3, LISR))
    story.add("zk_write", 950, zxid=20, what="topic", step="set", replicas=[2, 3, 4])
    return story


def deleted() -> Story:
    story = elected((3, LISR), (3, UPDATE))
    story.add("topic_deletion", 2_000, step="requested")
    return story


def in_one_batch() -> Story:
    """A second election overtook the first before anything was sent."""
    return elected((2, LISR), (2, UPDATE), (3, LISR), (3, UPDATE), again_ms=1_001)


def changed(story: Story, where: dict[str, Any], **fields: Any) -> Story:
    for row in story.rows["control_send"]:
        if all(row[name] == value for name, value in where.items()):
            row.update(fields)
    return story


def unnumbered(story: Story) -> Story:
    return changed(story, {}, seq=None)


def cut_off(story: Story, after_ms: float) -> Story:
    """Nothing was sent after that."""
    rows = story.rows["control_send"]
    rows[:] = [row for row in rows if row["enqueue_t"] < after_ms * 1_000_000]
    return story


def joined() -> Story:
    """The leader took a follower in, in its own leader epoch: nobody has to be told by the
    controller that it leads still."""
    story = elected()
    story.add("zk_write", 2_000, zxid=30, what="state", step="set", leader=2, leader_epoch=1,
              partition_epoch=2, controller_epoch=1, isr=[2, 3])  # fmt: skip
    return story


def gone() -> Story:
    """Who led before was registered no more when it was succeeded."""
    story = elected((3, LISR), (3, UPDATE), isr=(2,), first=3)
    story.add("zk_write", 990, zxid=20, what="broker", step="removed", node=3)
    return story


def another_life() -> Story:
    """Broker 3 had just registered, and had been sent nothing yet."""
    story = elected((3, LISR), (3, UPDATE))
    story.add("zk_write", 990, zxid=20, what="broker", step="created", node=3)
    sent(story, 3_100, 3, UPDATE, broker_epoch=20)
    return story


TELLING = {
    "told": (elected(), 0),
    "a follower in sync was not": (elected((3, LISR)), 1),
    "nor the leader": (elected((2, LISR)), 1),
    "nor of anything": (elected((3, LISR), (3, UPDATE)), 2),
    "a broker's metadata was not": (elected((3, UPDATE)), 1),
    "told later, of the next one": (elected((3, LISR), again_ms=2_000), 1),
    "who led before was not": (elected((3, LISR), isr=(2,), first=3), 1),
    "who led before was": (elected(isr=(2,), first=3), 0),
    "who led before is gone": (gone(), 0),
    "a follower out of sync": (elected((3, LISR), isr=(2,)), 0),
    "overtaken in the same batch": (in_one_batch(), 0),
    "nothing was sent after": (cut_off(elected((3, LISR), (3, UPDATE)), 1_002.5), 0),
    "what is behind still waits": (cut_off(elected((3, UPDATE)), 1_100), 0),
    "of another controller": (changed(elected((3, LISR)), {}, controller_epoch=2), 0),
    "of another life of the broker": (another_life(), 0),
    "who numbers nothing": (unnumbered(elected((3, LISR))), 0),
    "a replica that moves": (reassigned(), 0),
    "a topic that is deleted": (deleted(), 0),
    "no election": (joined(), 0),
}


def test_who_is_told_of_elections(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in TELLING.items()})
    told = {name: rules.get(UNTOLD, 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in TELLING.items()}


def shrunk(*lost: int, told: float = 2_002, next_ms: float = 0, **more: Any) -> Story:
    """In leader epoch 1 a follower leaves the in-sync set at 2 s (partition epoch 2) and is back at
    ``next_ms``; brokers are told but for who is ``lost``, and at 3 s of something else."""
    story = elected(isr=(2, 3))
    state = {"leader": 2, "leader_epoch": 1, "controller_epoch": 1, "what": "state", "step": "set"}
    story.add("zk_write", 2_000, zxid=30, partition_epoch=2, isr=[2], **state)
    if next_ms:
        story.add("zk_write", next_ms, zxid=31, partition_epoch=3, isr=[2, 3], **state)
    for to in (2, 3):
        if to not in lost:
            sent(story, told, to, UPDATE, 1, **{"partition_epochs": [2], **more})
        if next_ms:
            sent(story, next_ms + 2, to, UPDATE, 1, partition_epochs=[3])
    return story


SHRUNK = {
    "told": (shrunk(), 0),
    "one was not": (shrunk(3), 1),
    "nobody was": (shrunk(2, 3), 2),
    "told of its next one, later": (shrunk(3, next_ms=4_000), 1),
    "overtaken by its next one": (shrunk(3, next_ms=2_500), 0),
    "told of an older one": (shrunk(partition_epochs=[1]), 2),
    "by who says no partition epochs": (changed(shrunk(3), {}, partition_epochs=None), 0),
    "what is behind still waits": (cut_off(shrunk(3), 2_100), 0),
    "by another controller": (changed(shrunk(3), {}, controller_epoch=2), 0),
    "who numbers nothing": (unnumbered(shrunk(3)), 0),
    "of another life of the broker": (changed(shrunk(3), {"to": 3}, broker_epoch=20), 0),
}


def test_who_is_told_of_in_sync_sets(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in SHRUNK.items()})
    told = {name: rules.get(IN_SYNC, 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in SHRUNK.items()}


def turned(to: int = 3, epoch: int = 1, **more: Any) -> Story:
    """One broker is told its metadata of a leader epoch first, and what it is to do after that."""
    story = elected()
    for row in story.rows["control_send"]:
        mine = [p["leader_epoch"] for p in row["partitions"]] == [epoch] and row["to"] == to
        if mine and row["api"] == UPDATE:
            row["enqueue_t"] = row["t"] = row["enqueue_t"] - 2_000_000
    return changed(story, {"to": to}, **more)


def just_registered() -> Story:
    """What it was told first was everything, an election of before among that."""
    story = turned()
    story.rows["control_send"][:] = [
        row
        for row in story.rows["control_send"]
        if row["to"] != 3 or row["enqueue_t"] >= 1_000_000_000
    ]
    return story


def told_again() -> Story:
    """The first was in order; later it is told its metadata again, and given its role again."""
    story = elected()
    sent(story, 2_000, 3, UPDATE, 1)
    sent(story, 2_100, 3, LISR, 1)
    return story


ORDERED = {
    "in order": (elected(), 0),
    "the wrong way round": (turned(), 1),
    "of a new topic, to who was told nothing before": (turned(epoch=0), 0),
    "who has just come": (just_registered(), 0),
    "told again": (told_again(), 0),
    "by a controller that did not elect": (turned(controller_epoch=2), 0),
    "who numbers nothing": (unnumbered(turned()), 0),
    "a topic that is deleted": (deleted(), 0),
}


def test_roles_are_told_before_metadata(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in ORDERED.items()})
    told = {name: rules.get(BEFORE, 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in ORDERED.items()}


def leading(
    error: int = 6, asked_ms: float = 5_000, kind: str = "listed_offset", **more: Any
) -> Story:
    """Broker 2 leads from 1 s on, and counts until 20 s; it is asked once."""
    story = Story()
    own = {"node": 2, "boot": 1}
    story.add("leader_change", 1_000, role="leader", leader=2, leader_epoch=1, seq=1, **own)
    story.add("plane_use", 20_000, plane="data", api="METADATA", requests=1, seq=9,
              interval_ns=10**9, **own)  # fmt: skip
    asked = {"node": 2, "type": "fail" if error else "ok", "error": error, **more}
    story.add(kind, asked_ms, **asked)
    return story


def then(story: Story, t: float, kind: str = "leader_change", **more: Any) -> Story:
    own = {"node": 2, "boot": 1, "seq": 2, "leader_epoch": 2, **more}
    if kind == "leader_change":
        own = {"role": "follower", "leader": 3, **own}
    story.add(kind, t, **own)
    return story


def gone(story: Story) -> Story:
    story.add("topic_deletion", 30_000, step="requested")
    return story


DENIED = {
    "it leads, and says not": (leading(), 1),
    "of an epoch's end": (leading(kind="epoch_end"), 1),
    "to a producer": (leading(kind="produce"), 1),
    "to one who reads": (leading(kind="read_at"), 1),
    "to one who reads what is deleted": (leading(kind="read_below"), 1),
    "to one who deletes": (leading(kind="records_deleted"), 1),
    "to a consumer, that there is no such partition": (leading(error=3), 0),
    "it answers": (leading(error=0), 0),
    "an epoch it does not know": (leading(error=75), 0),
    "before it led": (leading(asked_ms=1_000.5), 0),
    "another broker says so": (leading(node=3), 0),
    "who knows whom it asked": (leading(node=None, kind="produce"), 0),
    "it follows since": (then(leading(), 3_000), 0),
    "it follows soon": (then(leading(), 5_900), 0),
    "it follows later": (then(leading(), 6_100), 1),
    "it is stopped soon": (then(leading(), 5_900, "replica_stop"), 0),
    "it ends soon": (leading(asked_ms=19_500), 0),
    "a topic that is deleted": (gone(leading()), 0),
}


def calm(
    error: int = 6, asked_ms: float = 40_000, kind: str = "listed_offset", **more: Any
) -> Story:
    """Broker 2 leads by what was committed at 1 s, of a system that numbers nothing."""
    story = Story()
    story.commit(500, 1, 0)
    story.commit(1_000, 2, 1)
    story.add(kind, asked_ms, **{"node": 2, "type": "fail", "error": error, **more})
    return story


def committed_later(story: Story) -> Story:
    story.commit(39_000, 3, 2)
    return story


def back(story: Story) -> Story:
    story.add("node_event", 39_000, node=2, event="resume")
    return story


DENIED |= {
    "it leads by what was committed": (calm(), 1),
    "and there is no such partition": (calm(error=3), 1),
    "and no leader": (calm(error=5, kind="produce"), 1),
    "and no end yet": (calm(error=78), 1),
    "and so do those who ask what is deleted": (calm(error=6, kind="read_below"), 1),
    "it leads, and knows another epoch": (calm(error=75), 0),
    "while it may not have heard": (calm(asked_ms=2_000), 0),
    "it is not it who leads": (calm(node=3), 0),
    "another leads since": (committed_later(calm()), 0),
    "who leads is just back": (back(calm()), 0),
    "it leads what is deleted": (gone(calm()), 0),
}


def test_leaders_that_say_they_are_none(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in DENIED.items()})
    told = {name: rules.get(DENIES, 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in DENIED.items()}


@pytest.mark.parametrize(("story", "what"), [(elected(), (TOLD, IN_ORDER)), (leading(), (ASKED,))])
def test_what_there_was_to_judge(spark: Any, story: Story, what: tuple[str, ...]) -> None:
    seen: Counter[str] = Counter()
    for (_, _, one), n in check(story.history(spark)).evidence.items():
        seen[one] += n
    assert seen == {one: {TOLD: 4, IN_ORDER: 2, ASKED: 1}[one] for one in what}
