"""Groups of which all members gave up what they had: given something soon, or never; both ways."""

from __future__ import annotations

import pytest

from checkers.promises.groups.kept_out import ANEW, kept_out
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

HEALED = 20_000
CALM = 32_000
"""Longer after it than brokers may need where no run says how long (10 s)."""


def told_of(
    t: float, event: str, *members: str, story: Story | None = None, group: str = "g"
) -> Story:
    story = Story() if story is None else story
    for partition, member in enumerate(members):
        at = {"process": member, "group": group, "partition": partition}
        story.add("assignment", t, event=event, **at)
    return story


def polls(story: Story, member: str, until: float, *, from_t: float = 4_000) -> None:
    for t in range(int(from_t), int(until), 500):
        story.add("fetch", t, process=member, poll=1, invoke_t=t - 200)


def story(
    *,
    given_up: float = CALM,
    again: float | None = None,
    until: float = 60_000,
    healed: bool = True,
) -> Story:
    """Two members have something until the one and then the other gives it up."""
    told = Story()
    told.add("fault", 10_000, fault="kill", id="k", phase="injected", nodes=[1], detail="{}")
    phase = "healed" if healed else "heal"
    told.add("fault", HEALED, fault="kill", id="k", phase=phase, nodes=[1], detail="{}")
    told_of(5_000, "assigned", "a", "b", story=told)
    told_of(given_up - 500, "revoked", "a", story=told)
    told_of(given_up, "revoked", "b", story=told)
    if again is not None:
        told_of(again, "assigned", "a", "b", story=told)
    for member in "ab":
        polls(told, member, until)
    return told


def with_another(until: float) -> Story:
    """A third that polled until then, and had something."""
    told = story()
    told_of(6_000, "assigned", "c", story=told)
    told_of(7_000, "revoked", "c", story=told)
    polls(told, "c", until)
    return told


def slow_to_poll() -> Story:
    told = story()
    told.add("fetch", CALM + 3_000, process="a", poll=2, invoke_t=CALM + 100)
    return told


def alone() -> Story:
    told = story(again=CALM + 10)
    told_of(5_000, "assigned", "s", story=told, group="of-one")
    told_of(CALM, "revoked", "s", story=told, group="of-one")
    polls(told, "s", 60_000)
    return told


CASES = {
    "given again at once": (lambda: story(again=CALM + 20), 0),
    "given again on a busy machine": (lambda: story(again=CALM + 2_000), 0),
    "never again": (story, 1),
    "given again long after": (lambda: story(again=CALM + 4_000), 1),
    "while faults were played": (lambda: story(given_up=15_000, again=19_000), 0),
    "soon after healing": (lambda: story(given_up=HEALED + 9_000, again=HEALED + 14_000), 0),
    "a fault was never healed": (lambda: story(healed=False), 0),
    "as the load ended": (lambda: story(until=CALM + 1_000), 0),
    "one went a moment before": (lambda: with_another(CALM - 4_000), 0),
    "one went long before": (lambda: with_another(15_000), 1),
    "one polls too seldom": (slow_to_poll, 0),
    "one that is alone": (alone, 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(kept_out))
def test_who_gave_up_all_is_given_something(name: str) -> Asks:
    make, broken = CASES[name]
    told = make()
    outcome = yield told
    assert [f.rule for f in outcome.findings] == ["kept-out"] * broken
    judged = broken or name.startswith("given again") or name == "one that is alone"
    assert bool(outcome.evidence[told.arm, 0, ANEW]) is bool(judged)
