"""Are these values larger than those? The exact rank-sum test (Wilcoxon; Mann and Whitney).

All values are ranked together, equal ones sharing the mean of their ranks. Were the newer ones
drawn as the older, then each choice of as many from all would be as likely; the p-value is the
share of choices whose ranks sum to no less than the newer ones' do. Nothing is assumed of how
values spread, so that a false alarm is as rare as is said whatever latencies do, and with ties as
well. What *is* assumed is that the order of runs means nothing: a host that gets slower is a change
like another.

No table and no normal approximation: the sums are counted by multiplying out, all of them at once
in one long integer, with a slot for each sum that is wide enough for every count.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


def p_larger(newer: Sequence[float], older: Sequence[float]) -> float:
    """The chance of ranks at least as high as ``newer`` has, were nothing different. 1.0 when there
    is nothing to compare."""
    if not newer or not older:
        return 1.0
    ranks, chosen = doubled_ranks([*newer, *older]), len(newer)
    observed = sum(ranks[:chosen])
    slot = comb(len(ranks), min(chosen, len(ranks) // 2)).bit_length() + 1
    # sums[j]: in slot s, how many choices of j of the ranks seen so far sum to s.
    sums = [1] + [0] * chosen
    for rank in ranks:
        for j in range(chosen, 0, -1):
            sums[j] += sums[j - 1] << (slot * rank)
    # The sum of a number's digits is its remainder by one less than their base.
    as_high = (sums[-1] >> (slot * observed)) % ((1 << slot) - 1)
    return as_high / comb(len(ranks), chosen)


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
