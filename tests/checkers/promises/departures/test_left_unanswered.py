"""Who waits for what is committed already: both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.promises.departures import check
from checkers.promises.departures.kept_waiting import LATE_NS
from checkers.promises.departures.left_unanswered import SOON_NS, TICK_NS
from tests.checkers.conftest import ARM, MS, Story, judged_together
from tests.checkers.promises.departures.test_left_waiting import fault

SENT, ALLOWED = 10_000, 2_000
UP = SENT + ALLOWED
SOON = SOON_NS // MS


def story() -> Story:
    """Node 1 leads in leader epoch 3."""
    told = Story()
    workloads = [
        {"process": process, "role": role, "acks": -1, "topics": {"t": [0]}, **more}
        for process, role, more in (
            ("p", "direct-producer", {"ack_timeout_ms": ALLOWED}),
            ("silent", "direct-producer", {}),
            ("joint", "joint-producer", {"ack_timeout_ms": ALLOWED}),
        )
    ]
    trials = [
        {"arm": ARM, "trial": n, "workloads": workloads} for n in range(max(len(CASES), len(LONG)))
    ]
    told.run["trials"] = trials
    told.add("node_event", 10, node=1, event="start")
    told.commit(1_000, 1, 3)
    return told


def sent(told: Story, *, t: float = UP + 5, error: int | None = 7, **more: Any) -> None:
    outcome = {"type": "info" if error else "ok", "error": error, "invoke_t": SENT}
    told.produce(t, 77, None, **{"acks": -1, "node": 1, **outcome, **more})


def given(told: Story, t: float = SENT + 200, **more: Any) -> None:
    fields = {"process": "consumer", "offset": 5, "value": 77, "poll": 1, "leader_epoch": 3}
    told.add("fetch", t, **{**fields, **more})


CASES: dict[str, tuple[Any, bool]] = {
    "its time was up": (lambda s: (sent(s), given(s)), True),
    "given a moment before": (lambda s: (sent(s), given(s, UP - SOON + 10)), False),
    "given long enough before": (lambda s: (sent(s), given(s, UP - SOON - 10)), True),
    "given afterwards": (lambda s: (sent(s), given(s, UP + 50)), False),
    "the answer came late": (lambda s: (sent(s, t=UP + 3_000), given(s, UP + 50)), False),
    "of which leader epoch nobody tells": (
        lambda s: (sent(s), given(s, leader_epoch=None)),
        False,
    ),
    "another record was given": (lambda s: (sent(s), given(s, value=78)), False),
    "of another partition": (lambda s: (sent(s), given(s, partition=1)), False),
    "acknowledged": (lambda s: (sent(s, error=None), given(s)), False),
    "too few in sync": (lambda s: (sent(s, error=20), given(s)), False),
    "acks=1": (lambda s: (sent(s, acks=1), given(s)), False),
    "one of many partitions": (lambda s: (sent(s, process="joint"), given(s)), True),
    "one of many partitions, not committed": (
        lambda s: (sent(s, process="joint"), given(s, UP + 50)),
        False,
    ),
    "nobody says how long": (lambda s: (sent(s, process="silent"), given(s)), False),
    "a successor": (lambda s: (sent(s), given(s), s.commit(SENT + 100, 2, 4)), False),
    "a successor, long after": (lambda s: (sent(s), given(s), s.commit(UP + 5_000, 2, 4)), True),
    "of another partition a successor": (
        lambda s: (sent(s), given(s), s.commit(SENT + 100, 2, 4, partition=1)),
        True,
    ),
    "paused": (
        lambda s: (sent(s), given(s), s.add("node_event", 11_000, node=1, event="pause")),
        False,
    ),
    "another is paused": (
        lambda s: (sent(s), given(s), s.add("node_event", 11_000, node=2, event="pause")),
        True,
    ),
    "flooded": (lambda s: (sent(s), given(s), fault(s, "flood-fetch", 5_000, 9e4, 1)), False),
    "another's links": (
        lambda s: (sent(s), given(s), fault(s, "isr-lag", 5_000, 9e4, 3)),
        True,
    ),
}


@pytest.fixture(scope="module")
def judged(spark: Any) -> Any:
    stories = {name: story() for name in CASES}
    for name, (tell, _) in CASES.items():
        tell(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", CASES)
def test_what_is_committed_is_answered(judged: Any, name: str) -> None:
    rules, _ = judged[name]
    assert rules == ({"left-unanswered": 1} if CASES[name][1] else {})


TICK = TICK_NS / MS
EARLY: dict[str, tuple[Any, bool]] = {
    "at its time": (lambda s: sent(s, t=UP), False),
    "a tick before": (lambda s: sent(s, t=UP - TICK + 1), False),
    "before its time": (lambda s: sent(s, t=UP - TICK - 1), True),
    "of who is in trouble": (
        lambda s: (sent(s, t=UP - 500), s.add("node_event", 11_000, node=1, event="pause")),
        True,
    ),
    "too few in sync, at once": (lambda s: sent(s, t=SENT + 5, error=20), False),
    "acknowledged at once": (lambda s: sent(s, t=SENT + 5, error=None), False),
    "nobody says how long": (lambda s: sent(s, t=UP - 500, process="silent"), False),
    "acks=1": (lambda s: sent(s, t=UP - 500, acks=1), False),
}


@pytest.fixture(scope="module")
def judged_early(spark: Any) -> Any:
    stories = {name: story() for name in EARLY}
    for name, (tell, _) in EARLY.items():
        tell(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", EARLY)
def test_who_waits_is_not_given_up_too_soon(judged_early: Any, name: str) -> None:
    rules, _ = judged_early[name]
    assert rules == ({"given-up-too-soon": 1} if EARLY[name][1] else {})


OWED = UP + LATE_NS // MS


def told_others(
    told: Story, asked: float = OWED + 10, answered: float = OWED + 20, **at: Any
) -> None:
    told.add(
        "metadata",
        answered,
        **{"process": "reader", "node": 1, "type": "ok", "invoke_t": asked, **at},
    )


def hurt(told: Story, fault: str, links: list[str]) -> None:
    detail = json.dumps({"links": links} if links else {})
    for t, phase in ((5, "inject"), (OWED + 90, "heal"), (OWED + 95, "healed")):
        told.add("fault", t, fault=fault, id="f", phase=phase, nodes=[1], detail=detail)


LONG: dict[str, tuple[Any, bool]] = {
    "acknowledged at last": (lambda s: (sent(s, t=OWED + 50, error=None), told_others(s)), True),
    "told at last": (lambda s: (sent(s, t=OWED + 50, error=7), told_others(s)), True),
    "never told": (
        lambda s: (
            sent(s, t=OWED + 50, error=None, type="info", failure="timeout"),
            told_others(s),
        ),
        True,
    ),
    "its connection was lost": (
        lambda s: (
            sent(s, t=OWED + 50, error=None, type="info", failure="disconnect"),
            told_others(s),
        ),
        False,
    ),
    "a moment late": (
        lambda s: (sent(s, t=OWED - 10, error=None), told_others(s, 100, 200)),
        False,
    ),
    "nobody was answered": (lambda s: sent(s, t=OWED + 50, error=None), False),
    "others had come before": (
        lambda s: (sent(s, t=OWED + 50, error=None), told_others(s, OWED - 10)),
        False,
    ),
    "others were answered afterwards": (
        lambda s: (sent(s, t=OWED + 50, error=None), told_others(s, answered=OWED + 60)),
        False,
    ),
    "another broker answered": (
        lambda s: (sent(s, t=OWED + 50, error=None), told_others(s, node=2)),
        False,
    ),
    "paused meanwhile": (
        lambda s: (
            sent(s, t=OWED + 50, error=None),
            told_others(s),
            s.add("node_event", 11_000, node=1, event="pause"),
        ),
        False,
    ),
    **{
        f"while {fault} hurt {links}": (
            lambda s, fault=fault, links=links: (
                sent(s, t=OWED + 50, error=None),
                told_others(s),
                hurt(s, fault, links),
            ),
            lasts,
        )
        for fault, links, lasts in (
            ("isr-lag", ["inter-broker"], True),
            ("isr-lag", ["client", "inter-broker"], False),
            ("isr-lag", [], False),  # it pauses
            ("toxic", ["inter-broker", "control"], True),
            ("lagged-kill", ["inter-broker"], False),
        )
    },
    "nobody says how long": (
        lambda s: (sent(s, t=OWED + 50, error=None, process="silent"), told_others(s)),
        False,
    ),
    "acks=1": (lambda s: (sent(s, t=OWED + 50, error=None, acks=1), told_others(s)), False),
}


@pytest.fixture(scope="module")
def judged_long(spark: Any) -> Any:
    stories = {name: story() for name in LONG}
    for name, (tell, _) in LONG.items():
        tell(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", LONG)
def test_nobody_waits_longer_than_it_allows(judged_long: Any, name: str) -> None:
    rules, _ = judged_long[name]
    assert rules == ({"kept-waiting": 1} if LONG[name][1] else {})
