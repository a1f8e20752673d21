"""Who leads each partition by the last that was committed, and who owes the truth about it.

What is asked of a partition once all is calm (`checkers.facts.calm`) is to be answered as its last
committed leader would.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.calm import Debts
from checkers.facts.committed import committed
from checkers.facts.leadership import SHOWN, Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History


def calm_leaders(history: History, rows: DataFrame) -> Iterator[tuple[Key, int, int, Debts]]:
    """Each partition with the leader that was committed last, when that was (ns), and who owes what
    by the end of ``rows``. Not of topics that are being deleted, nor of black boxes."""
    last = rows.groupBy("arm", "trial").agg(F.max("t").alias("t")).toArrow().to_pylist()
    debts = Debts(history, {(row["arm"], row["trial"]): row["t"] for row in last})
    gone = deletion_steps(history)
    for key, of in committed(history).items():
        state = of.states[-1] if of.states else None
        if state is None or state.row["source"] == SHOWN or key[:3] in gone:
            continue
        leader = state.row["leader"]
        if leader is not None and leader >= 0:
            yield key, leader, state.t, debts
