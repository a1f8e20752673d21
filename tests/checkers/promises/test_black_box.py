"""A black box: nobody tells what was committed, only what brokers showed (`leadership` rows of
source "shown"). What that proves is judged, what it does not prove is held against nobody."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.check import check_all
from checkers.judging.outcome import Outcome
from checkers.promises import promise
from tests.checkers.conftest import Story, judged_together


def check(name: str) -> Any:
    return promise(name).check


def box() -> Story:
    story = Story()
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    return story


def shown(story: Story, t: float, leader: int, leader_epoch: int, node: int = 1) -> None:
    story.add("leadership", t, leader=leader, leader_epoch=leader_epoch, node=node, source="shown")


def told(t: float, *answers: tuple[int, int, int]) -> Story:
    """``answers``: (node, leader, leader epoch), a millisecond apart."""
    story = box()
    for number, (node, leader, epoch) in enumerate(answers):
        shown(story, t + number, leader, epoch, node)
        story.read(t + number, node, epoch, leader=leader, isr=[1, 2, 3])
    return story


def test_metadata_is_held_against_the_newest_that_anybody_was_shown(spark: Any) -> None:
    behind = told(1_000, (1, 1, 0), (2, 1, 0), (1, 2, 1))
    behind.read(20_000, 1, 1, leader=2)
    late = told(1_000, (1, 1, 0), (2, 1, 0), (1, 2, 1))
    late.read(20_000, 1, 1, leader=2)
    behind.read(20_000, 2, 0)
    late.read(20_000, 2, 1, leader=2)
    back = told(1_000, (1, 1, 0), (1, 2, 1))
    back.read(1_010, 1, 0)
    back.read(20_000, 1, 1, leader=2)
    found = judged_together(
        spark, check("stale-metadata"), {"behind": behind, "late": late, "back": back}
    )
    assert found["behind"][0] == {"metadata-never-converged": 1}
    assert found["back"][0] == {"metadata-went-back": 1}
    assert found["late"] == ({}, [])


def test_one_leader_epoch_is_shown_with_one_leader(spark: Any) -> None:
    stories = {
        "two": told(1_000, (1, 1, 4), (2, 2, 4)),
        "one": told(1_000, (1, 1, 4), (2, 1, 4), (2, 2, 5)),
        "gap": told(1_000, (1, 1, 0), (2, 2, 7), (1, 3, 9)),  # nobody was asked meanwhile
    }
    found = judged_together(spark, check("epochs"), stories)
    assert found["two"][0] == {"two-leaders-in-epoch": 1}
    assert found["one"] == found["gap"] == ({}, [])


@pytest.mark.parametrize("name", ["shown-metadata", "whole-metadata"])
def test_nobody_is_accused_of_what_nobody_saw(spark: Any, name: str) -> None:
    story = told(1_000, (1, 1, 0), (2, 1, 0), (1, 2, 3), (2, 2, 3))
    story.add("node_event", 0, node=1, event="ready")
    story.add("node_event", 0, node=2, event="ready")
    for t in (20_000, 21_000):
        for node, isr in ((1, [1, 2]), (2, [2])):  # whose in-sync set is right, nobody knows
            story.read(t, node, 3, leader=2, isr=isr, controller_id=1)
    assert judged_together(spark, check(name), {"one": story})["one"] == ({}, [])


def acked(leaders: list[tuple[int, int]], log: dict[int, int], **more: Any) -> Story:
    """Value 7 is acknowledged at offset 2 after values 5 and 6."""
    story = box()
    for epoch, (t, leader) in enumerate(leaders):
        if t >= 0:
            shown(story, t, leader, epoch)
    for offset, value in enumerate((5, 6, 7)):
        story.produce(2_000 + offset, value, offset, **{"node": 1, **more})
    story.final_log(log, 2, leader_epoch=len(leaders) - 1)
    story.final_log(log, 1, leader=False, leader_epoch=len(leaders) - 1)
    return story


def test_acknowledged_records_stay(spark: Any) -> None:
    moved = [(1_000, 1), (3_000, 2)]
    whole, cut = {0: 5, 1: 6, 2: 7}, {0: 5, 1: 6}
    stories = {
        "kept": acked(moved, whole, acks=-1),
        "lost": acked(moved, cut, acks=-1),
        "lost with its leader": acked(moved, cut, acks=1),
        "lost by its leader": acked([(1_000, 1)], cut, acks=1),
        "lost before it was shown": acked([(1_000, 1), (1_900, 2), (2_500, 1)], cut, acks=1),
        "lost to whom nobody was shown": acked([(1_000, 1), (-1, 2), (3_000, 1)], cut, acks=1),
    }
    found = judged_together(spark, check("truncation-loss"), stories)
    rules = {name: of[0] for name, of in found.items()}
    assert rules == {
        "kept": {},
        "lost": {"acked-all-lost": 1},
        "lost with its leader": {},
        "lost by its leader": {"unexplained-loss": 1},
        # Whoever leads was committed before anybody is shown it: so much earlier nobody knows.
        "lost before it was shown": {},
        "lost to whom nobody was shown": {},
    }


@pytest.mark.parametrize(("isr", "broken"), [([1, 2], True), ([2], False)])
def test_who_is_in_sync_at_rest_has_what_is_committed(
    spark: Any, isr: list[int], broken: bool
) -> None:
    story = box()
    shown(story, 1_000, 2, 0)
    story.final_log({0: 5, 1: 6}, 2)
    story.final_log({0: 5}, 1, leader=False)
    story.add("final_state", 80_000, what="partition", leader=2, isr=isr, replicas=[1, 2])
    found = judged_together(spark, check("replicas"), {"one": story})["one"][0]
    assert bool(found) is broken


def test_what_a_fault_tore_away_is_held_against_nobody(spark: Any) -> None:
    """Whether others were in sync, nobody knows."""
    story = acked([(1_000, 1), (3_000, 2)], {0: 5, 1: 6}, acks=-1)
    story.add("fault", 2_500, fault="torn-tail", id="x", phase="injected", nodes=[1])
    assert not judged_together(spark, check("truncation-loss"), {"one": story})["one"][0]


def test_what_is_not_judged_is_named(spark: Any) -> None:
    story = told(1_000, (1, 1, 0), (2, 2, 1))
    story.read(20_000, 1, 1, leader=2)
    story.run["arms"][story.arm]["not_judged"] = {"fencing": "it lacks control-requests"}
    found = check_all(story.history(spark), ["stale-metadata", "epochs", "shown-metadata"])
    said = [what for one in found.checks.values() for what in one.not_judged]
    assert any("nobody saw commits" in what for what in said)
    assert any("in-sync sets, partition epochs" in what for what in said)
    unseen = [what.partition("saw none of: ")[2].split("; ") for what in said]
    wanted = {"raises of leader epochs", "roles taken", "leaders taken into metadata"}
    assert any(wanted <= set(names) for names in unseen)
    assert found.arms[story.arm]["not_judged"] == {"fencing": "it lacks control-requests"}
    assert isinstance(check("epochs")(story.history(spark)), Outcome)
