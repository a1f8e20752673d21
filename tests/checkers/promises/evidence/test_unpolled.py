"""Consumers that polled no more while the load went on, and others that need not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.evidence.askers import unpolled
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import said_of_each

BEGIN, END = 10_000, 19_000
WORKLOADS = [{"process": name, "role": name} for name in ("consumer", "group-consumer")]


def sound() -> Story:
    """After healing the load goes on for 9 s. Each polls ten times a second, in vain now and then;
    a member of a group leaves it."""
    story = Story()
    for t, event in ((BEGIN, "begin"), (END, "end")):
        story.add("phase", t, name="settle", event=event)
    for number, t in enumerate(range(5_000, END + 1_000, 100)):
        offset = number if number % 3 else None
        story.add("fetch", t, process="consumer", poll=number, offset=offset, value=offset)
    story.add("fetch", 9_000, process="group-consumer", poll=0, offset=0, value=1)
    return story


def ends(at_ms: float, process: str = "consumer") -> Callable[[Story], Any]:
    def edit(story: Story) -> None:
        story.rows["fetch"] = [
            row
            for row in story.rows["fetch"]
            if row["process"] != process or row["t"] < at_ms * 1_000_000
        ]

    return edit


def soon_over(story: Story) -> None:
    story.rows["phase"][1]["t"] = (BEGIN + 3_500) * 1_000_000
    ends(BEGIN)(story)


BROKEN: dict[str, Callable[[Story], Any]] = {
    "after healing": ends(15_000),
    "before healing": ends(9_000),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "to the end": lambda story: None,
    "one long poll before the end": ends(END - 2_800),
    "a load that was soon over": soon_over,
    "nothing at all": ends(0),  # which is told elsewhere
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    edits = {**BROKEN, **LAWFUL}
    trials = [{"arm": ARM, "trial": n, "workloads": WORKLOADS} for n in range(len(edits))]
    run = {**Story().run, "trials": trials}
    return said_of_each(edits, sound, lambda rows: unpolled(History.of(spark, rows, run)))


@pytest.mark.parametrize("why", [*BROKEN, *LAWFUL])
def test_who_polls_no_more(told: dict[str, list[str]], why: str) -> None:
    found = told.get(why, [])
    assert len(found) == (why in BROKEN)
    assert all(says.startswith("consumer polled no more for the last") for says in found)
