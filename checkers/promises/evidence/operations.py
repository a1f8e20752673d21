"""Operations of a client that left no row, by the numbers that it gave them.

A client counts what it does from its beginning on (``op``), and of each operation a row is stored:
one that nobody saw end is `info`. So of all numbers up to the last there is one. What a member of a
group does besides it counts from a higher number on (`harness.workload`), a forger from 1.

Of clients that run.json names. A stranger to a group writes down some of what it does only: what it
asks to no end has no kind of its own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.blocks import bit_of, block_of
from checkers.history import OPERATIONS

if TYPE_CHECKING:
    from checkers.history.frames import History

SILENT: Final = frozenset({"group-stranger"})
_SPARED: Final = 1
_RANGE: Final = 1_000_000_000
"""Each so many numbers are counted by themselves."""
_BY: Final = ("arm", "trial", "process", "range")


def unnumbered(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words: how many operations of which client are not there."""
    kinds = [kind for kind in sorted(OPERATIONS) if history.has(kind)]
    own = {
        (*key, workload.process)
        for key, workloads in history.run.workloads.items()
        for workload in workloads
        if workload.role not in SILENT
    }
    if not kinds or not own:
        return []
    names = F.expr(f"int(op div {_RANGE})").alias("range"), F.expr(f"op % {_RANGE}").alias("op")
    frames = [
        history.frame(kind).where("op >= 0").select("arm", "trial", "process", *names)
        for kind in kinds
    ]
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    blocks = rows.groupBy(*_BY, block_of("op").alias("block")).agg(
        F.bit_or(bit_of("op")).alias("held"), F.max("op").alias("last")
    )
    counted = blocks.groupBy(*_BY).agg(
        (F.max("last") + 1).alias("due"), F.sum(F.bit_count("held")).alias("there")
    )
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"{row['process']}: of {row['due']} operations {row['due'] - row['there']} left no row",
        )
        for row in counted.where(f"due - there > {_SPARED}").toArrow().to_pylist()
        if (row["arm"], row["trial"], row["process"]) in own
    )
