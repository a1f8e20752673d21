"""Records that are not as anybody sent them, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.records.altered import WHOLE, judge_altered
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging


def given(
    told: Story, whole: bool | None, *, offset: int | None = 3, value: int | None = 7
) -> None:
    told.add("fetch", 1_000, poll=1, offset=offset, value=value, whole=whole)


def kept(told: Story, whole: bool | None, *, node: int = 1) -> None:
    told.add("log_read", 90_000, node=node, offset=3, value=7, leader_epoch=0, whole=whole)


def sent(told: Story, topic: str) -> None:
    told.add("produce", 500, type="ok", topic=topic, offset=3, value=7, acks=1)


CASES: dict[str, tuple[Any, int, int]] = {
    "as sent": (lambda s: (given(s, True), kept(s, True)), 0, 2),
    "to one who reads": (lambda s: (given(s, True), given(s, False), kept(s, True)), 1, 3),
    "nothing of it is known again": (lambda s: given(s, False, value=None), 1, 1),
    "in one follower's log": (lambda s: (kept(s, True), kept(s, False, node=2)), 1, 2),
    "both": (lambda s: (given(s, False), kept(s, False), kept(s, False, node=2)), 3, 3),
    "a poll without records": (lambda s: given(s, None, offset=None, value=None), 0, 0),
    "in a topic that only a flood writes to": (lambda s: given(s, False), 0, 0),
    "of before anybody looked": (lambda s: (given(s, None), kept(s, None)), 0, 0),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    judge_altered(history, outcome)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_a_record_is_what_was_sent(name: str) -> Asks:
    tell, broken, looked = CASES[name]
    told = Story()
    sent(told, "other" if "flood" in name else "t")
    tell(told)
    outcome = yield told
    assert outcome.counts == ({"altered": broken} if broken else {})
    assert sum(n for (_, _, what), n in outcome.evidence.items() if what == WHOLE) == looked
