"""Who asks for what is done then is told so; both ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkers.promises.administration import check
from checkers.promises.administration.withheld import AWAITED
from tests.checkers.promises.administration.cluster import ASKED, Cluster
from tests.checkers.together import Asks, judging

RULE = "answer-withheld"
CREATE, GROW, DELETE, ELECT = (
    *("CREATE_TOPICS", "CREATE_PARTITIONS"),
    *("DELETE_TOPICS", "ELECT_LEADERS"),
)
LONG, SHORT = 9_000, 4_000
"""How long an answer takes, in ms: longer than it may, and not so long."""


def asks(
    cluster: Cluster,
    api: str,
    took: float = LONG,
    *,
    about: str = "t",
    error: int = 0,
    node: int = 2,
    t: float = ASKED,
) -> None:
    fields = {"type": "ok" if error == 0 else "info", "error": error, "process": "harness"}
    where = {"node": node, "api": api, "about": about}
    cluster.story.add("admin_request", t + took, invoke_t=t, **where, **fields)


def deleted(cluster: Cluster, t: float) -> None:
    cluster.made(state_after=1)
    cluster.story.add("topic_deletion", ASKED + 5, topic="t", step="requested")
    cluster.wrote(t, "topic", "removed", topic="t")


def grown(cluster: Cluster, state_t: float | None) -> None:
    cluster.made(state_after=1)
    cluster.wrote(ASKED + 5, "topic", "set", replicas=[2, 3], topic="t", partition=1)
    if state_t is not None:
        led(cluster, state_t, 2, partition=1, step="created")


def led(cluster: Cluster, t: float, leader: int, partition: int = 0, *, step: str = "set") -> None:
    at = {"topic": "t", "partition": partition, "controller_epoch": 1}
    cluster.wrote(t, "state", step, leader=leader, leader_epoch=1, isr=[1, 3], **at)


def elected(cluster: Cluster, t: float) -> None:
    cluster.made(state_after=1)
    led(cluster, 30_000, 3)
    led(cluster, t, 1)


CASES: dict[str, tuple[Callable[[Cluster], object], int]] = {
    "made at once": (lambda c: (c.made(ASKED + 5, state_after=5), asks(c, CREATE, 20)), 0),
    "made, and told late": (lambda c: (c.made(ASKED + 5, state_after=5), asks(c, CREATE)), 1),
    "made, and told not much later": (
        lambda c: (c.made(ASKED + 5, state_after=5), asks(c, CREATE, SHORT)),
        0,
    ),
    "made, and told that its time was up": (
        lambda c: (c.made(ASKED + 5, state_after=5), asks(c, CREATE, error=7)),
        1,
    ),
    "made late": (lambda c: (c.made(ASKED + 5, state_after=8_000), asks(c, CREATE)), 0),
    "never made": (lambda c: (c.made(ASKED + 5), asks(c, CREATE, error=7)), 0),
    "refused late": (lambda c: (c.made(ASKED + 5, state_after=5), asks(c, CREATE, error=41)), 0),
    "said by nobody of what": (
        lambda c: (c.made(ASKED + 5, state_after=5), asks(c, CREATE, about="", error=7)),
        0,
    ),
    "made, and to be deleted": (
        lambda c: (
            *(c.made(ASKED + 5, state_after=5), asks(c, CREATE)),
            c.story.add("topic_deletion", ASKED + 50, topic="t", step="requested"),
        ),
        0,
    ),
    "given more, and told late": (lambda c: (grown(c, ASKED + 9), asks(c, GROW)), 1),
    "given more, at last": (lambda c: (grown(c, ASKED + 8_900), asks(c, GROW)), 0),
    "given more, and none of it led": (lambda c: (grown(c, None), asks(c, GROW, error=7)), 0),
    "deleted, and told late": (lambda c: (deleted(c, ASKED + 900), asks(c, DELETE)), 1),
    "deleted late": (lambda c: (deleted(c, ASKED + 8_900), asks(c, DELETE)), 0),
    "not deleted by then": (lambda c: (deleted(c, ASKED + 30_000), asks(c, DELETE)), 0),
    "deleted, and made again": (
        lambda c: (
            deleted(c, ASKED + 900),
            *(c.made(ASKED + 1_000, state_after=5), asks(c, DELETE)),
        ),
        0,
    ),
    "elected, and told late": (
        lambda c: (elected(c, ASKED + 5), asks(c, ELECT, about="t-0")),
        1,
    ),
    "elected late": (lambda c: (elected(c, ASKED + 8_000), asks(c, ELECT, about="t-0")), 0),
    "elected, and replaced": (
        lambda c: (elected(c, ASKED + 5), led(c, ASKED + 90, 3), asks(c, ELECT, about="t-0")),
        0,
    ),
    "there already when it was asked for": (
        lambda c: (elected(c, 35_000), asks(c, ELECT, SHORT, about="t-0")),
        0,
    ),
    "by who is no controller": (
        lambda c: (c.made(ASKED + 5, state_after=5), asks(c, CREATE, node=1)),
        0,
    ),
    "by who was elected meanwhile": (
        lambda c: (
            *(c.made(ASKED + 5, state_after=5), asks(c, CREATE)),
            *(c.wrote(ASKED + 100, "controller", "removed", node=2), c.elected(ASKED + 200, 2, 2)),
        ),
        0,
    ),
    "by who was paused": (
        lambda c: (
            *(c.made(ASKED + 5, state_after=5), asks(c, CREATE)),
            *(c.event(ASKED + 100, 2, "pause"), c.event(ASKED + 8_000, 2, "resume")),
        ),
        0,
    ),
    "beside a fault of its own": (
        lambda c: (
            *(c.made(ASKED + 5, state_after=5), asks(c, CREATE)),
            c.fault("toxic", ASKED, ASKED + 7_000, [2]),
        ),
        0,
    ),
    "beside a flood of its own": (
        lambda c: (
            *(c.made(ASKED + 5, state_after=5), asks(c, CREATE)),
            c.fault("flood-produce", ASKED, ASKED + 7_000, [2]),
        ),
        0,
    ),
    "beside a flood of another": (
        lambda c: (
            *(c.made(ASKED + 5, state_after=5), asks(c, CREATE)),
            c.fault("flood-produce", ASKED, ASKED + 7_000, [1]),
        ),
        1,
    ),
    "of a fault that only orders": (
        lambda c: (
            *(deleted(c, ASKED + 900), asks(c, DELETE)),
            c.fault("delete-topic", ASKED - 5, ASKED + 9_100, [1, 2, 3]),
        ),
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_an_answer_comes_when_it_is_done(name: str) -> Asks:
    says, wrong = CASES[name]
    cluster = Cluster()
    says(cluster)
    outcome = yield cluster.story
    found = [finding for finding in outcome.findings if finding.rule == RULE]
    assert len(found) == wrong


@judging(check)
def test_two_kinds_of_requests_are_two_findings() -> Asks:
    cluster = Cluster()
    elected(cluster, ASKED + 5)
    asks(cluster, ELECT, about="t-0")
    asks(cluster, ELECT, about="t-0", t=ASKED + 20_000)
    deletes_later(cluster)
    outcome = yield cluster.story
    assert [finding.rule for finding in outcome.findings].count(RULE) == 2


def deletes_later(cluster: Cluster) -> None:
    cluster.story.add("topic_deletion", ASKED + 30_000, topic="t", step="requested")
    cluster.wrote(ASKED + 30_100, "topic", "removed", topic="t")
    asks(cluster, DELETE, t=ASKED + 30_000)


@judging(check)
def test_what_is_judged_is_counted() -> Asks:
    cluster = Cluster()
    cluster.made(ASKED + 5, state_after=5)
    asks(cluster, CREATE, 20)
    outcome = yield cluster.story
    assert outcome.evidence[cluster.story.arm, 0, AWAITED] == 1
