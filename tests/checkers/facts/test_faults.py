"""What a fault's rows tell of it."""

from __future__ import annotations

import random
from typing import Any

from checkers.facts.faults import Fault, faults_of, faults_within
from checkers.facts.timeline import FOREVER
from tests.checkers.conftest import Story


def fault(*steps: tuple[int, str, list[int] | None]) -> Fault:
    rows: list[dict[str, Any]] = [{"t": t, "phase": phase, "nodes": n} for t, phase, n in steps]
    return Fault(("arm", 0), "f0", "kill", rows)


def test_it_lasts_from_its_first_step_until_it_was_healed_for_the_last_time() -> None:
    one = fault((10, "inject", []), (20, "injected", [1]), (30, "healed", [1]), (40, "healed", [1]))
    assert (one.from_t, one.to_t) == (10, 40)
    assert one.phases == {"inject", "injected", "healed"}


def test_what_failed_and_was_never_healed_may_last() -> None:
    assert fault((10, "inject", [1]), (20, "failed", [1]), (30, "heal", [1])).to_t == FOREVER


def test_whom_any_of_its_rows_names_is_meant() -> None:
    one = fault((10, "inject", None), (20, "injected", [2]), (30, "healed", [3]))
    assert one.nodes == {2, 3}
    assert [one.concerns(node) for node in (1, 2, 3)] == [False, True, True]


def test_one_that_names_nobody_may_be_anywhere() -> None:
    one = fault((10, "inject", None), (30, "healed", []))
    assert one.nodes == frozenset()
    assert one.concerns(1)


def test_it_meets_spans_that_share_more_than_an_edge_with_it() -> None:
    one = fault((10, "inject", [1]), (30, "healed", [1]))
    met = {(0, 10): False, (0, 11): True, (15, 20): True, (29, 50): True, (30, 50): False}
    assert {span: one.meets(*span) for span in met} == met


def test_those_within_a_span_are_found_as_if_one_by_one(spark: Any) -> None:
    rng, story = random.Random(7), Story()
    for number in range(60):
        begin = rng.randint(0, 500)
        story.add("fault", begin, id=f"f{number}", fault="kill", phase="injected", nodes=[1])
        if rng.random() < 0.95:  # else it may last for ever
            end = begin + rng.choice([0, 1, 40, 300])
            story.add("fault", end, id=f"f{number}", fault="kill", phase="healed", nodes=[1])
    history, trial = story.history(spark), (story.arm, 0)
    times = [row["t"] for row in history.rows("fault")]
    for _ in range(200):
        from_t, to_t = sorted(rng.choice(times) + rng.choice([-1, 0, 1]) for _ in range(2))
        wanted = [one for one in faults_of(history, trial) if one.meets(from_t, to_t)]
        assert faults_within(history, trial, from_t, to_t) == wanted
    assert faults_within(history, ("another", 0), 0, FOREVER) == []
