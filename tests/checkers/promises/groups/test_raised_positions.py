"""Positions that are raised by one, and looked at meanwhile, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.groups.offices import OFFSETS_TOPIC, TOLD_LATE, partition_of
from checkers.promises.groups.raised_positions import RAISED, raised_positions
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

GROUP, PARTITIONS = "raised-0", 3
WHERE = partition_of(GROUP, PARTITIONS)
RULE = "kept-offset-lost"
LED = 20_000


def step(told: Story, t: float, what: str, offset: int, node: int = 1, **more: Any) -> None:
    fields = {"node": node, "group": GROUP, "type": "ok", "error": 0, "invoke_t": t - 10}
    told.add("group_step", t, step=what, offset=offset, **{**fields, **more})


def leads(told: Story, t: float, node: int, partition: int = WHERE) -> None:
    role = {"topic": OFFSETS_TOPIC, "partition": partition, "role": "leader", "leader": node}
    told.add("leader_change", t, node=node, boot=1, leader_epoch=1, **role)


def story() -> Story:
    """Node 1 keeps 6 and 7 for the group; then node 2 leads its partition."""
    told = Story()
    for partition in range(PARTITIONS):
        told.commit(1_000, 1, 0, topic=OFFSETS_TOPIC, partition=partition)
    leads(told, 1_000, 1)
    step(told, LED - 1_000, "raise", 6)
    step(told, LED - 900, "raise", 7)
    told.commit(LED - 20, 2, 1, topic=OFFSETS_TOPIC, partition=WHERE)
    leads(told, LED, 2)
    return told


def late(told: Story, **more: Any) -> None:
    """8 was asked for before 9 was, and answered afterwards."""
    step(told, LED + 500, "raise", 9, node=2, invoke_t=LED + 300)
    step(told, LED + 600, "raise", 8, node=2, invoke_t=LED + 200, **more)
    step(told, LED + 700, "see", 8, node=2)


CASES: dict[str, tuple[Callable[[Story], Any], int, int]] = {
    "the same": (lambda s: step(s, LED - 500, "see", 7), 0, 1),
    "a lower one than it kept": (lambda s: step(s, LED - 500, "see", 6), 1, 1),
    "none": (lambda s: step(s, LED - 500, "see", -1), 1, 1),
    "asked before it was kept": (
        lambda s: step(s, LED - 500, "see", 6, invoke_t=LED - 950),
        *(0, 1),
    ),
    "the same by who leads now": (lambda s: step(s, LED + 100, "see", 7, node=2), 0, 1),
    "a lower one by who leads now": (lambda s: step(s, LED + 100, "see", 6, node=2), 1, 1),
    "none by who leads now": (
        lambda s: step(s, LED + 5, "see", -1, node=2, invoke_t=LED + 1),
        1,
        1,
    ),
    "by one that leads no more, and has not heard": (
        lambda s: (step(s, LED + 500, "raise", 9, node=2), step(s, LED + 600, "see", 7)),
        *(0, 0),
    ),
    "none by one that is giving it up": (lambda s: step(s, LED - 30, "see", -1), 0, 0),
    "by one that leads another partition": (
        lambda s: (
            leads(s, LED + 100, 3, (WHERE + 1) % PARTITIONS),
            step(s, LED + 200, "see", -1, node=3),
        ),
        *(0, 0),
    ),
    "one that was answered later": (late, 0, 1),
    "one of which nobody knows": (lambda s: late(s, type="info", error=None), 0, 1),
    "one that was refused before": (
        lambda s: (
            step(s, LED + 100, "raise", 8, node=2, type="fail", error=16),
            step(s, LED + 500, "raise", 9, node=2),
            step(s, LED + 600, "see", 8, node=2),
        ),
        *(1, 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(raised_positions))
def test_what_was_kept_is_told(name: str) -> Asks:
    tell, lost, asked = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert found.counts == ({RULE: lost} if lost else {})
    assert found.evidence[told.arm, 0, RAISED] == asked


@pytest.mark.parametrize(
    ("t", "late", "lost"),
    [(LED + 900, True, 0), (LED + 900, False, 1), (LED + 3_100, True, 1)],
)
@judging(ruled(raised_positions))
def test_a_new_coordinator_may_know_later_where_it_answers_what_is_committed(
    t: float, late: bool, lost: int
) -> Asks:
    told = story()
    facts = {**told.run["arms"][told.arm], TOLD_LATE: late}
    told.run = {**told.run, "arms": {**told.run["arms"], told.arm: facts}}
    step(told, t, "see", 6, node=2)
    found = yield told
    assert found.counts == ({RULE: lost} if lost else {})
    excused = {(told.arm, 0, RULE, "has-begun", RAISED): 1} if late and not lost else {}
    assert found.excused == excused


@judging(ruled(raised_positions))
def test_that_it_has_begun_anew_is_not_its_own_word() -> Asks:
    told = story()
    facts = {**told.run["arms"][told.arm], TOLD_LATE: True}
    told.run = {**told.run, "arms": {**told.run["arms"], told.arm: facts}}
    leads(told, LED + 5_000, 2)
    # Nor a commit of who leads already.
    told.commit(LED + 5_000, 2, 1, topic=OFFSETS_TOPIC, partition=WHERE, partition_epoch=9)
    step(told, LED + 5_100, "see", 6, node=2)
    found = yield told
    assert found.counts == {RULE: 1}


@judging(ruled(raised_positions))
def test_what_it_kept_itself_it_knows_at_once() -> Asks:
    told = story()
    facts = {**told.run["arms"][told.arm], TOLD_LATE: True}
    told.run = {**told.run, "arms": {**told.run["arms"], told.arm: facts}}
    step(told, LED + 300, "raise", 8, node=2)
    step(told, LED + 500, "see", 7, node=2)
    found = yield told
    assert found.counts == {RULE: 1}
