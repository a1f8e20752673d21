"""How the wall clock is tied to the monotonic one, and seen to be set."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from harness.clock import SET_NS, WallClock, tie_clocks, widen
from harness.sut.protocol import ClockTie

_TIE = ClockTie(monotonic_minus_wall_ns=-5_000_000_000, error_ns=1_000_000)


def test_a_tie_holds_now() -> None:
    tie = tie_clocks()
    before = time.monotonic_ns()
    wall_ms = time.time_ns() / 1e6
    after = time.monotonic_ns()
    assert before - tie.error_ns <= tie.monotonic_ns(wall_ms) <= after + tie.error_ns


def test_one_tie_for_what_lay_between_two() -> None:
    last = replace(_TIE, monotonic_minus_wall_ns=-5_030_000_000, error_ns=3_000_000)
    assert widen(_TIE, last) == replace(_TIE, error_ns=33_000_000)
    assert widen(last, _TIE) == replace(last, error_ns=33_000_000)


@pytest.mark.parametrize(
    ("ties", "noted"),
    [
        ([0, 0, 0], []),
        ([0, SET_NS // 2, SET_NS, SET_NS * 3 // 2], []),  # slewing
        ([0, -7_364_000_000, -7_364_000_000], [7_364_000_000]),  # ahead, once
        ([0, 2_000_000_000, 0], [-2_000_000_000, 2_000_000_000]),
        ([0, SET_NS + 1_999_999], []),  # within what the looks may be off
        ([0, SET_NS + 2_000_000], [-SET_NS - 2_000_000]),
    ],
)
def test_a_clock_that_is_set(ties: list[int], noted: list[int]) -> None:
    looks = iter(replace(_TIE, monotonic_minus_wall_ns=tie) for tie in ties)
    found: list[int] = []
    clock = WallClock(found.append, lambda: next(looks))
    for _ in ties[1:]:
        clock.look()
    assert found == noted


def test_who_is_interrupted_between_the_clocks_sees_no_step() -> None:
    slow = replace(_TIE, monotonic_minus_wall_ns=-4_300_000_000, error_ns=701_000_000)
    looks = iter([_TIE, slow, _TIE])
    found: list[int] = []
    clock = WallClock(found.append, lambda: next(looks))
    clock.look()
    clock.look()
    assert found == []
