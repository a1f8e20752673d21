"""Who leads each partition by the last that was committed, and who owes the truth about it.

What is asked of a partition once all is calm (`checkers.facts.calm`) is to be answered as its last
committed leader would.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.calm import Debts, brokers
from checkers.facts.committed import committed
from checkers.facts.leadership import SHOWN, TP, Key
from checkers.facts.timeline import FOREVER, FROM, TO, Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

LEADER: Final = "_leader"
DENIALS: Final = (3, 5, 6, 9, 74, 75, 76, 78, 100, 103, 106, 109)
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE,
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNSUPPORTED_COMPRESSION_TYPE, OFFSET_NOT_AVAILABLE,
UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, FETCH_SESSION_TOPIC_ID_ERROR,
OFFSET_MOVED_TO_TIERED_STORAGE: that deny the partition, its leader, or the leader epoch in which it
is asked. Who finds its leader by itself is told none of them once all is calm."""


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


def asked_in_calm(history: History, rows: DataFrame) -> DataFrame | None:
    """Of ``rows`` (`TP`, invoke_t, t) of who is not told whom it asks those that were asked since
    every broker that runs owes the truth about that partition (`FROM`, ns), with its leader
    (`LEADER`), who lives. None: there is no such time."""
    everybody, spans = brokers(history), []
    for key, leader, since_t, debts in calm_leaders(history, rows):
        trial = key[:2]
        own = debts.owed_from((*trial, leader), since_t)
        if own is None:
            continue
        owed = (debts.owed_from((*trial, node), since_t) for node in everybody.get(trial, ()))
        from_t = max([own, *(t for t in owed if t is not None)])
        place = dict(zip(TP, key, strict=True))
        spans.append({**place, LEADER: leader, FROM: from_t, TO: FOREVER})
    if not spans:
        return None
    timeline = Timeline(spans, TP, {LEADER: "int"})
    return timeline.at(history, rows, F.col("invoke_t"), "inner")
