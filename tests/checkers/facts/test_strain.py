"""How much more is waited for on a machine whose processors are wanted by many."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.strain import MOST, SECONDS, Strained, patience, patience_of, slowness

MS = 1_000_000


def seconds(*waited_for_each_that_ran: float) -> list[Strained]:
    return [
        Strained(n, 10 * MS, int(10 * MS * times))
        for n, times in enumerate(waited_for_each_that_ran, 1)
    ]


@pytest.mark.parametrize(
    ("waited", "expected"),
    [
        ((), 1.0),
        ((0.5,), 1.5),
        ((1,) * 20, 2.0),
        ((0,) * 10 + (9,) * SECONDS + (0,) * 10, 10.0),
        ((0,) * 10 + (9,) + (0,) * 10, 1 + 9 / SECONDS),  # a moment is none
    ],
)
def test_the_worst_seconds_count(waited: tuple[float, ...], expected: float) -> None:
    assert slowness(seconds(*waited)) == pytest.approx(expected)


def test_who_did_not_run_says_nothing() -> None:
    assert slowness([Strained(1, 0, 0), Strained(2, 0, 10**9)]) == 1.0


@pytest.mark.parametrize(("slow", "times"), [(1, 1.0), (6, 1.0), (9, 1.5), (24, 4.0), (99, MOST)])
def test_patience_has_an_end(slow: float, times: float) -> None:
    assert patience(seconds(*[slow - 1] * SECONDS)) == pytest.approx(times)


@pytest.mark.parametrize(
    ("busy_from", "settled", "times"),
    [
        (10_000, 20_000, 2.0),
        (10_000, 9_000, None),  # while all was stopped, and read
        (0, 20_000, None),  # before all was healed
    ],
)
def test_what_counts_is_the_time_after_healing(
    story: Any, spark: Any, busy_from: float, settled: float, times: float | None
) -> None:
    for name, t in (("heal", 8_000), ("quiesce", 8_500), ("settle", settled)):
        story.add("phase", t, name=name, event="end")
    story.strain(busy_from, 12)
    found = patience_of(story.history(spark))
    assert found == ({(story.arm, 0): pytest.approx(2.0)} if times else {})


def test_without_such_rows_nobody_is_given_longer(story: Any, spark: Any) -> None:
    story.add("phase", 8_000, name="heal", event="end")
    assert patience_of(story.history(spark)) == {}
