"""Leaders that are said to be missing, by who names them as live, for
`checkers.promises.shown_metadata`.

A broker that names no leader (LEADER_NOT_AVAILABLE) of a leader epoch which has one thinks that one
dead: it is not among the live brokers that the last UpdateMetadata told it of, and so it is not
among those that the same answer names (MetadataCache.getPartitionMetadata, getAliveBrokerNodes). A
client that is told so has nobody to go to, and waits.

- ``metadata-leader-denied``: no leader, though the answer names the one committed in that leader
  epoch among the live brokers, and so did the broker's next answer about that partition.

Lawful, and looks similar: an answer is put together of two looks at what the broker knows, and an
UpdateMetadata may come in between, which two answers in a row do not show; a broker whose listener
is missing (LISTENER_NOT_FOUND); a topic that is being deleted has no leader. Answers that do not
name live brokers say nothing. What a forger may have told is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps, with_forged
from checkers.facts.committed import committed
from checkers.facts.leadership import TP
from checkers.facts.unions import united
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "metadata-leader-denied"
_NOT_AVAILABLE: Final = 5
_ANSWER: Final = ("arm", "trial", "process", "node", "invoke_t", "t")
"""Rows of one answer share their times; its live brokers are on one of them."""


def denied_leaders(history: History) -> Iterator[tuple[Finding, int]]:
    """By broker and partition, the first such answer and how many there are."""
    answers = history.frame("metadata").where(
        "type = 'ok' and leader_epoch >= 0 and node is not null and topic is not null "
        "and invoke_t is not null"
    )
    denied = _denied(history, answers)
    found = denied.groupBy(*TP, "node").agg(F.count("*").alias("n"))
    places = [
        {name: row[name] for name in (*TP, "node")}
        for row in found.where("n > 1").toArrow().to_pylist()
    ]
    if not places:
        return
    kinds = "arm string, trial int, topic string, partition int, node int"
    # Only what such a broker said of such a partition is put in order.
    theirs = answers.join(F.broadcast(history.table(places, kinds)), [*TP, "node"], "left_semi")
    said = theirs.select(*TP, "node", "process", "invoke_t", "t", F.lit(False).alias("_denied"))
    odd = denied.withColumn("_denied", F.lit(True))
    each = united(said, odd.select(*said.columns, "leads"))
    each = each.groupBy(*TP, "node", "process", "invoke_t", "t").agg(
        F.max("_denied").alias("_denied"), F.max("leads").alias("leads")
    )
    order = Window.partitionBy(*TP, "node", "process").orderBy("t")
    twice = each.withColumn("_next", F.lead("_denied").over(order)).where("_denied and _next")
    first = twice.groupBy(*TP, "node").agg(
        F.count("*").alias("n"), F.min(F.struct("t", "leads")).alias("first")
    )
    for row in first.orderBy(*TP, "node").toArrow().to_pylist():
        at = {"topic": row["topic"], "partition": row["partition"]}
        t, leads = row["first"]["t"], row["first"]["leads"]
        yield (
            Finding(
                RULE,
                f"node {row['node']} showed {row['topic']}-{row['partition']} without a leader, "
                f"twice in a row, and named node {leads}, which leads in that leader epoch, among "
                "the live brokers",
                row["arm"],
                row["trial"],
                (
                    Pick("leadership", at, to_t=t, last=True, rows=1),
                    Pick("metadata", {**at, "node": row["node"]}, from_t=t, rows=2),
                ),
            ),
            row["n"],
        )


def _denied(history: History, answers: DataFrame) -> DataFrame:
    """Answers that name no leader, and among the live brokers the one that there is (``leads``)."""
    gone = deletion_steps(history)
    known = [
        {**dict(zip(TP, key, strict=True)), "leader_epoch": epoch, "leads": next(iter(leaders))}
        for key, of in committed(history).items()
        if key[:3] not in gone
        for epoch, leaders in of.leaders.items()
        if len(leaders) == 1 and min(leaders) >= 0
    ]
    kinds = "arm string, trial int, topic string, partition int, leader_epoch int, leads int"
    none = with_forged(history, answers.where(f"leader = -1 and error = {_NOT_AVAILABLE}"))
    none = none.where("not forged")
    none = none.join(F.broadcast(history.table(known, kinds)), [*TP, "leader_epoch"])
    live = answers.where("brokers is not null").select(*_ANSWER, F.col("brokers").alias("_live"))
    both = none.join(live, list(_ANSWER)).where(F.expr("array_contains(_live, leads)"))
    return both.select(*TP, "node", "process", "invoke_t", "t", "leads").distinct()
