"""Leaders that say they are none, for `checkers.promises.epochs`.

Who took up a partition as its leader serves those who ask it (ReplicaManager's
getPartitionOrException, Partition's localLogWithEpochOrThrow) until it is told to follow, or to
stop. NOT_LEADER_OR_FOLLOWER from one that led all the while sends its clients looking for a leader
that there is none of besides.

By the broker's own word: it took up the lead before it was asked (``leader_change``), and still
told of other things `AFTER_NS` after its answer, without having taken up another role of that
partition. Besides, whatever system it is: once all is calm, and it has had its time
(`checkers.facts.calm`), who leads by the last that was committed says neither that, nor that there
is no such partition, no leader, or no replica or end of it yet (`_UNREADY`).
Lawful, and looks similar: the last answers of a broker that is stopped, or made to follow; other
errors (an epoch that it does not know, too few in sync); until all is calm an end that is not
committed yet; topics that are being deleted. Clients that do not say whom they asked are not heard;
of brokers that do not number what they tell nothing is judged before all is calm.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.calm_leaders import calm_leaders
from checkers.facts.leadership import TP, key_of
from checkers.facts.timeline import FROM, TO, Timeline
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

ASKED: Final = "questions to leaders that say so"
AFTER_NS: Final = 1_000_000_000
_RULE: Final = "leader-denies"
_KINDS: Final = (
    *("listed_offset", "epoch_end", "produce"),
    *("read_at", "read_below", "records_deleted"),
)
_NOT_LEADER: Final = 6
_UNREADY: Final = (3, 5, _NOT_LEADER, 9, 78, 100)
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, OFFSET_NOT_AVAILABLE,
UNKNOWN_TOPIC_ID."""
_UNTIL_LAST: Final = 2**62


def questions(history: History) -> DataFrame | None:
    """What brokers were asked of partitions, each by itself, and how they answered: TP, node,
    invoke_t, t, error, kind. Kept; None: nobody asked."""
    kinds = [kind for kind in _KINDS if history.has(kind)]
    if not kinds:
        return None
    frames = [
        history.frame(kind)
        .where("node is not null and partition is not null and error is not null")
        .select(*TP, "node", "invoke_t", "t", "error", F.lit(kind).alias("kind"))
        for kind in kinds
    ]
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    return history.keep("questions to leaders", lambda: rows)


def denials(history: History, outcome: Outcome) -> Iterator[Finding]:
    rows = questions(history)
    if rows is None:
        return
    own, calm = list(_reigns(history)), list(_calm_reigns(history, rows))
    for spans, errors in ((own, (_NOT_LEADER,)), (calm, _UNREADY)):
        if spans:
            yield from _denied(history, outcome, rows, spans, errors)


def _denied(
    history: History,
    outcome: Outcome,
    rows: DataFrame,
    spans: Sequence[dict[str, Any]],
    errors: Sequence[int],
) -> Iterator[Finding]:
    led = Timeline(spans, (*TP, "node")).at(history, rows, F.col("invoke_t"), "inner")
    denied_t = F.when(F.col("error").isin(*errors), F.col("t"))
    each = led.where(F.col("t") < F.col(TO)).groupBy(*TP, "node")
    sums = each.agg(
        F.count("*").alias("asked"),
        F.count(denied_t).alias("n"),
        F.min(denied_t).alias("t"),
        *(F.min_by(name, denied_t).alias(name) for name in ("kind", "error")),
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
        yield from over(place, _UNTIL_LAST)


def _calm_reigns(history: History, rows: DataFrame) -> Iterator[dict[str, Any]]:
    """Spans (ns) in which a broker leads by the last that was committed, once all is calm."""
    for key, leader, since_t, debts in calm_leaders(history, rows):
        owed = debts.owed_from((*key[:2], leader), since_t)
        if owed is not None:
            place = dict(zip((*TP, "node"), (*key, leader), strict=True))
            yield {**place, FROM: owed, TO: _UNTIL_LAST}


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
        f"node {row['node']} answered {row['n']} of {row['asked']} times as if it did not lead "
        f"{row['topic']}-{row['partition']}, which it did all the while (error {row['error']})",
        row["arm"],
        row["trial"],
        (
            Pick("leader_change", {**at, "role": "leader"}, to_t=row["t"], last=True, rows=1),
            Pick(row["kind"], {**at, "t": row["t"]}, rows=1),
        ),
    )
