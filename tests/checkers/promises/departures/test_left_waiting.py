"""Who waits at a leader that leads no more, or has its replica no more: both ways."""

from __future__ import annotations

import json

import pytest

from checkers.promises.departures import check
from tests.checkers.conftest import ARM, Story, judged_together

DEMOTED = 10_000


def story() -> Story:
    """Node 1 leads, and follows node 2 from 10 s on."""
    told = Story()
    workloads = [
        {"process": process, "role": role, "acks": -1, "topics": {"t": [0]}}
        for process, role in (("p", "direct-producer"), ("joint", "joint-producer"))
    ]
    trials = [{"arm": ARM, "trial": n, "workloads": workloads} for n in range(len(CASES))]
    told.run["trials"] = trials
    told.add("leader_change", 1_000, node=1, role="leader", leader=1, leader_epoch=0)
    told.add("leader_change", DEMOTED, node=1, role="follower", leader=2, leader_epoch=1)
    sent(told, DEMOTED + 5, error=6)
    return told


def sent(
    told: Story, t: float, *, error: int = 7, at: float = DEMOTED - 500, **more: object
) -> None:
    fields = {"node": 1, "type": "info", "error": error, "invoke_t": at, **more}
    told.produce(t, int(t), None, acks=-1, **fields)


def fault(
    told: Story, name: str, from_ms: float, to_ms: float, *nodes: int, **detail: object
) -> None:
    steps = ((from_ms, "inject"), (from_ms + 50, "injected"), (to_ms, "heal"), (to_ms, "healed"))
    for t, phase in steps:
        text = json.dumps({} if phase == "inject" else detail)
        named = [] if phase == "inject" else list(nodes)
        told.add("fault", t, fault=name, id=name, phase=phase, nodes=named, detail=text)


LATE = DEMOTED + 3_000
CASES = {
    "timed out": (lambda s: sent(s, LATE), True),
    "timed out soon": (lambda s: sent(s, DEMOTED + 1_900), False),
    "told that it follows": (lambda s: sent(s, LATE, error=6), False),
    "sent afterwards": (lambda s: sent(s, LATE, at=DEMOTED + 100), False),
    "at another node": (lambda s: sent(s, LATE, node=3), False),
    "for many partitions": (lambda s: sent(s, LATE, process="joint"), False),
    "acks=1": (lambda s: s.produce(LATE, 9, None, acks=1, node=1, error=7, invoke_t=9_000), False),
    "its answers to peers are late": (
        lambda s: (sent(s, LATE), fault(s, "toxic", 5_000, 20_000, 1, links=["inter-broker"])),
        True,
    ),
    "its answers to clients are late": (
        lambda s: (sent(s, LATE), fault(s, "toxic", 5_000, 20_000, 1, links=["client"])),
        False,
    ),
    "moved": (
        lambda s: (sent(s, LATE), fault(s, "move-leadership", 9_900, 20_000, 1, 2)),
        True,
    ),
    "flooded": (lambda s: (sent(s, LATE), fault(s, "flood-fetch", 5_000, 20_000, 1)), False),
    "of an old release": (
        lambda s: (sent(s, LATE), s.run["arms"].update({ARM: {"stopped_leave_waiting": True}})),
        True,
    ),
    "another is flooded": (
        lambda s: (sent(s, LATE), fault(s, "flood-fetch", 5_000, 20_000, 3)),
        True,
    ),
    "flooded afterwards": (
        lambda s: (sent(s, LATE), fault(s, "flood-fetch", 14_000, 20_000, 1)),
        True,
    ),
    "nobody is named": (lambda s: (sent(s, LATE), fault(s, "churn", 5_000, 20_000)), False),
    "moved to others": (
        lambda s: (sent(s, LATE), fault(s, "reassign", 9_900, 20_000, 1, 2)),
        True,
    ),
    "paused": (
        lambda s: (sent(s, LATE), s.add("node_event", 11_000, node=1, event="pause")),
        False,
    ),
}


@pytest.fixture(scope="module")
def judged(spark):
    stories = {name: story() for name in CASES}
    for name, (tell, _) in CASES.items():
        tell(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", CASES)
def test_who_waits_at_who_leads_no_more_is_told_so(judged, name):
    assert judged[name][0] == ({"left-waiting": 1} if CASES[name][1] else {})


def put_aside(*, old: bool = False, delete: bool = True, led: bool = True, **more: object) -> Story:
    """Node 1 leads until it is told at 10 s to stop; what was sent to it before is answered late.
    ``more``: see `sent`."""
    told = story()
    told.run["arms"][ARM] = {"stopped_leave_waiting": old}
    told.rows["leader_change"].clear()
    told.add("leader_change", 1_000, node=1, role="leader", leader=1, leader_epoch=0)
    if not led:
        told.add("leader_change", 2_000, node=1, role="follower", leader=2, leader_epoch=1)
    told.add("leader_change", 9_900, node=2, role="leader", leader=2, leader_epoch=1)
    told.add("replica_stop", DEMOTED, node=1, delete=delete, leader_epoch=2)
    sent(told, LATE, **more)
    return told


def test_who_waits_at_who_has_its_replica_no_more_is_told_so(spark):
    wrong = {"timed out": put_aside()}
    again = put_aside()
    again.add("replica_stop", DEMOTED + 500, node=1, delete=True, leader_epoch=2)
    wrong["told twice"] = again
    moved = put_aside()
    fault(moved, "reassign", 9_000, 20_000, 1, 3)
    wrong["moved"] = moved
    lawful = {
        "told that it has it no more": put_aside(error=3),
        "sent afterwards": put_aside(at=DEMOTED + 100),
        "stopped, and no more": put_aside(delete=False),
        "it followed": put_aside(led=False),
        "before 2.4": put_aside(old=True),
    }
    flooded = put_aside()
    fault(flooded, "flood-fetch", 5_000, 20_000, 1)
    lawful["flooded"] = flooded
    found = judged_together(spark, check, wrong | lawful)
    assert {name for name, (rules, _) in found.items() if rules} == set(wrong)
    assert all(found[name][0] == {"left-waiting": 1} for name in wrong)
    (finding,) = check(wrong["timed out"].history(spark)).findings
    assert "put its replica aside" in finding.says
    excuses = check(lawful["before 2.4"].history(spark)).excuses()
    assert [(one.rule, one.excuse, one.n) for one in excuses] == [
        ("left-waiting", "aside-waiting", 1)
    ]
    assert not check(lawful["told that it has it no more"].history(spark)).excuses()
