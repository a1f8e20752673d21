"""Are these values larger than those? The exact rank-sum test (Wilcoxon; Mann and Whitney).

All values are ranked together, equal ones sharing the mean of their ranks. Were the newer ones
drawn as the older, then each choice of as many from all would be as likely; the p-value is the
share of choices whose ranks sum to no less than the newer ones' do. Nothing is assumed of how
values spread, so that a false alarm is as rare as is said whatever latencies do, and with ties as
well. What *is* assumed is that the order of runs means nothing: a host that gets slower is a change
like another.

No table and no normal approximation: the sums are counted by multiplying out, all of them at once
in one long integer (a slot of 64 bits for each sum).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Final

_SLOT: Final = 64
MOST: Final = 60
"""Values in all: more could overflow a slot."""


def p_larger(newer: Sequence[float], older: Sequence[float]) -> float:
    """The chance of ranks at least as high as ``newer`` has, were nothing different. 1.0 when there
    is nothing to compare."""
    if not newer or not older:
        return 1.0
    if len(newer) + len(older) > MOST:
        raise ValueError(f"{len(newer) + len(older)} values; allowed: up to {MOST}")
    ranks = doubled_ranks([*newer, *older])
    observed = sum(ranks[: len(newer)])
    # sums[j]: in slot s, how many choices of j of the ranks seen so far sum to s.
    sums = [1] + [0] * len(newer)
    for rank in ranks:
        for j in range(len(newer), 0, -1):
            sums[j] += sums[j - 1] << (_SLOT * rank)
    # The sum of a number's digits is its remainder by one less than their base.
    as_high = (sums[-1] >> (_SLOT * observed)) % ((1 << _SLOT) - 1)
    return as_high / comb(len(ranks), len(newer))


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each (from 1, the smallest): whole numbers also where ranks are shared."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for i in order[begin:end]:
            ranks[i] = begin + end + 1
        begin = end
    return ranks
