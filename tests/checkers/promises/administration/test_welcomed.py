"""Who registers is told of the cluster in the name of that registration, both ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkers.promises.administration import check
from checkers.promises.administration.welcomed import WELCOMED
from tests.checkers.promises.administration.cluster import Cluster
from tests.checkers.together import Asks, judging

RULE = "never-addressed"
BACK, EPOCH = 40_000, 700
"""When (ms) node 3 registers once more, and under which epoch. Node 2 is controller since 2 s."""
FIRST = {1: 1, 2: 2, 3: 3}
"""The epochs of their first registrations: what `Cluster` writes first."""


class Back:
    def __init__(self) -> None:
        self.cluster = Cluster()
        for node, epoch in FIRST.items():
            self.sent(2_100, node, epoch)
        self.cluster.wrote(BACK - 2_000, "broker", "removed", node=3)
        self.cluster.wrote(BACK, "broker", "created", node=3, zxid=EPOCH)

    def sent(self, t: float, to: int = 3, epoch: int | None = EPOCH, *, node: int = 2) -> None:
        told = {"api": "UPDATE_METADATA", "broker_epoch": epoch, "controller_epoch": 1}
        self.cluster.story.add("control_send", t, node=node, to=to, **told)

    def fault(self, name: str, from_t: float, to_t: float, *nodes: int) -> None:
        self.cluster.fault(name, from_t, to_t, list(nodes))


CASES: dict[str, tuple[Callable[[Back], object], int]] = {
    "told": (lambda b: b.sent(BACK + 100), 0),
    "told late": (lambda b: b.sent(BACK + 3_500), 1),
    "never told": (lambda b: None, 1),
    "told for the life before": (lambda b: b.sent(BACK + 100, epoch=3), 1),
    "told without an epoch": (lambda b: b.sent(BACK + 100, epoch=None), 1),
    "another is told": (lambda b: b.sent(BACK + 100, to=1), 1),
    "by a former controller": (lambda b: b.sent(BACK + 100, node=1), 0),
    "its link is down, and up again": (
        lambda b: (b.fault("link-down", BACK - 500, BACK + 2_000, 3), b.sent(BACK + 2_100)),
        0,
    ),
    "and nobody tells it then": (lambda b: b.fault("link-down", BACK - 500, BACK + 2_000, 3), 1),
    "its link is down for good": (lambda b: b.fault("link-down", BACK - 500, 90_000, 3), -1),
    "its link is down again and again": (
        lambda b: [
            b.fault("link-down", BACK + t, BACK + t + 900, 3) for t in range(0, 50_000, 2_000)
        ],
        -1,
    ),
    "another's link is down": (lambda b: b.fault("link-down", BACK - 500, 90_000, 1), 1),
    "the controller's link is down": (lambda b: b.fault("link-down", BACK - 500, 90_000, 2), -1),
    "the controller is told to elect": (lambda b: b.fault("move-leadership", BACK, 90_000, 2), 1),
    "what took it away lasts until it is ready": (
        lambda b: b.fault("kill", BACK - 5_000, 95_000, 3),
        1,
    ),
    "the controller hangs, and goes on": (
        lambda b: (
            b.fault("unseen-bounce", BACK - 3_000, BACK + 4_500, 3),
            b.cluster.event(BACK - 3_000, 2, "pause"),
            b.cluster.event(BACK + 1_000, 2, "resume"),
            b.sent(BACK + 3_900),
        ),
        0,
    ),
    "the controller hangs, goes on, and tells nobody": (
        lambda b: (
            b.fault("unseen-bounce", BACK - 3_000, BACK + 4_500, 3),
            b.cluster.event(BACK - 3_000, 2, "pause"),
            b.cluster.event(BACK + 1_000, 2, "resume"),
            b.sent(BACK + 4_100),
        ),
        1,
    ),
    "the office changes hands at once": (
        lambda b: (b.cluster.elected(BACK + 1_500, 1, 2), b.sent(BACK + 5_000, node=1)),
        0,
    ),
    "it is gone again soon": (
        lambda b: b.cluster.wrote(BACK + 2_500, "broker", "removed", node=3, zxid=701),
        -1,
    ),
    "it is gone again, and was there for long enough": (
        lambda b: b.cluster.wrote(BACK + 3_500, "broker", "removed", node=3, zxid=701),
        1,
    ),
    "and is back, and is told": (
        lambda b: (
            b.cluster.wrote(BACK + 1_500, "broker", "removed", node=3, zxid=701),
            b.cluster.wrote(BACK + 2_000, "broker", "created", node=3, zxid=702),
            b.sent(BACK + 2_100, epoch=702),
        ),
        0,
    ),
}
"""How often the rule is broken; -1: node 3's second registration is not judged."""


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_registers_is_told_of_the_cluster(name: str) -> Asks:
    tell, broken = CASES[name]
    back = Back()
    tell(back)
    story = back.cluster.story
    outcome = yield story
    assert outcome.counts.get(RULE, 0) == max(broken, 0)
    firsts = len(FIRST)
    assert outcome.evidence[story.arm, 0, WELCOMED] == firsts + (broken >= 0)


@judging(check)
def test_of_who_sends_no_epochs_nothing_is_judged() -> Asks:
    back = Back()
    for row in back.cluster.story.rows["control_send"]:
        row["broker_epoch"] = None
    outcome = yield back.cluster.story
    assert RULE not in outcome.counts
    assert outcome.evidence[back.cluster.story.arm, 0, WELCOMED] == 0


@judging(check)
def test_each_trial_has_its_own_controllers() -> Asks:
    back = Back()
    story = back.cluster.story
    story.trial = 1
    for row in (row for rows in story.rows.values() for row in rows):
        row["trial"] = 1
    outcome = yield story
    assert outcome.counts == {RULE: 1}
    assert outcome.evidence[story.arm, 1, WELCOMED] == len(FIRST) + 1
