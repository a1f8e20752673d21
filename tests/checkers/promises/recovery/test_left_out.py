"""Who is back between two faults, and is let into no in-sync set, and all that may not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.recovery.left_out import BACK, LONG_NS, left_out
from tests.checkers.conftest import ARM, MS, Story
from tests.checkers.together import Asks, judging

RULE = "left-out"
STOPPED, HEALED = 12_000, 20_000
NEXT = HEALED + LONG_NS // MS + 1_000


class Cluster:
    """Node 3 follows two partitions; it is stopped, and was back and registered when that fault was
    healed. Its controller, node 1, was in office before."""

    def __init__(self, next_t: float = NEXT) -> None:
        self.story, self._zxid = Story(), 0
        for node in (1, 2, 3):
            self.event(500, node, "start")
            self.wrote(1_000, "broker", "created", node=node)
        self.elected(1_500, 1)
        for partition in (0, 1):
            at = {"partition": partition, "replicas": [1, 2, 3]}
            self.wrote(2_000, "topic", "created", topic="t", **at)
            self.sync(2_100, partition, 1, 2, 3, epoch=0)
        self.fault("first", STOPPED, HEALED)
        self.event(STOPPED + 100, 3, "stop")
        self.wrote(STOPPED + 500, "broker", "removed", node=3)
        self.event(STOPPED + 600, 3, "stopped")
        self.event(HEALED - 2_000, 3, "start")
        self.wrote(HEALED - 1_000, "broker", "created", node=3)
        for partition in (0, 1):
            self.sync(STOPPED + 300, partition, 1, 2, epoch=1)
        self.fault("second", next_t, next_t + 1_000)

    def wrote(self, t: float, what: str, step: str, **fields: Any) -> None:
        self._zxid += 1
        zxid = fields.pop("zxid", self._zxid)
        where = {"topic": None, "partition": None, **fields}
        self.story.add("zk_write", t, zxid=zxid, what=what, step=step, **where)

    def elected(self, t: float, node: int) -> None:
        self.wrote(t, "controller", "created", node=node)
        self.wrote(t, "controller_epoch", "set", controller_epoch=int(t), zxid=self._zxid)

    def event(self, t: float, node: int, event: str) -> None:
        self.story.add("node_event", t, node=node, event=event)

    def fault(self, name: str, from_t: float, to_t: float) -> None:
        for phase, t in (("inject", from_t), ("injected", from_t + 1), ("healed", to_t)):
            self.story.add("fault", t, fault="stop", id=name, phase=phase, nodes=[3])

    def sync(self, t: float, partition: int, *isr: int, epoch: int, leader: int = 1) -> None:
        more = {"partition": partition, "isr": list(isr), "partition_epoch": epoch}
        self.story.commit(t, leader, 0, **more)


CASES: dict[str, tuple[Callable[[Cluster], object], bool, bool]] = {
    "it is let in nowhere": (lambda c: None, True, True),
    "it is let in everywhere": (
        lambda c: (c.sync(HEALED - 500, 0, 1, 2, 3, epoch=2), c.sync(HEALED, 1, 1, 3, epoch=2)),
        True,
        False,
    ),
    "it is let into one, late": (lambda c: c.sync(NEXT - 100, 1, 1, 2, 3, epoch=2), True, False),
    "it is let in with the next fault": (
        lambda c: c.sync(NEXT + 100, 1, 1, 2, 3, epoch=2),
        True,
        True,
    ),
    "another controller is elected": (lambda c: c.elected(HEALED + 3_000, 2), False, False),
    "another one was, before it was back": (lambda c: c.elected(HEALED - 4_000, 2), True, True),
    "it loses its session": (
        lambda c: (
            c.wrote(HEALED + 2_000, "broker", "removed", node=3),
            c.wrote(HEALED + 2_500, "broker", "created", node=3),
        ),
        False,
        False,
    ),
    "it ends": (lambda c: c.event(HEALED + 2_000, 3, "kill"), False, False),
    "nobody started it": (
        lambda c: c.story.rows.update(
            node_event=[
                r
                for r in c.story.rows["node_event"]
                if r["event"] != "start" or r["t"] < STOPPED * MS
            ]
        ),
        False,
        False,
    ),
    "it leads them": (
        lambda c: [c.sync(HEALED - 600, p, 3, epoch=2, leader=3) for p in (0, 1)],
        False,
        False,
    ),
    "nobody leads them": (
        lambda c: [c.sync(HEALED - 600, p, 2, epoch=2, leader=-1) for p in (0, 1)],
        False,
        False,
    ),
    "they were moved elsewhere": (
        lambda c: [
            c.wrote(HEALED - 600, "topic", "set", topic="t", partition=p, replicas=[1, 2])
            for p in (0, 1)
        ],
        False,
        False,
    ),
    "their topic is deleted": (
        lambda c: c.story.add("topic_deletion", 15_000, topic="t", step="requested"),
        False,
        False,
    ),
    "another fault is in place": (
        lambda c: c.fault("third", HEALED + 4_000, HEALED + 4_100),
        False,
        False,
    ),
    "a broker ended by itself": (lambda c: c.event(15_000, 2, "exited"), False, False),
    "nobody told of an election": (
        lambda c: c.story.rows.update(
            zk_write=[r for r in c.story.rows["zk_write"] if r["what"] != "controller"]
        ),
        False,
        False,
    ),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    for finding in left_out(history, outcome):
        outcome.add(finding)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_is_back_comes_in_sync_before_the_next_fault(name: str) -> Asks:
    tell, judged, broken = CASES[name]
    cluster = Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings] == [RULE] * broken
    assert outcome.evidence[ARM, 0, BACK] == judged


@judging(check)
def test_the_next_fault_comes_soon() -> Asks:
    assert not (yield Cluster(next_t=NEXT - 1_100).story).evidence
