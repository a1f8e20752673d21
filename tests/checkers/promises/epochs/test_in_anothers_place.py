"""Who answers for a partition that another leads (``served-by-another``), or says that there is no
such one (``partition-denied``), once all is calm: both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.outcome import Outcome
from checkers.promises.epochs.in_anothers_place import in_anothers_place
from tests.checkers.conftest import Story, judged_together


def check(history: Any) -> Outcome:
    outcome = Outcome()
    for finding in in_anothers_place(history, outcome):
        outcome.add(finding)
    return outcome


def asked(kind: str = "listed_offset", t: float = 40_000, node: int = 3, **more: Any) -> Story:
    """Broker 2 leads by what was committed at 1 s, before it 3 and 1 did, and 4 never; ``node``
    answers without an error."""
    story = Story()
    for one in (1, 2, 3, 4):
        story.add("node_event", 1, node=one, event="ready")
    story.commit(300, 3, 0)
    story.commit(500, 1, 1)
    story.commit(1_000, 2, 2)
    story.add(kind, t, **{"node": node, "error": 0, "offset": 1, **more})
    return story


def also(story: Story, kind: str, t: float, **fields: Any) -> Story:
    story.add(kind, t, **fields)
    return story


def leads(story: Story, t: float, kind: str = "leadership", **more: Any) -> Story:
    """Broker 4 does, later."""
    of = {"leader": 4, "leader_epoch": 3, "isr": [4], "partition_epoch": 3, **more}
    return also(story, kind, t, **({"source": "zk"} if kind == "leadership" else {}), **of)


def shown(story: Story) -> Story:
    for row in story.rows["leadership"]:
        row["source"] = "shown"
    return story


STORIES: dict[str, tuple[Story, int]] = {
    "where its log begins": (asked(asked_ms=-2, believed_epoch=-1), 1),
    "which record is of some time": (asked(asked_ms=5, believed_epoch=-1), 1),
    "records are deleted": (asked("records_deleted", low_watermark=1), 1),
    "a record is taken": (asked("produce", value=1, acks=1), 1),
    "it leads": (asked(node=2, asked_ms=-2), 0),
    "it refuses": (asked(type="fail", error=6), 0),
    "before it can have heard": (asked(t=2_000), 0),
    "before it has led at all": (asked(t=2_000, node=4), 1),
    "a moment before it was seen to lead": (leads(asked(t=2_000, node=4), 2_900), 0),
    "long before it leads": (leads(asked(t=2_000, node=4), 3_100), 1),
    "long before it leads, by the store's log": (leads(asked(t=2_000, node=4), 3_100, "zk_write",
                                                       what="state", step="set"), 1),
    "a moment before it leads, by the store's log": (
        leads(asked(t=2_000, node=4), 2_900, "zk_write", what="state", step="set"), 0),
    "in an epoch that the watch missed": (
        leads(asked(t=2_000, node=4), 3_100, leader=1, leader_epoch=4), 0),
    "in an epoch that the watch missed, and no log tells of it": (
        leads(leads(asked(t=2_000, node=4), 3_100, leader=1, leader_epoch=4),
              3_050, "zk_write", what="state", step="set", leader=2), 1),
    "it refuses before it has led at all": (asked(t=2_000, node=4, type="fail", error=6), 0),
    "before it has led at all, what is deleted later": (
        also(asked(t=2_000, node=4), "topic_deletion", 30_000, step="requested"), 0),
    "before it has led at all, as it was lied to": (
        also(asked(t=20_100, node=4), "forged", 20_000, node=4, api="LEADER_AND_ISR", error=0,
             lie="future_leader_epoch", partition_error=0, leader=4, leader_epoch=3), 0),
    "before it has led at all, by what brokers show": (shown(asked(t=2_000, node=4)), 0),
    "it is just back": (also(asked(), "node_event", 39_000, node=3, event="resume"), 0),
    "what is deleted": (also(asked(), "topic_deletion", 30_000, step="requested"), 0),
    "nobody could read what was committed": (shown(asked()), 0),
    "it was lied to": (also(asked(), "forged", 20_000, node=3, api="LEADER_AND_ISR", error=0,
                            lie="future_leader_epoch", partition_error=0, leader=3,
                            leader_epoch=3), 0),
}  # fmt: skip


def test_who_answers_in_anothers_place(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in STORIES.items()})
    told = {name: rules.get("served-by-another", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in STORIES.items()}


DENIALS: dict[str, tuple[Story, int]] = {
    "there is no such partition": (asked(type="fail", error=3), 1),
    "nobody leads it": (asked("read_at", type="fail", error=5), 1),
    "another does": (asked(type="fail", error=6), 0),
    "to an epoch that it does not know": (asked("epoch_end", type="fail", error=75), 0),
    "who leads": (asked(node=2, type="fail", error=3), 0),
    "before it can have heard": (asked(t=2_000, type="fail", error=3), 0),
    "it is just back": (also(asked(type="fail", error=3), "node_event", 39_000, node=3,
                             event="resume"), 0),
    "what is deleted": (also(asked(type="fail", error=3), "topic_deletion", 30_000,
                             step="requested"), 0),
}  # fmt: skip


def test_who_denies_what_another_leads(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in DENIALS.items()})
    told = {name: rules.get("partition-denied", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in DENIALS.items()}


@pytest.mark.parametrize(("name", "seen"), [("it refuses", 1), ("it leads", 0)])
def test_what_there_was_to_judge(spark: Any, name: str, seen: int) -> None:
    evidence = check(STORIES[name][0].history(spark)).evidence
    assert sum(evidence.values()) == seen
