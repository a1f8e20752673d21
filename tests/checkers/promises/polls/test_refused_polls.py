"""Polls refused once all is calm (``poll-refused``): both ways."""

from __future__ import annotations

from typing import Any

from checkers.judging.excuses import excuses
from checkers.judging.outcome import Outcome
from checkers.promises.polls.refused_polls import refused_polls
from tests.checkers.conftest import Story, judged_together


def check(history: Any) -> Outcome:
    outcome = Outcome()
    for finding, n in refused_polls(history, outcome, excuses(history)):
        outcome.add(finding, n)
    return outcome


def polled(error: int | None = 3, t: float = 40_000, before: float | None = None) -> Story:
    """Broker 2 leads by what was committed at 1 s; a consumer polls, and polls again at ``t``."""
    story = Story()
    for node in (1, 2, 3):
        story.add("node_event", 1, node=node, event="ready")
    story.commit(500, 1, 0)
    story.commit(1_000, 2, 1)
    begun = t - 500 if before is None else before
    story.add("fetch", begun, process="c", poll=6, topic=None, partition=None)
    more = {"offset": 1, "value": 1} if error is None else {"type": "fail", "error": error}
    story.add("fetch", t, process="c", poll=7, **more)
    return story


def also(story: Story, kind: str, t: float, **fields: Any) -> Story:
    story.add(kind, t, **fields)
    return story


def healed(story: Story, phase: str = "healed") -> Story:
    for name, t in (("injected", 10_000), (phase, 38_000)):
        also(story, "fault", t, fault="kill", id="k", phase=name, nodes=[1], detail="{}")
    return story


STORIES: dict[str, tuple[Story, int]] = {
    "there is no such partition": (polled(), 1),
    "nobody leads": (polled(5), 1),
    "another topic had that name": (polled(103), 1),
    "an epoch that it does not know": (polled(75), 1),
    "a codec that nobody uses": (polled(76), 1),
    "not here": (polled(6), 1),
    "records": (polled(None), 0),
    "out of range": (polled(1), 0),
    "its group is in a rebalance": (polled(27), 0),
    "before it can have heard": (polled(t=2_000), 0),
    "it had not polled since before": (polled(before=2_000), 0),
    "just after a fault": (healed(polled()), 0),
    "long after it": (healed(polled(t=60_000)), 1),
    "beside a fault that lasts": (healed(polled(t=60_000), "heal"), 0),
    "a broker is just back": (also(polled(), "node_event", 39_000, node=3, event="resume"), 0),
    "its leader is gone": (also(polled(), "node_event", 39_000, node=2, event="kill"), 0),
    "another has just been elected": (also(polled(), "leadership", 39_900, leader=3, leader_epoch=2,
                                           partition_epoch=2, isr=[1, 3], source="zk"), 0),
    "what is deleted": (also(polled(), "topic_deletion", 30_000, step="requested"), 0),
    "nobody could read what was committed": (polled(), 0),
}  # fmt: skip
for row in STORIES["nobody could read what was committed"][0].rows["leadership"]:
    row["source"] = "shown"


def test_polls_that_are_refused_in_calm(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in STORIES.items()})
    told = {name: rules.get("poll-refused", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in STORIES.items()}


def test_what_there_was_to_judge(spark: Any) -> None:
    evidence = check(STORIES["records"][0].history(spark)).evidence
    assert sum(evidence.values()) == 1
