"""Whose turn it is to lead, and elections for nothing: by ZooKeeper's log, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.in_sync_writes import LEADERS
from checkers.promises.epochs.elections import ELECTIONS, elections
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

Written = tuple[int, int, tuple[int, ...]]
"""Leader, leader epoch, in-sync set."""
STEP_MS = 1_000


def logged(
    *states: Written,
    order: tuple[int, ...] = (1, 2, 3),
    reassigned_ms: int = -1,
    registered: tuple[tuple[int, bool], ...] = (),
) -> Story:
    """States a second apart, from 100 s on. ``registered``: who came or went after the first."""
    story = Story()
    zxid = 0

    def write(what: str, step: str, commit_ms: int, **fields: Any) -> None:
        nonlocal zxid
        zxid += 10
        fields = {"zxid": zxid, "commit_ms": commit_ms, **fields}
        story.add("zk_write", commit_ms, what=what, step=step, **fields)

    write("topic", "created", 100_000, replicas=list(order))
    for number, (leader, epoch, isr) in enumerate(states):
        fields = {"leader": leader, "leader_epoch": epoch, "isr": list(isr)}
        step = "set" if number else "created"
        at_ms = 100_000 + STEP_MS * number
        write("state", step, at_ms, partition_epoch=number, controller_epoch=1, **fields)
        for node, is_there in () if number else registered:
            write("broker", "created" if is_there else "removed", at_ms + 1, node=node)
    if reassigned_ms >= 0:
        write("topic", "set", reassigned_ms, replicas=list(order))
    return story


FIRST: Written = (1, 0, (1, 2, 3))
OUT, VAIN = "elected-out-of-order", "raised-for-nothing"
CASES = {
    # Each rule broken, then what looks alike and is lawful.
    "the last in order": (logged(FIRST, (3, 1, (2, 3))), OUT),
    "the next in order": (logged(FIRST, (2, 1, (2, 3))), None),
    "the next in order is dead": (
        logged(FIRST, (3, 1, (2, 3)), registered=((2, False),)),
        None,
    ),
    "the next in order is back": (
        logged(FIRST, (3, 1, (2, 3)), registered=((2, False), (2, True))),
        OUT,
    ),
    "the last in order, and it is dead": (
        logged(FIRST, (3, 1, (2, 3)), registered=((3, False),)),
        OUT,
    ),
    "somebody else is dead": (logged(FIRST, (3, 1, (2, 3)), registered=((1, False),)), OUT),
    "the next in order is not in sync": (logged(FIRST, (3, 1, (3,))), None),
    "another order": (logged(FIRST, (3, 1, (2, 3)), order=(1, 3, 2)), None),
    "back to the preferred": (
        logged(FIRST, (2, 1, (2, 3)), (2, 1, (2, 3, 1)), (1, 2, (1, 2, 3))),
        None,
    ),
    "to one who is not preferred": (
        logged(FIRST, (2, 1, (2, 3)), (2, 1, (2, 3, 1)), (3, 2, (1, 2, 3))),
        OUT,
    ),
    "after none": (logged((2, 0, (2,)), (-1, 1, (2,)), (2, 2, (2,))), None),
    "by a reassignment": (logged(FIRST, (3, 1, (2, 3)), reassigned_ms=90_000), None),
    "long after a reassignment": (logged(FIRST, (3, 1, (2, 3)), reassigned_ms=70_000), OUT),
    "nobody else": (logged(FIRST, (1, 1, (1, 2, 3))), VAIN),
    "in another order": (logged(FIRST, (1, 1, (3, 2, 1))), VAIN),
    "a member less": (logged(FIRST, (1, 1, (1, 2))), None),
    "no leader again": (logged((1, 0, (1,)), (-1, 1, (1,)), (-1, 2, (1,))), None),
    "by AlterPartition": (logged((1, 0, (1, 2)), (1, 0, (1, 2, 3)), (1, 0, (1, 2, 3))), None),
    "as a reassignment ends": (logged(FIRST, (1, 1, (1, 2, 3)), reassigned_ms=110_000), None),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(elections))
def test_an_election_has_a_cause_and_takes_the_first_who_can_lead(name: str) -> Asks:
    story, rule = CASES[name]
    assert (yield story).counts == ({} if rule is None else {rule: 1})


def returned(
    *, node: int, at_ms: int, isr: tuple[int, ...], controller_epoch: int, old: bool = True
) -> Story:
    """Elected again as it led, after a registration had ended; on a release as ``old`` as that."""
    story = logged((1, 0, isr), (1, 1, isr))
    story.run["arms"][story.arm][LEADERS] = old
    story.rows["zk_write"][-1]["controller_epoch"] = controller_epoch
    fields: dict[str, Any] = {"zxid": 25 if at_ms > 100_000 else 5, "commit_ms": at_ms}
    story.add("zk_write", at_ms, what="broker", step="removed", node=node, **fields)
    return story


RETURNS = {
    "alone, back under the next controller": (
        returned(node=1, at_ms=100_500, isr=(1,), controller_epoch=2),
        None,
    ),
    "on a release that elects another": (
        returned(node=1, at_ms=100_500, isr=(1,), controller_epoch=2, old=False),
        VAIN,
    ),
    "another was away": (returned(node=2, at_ms=100_500, isr=(1,), controller_epoch=2), VAIN),
    "it was away before": (returned(node=1, at_ms=90_000, isr=(1,), controller_epoch=2), VAIN),
    "under the same controller": (
        returned(node=1, at_ms=100_500, isr=(1,), controller_epoch=1),
        VAIN,
    ),
    "beside another in sync": (
        returned(node=1, at_ms=100_500, isr=(1, 2), controller_epoch=2),
        VAIN,
    ),
}


@pytest.mark.parametrize("name", RETURNS)
@judging(ruled(elections))
def test_who_was_alone_in_sync_when_a_controller_came_is_elected_anew(name: str) -> Asks:
    story, rule = RETURNS[name]
    assert (yield story).counts == ({} if rule is None else {rule: 1})


@judging(ruled(elections))
def test_what_lies_between_two_writes_that_are_not_known_is_not_judged() -> Asks:
    story = logged(FIRST, (1, 1, (1, 2)), (1, 2, (1, 2)))
    story.rows["zk_write"] = [r for r in story.rows["zk_write"] if r.get("leader_epoch") != 1]
    outcome = yield story
    assert not outcome.counts
    assert not outcome.evidence[story.arm, 0, ELECTIONS]
