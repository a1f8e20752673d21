"""Coordinators that waver before all is calm, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.groups.in_office import IN_OFFICE, in_office
from checkers.promises.groups.offices import OFFSETS_TOPIC
from tests.checkers.conftest import Story
from tests.checkers.promises.groups.test_coordinators import GROUP, MINE, PARTITIONS
from tests.checkers.together import Asks, judging, ruled

DENIES, OTHER = "coordinator-denies", "another-coordinates"


def story(*states: tuple[float, int], healed: float = 60_000) -> Story:
    """``states``: who leads the group's partition from when on (ms), each in an epoch of its own;
    a fault lasts to the end, so that nothing is ever calm."""
    told = Story()
    for partition in range(PARTITIONS):
        at = {"topic": OFFSETS_TOPIC, "partition": partition}
        told.commit(500, 1, 0, **at)
        for epoch, (t, leader) in enumerate(states, 1):
            if partition == MINE:
                told.commit(t, leader, epoch, **at)
    for t, phase in ((600, "inject"), (601, "injected"), (healed, "heal"), (healed + 1, "healed")):
        told.add("fault", t, fault="move-leadership", id="move", phase=phase, nodes=[1, 2])
    return told


def step(told: Story, t: float, node: int, error: int = 0, name: str = "see", **more: Any) -> None:
    own = {"step": name, "offset": -1, "invoke_t": t - 1, "group": GROUP, "error": error}
    told.add("group_step", t, node=node, type="fail" if error else "ok", **{**own, **more})


def one(*steps: Any) -> Any:
    """Answers of node 2, which leads from 1 s on."""

    def made() -> Story:
        told = story((1_000, 2))
        for t, error, *name in steps:
            step(told, t, 2, error, *name)
        return told

    return made


def before(make: Any, told_of: Any) -> Any:
    def made() -> Story:
        told: Story = make()
        told_of(told)
        return told

    return made


def role(told: Story, t: float, epoch: int, leader: int = 2, partition: int = MINE) -> None:
    """What node 2 said that it is."""
    at = {"topic": OFFSETS_TOPIC, "partition": partition}
    name = "leader" if leader == 2 else "follower"
    told.add("leader_change", t, node=2, role=name, leader=leader, leader_epoch=epoch, **at)


SERVED = ((5_000, 0), (6_000, 16))
CASES: dict[str, tuple[Any, int]] = {
    "it serves": (one((5_000, 0), (6_000, 0)), 0),
    "it is no coordinator": (one(*SERVED), 1),
    "it loads once more": (one((5_000, 0), (6_000, 14)), 1),
    "there is none to ask": (one((5_000, 0), (6_000, 15)), 1),
    "there is none to keep it": (one((5_000, 0), (6_000, 15, "raise")), 0),
    "to who is no member": (one((5_000, 0), (6_000, 25)), 0),
    "it has not served yet": (one((5_000, 16), (6_000, 0)), 0),
    "it said blindly that all is well": (one((5_000, 0, "live"), (6_000, 14)), 0),
    "it was to join anew, blindly": (one((5_000, 27, "sync"), (6_000, 14)), 0),
    "it never served, for long": (one((25_000, 16)), 1),
    "it has just begun": (one((2_000, 0), (2_500, 16)), 0),
    "it has not said that it leads": (before(one(*SERVED), lambda s: role(s, 500, 0)), 0),
    "it says so before": (before(one(*SERVED), lambda s: role(s, 1_100, 1)), 1),
    "it says so as it answers": (before(one(*SERVED), lambda s: role(s, 5_500, 1)), 0),
    "it was stopped meanwhile": (
        before(one(*SERVED), lambda s: s.add("node_event", 5_500, node=2, event="pause")),
        0,
    ),
    "another leads soon": (
        lambda: _told(story((1_000, 2), (6_500, 3)), *SERVED),
        0,
    ),
    "another leads later": (lambda: _told(story((1_000, 2), (8_000, 3)), *SERVED), 1),
    "it leads in another epoch": (lambda: _told(story((1_000, 2), (5_500, 2)), *SERVED), 0),
    "nobody knows who led when": (
        lambda: _shown(one(*SERVED)()),
        0,
    ),
    "a forger told it to stop": (
        before(
            one(*SERVED),
            lambda s: s.add(
                "forged", 5_500, node=2, api="STOP_REPLICA", error=0, type="ok", lie=None,
                topic=OFFSETS_TOPIC, partition=MINE, invoke_t=5_400,
            ),
        ),
        0,
    ),
}  # fmt: skip


def _told(told: Story, *steps: tuple[float, int]) -> Story:
    for t, error in steps:
        step(told, t, 2, error)
    return told


def _shown(told: Story) -> Story:
    for row in told.rows["leadership"]:
        row["source"] = "shown"
    return told


@pytest.mark.parametrize("name", CASES)
@judging(ruled(in_office))
def test_who_has_served_a_group_serves_it_until_it_is_deposed(name: str) -> Asks:
    make, broken = CASES[name]
    told = make()
    found = yield told
    assert [f.rule for f in found.findings] == [DENIES] * broken
    assert bool(found.excused) is ("forger" in name)
    assert not broken or found.evidence[told.arm, 0, IN_OFFICE]


def acts(*steps: Any) -> Any:
    """Answers of nodes; node 2 leads from 1 s to 10 s, then node 3."""

    def made() -> Story:
        told = story((1_000, 2), (10_000, 3))
        for t, node, error, *name in steps:
            step(told, t, node, error, *name)
        return told

    return made


def paused(told: Story, t: float) -> None:
    told.add("node_event", t, node=2, event="pause")


GONE = ((5_000, 2, 0), (13_500, 2, 16))
KEPT = ((5_000, 2, 0), (14_000, 2, 16, "raise"))
ACTS: dict[str, tuple[Any, int]] = {
    "it has not led": (acts((5_000, 3, 0)), 1),
    "it has not led, and knows members": (acts((5_000, 3, 25)), 1),
    "it never leads": (acts((5_000, 4, 0)), 1),
    "it sends away": (acts((5_000, 3, 16)), 0),
    "it is about to be seen to lead": (acts((9_500, 3, 0)), 0),
    "it has not heard of its successor": (acts((5_000, 2, 0), (15_000, 2, 0)), 0),
    "it had said that it does no more": (acts(*GONE, (15_000, 2, 0)), 1),
    "as it is deposed": (acts((5_000, 2, 0), (10_500, 2, 16), (10_700, 2, 0)), 0),
    "it could not keep what it was to": (acts(*KEPT, (15_000, 2, 0)), 0),
    "it says so for good": (acts(*GONE, (15_000, 2, 16)), 0),
    "it never acted before": (acts((14_000, 2, 16), (15_000, 2, 0)), 1),
    "it had stood still": (
        before(acts((14_000, 2, 16), (15_000, 2, 0)), lambda s: paused(s, 9_500)),
        0,
    ),
}


@pytest.mark.parametrize("name", ACTS)
@judging(ruled(in_office))
def test_who_has_not_led_does_nothing_for_a_group(name: str) -> Asks:
    make, broken = ACTS[name]
    found = yield make()
    assert [f.rule for f in found.findings] == [OTHER] * broken


def leads_elsewhere(*said: tuple[float, int, int], asked: float = 25_000, node: int = 2) -> Any:
    """Node 2 leads the group's partition from 1 s to 10 s, and others all along; ``said``: when,
    in which epoch, and whom it said to lead there; who is asked says at last that all is well."""

    def made() -> Story:
        told = acts((5_000, 2, 0), (asked, node, 0))()
        role(told, 1_100, 1)
        for partition in set(range(PARTITIONS)) - {MINE}:
            role(told, 12_000, 2, partition=partition)
        for t, epoch, leader in said:
            role(told, t, epoch, leader)
        return told

    return made


def step_down(told: Story, *, delete: bool = True) -> None:
    at = {"topic": OFFSETS_TOPIC, "partition": MINE}
    told.add("replica_stop", 10_100, node=2, delete=delete, leader_epoch=2, **at)


FOLLOWS: dict[str, tuple[Any, int]] = {
    "it follows": (leads_elsewhere((10_100, 2, 3)), 1),
    "it has not heard of it": (leads_elsewhere(), 0),
    "it has hardly said so": (leads_elsewhere((10_100, 2, 3), asked=18_000), 0),
    "it says so of another one": (
        before(leads_elsewhere(), lambda s: role(s, 10_100, 2, 3, (MINE + 1) % PARTITIONS)),
        0,
    ),
    "it says so again and again": (leads_elsewhere((10_100, 2, 3), (24_000, 3, 3)), 1),
    "it says that it leads again": (leads_elsewhere((10_100, 2, 3), (20_000, 3, 2)), 0),
    "it holds no replica any more": (before(leads_elsewhere(), step_down), 1),
    "another one is asked": (leads_elsewhere((10_100, 2, 3), node=3), 0),
    "it was paused as it was asked": (
        before(leads_elsewhere((10_100, 2, 3)), lambda s: paused(s, 24_500)),
        0,
    ),
    "it is told that it leads": (
        before(
            leads_elsewhere((10_100, 2, 3)),
            lambda s: s.commit(24_000, 2, 3, topic=OFFSETS_TOPIC, partition=MINE),
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", FOLLOWS)
@judging(ruled(in_office))
def test_who_follows_there_lets_go_of_its_groups_whatever_else_it_leads(name: str) -> Asks:
    make, broken = FOLLOWS[name]
    found = yield make()
    assert [f.rule for f in found.findings] == [OTHER] * broken


@judging(ruled(in_office))
def test_who_leads_once_more_acts_once_more() -> Asks:
    told = story((1_000, 2), (10_000, 3), (12_000, 2))
    for t, error in ((5_000, 0), (10_500, 16), (15_000, 0)):
        step(told, t, 2, error)
    found = yield told
    assert not found.findings
