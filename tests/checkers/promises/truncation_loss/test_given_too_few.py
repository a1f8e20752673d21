"""What consumers are given while too few replicas are in sync: nothing that was sent meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.promises.truncation_loss import check
from checkers.promises.truncation_loss.given_too_few import STRICT, TAKEN
from tests.checkers.conftest import ARM, Story, judged_together
from tests.checkers.promises.truncation_loss.test_too_few import shrunk

RULE = "given-below-min-isr"


def given(
    taken: float, invoke: float, got: float, *, acks: int = 1, told: str | None = "isr_change"
) -> Story:
    """The set is written smaller at 1 s, known to its leader 10 ms later, written full at 2 s."""
    story = shrunk(told=told)
    story.run["arms"][ARM][STRICT] = True
    story.produce(taken, 1, 0, acks, invoke_t=invoke)
    story.add("fetch", got, offset=0, value=1, poll=1, leader_epoch=0)
    return story


BROKEN: dict[str, Callable[[], Story]] = {
    "sent and given in between": lambda: given(1_500, 1_490, 1_510),
    "with acks=all": lambda: given(1_500, 1_490, 1_510, acks=-1),
    "just before it grew": lambda: given(1_990, 1_980, 1_999),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "given when it had grown": lambda: given(1_500, 1_490, 2_001),
    "sent before its leader knew": lambda: given(1_500, 1_009, 1_510),
    "nobody says when it knew": lambda: given(1_500, 1_490, 1_510, told=None),
}


def test_what_is_sent_while_too_few_are_in_sync_is_given_to_nobody(spark: Any) -> None:
    stories = {name: make() for name, make in {**BROKEN, **LAWFUL}.items()}
    found = judged_together(spark, check, stories)
    rules = {name: found[name][0].get(RULE, 0) for name in stories}
    assert rules == dict.fromkeys(BROKEN, 1) | dict.fromkeys(LAWFUL, 0)


def test_a_release_that_commits_it_all_the_same_is_not_accused(spark: Any) -> None:
    story = given(1_500, 1_490, 1_510)
    assert check(story.history(spark)).evidence[ARM, 0, TAKEN] == 1
    story.run["arms"][ARM][STRICT] = False
    outcome = check(story.history(spark))
    assert RULE not in outcome.counts
    assert any("while too few are in sync" in what for what in outcome.not_judged)
