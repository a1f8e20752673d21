"""acks=1 that waits for more than its leader: both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.departures import check
from checkers.promises.departures.one_kept_waiting import ANSWERED, LATE_NS
from tests.checkers.conftest import ARM, MS, Story, judged_together
from tests.checkers.promises.departures.test_left_waiting import fault

SENT = 10_000
NEXT = SENT + 50
LATE = LATE_NS / MS
SLACK = 60
"""What clocks may be off, and more."""
OWED = NEXT + LATE


def story() -> Story:
    """Node 1 leads; wall clocks show the same as all others."""
    told = Story()
    workloads = [
        {"process": process, "role": role, "acks": acks, "topics": {"t": [0]}}
        for process, role, acks in (
            ("p", "direct-producer", 1),
            ("another", "direct-producer", 1),
            ("all", "direct-producer", -1),
            ("library", "producer", 1),
        )
    ]
    told.run["trials"] = [{"arm": ARM, "trial": n, "workloads": workloads} for n in range(64)]
    told.run["clock"] = {"monotonic_minus_wall_ns": 0, "error_ns": 0}
    told.run["arms"] = {ARM: {"traces": ["1"]}}
    told.add("node_event", 10, node=1, event="start")
    told.commit(1_000, 1, 3)
    return told


def sent(
    told: Story, *, t: float = OWED + 500, next_t: float = NEXT, by: str = "", **more: Any
) -> None:
    """A record, and one that was appended after it."""
    own = {"node": 1, "invoke_t": SENT, "log_append_time_ms": SENT, **more}
    told.produce(t, 7, own.pop("offset", 5), **own)
    after = {"node": 1, "invoke_t": next_t, "log_append_time_ms": int(next_t)}
    after["process"] = by or own.get("process", "p")
    told.produce(next_t + 5, 8, 6, **after)


def asked(told: Story, t: float = OWED + 300, **more: Any) -> None:
    told.read(t, 1, 3, **{"invoke_t": t - 10, **more})


def both(**more: Any) -> Any:
    return lambda s: (sent(s, **more), asked(s))


LED_AGAIN: dict[str, Any] = {"next_t": SENT - 5_000, "by": "another"}
"""The record at the next offset was of before."""
CASES: dict[str, tuple[Any, bool]] = {
    "waited": (both(), True),
    "not for long": (both(t=OWED - 10), False),
    "hardly longer than is right": (lambda s: (sent(s, t=OWED + 30), asked(s, OWED + 20)), False),
    "a little longer": (
        lambda s: (sent(s, t=OWED + SLACK + 40), asked(s, OWED + SLACK + 20)),
        True,
    ),
    "nobody came later": (lambda s: (sent(s), asked(s, OWED - 50)), False),
    "nobody who came later was answered before": (
        lambda s: (sent(s), asked(s, OWED + 600)),
        False,
    ),
    "another broker answered": (lambda s: (sent(s), s.read(OWED + 300, 2, 3)), False),
    "the log stood still": (both(next_t=OWED + 400), False),
    "nothing came after it": (both(offset=7), False),
    "another leader took the next": (lambda s: (sent(s), asked(s), by_another(s)), False),
    "the next was taken long before, and cut": (
        lambda s: (sent(s, **LED_AGAIN), asked(s), epochs(s, 3, 0)),
        False,
    ),
    "so it was, and nobody tells of epochs": (lambda s: (sent(s, **LED_AGAIN), asked(s)), False),
    "each is told with its epoch": (lambda s: (sent(s), asked(s), epochs(s, 3, 3)), True),
    "the next is of another epoch": (lambda s: (sent(s), asked(s), epochs(s, 3, 4)), False),
    "acks=all": (both(process="all", acks=-1), False),
    "of who keeps records back": (both(process="library"), False),
    "refused": (both(type="fail", error=19), False),
    "nobody dates it": (lambda s: (sent(s), asked(s), undated(s)), False),
    "paused": (lambda s: (sent(s), asked(s), event(s, "pause")), False),
    "another is paused": (lambda s: (sent(s), asked(s), event(s, "pause", 2)), True),
    "flooded": (lambda s: (sent(s), asked(s), fault(s, "flood-fetch", 5_000, 9e4, 1)), False),
    "another broker is": (
        lambda s: (sent(s), asked(s), fault(s, "flood-fetch", 5e3, 9e4, 3)),
        True,
    ),
}


def epochs(told: Story, *leader_epochs: int) -> None:
    for row, leader_epoch in zip(told.rows["produce"], leader_epochs, strict=True):
        row["leader_epoch"] = leader_epoch


def by_another(told: Story) -> None:
    told.rows["produce"][1]["node"] = 2


def undated(told: Story) -> None:
    for row in told.rows["produce"]:
        row["log_append_time_ms"] = -1


def event(told: Story, name: str, node: int = 1) -> None:
    told.add("node_event", SENT + 200, node=node, event=name)


@pytest.fixture(scope="module")
def judged(spark: Any) -> Any:
    stories = {name: story() for name in CASES}
    for name, (tell, _) in CASES.items():
        tell(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", CASES)
def test_who_wants_one_replica_waits_for_none(judged: Any, name: str) -> None:
    rules, _ = judged[name]
    assert rules == ({"one-kept-waiting": 1} if CASES[name][1] else {})


def test_what_could_have_waited_is_counted(spark: Any) -> None:
    told = story()
    sent(told, t=SENT + 5)
    found = check(told.history(spark)).evidence
    assert {what: n for (_, _, what), n in found.items() if what == ANSWERED} == {ANSWERED: 1}


def test_without_a_tie_between_the_clocks_nothing_is_said(spark: Any) -> None:
    told = story()
    sent(told)
    asked(told)
    del told.run["clock"]
    assert not check(told.history(spark)).counts
