"""Who waits to be let into a group as its coordinator is deposed: told so at once, and each way in
which it may be lawful that it is told later."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.groups.offices import OFFSETS_TOPIC, partition_of
from checkers.promises.groups.waiting_members import WAITED, waiting_members
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

GROUP, PARTITIONS = "waiters", 3
WHERE = partition_of(GROUP, PARTITIONS)
DEPOSED = 20_000
RULE = "left-waiting-to-join"


def role(told: Story, t: float, name: str, **more: Any) -> None:
    fields = {"node": 1, "boot": 1, "topic": OFFSETS_TOPIC, "partition": WHERE, "role": name}
    told.add("leader_change", t, **{**fields, "leader": 2, "leader_epoch": 1, **more})


def joins(told: Story, answered: float, error: int | None = 16, **more: Any) -> None:
    fields = {"node": 1, "group": GROUP, "step": "enter", "error": error, "keep_ms": 4_000}
    kind = "info" if error is None else "fail" if error else "ok"
    failure = "timeout" if error is None else None
    more = {"invoke_t": DEPOSED - 1_000, "type": kind, "failure": failure, **more}
    told.add("group_step", answered, **{**fields, **more})


def fault(told: Story, begin: float, end: float, name: str, **detail: Any) -> None:
    for t, phase in ((begin, "inject"), (begin + 1, "injected"), (end, "healed")):
        more = {"phase": phase, "detail": json.dumps(detail), "nodes": [1]}
        told.add("fault", t, id=name, fault=name, took_hold=True, **more)


def story() -> Story:
    """Node 1 led the group's partition, and began to follow at 20 s."""
    told = Story()
    for partition in range(PARTITIONS):
        told.commit(1_000, 1, 0, topic=OFFSETS_TOPIC, partition=partition)
    role(told, 1_000, "leader", leader=1, leader_epoch=0)
    role(told, DEPOSED, "follower")
    return told


def with_fault(name: str, begin: float = DEPOSED + 500, **detail: Any) -> Callable[[Story], None]:
    def tell(told: Story) -> None:
        joins(told, DEPOSED + 4_000, None)
        fault(told, begin, DEPOSED + 9_000, name, **detail)

    return tell


CASES: dict[str, tuple[Callable[[Story], Any], str | None, int]] = {
    "waits for what it is given": (
        lambda s: joins(s, DEPOSED + 4_000, None, step="sync", keep_ms=None),
        RULE,
        1,
    ),
    "told that it is to ask another": (
        lambda s: joins(s, DEPOSED + 50, step="sync", keep_ms=None),
        None,
        1,
    ),
    "told at once": (lambda s: joins(s, DEPOSED + 20), None, 1),
    "never told": (lambda s: joins(s, DEPOSED + 4_000, None), RULE, 1),
    "told late": (lambda s: joins(s, DEPOSED + 2_500), RULE, 1),
    "let in by who is deposed": (lambda s: joins(s, DEPOSED + 3_000, 0), RULE, 1),
    "let in just before": (lambda s: joins(s, DEPOSED - 10, 0), None, 0),
    "at another": (lambda s: joins(s, DEPOSED + 4_000, None, node=2), None, 0),
    "asked afterwards": (
        lambda s: joins(s, DEPOSED + 4_000, None, invoke_t=DEPOSED + 10),
        None,
        0,
    ),
    "of a group that it goes on coordinating": (
        lambda s: joins(
            s,
            DEPOSED + 4_000,
            None,
            group=next(g for g in "abcdefgh" if partition_of(g, PARTITIONS) != WHERE),
        ),
        None,
        0,
    ),
    "of who only leaves": (
        lambda s: joins(s, DEPOSED + 4_000, None, step="leave"),
        None,
        0,
    ),
    "its partition was moved": (with_fault("move-leadership"), RULE, 1),
    "its peers were cut off": (with_fault("toxic", links=["inter-broker"]), RULE, 1),
    "its clients were cut off": (with_fault("toxic", links=["client"]), None, 0),
    "it was paused": (with_fault("pause"), None, 0),
    "it was paused later": (with_fault("pause", DEPOSED + 2_500), RULE, 1),
    "it died": (
        lambda s: (
            joins(s, DEPOSED + 4_000, None),
            s.add("node_event", DEPOSED + 50, node=1, event="kill"),
        ),
        None,
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(waiting_members))
def test_who_waits_to_be_let_in(name: str) -> Asks:
    tell, rule, waited = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert found.counts == ({} if rule is None else {rule: 1})
    assert found.evidence[told.arm, 0, WAITED] == waited
