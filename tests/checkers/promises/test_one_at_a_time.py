"""Requests that leave a channel two at a time, or are given up, and those that may be alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.controller_queues.one_at_a_time import one_at_a_time
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import said_of_each

WAY: dict[str, Any] = {"node": 1, "boot": 1, "to": 2, "api": "UPDATE_METADATA"}


def sent(story: Story, t: float, number: int, end: float | None = None, **more: Any) -> None:
    """A request, and its end: an answer, unless ``failure`` says otherwise."""
    failure = more.pop("failure", None)
    fields = {"controller_epoch": 1, "broker_epoch": 7, "attempt": 1, "partitions": [], **more}
    seq = fields.pop("seq", 2 * number)
    item = {"seq": seq, "enqueue_t": number, **fields}
    story.add("control_send", t, **WAY, correlation_id=number, **item)
    if end is not None:
        outcome = {"failure": failure, "error": None if failure else 0}
        seq = None if seq is None else seq + 1
        story.add(
            "control_response", end, **WAY, correlation_id=number, send_t=t, seq=seq, **outcome
        )


def channel() -> Story:
    """Two requests, one after the other."""
    story = Story()
    sent(story, 100, 1, 110)
    sent(story, 110, 2, 120)
    return story


def vain(story: Story, **more: Any) -> None:
    """One that came to nothing, and what was sent after that."""
    sent(story, 200, 5, 210, failure="disconnect")
    sent(story, 300, 6, 310, **{"attempt": 2, "enqueue_t": 5, **more})


BROKEN: dict[str, tuple[str, Callable[[Story], Any]]] = {
    "before the answer": (
        "two-in-flight",
        lambda s: (sent(s, 200, 5, 220), sent(s, 210, 6, 230)),
    ),
    "without an answer": ("two-in-flight", lambda s: (sent(s, 200, 5), sent(s, 210, 6, 230))),
    "before it failed": (
        "two-in-flight",
        lambda s: (sent(s, 200, 5, 220, failure="timeout"), sent(s, 210, 6, 230)),
    ),
    "another instead": ("given-up", lambda s: vain(s, enqueue_t=6, attempt=1)),
    "the same, of other partitions": (
        "given-up",
        lambda s: vain(s, partitions=[{"topic": "t", "partition": 0}]),
    ),
    "the same at once": (
        "tried-at-once",
        lambda s: (
            sent(s, 200, 5, 210, failure="disconnect"),
            sent(s, 212, 6, 220, attempt=2, enqueue_t=5),
        ),
    ),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "again": vain,
    "again and again": lambda s: (
        sent(s, 200, 5, 210, failure="disconnect"),
        sent(s, 300, 6, 310, attempt=2, enqueue_t=5, failure="disconnect"),
        sent(s, 400, 7, 410, attempt=3, enqueue_t=5),
    ),
    "refused": lambda s: (
        sent(s, 200, 5, 210),
        s.rows["control_response"][-1].update(error=11),
        sent(s, 300, 6, 310),
    ),
    "the broker came back": lambda s: vain(s, enqueue_t=6, attempt=1, broker_epoch=8),
    "it was elected again": lambda s: vain(s, enqueue_t=6, attempt=1, controller_epoch=3),
    "in its next life": lambda s: (
        vain(s, enqueue_t=6, attempt=1),
        [s.rows[kind][-1].update(boot=2) for kind in ("control_send", "control_response")],
    ),
    "to another broker": lambda s: (
        sent(s, 200, 5, 220),
        sent(s, 210, 6, 230),
        [s.rows[kind][-1].update(to=3) for kind in ("control_send", "control_response")],
    ),
    "the last of a channel": lambda s: sent(s, 200, 5),
    "by one that nobody numbered": lambda s: (
        sent(s, 200, 5, 220, seq=None),
        sent(s, 210, 6, 230, seq=None),
    ),
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    def says(rows: dict[str, list[dict[str, Any]]]) -> Any:
        for finding, n in one_at_a_time(History.of(spark, rows, channel().run)):
            assert n == 1
            assert "controller 1 sent broker 2 UPDATE_METADATA (number 5)" in finding.says
            yield (ARM, finding.trial), finding.rule

    changes = {**{name: change for name, (_, change) in BROKEN.items()}, **LAWFUL}
    return said_of_each(changes, channel, says)


@pytest.mark.parametrize("why", [*BROKEN, *LAWFUL])
def test_a_channel(told: dict[str, list[str]], why: str) -> None:
    assert told.get(why, []) == ([BROKEN[why][0]] if why in BROKEN else [])
