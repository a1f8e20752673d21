"""The exact rank-sum test, held against counting all choices one by one."""

from __future__ import annotations

import random
from itertools import combinations
from math import comb

import pytest

from harness.runs.rank_test import doubled_ranks, p_larger


def counted(newer: list[float], older: list[float]) -> float:
    """Every choice tried."""
    values = newer + older
    ranks = [
        sum(v < value for v in values) * 2 + sum(v == value for v in values) + 1 for value in values
    ]
    observed = sum(ranks[: len(newer)])
    choices = list(combinations(ranks, len(newer)))
    return sum(sum(c) >= observed for c in choices) / len(choices)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_what_counting_gives(seed: int) -> None:
    rng = random.Random(seed)
    kinds = (rng.random, lambda: float(rng.randrange(3)), lambda: float(rng.random() < 0.2))
    draw = kinds[seed % len(kinds)]
    newer = [draw() for _ in range(rng.randint(1, 9))]
    older = [draw() for _ in range(rng.randint(1, 7))]
    assert p_larger(newer, older) == pytest.approx(counted(newer, older), abs=1e-12)


@pytest.mark.parametrize("values", [list(range(9)), [0, 0, 0, 1, 1, 2, 2, 2, 9]])
def test_a_false_alarm_is_as_rare_as_is_said(values: list[float]) -> None:
    """Of all ways in which nothing can have changed, no more than a share p looks like p."""
    found = []
    for choice in combinations(range(len(values)), 3):
        newer = [float(values[i]) for i in choice]
        older = [float(values[i]) for i in range(len(values)) if i not in choice]
        found.append(p_larger(newer, older))
    assert len(found) == comb(9, 3)
    for p in set(found):
        assert sum(other <= p for other in found) / len(found) == pytest.approx(p)


def test_ends() -> None:
    assert p_larger([], [1.0]) == p_larger([1.0], []) == 1.0
    assert p_larger([1.0] * 5, [1.0] * 9) == 1.0
    assert p_larger([0.0] * 3, [float(i + 1) for i in range(9)]) == 1.0
    assert p_larger([99.0] * 20, [float(i) for i in range(40)]) == 1 / comb(60, 20)
    assert p_larger([99.0] * 20, [float(i) for i in range(8)]) == 1 / comb(28, 20)


def test_equal_values_share_their_ranks() -> None:
    assert doubled_ranks([5.0, 1.0, 5.0, 7.0]) == [5, 2, 5, 8]
