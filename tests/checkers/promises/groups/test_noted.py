"""What is kept with a position, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.groups.noted import NOTED, noted
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

ASKS_ALL = {"process": "asks-all", "role": "group-stranger"}


def told(story: Story, whole: bool | None, *, offset: int = 5, process: str = "member") -> None:
    more = {"whole": whole, "offset": offset, "process": process}
    story.add("committed", 1_000, group="g", **more)


CASES: dict[str, tuple[Any, int, int]] = {
    "as committed": (lambda s: (told(s, True), told(s, True)), 0, 2),
    "once otherwise": (lambda s: (told(s, True), told(s, False)), 1, 2),
    "none is kept": (lambda s: told(s, None, offset=-1), 0, 0),
    "nobody looked": (lambda s: (told(s, True), told(s, None)), 0, 1),
    "by one of the past": (lambda s: told(s, False, process="asks-all"), 0, 0),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    noted(history, outcome)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_a_position_is_told_with_what_was_committed_with_it(name: str) -> Asks:
    tell, broken, looked = CASES[name]
    story = Story()
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": [ASKS_ALL]}]
    tell(story)
    outcome = yield story
    assert outcome.counts == ({"committed-otherwise": broken} if broken else {})
    assert outcome.evidence[story.arm, 0, NOTED] == looked
    assert len(outcome.not_judged) == (1 if name == "nobody looked" else 0)
