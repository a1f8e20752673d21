"""Control requests that failed where nothing but a refusal is lawful, or were accepted and came to
nothing, for `checkers.promises.refusals`.

Errors that Kafka has for LeaderAndIsr, UpdateMetadata and StopReplica as a whole: stale epochs (11,
77), and authorization where there is an authorizer. For their partitions
(ReplicaManager.becomeLeaderOrFollower, stopReplicas), each where somebody else than the broker can
say why:

    11, 74     stale epochs (judged by `refusals`)
    3          of a LeaderAndIsr, where ZooKeeper had not assigned it to the broker all along
    56         where the harness broke that broker's disk; else nobody can say (`unknown`)
    103        another topic's id, where the topic was deleted
    77, ...    what the whole request was answered

Anything else, -1 above all, says that the broker could not do what it had to. Judged of
controllers' own requests only: a forger may send what nobody can handle.

A LeaderAndIsr that was accepted for a partition makes the broker its leader or follower, which it
says (`leader_change`), before it says that it handled the request. Judged of brokers that number
their rows, so that none can be missing unnoticed. Without a leader (-1) nothing changes; nor does
it where the leader is another whom the broker does not know to live (ReplicaManager.makeFollowers):
excused, and counted, while that one's registration was gone, by ZooKeeper's log or its watch
(`checkers.facts.registrations`). One that has just registered is known before it leads: the
controller tells of brokers first, by the same connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order
from checkers.facts.registrations import absences, was_absent
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

APPLIED: Final = "partitions of accepted LeaderAndIsr requests"
_UNAUTHORIZED: Final = (29, 31, 58)
AUTHORIZER: Final = "authorizer.class.name"
_STALE: Final = (0, 11, 77)
_NOT_MINE: Final = 3
_DISK: Final = 56
_OTHER_TOPIC: Final = 103
BREAKERS: Final = frozenset({"disk-full", "wipe-disk", "torn-tail"})
"""Faults after which a broker may find that its disk failed."""
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
_HEARD_NS: Final = 2_000_000_000
"""So long after a broker is back in ZooKeeper another may still be told of what came before."""
Row = Mapping[str, Any]


def failures(history: History, outcome: Outcome) -> Iterator[Finding]:
    if not (history.has("control_request") and history.has("control_send")):
        return
    sends = history.frame("control_send").withColumn("controller_id", F.col("node"))
    sends = sends.withColumn("node", F.col("to")).select(*_KEYS).distinct()
    rows = history.frame("control_request").select(*_KEYS, "t", "error", "partitions")
    ok = F.coalesce(F.col("error"), F.lit(0)) == 0
    lawful = (0, 11, 74)
    odd = F.exists("partitions", lambda p: ~p["error"].isin(*lawful))
    suspects = rows.where(~ok | F.coalesce(odd, F.lit(False))).join(sends, _KEYS, "left_semi")
    authorized = _UNAUTHORIZED if AUTHORIZER in history.run.brokers else ()
    for row in suspects.orderBy("t").limit(_SUSPECTS).toArrow().to_pylist():
        if row["error"] not in (None, *_STALE, *authorized):
            yield _finding(row, row["error"], None)
            continue
        for one in row["partitions"] or ():
            error, at = one["error"], (one["topic"], one["partition"])
            if error in (None, row["error"], *lawful, *authorized):
                continue
            if error == _DISK and not _was_broken(history, row):
                says = f"node {row['node']} says that its disk failed ({at[0]}-{at[1]})"
                outcome.unknown(row["arm"], row["trial"], f"{says}, and nobody had broken it")
            elif error != _DISK and not _is_lawful(history, row, one):
                yield _finding(row, error, at)


def _is_lawful(history: History, row: Row, one: Row) -> bool:
    """Whether another than the broker can say why a partition was refused with 3 or 103."""
    if one["error"] == _OTHER_TOPIC:
        return (row["arm"], row["trial"], one["topic"]) in deletion_steps(history)
    if one["error"] != _NOT_MINE or row["api"] != "LEADER_AND_ISR":
        return False
    key = (row["arm"], row["trial"], one["topic"], one["partition"])
    of = _assigned(history).get(key)
    return of is None or row["node"] not in of


def _assigned(history: History) -> dict[Key, set[int]]:
    """By partition, the brokers that had a replica of it all along, by ZooKeeper's log."""

    def make() -> dict[Key, set[int]]:
        found: dict[Key, set[int]] = {}
        for row in in_order(history):
            if row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
                of = found.setdefault(key_of(row), set(row["replicas"]))
                of &= set(row["replicas"])
        return found

    found: dict[Key, set[int]] = history.memo("always assigned", make)
    return found


def _was_broken(history: History, row: Row) -> bool:
    return any(
        fault["fault"] in BREAKERS
        and (fault["arm"], fault["trial"]) == (row["arm"], row["trial"])
        and row["node"] in (fault["nodes"] or (row["node"],))
        and fault["t"] <= row["t"]
        for fault in history.rows("fault")
    )


def unapplied(history: History, outcome: Outcome) -> Iterator[Finding]:
    """Partitions of accepted LeaderAndIsr requests in whose leader epoch the broker never was
    anything."""
    if not (history.has("control_request") and history.has("leader_change")):
        return
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
    for row in accepted.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], APPLIED, row["count"])
    roles = history.frame("leader_change").select(*place).distinct()
    lost = accepted.join(roles, place, "left_anti").orderBy("t").limit(_SUSPECTS)
    for row in lost.toArrow().to_pylist():
        leader = absences(history).get((row["arm"], row["trial"], row["leader"]), [])
        if row["leader"] != row["node"] and was_absent(leader, row["t"], _HEARD_NS):
            rule = "accepted-but-not-applied"
            outcome.excuse(row["arm"], row["trial"], rule, "unregistered", of=APPLIED)
        else:
            yield _unapplied(row)


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
