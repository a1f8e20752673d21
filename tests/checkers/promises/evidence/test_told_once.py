"""What is told of once, and is there twice; and what may be there as often as it likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.history.frames import History
from checkers.promises.evidence.told_once import repeated
from tests.checkers.conftest import Story
from tests.checkers.together import said_of_each

USE = {"plane": "data", "listener": "CLIENT", "api": "FETCH", "interval_ns": 1, "requests": 1}


def sound() -> Story:
    """Two of each: of two operations, partitions, brokers, moments."""
    story = Story()
    for n in (1, 2):
        story.produce(10 * n, n, n)
        story.add("probe", 10 * n, node=1, planned_t=1)
        story.add("forged", 10 * n, node=1, partition=0, op=7 * n)
        story.add("plane_use", 10 * n, node=1, boot=1, **USE)
        story.add("plane_use", 10, node=1, boot=1, **{**USE, "api": f"API{n}"})
        story.add("plane_use", 10, node=1, boot=n + 1, **USE)
        story.add("metadata", 10, node=1, op=5, partition=n)
        story.add("metadata", 10, node=1, op=5, topic=f"t{n}", partition=None, error=3)
        for what in ("node", "replica"):
            story.add("final_state", 90, what=what, node=n)
        story.add("final_state", 90, what="partition", partition=n)
        story.add("final_state", 90, what="unread", failure="it did not answer")
        story.add("log_end", 95, node=n, log_end_offset=0)
        for asked in ("", "isr-lag-0", "isr-lag-1"):  # in the end, and by faults
            story.add("described", 95, node=n, api="MBeans", name=asked, key="LeaderCount")
        story.add("connection", 10 * n, node=1, to=2, link="control", connections=n)
        story.add("connection", 10, node=n, to=3, link="control", connections=1)
        story.add("source", 99, source="node-1", boot=n, rows=1)
        story.add("source", 99, source=f"client-{n}", rows=1)
    return story


def again(kind: str, number: int = -1, **more: Any) -> Callable[[Story], Any]:
    """A copy of one of its rows."""

    def edit(story: Story) -> None:
        row = {**story.rows[kind][number], **more}
        story.rows[kind].append(row)

    return edit


TWICE: dict[str, Callable[[Story], Any]] = {
    "described of a fault": again("described", 1, t=96_000_000),
    "described in the end": again("described", 0, t=96_000_000),
    "produce": again("produce"),
    "probe": again("probe", t=99_000_000),
    "forged": again("forged"),
    "plane_use": again("plane_use", requests=5),
    "metadata": again("metadata"),
    "metadata of a partition": again("metadata", 0),
    "final_state of a node": again("final_state", 0, t=91_000_000),
    "final_state of a replica": again("final_state", 1),
    "final_state of a partition": again("final_state", 2),
    "log_end": again("log_end", log_end_offset=7),
    "connection": again("connection", t=99_000_000),
    "source": again("source"),
    "source of a boot": again("source", 0, rows=2),
}
ONCE: dict[str, Callable[[Story], Any]] = {
    "as it was": lambda s: None,
    "fetch": lambda s: [s.add("fetch", 10, op=3, poll=1, offset=n) for n in (1, 1)],
    "a role": lambda s: [s.add("leader_change", 10, node=1, role="leader") for _ in (1, 1)],
    "another operation": again("produce", op=99),
    "another broker's answer": again("metadata", op=6),
    "another client's": again("metadata", process="q"),
    "a connection again": lambda s: [
        s.add("connection", 50 + n, node=1, to=2, link="control", connections=n) for n in (0, 2)
    ],
}


def test_what_is_told_once(spark: Any) -> None:
    edits = {**TWICE, **ONCE}
    told = said_of_each(edits, sound, lambda rows: repeated(History.of(spark, rows)))
    assert told == {
        name: [f"{name.split()[0]}: 1 things that are told of once are told of twice"]
        for name in TWICE
    }
