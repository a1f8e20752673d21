"""Elections of which somebody was never told (``election-untold``), and leaders that say that they
are none (``leader-denies``): both ways."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from checkers.judging.outcome import Outcome
from checkers.promises.denials import ASKED, denials
from checkers.promises.told_elections import TOLD, told_elections
from tests.checkers.conftest import Story, judged_together

UNTOLD, DENIES = "election-untold", "leader-denies"
LISR, UPDATE, STOP = "LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA"


def check(history: Any) -> Outcome:
    outcome = Outcome()
    for finding in (*told_elections(history, outcome), *denials(history, outcome)):
        outcome.add(finding)
    return outcome


def sent(story: Story, t: float, to: int, api: str, *epochs: int, **more: Any) -> None:
    """By controller 1, which numbers what it sends; a partition for each leader epoch."""
    parts = [{"topic": "t", "partition": 0, "leader": 2, "leader_epoch": e} for e in epochs]
    own = {"controller_epoch": 1, "broker_epoch": 10 + to, "correlation_id": int(t), "attempt": 1}
    seq = len(story.rows.get("control_send", ()))
    story.add("control_send", t + 1, node=1, boot=1, seq=seq, to=to, api=api, enqueue_t=t,
              **{**own, "partitions": parts, **more})  # fmt: skip


def elected(*lost: tuple[int, str], isr: tuple[int, ...] = (2, 3), again_ms: int = 0) -> Story:
    """Brokers 2 and 3 are told of a new topic, then of an election at 1,000 ms but for what is
    ``lost``, then of something else."""
    story = Story()
    for node in (2, 3):
        own = {"what": "broker", "step": "created", "node": node}
        story.add("zk_write", 1, zxid=10 + node, **own)
    story.add("zk_write", 90, zxid=18, what="topic", step="created", replicas=[2, 3])
    for number, t in enumerate((100, 1_000, *((again_ms,) if again_ms else ()))):
        fields = {"leader": 2, "leader_epoch": number, "partition_epoch": number, "isr": list(isr)}
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


def test_leaders_that_say_they_are_none(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in DENIED.items()})
    told = {name: rules.get(DENIES, 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in DENIED.items()}


@pytest.mark.parametrize(("story", "what"), [(elected(), TOLD), (leading(), ASKED)])
def test_what_there_was_to_judge(spark: Any, story: Story, what: str) -> None:
    seen: Counter[str] = Counter()
    for (_, _, one), n in check(story.history(spark)).evidence.items():
        seen[one] += n
    assert seen == {what: 4 if what == TOLD else 1}
