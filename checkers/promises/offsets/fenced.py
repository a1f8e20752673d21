"""Fenced: why who believes in another leader epoch is refused, for `checkers.promises.offsets`.

A replica compares the leader epoch that it is asked in with its own (Partition.
checkCurrentLeaderEpoch, KIP-320): an older one is of the past (FENCED_LEADER_EPOCH), a later one it
has not heard of yet (UNKNOWN_LEADER_EPOCH). Clients do opposite things then: they ask for newer
metadata, or ask that broker again.

- ``fenced-for-nothing``: told that its leader epoch is of the past, and no later one was committed;
  or by who told none, and is to be asked for none;
- ``called-unknown``: told that its leader epoch is not known yet, by a broker that had taken up a
  role in that one, or in a later one, before it was asked; or by who told none;
- ``fence-ignored``, ``fetch-fence-ignored``: served, by a broker that had taken up a role in a
  later one before it was asked (`served`).

Lawful, and looks similar: a leader epoch that who writes the history sees a moment after brokers
hear of it; topics that are deleted, whose namesakes begin anew; partitions of which nobody could
read what was committed; who has begun anew, or is given a replica again, and has no leader epoch
for a moment.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP, key_of
from checkers.facts.lives import cuts
from checkers.facts.timeline import FOREVER
from checkers.judging.excuses import Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

REFUSED: Final = "refusals of who believed in another leader epoch"
HEARD_NS: Final = 1_000_000_000
"""So long after its commit a leader epoch may be seen by who writes the history."""
_LOGGED_NS: Final = 1_000_000_000
"""So long after it says so in its log Apache Kafka, which numbers nothing, may go by the role."""
_KINDS: Final = ("listed_offset", "epoch_end", "read_at")
_FENCED, _UNKNOWN = 74, 75
_TOLD_NONE: Final = "believed_epoch < 0"


def fenced(history: History, outcome: Outcome, known: Excuses) -> Iterator[tuple[Finding, int]]:
    """The first of its kind in each partition, and how many there are."""
    refused = _refused(history)
    if refused is None:
        return
    for row in refused.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], REFUSED, row["count"])
    found = [
        rows.withColumn("rule", F.lit(rule))
        for rule, rows in (
            ("fenced-for-nothing", _for_nothing(history, refused)),
            ("called-unknown", _called_unknown(history, refused)),
            ("fenced-for-nothing", refused.where(f"error = {_FENCED} and {_TOLD_NONE}")),
            ("called-unknown", refused.where(f"error = {_UNKNOWN} and {_TOLD_NONE}")),
        )
    ]
    both = functools.reduce(lambda one, other: one.unionByName(other), found)
    first = both.groupBy(*TP, "rule").agg(
        F.count("*").alias("n"),
        F.min_by(F.struct("node", "t", "kind", "believed_epoch"), "t").alias("row"),
    )
    for row in first.orderBy("rule", *TP).toArrow().to_pylist():
        one, rule = row["row"], row["rule"]
        excuse = known.of(row["arm"], row["trial"], row["topic"], row["partition"], one["t"])
        if excuse is not None:
            outcome.excuse(row["arm"], row["trial"], rule, excuse, of=REFUSED, n=row["n"])
            continue
        at = {"topic": row["topic"], "partition": row["partition"]}
        own = {**at, "node": one["node"]}
        says = _SAYS_NONE if one["believed_epoch"] < 0 else _SAYS[rule]
        finding = Finding(
            rule,
            f"broker {one['node']} told who asked about {row['topic']}-{row['partition']} in "
            f"leader epoch {one['believed_epoch']} {says}",
            row["arm"],
            row["trial"],
            (
                Pick("leadership", at, to_t=one["t"], last=True, rows=1),
                Pick("leader_change", own, to_t=one["t"], last=True, rows=1),
                Pick(one["kind"], {**own, "t": one["t"]}, rows=1),
            ),
        )
        yield finding, row["n"]


def _refused(history: History) -> DataFrame | None:
    told = [
        history.frame(kind)
        .where(f"error in ({_FENCED}, {_UNKNOWN}) and topic is not null")
        .where("believed_epoch is not null")
        .select(*TP, "node", "t", "invoke_t", "believed_epoch", "error", F.lit(kind).alias("kind"))
        for kind in _KINDS
        if history.has(kind)
    ]
    if not told or not history.has("leadership"):
        return None
    rows = functools.reduce(lambda one, other: one.unionAll(other), told)
    rows = _without_deleted(history, rows)
    return history.keep("refusals by leader epoch", lambda: rows)


def _without_deleted(history: History, rows: DataFrame) -> DataFrame:
    gone = {(row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")}
    names = [dict(zip(TP, key, strict=False)) for key in sorted(gone)]
    deleted = history.table(names, "arm string, trial int, topic string")
    return rows.join(F.broadcast(deleted), TP[:3], "left_anti")


def _for_nothing(history: History, refused: DataFrame) -> DataFrame:
    known = history.frame("leadership").where("leader_epoch >= 0")
    shown = known.where("source = 'shown'").select(*TP).distinct()
    rows = refused.where(f"error = {_FENCED} and not {_TOLD_NONE}")
    rows = rows.join(F.broadcast(known.select(*TP).distinct()), TP, "left_semi")
    rows = rows.join(F.broadcast(shown), TP, "left_anti")
    epochs = known.groupBy(*TP, F.col("leader_epoch").alias("_later"))
    later = epochs.agg((F.min("t") - F.lit(HEARD_NS)).alias("_from_t"))
    by_then = (F.col("_later") > F.col("believed_epoch")) & (F.col("_from_t") <= F.col("t"))
    return _matching(rows, F.broadcast(later), TP, by_then, "left_anti")


def served(history: History, answers: DataFrame) -> DataFrame:
    """Of answers (``t``, ``invoke_t``, ``believed_epoch``) those to who believed in an older leader
    epoch than one (``known``) in which the broker had taken up a role."""
    judged = _without_deleted(history, answers.where("believed_epoch >= 0"))
    heard = _heard(F.col("_own") > F.col("believed_epoch"))
    pairs = _matching(judged, F.broadcast(_taken(history)), [*TP, "node"], heard, "inner")
    names = [F.col(f"r.{name}") for name in answers.columns]
    found = pairs.select(*names, F.col("o._own").alias("_own"))
    return found.groupBy(*answers.columns).agg(F.max("_own").alias("known"))


def _heard(epoch: Column) -> Column:
    return epoch & (F.col("_from_t") < F.col("invoke_t")) & (F.col("t") < F.col("_to_t"))


def _taken(history: History) -> DataFrame:
    """Roles that brokers took up: `TP`, node, the leader epoch, and from when to when they knew."""
    return history.table(
        [
            {
                **{name: row[name] for name in (*TP, "node")},
                "_own": row["leader_epoch"],
                "_from_t": row["t"]
                + (row["error_ns"] or 0)
                + (_LOGGED_NS if row["seq"] is None else 0),
                "_to_t": _gone_t(history, row),
            }
            for row in history.rows("leader_change")
        ],
        "arm string, trial int, topic string, partition int, node int, _own int, _from_t bigint, "
        "_to_t bigint",
    )


def _called_unknown(history: History, refused: DataFrame) -> DataFrame:
    heard = _heard(F.col("_own") >= F.col("believed_epoch"))
    unknown = refused.where(f"error = {_UNKNOWN} and not {_TOLD_NONE}")
    taken = F.broadcast(_taken(history))
    return _matching(unknown, taken, [*TP, "node"], heard, "left_semi")


def _gone_t(history: History, role: Mapping[str, Any]) -> int:
    """When who took it up ended, or put the replica aside (ns): anew it begins with none."""
    ends = cuts(history).get((role["arm"], role["trial"], role["node"]), [])
    stops: dict[tuple[Any, ...], list[int]] = history.memo("stops", lambda: _stops(history))
    both = (ends, stops.get((*key_of(role), role["node"]), []))
    after = (bisect_right(of, role["t"]) for of in both)
    return min((of[n] for of, n in zip(both, after, strict=True) if n < len(of)), default=FOREVER)


def _stops(history: History) -> dict[tuple[Any, ...], list[int]]:
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in history.rows("replica_stop"):
        found.setdefault((*key_of(row), row["node"]), []).append(row["t"])
    return {place: sorted(of) for place, of in found.items()}


def _matching(
    rows: DataFrame, others: DataFrame, names: Iterable[str], when: Column, how: str
) -> DataFrame:
    for name in names:
        when = when & (F.col(f"r.{name}") == F.col(f"o.{name}"))
    return rows.alias("r").join(others.alias("o"), when, how)


_SAYS: Final = {
    "fenced-for-nothing": "that this is of the past; no later one had been committed",
    "called-unknown": "that it has not heard of that one; it had taken up a role in it, or later",
}
_SAYS_NONE: Final = "(none) that it is not this one's"
