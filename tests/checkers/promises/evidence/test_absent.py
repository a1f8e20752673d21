"""Brokers that answered while they did not run, and others that may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.evidence.absent import answered_by_nobody
from tests.checkers.conftest import Story
from tests.checkers.together import said_of_each


def sound() -> Story:
    """Broker 1, which leads, is paused from 10 to 12 s, and killed from 20 to 25 s."""
    story = Story()
    for t, event in ((1_000, "start"), (10_000, "pause"), (12_000, "resume")):
        story.add("node_event", t, node=1, event=event)
    for t, event in ((20_000, "kill"), (25_000, "start")):
        story.add("node_event", t, node=1, event=event)
    story.commit(1_500, 1, 1)
    return story


def read(invoke_t: float, t: float, node: int = 1, **more: Any) -> Callable[[Story], Any]:
    return lambda s: s.read(t, node, 1, invoke_t=invoke_t, process="reader", **more)


def wrote(invoke_t: float, t: float, **more: Any) -> Callable[[Story], Any]:
    return lambda s: s.produce(t, 7, 3, invoke_t=invoke_t, process="producer", **more)


def then(*edits: Callable[[Story], Any]) -> Callable[[Story], Any]:
    return lambda story: [edit(story) for edit in edits]


def led_by(leader: int, epoch: int, t: float) -> Callable[[Story], Any]:
    return lambda s: s.commit(t, leader, epoch)


def paused(node: int, from_t: float, to_t: float) -> Callable[[Story], Any]:
    return lambda s: [
        s.add("node_event", t, node=node, event=event)
        for t, event in ((500, "start"), (from_t, "pause"), (to_t, "resume"))
    ]


def slowed(node: int, from_t: float, to_t: float, fault: str = "toxic") -> Callable[[Story], Any]:
    """By a fault that may keep a broker from hearing of leaders."""
    return lambda s: [
        s.add("fault", t, fault=fault, id="f", phase=phase, nodes=[node], detail="{}")
        for t, phase in ((from_t, "inject"), (from_t + 10, "injected"), (to_t, "healed"))
    ]


BEFORE = (led_by(2, 0, 500), led_by(1, 2, 18_000))
"""Broker 2 led before 1 did."""
READ = "reader (metadata): node 1 answered 1 times what it was asked while it did not run"
WROTE = "producer (produce): node 1 answered 1 times what it was asked while it did not run"
CASES: dict[str, tuple[Callable[[Story], Any], str]] = {
    "nobody asked": (lambda s: None, ""),
    "read of the dead": (read(21_000, 21_005), READ),
    "read of the paused": (read(10_100, 10_110), READ),
    "refused by the dead": (read(21_000, 21_005, type="fail", error=3), READ),
    "a leader that was paused": (wrote(10_100, 10_110), WROTE),
    "a leader that was dead": (wrote(21_000, 21_100, acks=-1), WROTE),
    "a leader that was dead, before its successor came": (
        then(led_by(2, 2, 22_000), wrote(20_100, 20_200)),
        WROTE,
    ),
    "a leader that was dead, and another was paused long before it led": (
        then(led_by(2, 0, 500), paused(2, 600, 1_400), led_by(1, 2, 12_000), wrote(21_000, 21_100)),
        WROTE,
    ),
    "a leader that was dead, and who was paused never led": (
        then(paused(2, 600, 20_500), wrote(21_000, 21_100)),
        WROTE,
    ),
    "a leader that was dead, and who led before was slowed until it was succeeded": (
        then(*BEFORE, slowed(2, 600, 17_900), wrote(21_000, 21_100)),
        WROTE,
    ),
    "a leader that was dead, and who led before was asked to lead": (
        then(*BEFORE, slowed(2, 600, 22_000, "move-leadership"), wrote(21_000, 21_100)),
        WROTE,
    ),
    "a leader that was dead, and another was slowed that never led": (
        then(*BEFORE, slowed(3, 600, 22_000), wrote(21_000, 21_100)),
        WROTE,
    ),
    "by the name of the dead": (wrote(21_000, 21_100, node=1), WROTE),
    # Lawful, and looks similar.
    "before it was paused": (read(9_900, 10_050), ""),
    "once it went on": (read(10_100, 12_001), ""),
    "while it ran": (read(15_000, 15_005), ""),
    "nobody answered": (read(21_000, 21_005, type="info", failure="timeout"), ""),
    "another": (read(21_000, 21_005, node=2), ""),
    "its successor": (then(led_by(2, 2, 21_000), wrote(23_500, 23_600)), ""),
    "who led before": (then(led_by(2, 0, 500), led_by(1, 2, 19_500), wrote(20_100, 20_110)), ""),
    "who led before, and was paused as it was succeeded": (
        then(led_by(2, 0, 500), paused(2, 1_000, 20_500), wrote(21_000, 21_100)),
        "",
    ),
    "who led before, and was paused until a moment before": (
        then(led_by(2, 0, 500), paused(2, 600, 1_400), wrote(21_000, 21_100)),
        "",
    ),
    "who led before, and was slowed as it was succeeded": (
        then(*BEFORE, slowed(2, 600, 22_000), wrote(21_000, 21_100)),
        "",
    ),
    "who led before, and was slowed a moment after": (
        then(*BEFORE, slowed(2, 18_500, 19_500), wrote(21_000, 21_100)),
        "",
    ),
    "no answer is to come": (wrote(21_000, 21_005, acks=0), ""),
    "nobody knows what came of it": (wrote(21_000, 21_005, type="info"), ""),
    "what had been fetched": (
        lambda s: s.add("fetch", 21_005, invoke_t=21_000, offset=3, value=7, process="consumer"),
        "",
    ),
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    edits = {name: edit for name, (edit, _) in CASES.items()}
    return said_of_each(edits, sound, lambda rows: answered_by_nobody(History.of(spark, rows)))


@pytest.mark.parametrize("why", CASES)
def test_who_answers(told: dict[str, list[str]], why: str) -> None:
    assert told.get(why, []) == ([CASES[why][1]] if CASES[why][1] else [])
