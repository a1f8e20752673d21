"""Control requests that failed where nothing but a refusal is lawful, or were accepted and came to
nothing, for `checkers.promises.refusals`.

Errors that Kafka has for LeaderAndIsr, UpdateMetadata and StopReplica as a whole: stale epochs (11,
77), and authorization. For their partitions (ReplicaManager.becomeLeaderOrFollower, stopReplicas):
stale epochs (11, 74), a partition that is not assigned to the broker (3), a disk that failed (56),
another topic's id (103). Anything else, -1 above all, says that the broker could not do what it had
to. Judged of controllers' own requests only: a forger may send what nobody can handle.

A LeaderAndIsr that was accepted for a partition makes the broker its leader or follower, which it
says (`leader_change`), before it says that it handled the request. Judged of brokers that number
their rows, so that none can be missing unnoticed. Without a leader (-1) nothing changes; nor does
it where the leader is another whom the broker does not know to live (ReplicaManager.makeFollowers):
not judged while the leader's registration was gone, or new, by ZooKeeper's own log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.office import in_order
from checkers.judging.outcome import Outcome
from checkers.judging.tally import Sort, Tally, add, tally
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column

    from checkers.history.frames import History

_UNAUTHORIZED: Final = (29, 31, 58)
_OF_REQUESTS: Final = (0, 11, 77, *_UNAUTHORIZED)
_OF_PARTITIONS: Final = (0, 3, 11, 56, 74, 77, 103, *_UNAUTHORIZED)
_KEYS: Final = [
    "arm",
    "trial",
    "api",
    "correlation_id",
    "controller_epoch",
    "controller_id",
    "node",
]
Row = Mapping[str, Any]
_HEARD_NS: Final = 10_000_000_000
"""So long after a registration some broker may not have heard of it: its UpdateMetadata waits."""


def judge_failures(history: History, outcome: Outcome) -> None:
    """Add what failed, and what came to nothing."""
    for found, finding in ((_failed(history), _failure), (_lost(history), _unapplied)):
        if found is not None:
            add(outcome, found, finding)


def _failed(history: History) -> Tally | None:
    """Errors of whole requests; of those that were handled, errors of partitions."""
    if not (history.has("control_request") and history.has("control_send")):
        return None
    sends = history.frame("control_send").withColumn("controller_id", F.col("node"))
    sends = sends.withColumn("node", F.col("to")).select(*_KEYS).distinct()
    rows = history.frame("control_request").select(*_KEYS, "t", "error", "partitions")
    ok = F.coalesce(F.col("error"), F.lit(0)) == 0
    odd = F.expr("exists(partitions, p -> p.error <> 0)")
    suspects = rows.where(~ok | F.coalesce(odd, F.lit(False))).join(sends, _KEYS, "left_semi")
    failed = ~F.coalesce(F.col("error").isin(*_OF_REQUESTS), F.lit(True))
    whole = F.array(F.struct(F.col("error").alias("code"), *_nowhere()))
    parts = F.transform(
        F.filter("partitions", _fails),
        lambda p: F.struct(*(p[name].alias(as_) for name, as_ in _PART.items())),
    )
    each = suspects.select(*_KEYS, "t", F.inline(F.when(failed, whole).otherwise(parts)))
    return tally(each, None, partial(_sort, "failed-in-handling"))


_PART: Final = {"error": "code", "topic": "topic", "partition": "partition"}


def _fails(part: Column) -> Column:
    return ~F.coalesce(part["error"].isin(*_OF_PARTITIONS), F.lit(True))


def _nowhere() -> tuple[Column, Column]:
    none = F.lit(None)
    return none.cast("string").alias("topic"), none.cast("int").alias("partition")


def _sort(rule: str, row: Row) -> Sort:
    place = (row["node"], row["correlation_id"], row["topic"] or "", row["partition"] or 0)
    return Sort((), (row["t"], *place), rule)


def _lost(history: History) -> Tally | None:
    """Partitions of accepted LeaderAndIsr requests in whose leader epoch the broker never was
    anything."""
    if not (history.has("control_request") and history.has("leader_change")):
        return None
    place = ["arm", "trial", "node", "topic", "partition", "leader_epoch"]
    telling = history.frame("leader_change").where("seq is not null").select(*place[:3]).distinct()
    rows = history.frame("control_request").where("api = 'LEADER_AND_ISR' and error = 0")
    rows = rows.where("seq is not null").join(F.broadcast(telling), place[:3], "left_semi")
    each = rows.select(
        *("arm", "trial", "node", "t", "api", "correlation_id", "controller_id"),
        F.explode("partitions").alias("p"),
    )
    accepted = each.where("p.leader >= 0 and coalesce(p.error, 0) = 0").select(
        *("arm", "trial", "node", "t", "api", "correlation_id", "controller_id"),
        *("p.topic", "p.partition", "p.leader", "p.leader_epoch"),
    )
    roles = history.frame("leader_change").select(*place).distinct()
    lost = accepted.join(roles, place, "left_anti")
    return tally(lost, None, partial(_unless_away, _away(history)))


_Away = Mapping[tuple[str, int, int], list[tuple[int, int | None]]]


def _unless_away(away: _Away, row: Row) -> Sort:
    found = _sort("accepted-but-not-applied", row)
    return replace(found, rule=None) if _was_away(away, row) else found


def _away(history: History) -> _Away:
    """From when to when (ns; None: for good) each broker's registration was gone."""
    spans: dict[tuple[str, int, int], list[tuple[int, int | None]]] = {}
    for row in in_order(history):
        if row["what"] != "broker" or row["node"] is None:
            continue
        of = spans.setdefault((row["arm"], row["trial"], row["node"]), [(0, None)])
        if row["step"] == "removed":
            of.append((row["t"] - (row["error_ns"] or 0), None))
        elif of[-1][1] is None:
            of[-1] = (of[-1][0], row["t"])
    return spans


def _was_away(away: _Away, row: Row) -> bool:
    spans = away.get((row["arm"], row["trial"], row["leader"]), [])
    return row["leader"] != row["node"] and any(
        gone_t <= row["t"] and (back_t is None or row["t"] < back_t + _HEARD_NS)
        for gone_t, back_t in spans
    )


def _unapplied(rule: str, row: Row) -> Finding:
    at = (row["topic"], row["partition"])
    same = {"api": row["api"], "correlation_id": row["correlation_id"], "node": row["node"]}
    own = {"topic": at[0], "partition": at[1], "node": row["node"]}
    return Finding(
        rule,
        f"node {row['node']} accepted leader epoch {row['leader_epoch']} of {at[0]}-{at[1]} "
        f"(controller {row['controller_id']}'s {row['api']} no. {row['correlation_id']}), and "
        "neither led nor followed in it",
        row["arm"],
        row["trial"],
        (
            Pick("control_request", same, row["t"], row["t"], at, rows=1),
            Pick("leader_change", own, rows=3),
        ),
    )


def _failure(rule: str, row: Row) -> Finding:
    at = None if row["topic"] is None else (row["topic"], row["partition"])
    of = "" if at is None else f" for {at[0]}-{at[1]}"
    same = {"api": row["api"], "correlation_id": row["correlation_id"]}
    return Finding(
        rule,
        f"node {row['node']} answered controller {row['controller_id']}'s {row['api']} no. "
        f"{row['correlation_id']}{of} with error {row['code']}",
        row["arm"],
        row["trial"],
        (
            Pick("control_send", {**same, "to": row["node"]}, to_t=row["t"], last=True, rows=1),
            Pick("control_request", {**same, "node": row["node"]}, row["t"], row["t"], at, rows=1),
        ),
    )
