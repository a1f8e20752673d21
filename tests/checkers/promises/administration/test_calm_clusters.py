"""What an operator asks for on a calm cluster is done, and one that comes up tells of itself; both
ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkers.promises.administration import ANSWERED, MADE, check
from tests.checkers.promises.administration.cluster import ASKED, Cluster
from tests.checkers.together import Asks, judging

REFUSED, UNANSWERED = "request-refused", "request-unanswered"
VACANT, UNTOLD, UNMADE = "never-elected", "never-told", "never-made"


def grown(cluster: Cluster, *, led: bool = False) -> None:
    for partition in (0, 1):
        at = {"topic": "t", "partition": partition, "zxid": 900}
        cluster.wrote(30_000, "topic", "set", replicas=[1, 3], **at)
    if led:
        led_at(cluster, 30_010)


def led_at(cluster: Cluster, t: float) -> None:
    state = {"leader": 1, "leader_epoch": 0, "isr": [1, 3], "controller_epoch": 1}
    cluster.wrote(t, "state", "created", topic="t", partition=1, **state)


CASES: dict[str, tuple[Callable[[Cluster], object], str | None]] = {
    "done": (lambda c: c.asked(0), None),
    "refused": (lambda c: c.asked(42), REFUSED),
    "could not": (lambda c: c.asked(-1), REFUSED),
    "refused as it came up, and then done": (
        lambda c: (c.asked(39, 1_500), c.asked(0, 2_600)),
        None,
    ),
    "refused as it came up, and ever after": (
        lambda c: [c.asked(39, t) for t in (3_100, 5_000, 9_000)],
        REFUSED,
    ),
    "to be tried again": (lambda c: c.asked(7), None),
    "says that it is none": (lambda c: c.asked(41), "ruler-denies"),
    "says so of itself, and is none": (lambda c: c.asked(41, node=1), None),
    "says so as it had just been elected": (
        lambda c: (c.elected(ASKED - 3_000, 2, 2), c.asked(41)),
        None,
    ),
    "says so as its office was taken from it": (
        lambda c: (
            c.asked(41),
            c.wrote(ASKED + 5, "controller", "removed", node=2),
            c.elected(ASKED + 2_000, 3, 2),
        ),
        None,
    ),
    "says so long before that": (
        lambda c: (
            c.asked(41),
            c.wrote(ASKED + 3_000, "controller", "removed", node=2),
            c.elected(ASKED + 4_000, 3, 2),
        ),
        "ruler-denies",
    ),
    "says so beside a fault of its own": (
        lambda c: (c.fault("toxic", 30_000, 60_000, [2]), c.asked(41)),
        None,
    ),
    "says so as its leaderships are moved": (
        lambda c: (c.fault("move-leadership", 30_000, 60_000, [2]), c.asked(41)),
        "ruler-denies",
    ),
    "there already": (lambda c: c.asked(36), None),
    "a config that it does not know": (lambda c: (newer(c), c.asked(40)), REFUSED),
    "a config that another does not know": (lambda c: c.asked(40), None),
    "a config that it does not know, in unrest": (
        lambda c: (newer(c), c.fault("toxic", 30_000, 60_000, [2]), c.asked(40)),
        None,
    ),
    "who is not controller": (lambda c: c.asked(39, node=1), None),
    "a sound request, beside a fault of its own": (
        lambda c: (c.fault("toxic", 30_000, 60_000, [2]), c.asked(42)),
        REFUSED,
    ),
    "a sound request, by who is not controller": (lambda c: c.asked(42, node=1), REFUSED),
    "who was just elected": (lambda c: (c.elected(ASKED - 500, 2, 2), c.asked(-1)), None),
    "who was elected a moment ago": (
        lambda c: (c.elected(ASKED - 3_000, 2, 2), c.asked(-1)),
        REFUSED,
    ),
    "a broker had just died": (
        lambda c: (
            (c.event(ASKED - 9_000, 1, "kill"), c.event(ASKED - 2_000, 1, "start")) and c.asked(39)
        ),
        None,
    ),
    "beside a fault of its own": (
        lambda c: (c.fault("toxic", 30_000, 60_000, [2]), c.asked(-1)),
        None,
    ),
    "beside a fault of anybody": (
        lambda c: (c.fault("toxic", 30_000, 60_000, []), c.asked(-1)),
        None,
    ),
    "beside one of another": (
        lambda c: (c.fault("toxic", 30_000, 60_000, [1]), c.asked(42)),
        REFUSED,
    ),
    "beside what only asks": (
        lambda c: (c.fault("move-leadership", 30_000, 60_000, [2]), c.asked(42)),
        REFUSED,
    ),
    "no answer": (lambda c: c.asked(None, took=30_000), UNANSWERED),
    "a broken connection": (lambda c: c.asked(None, took=300), None),
    "its time was up": (lambda c: c.asked(7, took=20_000), None),
    "no answer, and it was replaced": (
        lambda c: (c.asked(None, took=30_000), c.elected(ASKED + 9_000, 3, 2)),
        None,
    ),
    "no answer, and it was paused": (
        lambda c: (c.asked(None, took=30_000), c.event(ASKED + 9_000, 2, "pause")),
        None,
    ),
    "made": (lambda c: c.made(state_after=100), None),
    "made late": (lambda c: c.made(state_after=30_000), None),
    "never made": (lambda c: c.made(), UNMADE),
    "it was not looked at for long": (lambda c: c.made(75_000), None),
    "made, and given more": (lambda c: (c.made(state_after=100), grown(c)), UNMADE),
    "made, and given more by a fault": (
        lambda c: (
            *(c.made(state_after=100), grown(c)),
            c.fault("grow-topic", 29_000, 61_000, [1, 2, 3]),
        ),
        UNMADE,
    ),
    "made, and given more beside a fault": (
        lambda c: (
            *(c.made(state_after=100), grown(c)),
            c.fault("toxic", 29_000, 61_000, [1]),
        ),
        UNMADE,
    ),
    "made, given more beside a fault, and made when it is over": (
        lambda c: (
            *(c.made(state_after=100), grown(c), led_at(c, 62_000)),
            c.fault("toxic", 29_000, 61_000, [1]),
        ),
        None,
    ),
    "made, given more beside a fault, and not looked at for long after it": (
        lambda c: (
            *(c.made(state_after=100), grown(c)),
            c.fault("toxic", 29_000, 81_000, [1]),
        ),
        None,
    ),
    "made, given more beside a fault, and the next one follows": (
        lambda c: (
            *(c.made(state_after=100), grown(c)),
            *(c.fault("toxic", 29_000, 31_000, [1]), c.fault("isolate", 40_000, 81_000, [1])),
        ),
        None,
    ),
    "made, given more, and it is led": (
        lambda c: (c.made(state_after=100), grown(c, led=True)),
        None,
    ),
    "made, given more, and the next one makes it": (
        lambda c: (
            *(c.made(state_after=100), grown(c)),
            *(c.wrote(60_000, "controller", "removed", node=2), c.elected(60_100, 3, 2)),
            led_at(c, 60_200),
        ),
        UNMADE,
    ),
    "made, given more, and made late": (
        lambda c: (c.made(state_after=100), grown(c), led_at(c, 60_200)),
        None,
    ),
    "there before anybody looked, and given more": (grown, None),
    "made, removed, and written once more": (
        lambda c: (
            *(c.made(state_after=100), c.wrote(25_000, "topic", "removed", topic="t")),
            grown(c),
        ),
        None,
    ),
    "to be deleted": (
        lambda c: (c.made(), c.story.add("topic_deletion", 21_000, topic="t", step="requested")),
        None,
    ),
    "a replica had gone": (
        lambda c: (c.made(), c.wrote(25_000, "broker", "removed", node=3)),
        None,
    ),
    "the controller had gone": (
        lambda c: (
            (c.made(), c.wrote(25_000, "controller", "removed", node=2)) and c.elected(26_000, 3, 2)
        ),
        None,
    ),
    "the office fell vacant": (
        lambda c: c.wrote(40_000, "controller", "removed", node=2),
        VACANT,
    ),
    "and was taken again": (
        lambda c: (c.wrote(40_000, "controller", "removed", node=2), c.elected(41_000, 3, 2)),
        None,
    ),
    "it fell vacant by a fault that names one": (
        lambda c: (
            c.fault("link-down", 39_000, 70_000, [2]),
            c.wrote(40_000, "controller", "removed", node=2),
        ),
        VACANT,
    ),
    "it fell vacant by a fault of anybody": (
        lambda c: (
            c.fault("link-down", 39_000, 70_000, []),
            c.wrote(40_000, "controller", "removed", node=2),
        ),
        None,
    ),
    "it fell vacant by a fault of all": (
        lambda c: (
            c.fault("link-down", 39_000, 70_000, [1, 2, 3]),
            c.wrote(40_000, "controller", "removed", node=2),
        ),
        None,
    ),
    "two died, and the third never stood": (
        lambda c: (
            c.fault("joint-death", 39_000, 70_000, [1, 2]),
            [c.event(39_500, node, "kill") for node in (1, 2)],
            c.wrote(41_000, "broker", "removed", node=1),
            c.wrote(41_100, "controller", "removed", node=2),
            c.wrote(41_200, "broker", "removed", node=2),
        ),
        VACANT,
    ),
    "two died, and the third was paused": (
        lambda c: (
            c.fault("joint-death", 39_000, 70_000, [1, 2]),
            c.event(50_000, 3, "pause"),
            c.wrote(41_000, "broker", "removed", node=1),
            c.wrote(41_100, "controller", "removed", node=2),
            c.wrote(41_200, "broker", "removed", node=2),
        ),
        None,
    ),
    "all were stopped": (
        lambda c: (
            [c.event(86_000, node, "stop") for node in (1, 2, 3)],
            c.wrote(87_000, "controller", "removed", node=2),
            [c.wrote(88_000, "broker", "removed", node=node) for node in (1, 2, 3)],
        ),
        None,
    ),
}


def newer(cluster: Cluster) -> None:
    """It answers as releases since 3.3 do."""
    story = cluster.story
    facts = {**story.run["arms"].get(story.arm, {}), "mixes_config_errors": False}
    story.run = {**story.run, "arms": {story.arm: facts}}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_what_is_asked_for_on_a_calm_cluster_is_done(name: str) -> Asks:
    tell, rule = CASES[name]
    cluster = Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings] == ([] if rule is None else [rule])
    asked = name not in ("made", "made late") and cluster.story.rows.get("admin_request")
    assert bool(outcome.evidence[cluster.story.arm, 0, ANSWERED]) is bool(asked)
    assert bool(outcome.evidence[cluster.story.arm, 0, MADE]) is ("made" in name or name in _MADE)


_MADE = {"to be deleted", "it was not looked at for long"} | {
    "a replica had gone",
    "the controller had gone",
}


FORMING: dict[str, tuple[Callable[[Cluster], object], bool]] = {
    "one never told of the cluster": (lambda c: c.untold(), True),
    "who is controller itself": (lambda c: c.untold(node=2), True),
    "all had come a moment ago": (lambda c: c.untold(15_000), False),
    "one came late": (
        lambda c: (
            c.event(500, 4, "start"),
            c.wrote(50_000, "broker", "created", node=4),
            c.untold(),
        ),
        False,
    ),
    "one never came": (lambda c: (c.event(500, 4, "start"), c.untold()), False),
    "a controller after the other": (lambda c: (c.elected(50_000, 3, 2), c.untold()), False),
    "one had died meanwhile": (lambda c: (c.event(50_000, 3, "exited"), c.untold()), False),
}


@pytest.mark.parametrize("name", FORMING)
@judging(check)
def test_a_cluster_that_comes_up_tells_of_itself(name: str) -> Asks:
    tell, is_found = FORMING[name]
    cluster = Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings] == [UNTOLD] * is_found
    assert not outcome.evidence[cluster.story.arm, 0, ANSWERED]


@pytest.mark.parametrize("later", [None, 5_000, 60_000])
@judging(check)
def test_of_brokers_that_are_there_one_is_controller(later: float | None) -> Asks:
    cluster = Cluster(elected=False)
    if later is not None:
        cluster.elected(later, 1, 1)
    findings = (yield cluster.story).findings
    assert [f.rule for f in findings] == ([] if later == 5_000 else [VACANT])
