"""Partitions that are told without their leader epoch, for `checkers.promises.shown_metadata`.

A broker knows each leader, and that there is none, with its leader epoch, and tells both
(MetadataCache.getPartitionMetadata, Metadata 7 and up, KIP-320). A client that is told no epoch
(-1) takes any leader, one of the past as well, and reads on without a fence: to it such an answer
is worse than an old one, which it can tell.

- ``metadata-epoch-untold``: a leader, or none, without a leader epoch, in an answer to one whom the
  same broker tells leader epochs else (so both speak such a version).

Lawful, and looks similar: who asks by an older version is told no epoch ever; of a topic that there
is not no partition is told; releases before 2.5 name nobody without an epoch (`LEADERLESS`:
run.json says of which arms).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.judging.outcome import Outcome

RULE: Final = "metadata-epoch-untold"
LEADERLESS: Final = "leaderless_untold"
"""In run.json, of an arm: its system may be one of before 2.5; so where nobody knows."""
_WHO: Final = ["arm", "trial", "process", "node"]


def untold_epochs(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    rows = history.frame("metadata").where(
        "type = 'ok' and leader is not null and node is not null and partition is not null"
    )
    old = [arm for arm in history.arms if history.run.may(arm, LEADERLESS)]
    owed = (F.col("leader") >= 0) | ~F.col("arm").isin(old)
    without = F.coalesce("leader_epoch", F.lit(-1)) < 0
    untold = owed & without
    by_place = rows.groupBy(*TP, "process", "node").agg(
        F.count(F.when(untold, 1)).alias("n"),
        F.count(F.when(~owed & without, 1)).alias("spared"),
        F.count(F.when(~without, 1)).alias("told"),
        F.min(F.when(untold, F.struct("t", "leader"))).alias("first"),
    )
    places = by_place.toArrow().to_pylist()
    telling = {tuple(row[name] for name in _WHO) for row in places if row["told"]}
    spared: Counter[str] = Counter()
    for row in places:
        spared[row["arm"]] += row["spared"]
    for arm, n in sorted(spared.items()):
        if n:
            says = f"{n} partitions without a leader and its epoch: it may be of before 2.5"
            outcome.unjudged(arm, says)
    order = (*TP, "node", "process")
    for row in sorted(places, key=lambda row: [row[name] for name in order]):
        if not row["n"] or tuple(row[name] for name in _WHO) not in telling:
            continue
        at = {"topic": row["topic"], "partition": row["partition"]}
        first = row["first"]
        who = f"node {first['leader']}" if first["leader"] >= 0 else "nobody"
        says = f"node {row['node']} named {who} as the leader of {row['topic']}-"
        yield (
            Finding(
                RULE,
                f"{says}{row['partition']}, and no leader epoch, as it does else",
                row["arm"],
                row["trial"],
                (
                    Pick("leadership", at, to_t=first["t"], last=True, rows=1),
                    Pick("metadata", {**at, "node": row["node"], "t": first["t"]}, rows=1),
                ),
            ),
            row["n"],
        )
