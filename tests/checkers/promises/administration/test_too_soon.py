"""Who is told of what was done can see it at who says so; both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.administration import check
from checkers.promises.administration.too_soon import SHOWN
from tests.checkers.conftest import ARM
from tests.checkers.promises.administration.cluster import ASKED, Cluster
from tests.checkers.together import Asks, judging

RULE = "answered-too-soon"
ANSWERED = ASKED + 20


def asks(c: Cluster, api: str, about: str, error: int = 0, t: float = ANSWERED) -> None:
    fields = {"type": "ok" if error == 0 else "fail", "error": error, "process": "harness"}
    c.story.add("admin_request", t, invoke_t=ASKED, node=2, api=api, about=about, **fields)


def shows(c: Cluster, t: float, epoch: int | None, *, node: int = 2, **more: Any) -> None:
    """Asked 5 ms before; ``epoch`` None: there is no such topic."""
    told = {"leader": 1, "leader_epoch": epoch, "partition": 0, "error": 0}
    told = {"error": 3, "partition": None} if epoch is None else told
    fields = {"node": node, "invoke_t": t - 5, "topic": "t", "type": "ok", **told, **more}
    c.story.add("metadata", t, **fields)


def led(c: Cluster, t: float, leader: int, epoch: int) -> None:
    at = {"topic": "t", "partition": 0, "controller_epoch": 1}
    c.wrote(t, "state", "set", leader=leader, leader_epoch=epoch, isr=[1, 3], **at)


def elected(c: Cluster) -> None:
    c.made(state_after=1)
    led(c, 30_000, 3, 1)
    led(c, ASKED + 5, 1, 2)
    asks(c, "ELECT_LEADERS", "t-0")


def made(c: Cluster) -> None:
    c.made(ASKED + 5, state_after=3)
    asks(c, "CREATE_TOPICS", "t")


Tell = Callable[[Cluster], object]
CASES: dict[str, tuple[tuple[Tell, ...], int, int]] = {
    # What tells it, how often the rule is broken, and how many answers are judged.
    "of the former leader": ((elected, lambda c: shows(c, ANSWERED + 9, 1)), 1, 1),
    "of the new one": ((elected, lambda c: shows(c, ANSWERED + 9, 2)), 0, 1),
    "of a later one": ((elected, lambda c: shows(c, ANSWERED + 9, 3)), 0, 1),
    "of the former one to who had asked before": (
        (elected, lambda c: shows(c, ANSWERED + 4, 1)),
        *(0, 0),
    ),
    "of the former one, by another broker": (
        (elected, lambda c: shows(c, ANSWERED + 9, 1, node=3)),
        *(0, 0),
    ),
    "of another partition": ((elected, lambda c: shows(c, ANSWERED + 9, 1, partition=1)), 0, 0),
    "of another topic": ((elected, lambda c: shows(c, ANSWERED + 9, 1, topic="u")), 0, 0),
    "of no leader epoch, as old versions do": (
        (elected, lambda c: shows(c, ANSWERED + 9, -1)),
        0,
        1,
    ),
    "long after": ((elected, lambda c: shows(c, ANSWERED + 2_900, 1)), 0, 0),
    "beside a fault": (
        (
            elected,
            lambda c: c.fault("toxic", ASKED - 2_000, ASKED + 900, [2]),
            lambda c: shows(c, ANSWERED + 9, 1),
        ),
        *(0, 0),
    ),
    "beside a flood": (
        (
            elected,
            lambda c: c.fault("flood-produce", ASKED - 2_000, ASKED + 900, [2]),
            lambda c: shows(c, ANSWERED + 9, 1),
        ),
        *(1, 1),
    ),
    "told late of its own decision": (
        (
            elected,
            lambda c: c.fault("unheard-election", ASKED - 100, ASKED + 900, [2]),
            lambda c: shows(c, ANSWERED + 9, 1),
        ),
        *(1, 1),
    ),
    "of who began anew": (
        (
            elected,
            lambda c: c.event(ANSWERED + 2, 2, "kill"),
            lambda c: c.event(ANSWERED + 3, 2, "start"),
            lambda c: shows(c, ANSWERED + 9, 1),
        ),
        *(0, 0),
    ),
    "of an election that was refused": (
        (
            lambda c: (c.made(state_after=1), led(c, 30_000, 3, 1), led(c, ASKED + 5, 1, 2)),
            lambda c: asks(c, "ELECT_LEADERS", "t-0", 84),
            lambda c: shows(c, ANSWERED + 9, 1),
        ),
        *(0, 0),
    ),
    "of an election of long before": (
        (
            lambda c: (c.made(state_after=1), led(c, 30_000, 3, 1), led(c, 35_000, 1, 2)),
            lambda c: asks(c, "ELECT_LEADERS", "t-0"),
            lambda c: shows(c, ANSWERED + 9, 1),
        ),
        *(0, 0),
    ),
    "there is no such topic": ((made, lambda c: shows(c, ANSWERED + 9, None)), 1, 1),
    "there is such a topic": ((made, lambda c: shows(c, ANSWERED + 9, 0)), 0, 1),
    "there is none, to who had asked before": (
        (made, lambda c: shows(c, ANSWERED + 4, None)),
        0,
        0,
    ),
    "another error": ((made, lambda c: shows(c, ANSWERED + 9, None, error=5)), 0, 1),
    "of a topic that is to be deleted": (
        (
            made,
            lambda c: c.story.add("topic_deletion", ANSWERED + 2, topic="t", step="requested"),
            lambda c: shows(c, ANSWERED + 9, None),
        ),
        *(0, 0),
    ),
    "twice": (
        (made, lambda c: shows(c, ANSWERED + 9, None), lambda c: shows(c, ANSWERED + 20, None)),
        *(1, 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_what_is_said_to_be_done_shows(name: str) -> Asks:
    steps, broken, judged = CASES[name]
    cluster = Cluster()
    for step in steps:
        step(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings if f.rule == RULE] == [RULE] * broken
    assert outcome.evidence.get((ARM, 0, SHOWN), 0) == judged
