"""Who is dropped though it was at the log's end a moment ago; and what looks like it, lawful."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkers.promises.departures import check
from checkers.promises.departures.dropped_early import BEGUN, LIMIT, RULE
from tests.checkers.conftest import ARM
from tests.checkers.promises.test_departures import Zoo
from tests.checkers.together import Asks, judging

SETS: dict[str, tuple[Callable[[Zoo], object], bool]] = {
    "nobody is dropped": (lambda s: None, False),
    "at once": (lambda s: s.state(900, 1, [1, 3], partition_epoch=2), True),
    "while the limit lasts": (lambda s: s.state(22_000, 1, [1, 3], partition_epoch=2), True),
    "when the limit is nearly over": (
        lambda s: s.state(24_000, 1, [1, 3], partition_epoch=2),
        False,
    ),
    "one after the other": (
        lambda s: (
            s.state(2_000, 1, [1, 3], partition_epoch=2),
            s.state(3_000, 1, [1], partition_epoch=3),
        ),
        True,
    ),
    "by the controller": (
        lambda s: s.state(2_000, 1, [1, 3], leader_epoch=2, partition_epoch=2),
        False,
    ),
    "by the next leader": (
        lambda s: (
            s.state(30_000, 3, [1, 2, 3], leader_epoch=2, partition_epoch=2),
            s.state(32_000, 3, [1, 3], leader_epoch=2, partition_epoch=3),
        ),
        True,
    ),
    "who came meanwhile": (
        lambda s: (
            s.state(30_000, 1, [1, 3], leader_epoch=2, partition_epoch=2),
            s.state(31_000, 1, [1, 2, 3], leader_epoch=2, partition_epoch=3),
            s.state(32_000, 1, [1, 3], leader_epoch=2, partition_epoch=4),
        ),
        False,
    ),
    "of a topic that was made again": (
        lambda s: (
            s.write(900, "state", "removed", topic="t", partition=0),
            s.state(2_000, 1, [1, 3]),
        ),
        False,
    ),
}


def _limited(limit_ms: int | None = 30_000) -> Zoo:
    story = Zoo()
    story.run["arms"][ARM][LIMIT] = limit_ms
    return story


@pytest.mark.parametrize("name", SETS)
@judging(check)
def test_who_begins_to_lead_drops_nobody_at_once(name: str) -> Asks:
    tell, is_found = SETS[name]
    story = _limited()
    tell(story)
    outcome = yield story
    assert bool([f for f in outcome.findings if f.rule == RULE]) is is_found
    assert outcome.evidence[ARM, 0, BEGUN]


@pytest.mark.parametrize(("limit_ms", "is_found"), [(1_500, False), (None, False), (3_000, True)])
@judging(check)
def test_the_limit_is_what_brokers_were_told(limit_ms: int | None, is_found: bool) -> Asks:
    story = _limited(limit_ms)
    story.state(2_000, 1, [1, 3], partition_epoch=2)
    outcome = yield story
    assert bool([f for f in outcome.findings if f.rule == RULE]) is is_found


def _came(
    *,
    sent: float = 35_000,
    took: float = 20,
    acks: int = -1,
    type: str = "ok",
    elected: float | None = None,
) -> Zoo:
    """Broker 2 comes into sync at 31 s, a record is sent, and broker 2 is dropped at 40 s; another
    controller is elected."""
    story = _limited()
    sets = [(30_000.0, [1, 3]), (31_000.0, [1, 2, 3]), (40_000.0, [1, 3])]
    for number, (t, isr) in enumerate(sets, 2):
        if elected is not None and elected < t:
            story.write(elected, "controller", "created", node=1)
            elected = None
        story.state(t, 1, isr, leader_epoch=2, partition_epoch=number)
    if elected is not None:
        story.write(elected, "controller", "created", node=1)
    wrote(story, sent, took, acks=acks, type=type)
    return story


def wrote(story: Zoo, t: float, took: float = 20, *, acks: int = -1, type: str = "ok") -> Zoo:
    error = {"ok": 0, "fail": 6, "info": None}[type]
    at = {"topic": "t", "partition": 0, "value": int(t), "offset": 5 if type == "ok" else None}
    story.add("produce", t + took, type=type, invoke_t=t, acks=acks, error=error, **at)
    return story


ALONE: dict[str, tuple[Callable[[], Zoo], bool]] = {
    "acknowledged alone": (_came, True),
    "as another controller comes into office": (lambda: _came(elected=32_000), False),
    "long after another came into office": (lambda: _came(elected=29_000), True),
    "before another comes into office": (lambda: _came(elected=41_000), True),
    "before it came": (lambda: _came(sent=30_500), False),
    "as it came": (lambda: _came(sent=30_990), False),
    "as it was dropped": (lambda: _came(sent=39_990), False),
    "acks=1": (lambda: _came(acks=1), False),
    "never acknowledged": (lambda: _came(type="info"), False),
    "with another on its way": (lambda: wrote(_came(), 34_990, acks=1), False),
    "with another right after it": (lambda: wrote(_came(), 35_015, acks=1), False),
    "with another before it": (lambda: wrote(_came(), 34_900), True),
    "with another that was refused": (lambda: wrote(_came(), 34_900, type="fail"), True),
    "after another of which nobody knows": (
        lambda: wrote(_came(), 30_000, acks=1, type="info"),
        False,
    ),
    "long after one of which nobody knows": (
        lambda: wrote(_came(), 20_000, acks=1, type="info"),
        True,
    ),
}


@pytest.mark.parametrize("name", ALONE)
@judging(check)
def test_who_was_at_the_logs_end_is_not_dropped_at_once(name: str) -> Asks:
    tell, is_found = ALONE[name]
    outcome = yield tell()
    assert bool([f for f in outcome.findings if f.rule == RULE]) is is_found
