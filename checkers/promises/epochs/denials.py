"""Leaders that say they are none, for `checkers.promises.epochs`.

Who took up a partition as its leader serves those who ask it (ReplicaManager's
getPartitionOrException, Partition's localLogWithEpochOrThrow) until it is told to follow, or to
stop. NOT_LEADER_OR_FOLLOWER from one that led all the while sends its clients looking for a leader
that there is none of besides.

By the broker's own word: it took up the lead before it was asked (``leader_change``), and still
told of other things `AFTER_NS` after its answer, without having taken up another role of that
partition.
Lawful, and looks similar: the last answers of a broker that is stopped, or made to follow; other
errors (an epoch that it does not know, an end that is not committed yet, too few in sync); topics
that are being deleted. Clients that do not say whom they asked are not heard; of brokers that do
not number what they tell nothing is judged.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.leadership import TP, key_of
from checkers.facts.timeline import FROM, TO, Timeline
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

ASKED: Final = "questions to leaders that say so"
AFTER_NS: Final = 1_000_000_000
_RULE: Final = "leader-denies"
_KINDS: Final = ("listed_offset", "epoch_end", "produce")
_NOT_LEADER: Final = 6


def denials(history: History, outcome: Outcome) -> Iterator[Finding]:
    kinds = [kind for kind in _KINDS if history.has(kind)]
    spans = list(_reigns(history)) if kinds else []
    if not spans:
        return
    frames = [
        history.frame(kind)
        .where("node is not null and partition is not null and error is not null")
        .select(*TP, "node", "invoke_t", "t", "error", F.lit(kind).alias("kind"))
        for kind in kinds
    ]
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    led = Timeline(spans, (*TP, "node")).at(history, rows, F.col("invoke_t"), "inner")
    denied_t = F.when(F.col("error") == _NOT_LEADER, F.col("t"))
    each = led.where(F.col("t") < F.col(TO)).groupBy(*TP, "node")
    sums = each.agg(
        F.count("*").alias("asked"),
        F.count(denied_t).alias("n"),
        F.min(denied_t).alias("t"),
        F.min_by("kind", denied_t).alias("kind"),
    )
    for row in sums.orderBy(*TP, "node").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], ASKED, row["asked"])
        if row["n"]:
            yield _finding(row)


def _reigns(history: History) -> Iterator[dict[str, Any]]:
    """Spans (ns) in which a broker led a partition by its own word: until it told of another role,
    or `AFTER_NS` before the last that it told in that boot."""
    gone = deletion_steps(history)
    until = _last_words(history)
    begun: dict[tuple[Any, ...], tuple[int, Any]] = {}
    steps = [row for row in history.rows("leader_change") if row["seq"] is not None]
    stops = [{**row, "role": None} for row in history.rows("replica_stop")]

    def over(place: tuple[Any, ...], to_t: int) -> Iterator[dict[str, Any]]:
        from_t, boot = begun.pop(place)
        to_t = min(to_t, until.get((*place[:2], place[4], boot), 0)) - AFTER_NS
        if from_t < to_t:
            yield {**dict(zip((*TP, "node"), place, strict=True)), FROM: from_t, TO: to_t}

    for row in sorted((*steps, *stops), key=lambda row: row["t"]):
        place = (*key_of(row), row["node"])
        if place[:3] in gone:
            continue
        if place in begun:
            yield from over(place, row["t"])
        if row["role"] == "leader":
            begun[place] = (row["t"], row["boot"])
    for place in list(begun):
        yield from over(place, 2**62)


def _last_words(history: History) -> dict[tuple[Any, ...], int]:
    """By (arm, trial, node, boot), when it told last of what it counts all the time (ns)."""
    if not history.has("plane_use"):
        return {}
    by = ("arm", "trial", "node", "boot")
    last = history.frame("plane_use").where("boot is not null").groupBy(*by)
    rows = last.agg(F.max("t").alias("t")).toArrow().to_pylist()
    return {tuple(row[name] for name in by): row["t"] for row in rows}


def _finding(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "node": row["node"]}
    return Finding(
        _RULE,
        f"node {row['node']} answered {row['n']} of {row['asked']} times that it does not lead "
        f"{row['topic']}-{row['partition']}, which it did all the while",
        row["arm"],
        row["trial"],
        (
            Pick("leader_change", {**at, "role": "leader"}, to_t=row["t"], last=True, rows=1),
            Pick(row["kind"], {**at, "t": row["t"]}, rows=1),
        ),
    )
