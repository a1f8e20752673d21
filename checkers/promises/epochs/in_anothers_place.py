"""Brokers that answer in another's place, for `checkers.promises.epochs`.

Once all is calm, and a broker has had its time to hear of it (`checkers.facts.calm`), it answers
nobody about a partition that another one leads by the last that was committed: not where its log
begins, or what is in it at some time, does not let it begin later, takes no record
(ReplicaManager.getPartitionOrException, fetchOnlyFromLeader). Of the answers with which a leader
epoch is told, or believed in, `acting` says so by that epoch, whenever it was.

Who has records deleted by a follower loses them there alone, and is told that they are gone.

Lawful: topics that are being deleted; a broker that a forger made believe something else (counted).
Clients that do not say whom they asked, and black boxes, are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.calm import brokers
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import TP, key_of
from checkers.facts.timeline import FOREVER, FROM, TO, Timeline
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.epochs.denials import calm_leaders, questions

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "served-by-another"
OTHERS: Final = "questions to who does not lead, once all was calm"
_NONE: Final = 0


def in_anothers_place(history: History, outcome: Outcome) -> Iterator[Finding]:
    rows = questions(history)
    if rows is None:
        return
    nodes = brokers(history)
    spans: list[dict[str, Any]] = []
    leaders: dict[tuple[Any, ...], int] = {}
    for key, leader, since_t, debts in calm_leaders(history, rows):
        leaders[key] = leader
        for node in sorted(nodes.get(key[:2], set()) - {leader}):
            owed = debts.owed_from((*key[:2], node), since_t)
            if owed is not None:
                place = dict(zip((*TP, "node"), (*key, node), strict=True))
                spans.append({**place, FROM: owed, TO: FOREVER})
    if not spans:
        return
    asked = Timeline(spans, (*TP, "node")).at(history, rows, F.col("invoke_t"), "inner")
    served_t = F.when(F.col("error") == _NONE, F.col("t"))
    sums = asked.groupBy(*TP, "node").agg(
        F.count("*").alias("asked"),
        F.count(served_t).alias("n"),
        F.min(served_t).alias("t"),
        F.min_by("kind", served_t).alias("kind"),
    )
    lied = {(key_of(row), row["node"]) for row in taken_in(history) if row["topic"]}
    for row in sums.orderBy(*TP, "node").toArrow().to_pylist():
        key = key_of(row)
        outcome.saw(*key[:2], OTHERS, row["asked"])
        if row["n"] and (key, row["node"]) in lied:
            outcome.excuse(*key[:2], RULE, "forged", of=OTHERS, n=row["n"])
        elif row["n"]:
            yield _finding(row, leaders[key])


def _finding(row: dict[str, Any], leader: int) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        RULE,
        f"node {row['node']} answered {row['n']} of {row['asked']} times ({row['kind']}) for "
        f"{row['topic']}-{row['partition']} as if it led that, long after all was healed; node "
        f"{leader} does",
        row["arm"],
        row["trial"],
        (
            Pick("leadership", {**at, "leader": leader}, last=True, rows=1),
            Pick(row["kind"], {**at, "node": row["node"], "t": row["t"]}, rows=1),
        ),
    )
