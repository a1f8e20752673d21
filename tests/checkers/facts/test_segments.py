"""What a fault that failed leaves unjudgeable: its own time and place."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.segments import settled, settled_at, unsettled
from checkers.facts.timeline import FOREVER

MS = 1_000_000


def fault(story: Any, name: str, *steps: tuple[float, str], nodes: Any = (3,)) -> None:
    for t, phase in steps:
        story.add("fault", t, fault="toxic", id=name, phase=phase, nodes=list(nodes))


def calm(story: Any) -> None:
    for name, t in (("chaos", 1000), ("heal", 1100), ("quiesce", 1200)):
        story.add("phase", t, name=name, event="end")


def test_a_fault_that_was_healed_is_over(story: Any, spark: Any) -> None:
    calm(story)
    fault(story, "a", (100, "inject"), (110, "injected"), (1500, "heal"), (1600, "healed"))
    history = story.history(spark)
    assert not unsettled(history)
    assert settled(history) == {(story.arm, 0): (1600 * MS, True)}


def test_a_fault_that_failed_and_was_healed_is_over(story: Any, spark: Any) -> None:
    calm(story)
    fault(story, "a", (100, "inject"), (110, "failed"), (1500, "heal"), (1600, "healed"))
    history = story.history(spark)
    assert settled(history) == {(story.arm, 0): (1600 * MS, True)}
    (one,) = unsettled(history)[story.arm, 0]
    assert (one.from_t, one.to_t) == (100 * MS, 1600 * MS)
    assert one.concerns(3, 200 * MS)
    assert not one.concerns(1, 200 * MS)
    assert not one.concerns(3, 1601 * MS)


@pytest.mark.parametrize("last", [(), ((900, "heal"), (910, "failed"))])
def test_one_that_was_not_healed_lasts_where_it_is(story: Any, spark: Any, last: Any) -> None:
    calm(story)
    fault(story, "a", (100, "inject"), (110, "injected"), *last)
    history = story.history(spark)
    assert not settled(history)
    assert unsettled(history)[story.arm, 0][0].to_t == FOREVER
    assert settled_at(history, story.arm, 0, 3) is None
    assert settled_at(history, story.arm, 0, 1) == (1100 * MS, True)


def test_one_that_names_no_node_may_be_anywhere(story: Any, spark: Any) -> None:
    calm(story)
    fault(story, "a", (100, "inject"), (110, "failed"), nodes=())
    assert settled_at(story.history(spark), story.arm, 0, 1) is None


def test_a_time_out_of_the_quiesce_phase_is_not_quiet(story: Any, spark: Any) -> None:
    calm(story)
    story.add("phase", 1150, name="quiesce", event="timeout")
    assert settled(story.history(spark)) == {(story.arm, 0): (1100 * MS, False)}


def test_another_trial_is_no_concern(story: Any, spark: Any) -> None:
    calm(story)
    fault(story, "a", (100, "inject"), (110, "injected"))
    story.trial = 1
    calm(story)
    assert set(settled(story.history(spark))) == {(story.arm, 1)}
