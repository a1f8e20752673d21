"""Positions that nobody committed (``committed-never``): both ways."""

from __future__ import annotations

from typing import Any

from checkers.judging.outcome import Outcome
from checkers.promises.groups.invented_positions import RULE, invented_positions
from tests.checkers.conftest import Story, judged_together


def check(history: Any) -> Outcome:
    outcome = Outcome()
    for finding, n in invented_positions(history, outcome):
        outcome.add(finding, n)
    return outcome


def told(offset: int, step: str = "own", *, by: str = "keep", **more: Any) -> Story:
    """5 is asked to be kept at 100 ms, and a position is told at 200 ms."""
    story = Story()
    story.add("group_step", 100, node=1, group="g", step=by, offset=5, **more)
    story.add("group_step", 200, node=1, group="g", step=step, offset=offset, error=0)
    return story


STORIES: dict[str, tuple[Story, int]] = {
    "what was kept": (told(5), 0),
    "what was raised": (told(5, "see", by="raise"), 0),
    "what was refused": (told(5, "ask", by="commit", type="fail", error=16), 0),
    "none": (told(-1), 0),
    "a later one": (told(6), 1),
    "an earlier one": (told(4, "see"), 1),
    "another group's": (told(5, by="commit", process="q"), 0),
    "before it was asked for": (told(5, invoke_t=300), 1),
}
STORIES["another group's"][0].rows["group_step"][0]["group"] = "h"
STORIES["another group's"] = (STORIES["another group's"][0], 1)


def test_positions_that_nobody_committed(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in STORIES.items()})
    counts = {name: rules.get(RULE, 0) for name, (rules, _) in found.items()}
    assert counts == {name: n for name, (_, n) in STORIES.items()}
