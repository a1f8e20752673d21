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
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.office import in_order
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
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
_SUSPECTS: Final = 1_000
_HEARD_NS: Final = 10_000_000_000
"""So long after a registration some broker may not have heard of it: its UpdateMetadata waits."""


def failures(history: History) -> list[Finding]:
    if not (history.has("control_request") and history.has("control_send")):
        return []
    sends = history.frame("control_send").withColumn("controller_id", F.col("node"))
    sends = sends.withColumn("node", F.col("to")).select(*_KEYS).distinct()
    rows = history.frame("control_request").select(*_KEYS, "t", "error", "partitions")
    ok = F.coalesce(F.col("error"), F.lit(0)) == 0
    odd = F.expr("exists(partitions, p -> p.error <> 0)")
    suspects = rows.where(~ok | F.coalesce(odd, F.lit(False))).join(sends, _KEYS, "left_semi")
    found = []
    for row in suspects.orderBy("t").limit(_SUSPECTS).toArrow().to_pylist():
        if row["error"] not in (None, *_OF_REQUESTS):
            found.append(_finding(row, row["error"], None))
            continue
        for one in row["partitions"] or ():
            if one["error"] not in (None, *_OF_PARTITIONS):
                found.append(_finding(row, one["error"], (one["topic"], one["partition"])))
    return found


def unapplied(history: History) -> list[Finding]:
    """Partitions of accepted LeaderAndIsr requests in whose leader epoch the broker never was
    anything."""
    if not (history.has("control_request") and history.has("leader_change")):
        return []
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
    lost = accepted.join(roles, place, "left_anti").orderBy("t").limit(_SUSPECTS)
    found: list[dict[str, Any]] = lost.toArrow().to_pylist()
    away = _away(history) if found else {}
    return [_unapplied(row) for row in found if not _was_away(away, row)]


def _away(history: History) -> dict[tuple[str, int, int], list[tuple[int, int | None]]]:
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


def _was_away(
    away: Mapping[tuple[str, int, int], list[tuple[int, int | None]]], row: Mapping[str, Any]
) -> bool:
    spans = away.get((row["arm"], row["trial"], row["leader"]), [])
    return row["leader"] != row["node"] and any(
        gone_t <= row["t"] and (back_t is None or row["t"] < back_t + _HEARD_NS)
        for gone_t, back_t in spans
    )


def _unapplied(row: dict[str, Any]) -> Finding:
    at = (row["topic"], row["partition"])
    same = {"api": row["api"], "correlation_id": row["correlation_id"], "node": row["node"]}
    own = {"topic": at[0], "partition": at[1], "node": row["node"]}
    return Finding(
        "accepted-but-not-applied",
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


def _finding(row: dict[str, Any], error: int, at: tuple[str, int] | None) -> Finding:
    of = "" if at is None else f" for {at[0]}-{at[1]}"
    same = {"api": row["api"], "correlation_id": row["correlation_id"]}
    return Finding(
        "failed-in-handling",
        f"node {row['node']} answered controller {row['controller_id']}'s {row['api']} no. "
        f"{row['correlation_id']}{of} with error {error}",
        row["arm"],
        row["trial"],
        (
            Pick("control_send", {**same, "to": row["node"]}, to_t=row["t"], last=True, rows=1),
            Pick("control_request", {**same, "node": row["node"]}, row["t"], row["t"], at, rows=1),
        ),
    )
