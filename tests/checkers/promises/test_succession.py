"""Succession, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.judging.outcome import Outcome
from checkers.judging.verdict import Verdict
from checkers.judging.witness import attach
from checkers.promises.succession import check

pytestmark = pytest.mark.spark


def judged(story: Any, spark: Any) -> Outcome:
    return check(story.history(spark))


def elect(story: Any, t: float, node: int, controller_epoch: int) -> None:
    story.add("controller", t, node=node, event="elected", controller_epoch=controller_epoch)


def decide(story: Any, t: float, leader_epoch: int, controller_epoch: int, **more: Any) -> None:
    fields = {"leader": 1, "commit_ms": int(t), "controller_epoch": controller_epoch, **more}
    story.commit(t, fields.pop("leader"), leader_epoch, **fields)


def depose(story: Any, t: float, successor_epoch: int) -> None:
    detail = json.dumps({"successor_epoch": successor_epoch})
    for phase, at in (("inject", t), ("injected", t + 3000)):
        story.add("fault", at, fault="depose-controller", id="d", phase=phase, detail=detail)


def test_each_decides_in_its_time(story: Any, spark: Any) -> None:
    elect(story, 10, 1, 4)
    decide(story, 100, 0, 4)
    decide(story, 2100, 1, 4)
    depose(story, 200, 5)
    elect(story, 2200, 2, 5)
    decide(story, 2300, 2, 5)
    found = judged(story, spark)
    assert found.verdict() == (Verdict.VALID, [])
    figures = found.arms[story.arm]
    assert (figures["elections"], figures["decisions"]) == (2, 3)
    assert figures["takeover"]["count"] == 1
    assert figures["takeover"]["max_ms"] == pytest.approx(2000)


def test_an_old_controller_decides_later(story: Any, spark: Any) -> None:
    elect(story, 10, 1, 4)
    decide(story, 100, 0, 5, commit_ms=None)
    decide(story, 200, 1, 4, commit_ms=None)
    history = story.history(spark)
    found = check(history)
    assert found.counts == {"old-controller-decided": 1}
    (violation,) = attach(history, found.findings)
    assert [e["controller_epoch"] for e in violation.events] == [5, 4]


def test_one_partition_epoch_with_two_states(story: Any, spark: Any) -> None:
    elect(story, 10, 1, 4)
    decide(story, 100, 1, 4, partition_epoch=3)
    decide(story, 101, 1, 4, partition_epoch=3, leader=2, source="controller", process="n1")
    decide(story, 101, 1, 4, partition_epoch=3, leader=2, source="controller", process="n2")
    assert judged(story, spark).counts == {"two-decisions": 1}


def test_what_one_copy_alone_holds_was_never_committed(story: Any, spark: Any) -> None:
    elect(story, 10, 1, 4)
    elect(story, 500, 2, 5)
    decide(story, 100, 0, 4, source="controller", process="node-1")
    decide(story, 100, 0, 4, source="controller", process="node-2")
    decide(story, 900, 1, 4, source="controller", process="node-1")
    found = judged(story, spark)
    assert found.verdict() == (Verdict.VALID, [])
    assert found.looked_at == 1


def test_written_after_the_election_of_another(story: Any, spark: Any) -> None:
    elect(story, 10, 1, 4)
    elect(story, 500, 2, 5)
    decide(story, 100, 0, 4)
    decide(story, 900, 1, 4)
    history = story.history(spark)
    found = check(history)
    assert found.counts == {"decided-after-succession": 1}
    (violation,) = attach(history, found.findings)
    # Who decided, who was in office by then, and what was decided all the same.
    assert [(e["f"], e["controller_epoch"]) for e in violation.events] == [
        ("controller", 4),
        ("controller", 5),
        ("leadership", 4),
    ]
    assert "by controller epoch 4, was written at least" in violation.says
    assert "elected with controller epoch 5" in violation.says


def test_a_watch_that_was_late_is_no_late_decision(story: Any, spark: Any) -> None:
    elect(story, 10, 1, 4)
    elect(story, 500, 2, 5)
    decide(story, 900, 0, 4, commit_ms=499)
    assert judged(story, spark).verdict() == (Verdict.VALID, [])


def test_a_topic_that_was_created_again_begins_anew(story: Any, spark: Any) -> None:
    elect(story, 10, 1, 4)
    decide(story, 100, 3, 5, commit_ms=None)
    decide(story, 200, 0, 4, commit_ms=None)
    assert not judged(story, spark).counts


def test_without_elections_there_is_nothing_to_hold_decisions_against(
    story: Any, spark: Any
) -> None:
    decide(story, 100, 0, 4)
    depose(story, 200, 5)
    verdict, reasons = judged(story, spark).verdict()
    assert verdict is Verdict.UNKNOWN
    assert len(reasons) == 2
