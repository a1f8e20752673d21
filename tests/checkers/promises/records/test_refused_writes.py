"""Errors that say to sound clients what is not so (``refused-for-nothing``), or of a broker that it
failed (``failed-for-nothing``): both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checkers.facts.answerable import STEPS
from checkers.facts.whole_rows import _NAMES
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding
from checkers.promises.records.refused_writes import (
    judge_failures,
    judge_refused,
    refused_in_calm,
)
from tests.checkers.conftest import Story, judged_together


def check(history: Any) -> Outcome:
    outcome = Outcome()
    found: Iterator[Finding] = judge_refused(history)
    for finding in found:
        outcome.add(finding)
    return outcome


def refused(
    error: int, delivery: str | None = None, acks: int = 1, role: str = "producer"
) -> Story:
    """A producer that says how often it sends a record, or does not, is told that error."""
    story = Story()
    if delivery is not None:
        own = {"process": "p", "role": role, "delivery": delivery}
        story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": [own]}]
    story.produce(500, 7, 0, acks)
    story.produce(510, 8, None, acks, type="info", error=error)
    return story


def asked(kind: str, error: int) -> Story:
    story = refused(6)
    story.add(kind, 520, node=2, type="fail", error=error)
    return story


def step(error: int, name: str = "see") -> Story:
    story = refused(6)
    story.add("group_step", 520, node=2, group="g", step=name, type="fail", error=error)
    return story


STORIES: dict[str, tuple[Story, int]] = {
    "a policy that there is none of": (refused(44), 1),
    "a quota that there is none of": (refused(89, "idempotent"), 1),
    "a sequence, to who has none": (refused(45, "once"), 1),
    "an epoch, to who has none": (refused(47, "once-a-leader"), 1),
    "an epoch, to who may have begun another": (refused(47, "idempotent"), 0),
    "an epoch, to who has one, and sends nothing again": (
        refused(47, "once", role="joint-producer"),
        0,
    ),
    "an epoch, to who does not say how it sends": (refused(47), 0),
    "it is led elsewhere": (refused(6, "once"), 0),
    "a log that is damaged": (asked("read_at", 2), 1),
    "a policy, to who deletes records": (asked("records_deleted", 44), 1),
    "out of range": (asked("records_deleted", 1), 0),
    "its time was up, to who waits for replicas that delete": (asked("records_deleted", 7), 0),
    "its time was up, to who reads": (asked("read_at", 7), 1),
    "its time was up, to who asks for an end": (asked("listed_offset", 7), 1),
    "its time was up, to who asks for a coordinator": (asked("coordinator", 7), 1),
    "its time was up, to who waits for all": (refused(7, acks=-1), 0),
    "its time was up, to who waits for one": (refused(7), 1),
    "too few in sync, to who waits for one": (refused(19), 1),
    "its time was up, to who joins": (step(7, "enter"), 1),
    "its time was up, to who commits": (step(7, "keep"), 0),
    "its time was up, to who commits for no member": (step(7, "commit"), 0),
    "its time was up, to who asks for a position": (step(7, "ask"), 1),
    "no group, to who writes": (refused(25, "idempotent"), 1),
    "no leader, to a group": (step(6), 1),
    "a generation, to who joins": (step(22, "enter"), 1),
    "a rebalance, to who joins": (step(27, "enter"), 1),
    "no group, to who lives in it": (step(69, "live"), 1),
    "no member, to who asks": (step(25, "own"), 1),
    "no member, to who joins": (step(25, "enter"), 0),
    "a rebalance, to who lives in it": (step(27, "live"), 0),
    "no group, to who deletes it": (step(69, "delete"), 0),
}


def test_errors_that_say_what_is_not_so(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in STORIES.items()})
    told = {name: rules.get("refused-for-nothing", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in STORIES.items()}


def test_every_step_has_its_errors() -> None:
    """One without could be answered anything."""
    assert set(STEPS) == set(_NAMES["group_step"]["step"])


def check_failures(history: Any) -> Outcome:
    outcome = Outcome()
    for finding, n in judge_failures(history):
        outcome.add(finding, n)
    return outcome


def failed(kind: str, error: int = -1, fault: str = "kill", at: int = 400) -> Story:
    story = refused(6)
    story.add("fault", at, fault=fault, id="d", nodes=(1,))
    for t in (520, 530):
        story.add(kind, t, node=1, type="info", error=error)
    return story


FAILURES: dict[str, tuple[Story, int]] = {
    "who writes": (failed("produce"), 1),
    "who reads": (failed("fetch"), 1),
    "who asks": (failed("listed_offset"), 1),
    "a group": (failed("group_step"), 1),
    "an operator": (failed("admin_request"), 0),  # fails so as ZooKeeper is away
    "with a broken disk": (failed("produce", fault="disk-full"), 0),
    "before a disk was broken": (failed("produce", fault="disk-full", at=900), 1),
    "a disk that failed": (failed("produce", 56), 0),
    "who led no more": (failed("produce", 6), 0),
}


def test_whom_brokers_failed_for_nothing(spark: Any) -> None:
    found = judged_together(
        spark, check_failures, {name: story for name, (story, _) in FAILURES.items()}
    )
    told = {name: rules.get("failed-for-nothing", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in FAILURES.items()}


def check_in_calm(history: Any) -> Outcome:
    outcome = Outcome()
    for finding, n in refused_in_calm(history, outcome, "records"):
        outcome.add(finding, n)
    return outcome


def sent(error: int | None, t: float = 40_000, **more: Any) -> Story:
    """Broker 2 leads by what was committed at 1 s."""
    story = Story()
    for node in (1, 2, 3):
        story.add("node_event", 1, node=node, event="ready")
    story.commit(500, 1, 0)
    story.commit(1_000, 2, 1)
    came_of = {} if error is None else {"type": "info", "error": error}
    story.produce(t, 7, 0 if error is None else None, **came_of, **more)
    return story


def also(story: Story, kind: str, t: float, **fields: Any) -> Story:
    story.add(kind, t, **fields)
    return story


IN_CALM: dict[str, tuple[Story, int]] = {
    "another leads": (sent(6), 1),
    "there is no such partition": (sent(3), 1),
    "taken": (sent(None), 0),
    "too few are in sync": (sent(19, acks=-1), 0),
    "its time was up": (sent(7), 0),
    "by one that was asked by itself": (sent(6, node=1), 0),
    "sent before it can have heard": (sent(6, invoke_t=2_000), 0),
    "a broker is just back": (also(sent(6), "node_event", 39_000, node=3, event="resume"), 0),
    "its leader is gone": (also(sent(6), "node_event", 39_000, node=2, event="kill"), 0),
    "what is deleted": (also(sent(3), "topic_deletion", 30_000, step="requested"), 0),
}


def test_records_that_are_refused_in_calm(spark: Any) -> None:
    stories = {name: story for name, (story, _) in IN_CALM.items()}
    found = judged_together(spark, check_in_calm, stories)
    told = {name: rules.get("refused-in-calm", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in IN_CALM.items()}
