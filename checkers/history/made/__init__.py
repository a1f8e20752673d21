"""Made histories: as a cluster would have left them, of any size, with known truth.

    layout   how many trials, rounds, partitions and records; and when what happens
    small    what grows with rounds: leaders, control requests, faults, phases, accounts
    bulk     what grows with the load: operations, answers, logs; whole columns, in Arrow
    plants   anomalies, each an exact number of times
    make     all of it, written as a run's folder

On a clean one every promise that is asked for (`CHECKS`) is `valid`, and none is broken. Nothing is
random: the same words make the same bytes.
"""

from checkers.history.made.make import CHECKS, SHAPES, Truth, make

__all__ = ["CHECKS", "SHAPES", "Truth", "make"]
