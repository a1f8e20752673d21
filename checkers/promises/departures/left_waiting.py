"""Left waiting: acks=all that waits at a leader which leads no more, for
`checkers.promises.departures`.

A broker that follows another knows that nothing it had appended will be acknowledged by it: whoever
waits for that is answered at once (NOT_LEADER_OR_FOLLOWER; ReplicaManager.makeFollowers completes
what is delayed), and looks for the new leader. A producer was left waiting when it was told that
its time was up (REQUEST_TIMED_OUT) for longer than `WAIT_NS` after the broker had begun to follow,
by a record that it had sent before.

Lawful, and looks similar: an answer that is late, because its broker is paused, flooded or cut off
from its clients; a request for several partitions, which waits for the last of them (only producers
that name one are judged); a broker that was told to follow one whom it does not know to live, which
takes up nothing (and says so by telling of no new role).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.faults import faults_of
from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.timeline import ALWAYS, FOREVER
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "left-waiting"
WAITED: Final = "records that waited at a leader as it began to follow"
WAIT_NS: Final = 2_000_000_000
"""What takes milliseconds, and on a busy machine a second."""
_TIMED_OUT: Final = 7
_MOVES: Final = frozenset({"move-leadership", "leadership-churn"})
_DEMOTED: Final = (
    "arm string, trial int, topic string, partition int, node int, _t bigint, _from bigint, "
    "_to bigint"
)
_SENDERS: Final = "arm string, trial int, process string"
Row = Mapping[str, Any]


def left_waiting(history: History, outcome: Outcome) -> Iterator[Finding]:
    senders = [
        {"arm": arm, "trial": trial, "process": one.process}
        for (arm, trial), workloads in history.run.workloads.items()
        for one in workloads
        if one.role == "direct-producer" and one.acks == -1
    ]
    demoted = list(_demoted(history)) if senders and history.has("produce") else []
    if not demoted:
        return
    sent = history.frame("produce").where("acks = -1 and node is not null and topic is not null")
    sent = sent.join(
        F.broadcast(history.table(senders, _SENDERS)), ["arm", "trial", "process"], "left_semi"
    )
    waited = sent.join(F.broadcast(history.table(demoted, _DEMOTED)), [*TP, "node"])
    waited = waited.where("invoke_t < _t and t > _t and invoke_t > _from and t < _to")
    late = F.col("error").eqNullSafe(_TIMED_OUT) & (F.col("t") > F.col("_t") + WAIT_NS)
    found = waited.groupBy(*TP, "node", "_t").agg(
        F.count("*").alias("n"),
        F.count(F.when(late, 1)).alias("late"),
        F.max(F.when(late, F.col("t"))).alias("last_t"),
        F.min_by("value", F.when(late, F.col("t"))).alias("value"),
    )
    for row in found.orderBy(*TP, "_t").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], WAITED, row["n"])
        if row["late"]:
            yield _finding(row)


def _demoted(history: History) -> Iterator[dict[str, Any]]:
    """Each time a broker that led began to follow: when, and from when to when nothing kept it from
    answering (ns)."""
    leads: dict[tuple[Key, int], bool] = {}
    for row in history.rows("leader_change"):
        key, node = key_of(row), row["node"]
        led = leads.get((key, node), False)
        leads[key, node] = row["role"] == "leader"
        if led and row["role"] == "follower":
            begin, end = _clear(history, key[:2], node, row["t"])
            place = dict(zip(TP, key, strict=True))
            yield {**place, "node": node, "_t": row["t"], "_from": begin, "_to": end}


def _clear(history: History, trial: tuple[str, int], node: int, t: int) -> tuple[int, int]:
    begin, end = ALWAYS, FOREVER
    for from_t, to_t in troubles(history, trial, node):
        if from_t <= t <= to_t:
            return t, t
        if to_t < t:
            begin = max(begin, to_t)
        else:
            end = min(end, from_t)
    return begin, end


def troubles(history: History, trial: tuple[str, int], node: int) -> Iterator[tuple[int, int]]:
    """When a fault was in place that may keep the node from answering its clients, or it was ended,
    stopped or started."""
    for fault in faults_of(history, trial):
        # What it does is told once it is in place.
        if fault.concerns(node) and not all(map(_spares_clients, fault.rows[1:] or fault.rows)):
            yield fault.from_t, fault.to_t
    for row in rows_of(history, "node_event", trial):
        if row["node"] == node and row["event"] not in ("registered", "unregistered"):
            yield row["t"], row["t"]


def _spares_clients(row: Row) -> bool:
    """Of a fault in place: it moves leaders, or hurts other links than that of clients."""
    if row["fault"] in _MOVES:
        return True
    try:
        links = json.loads(row["detail"] or "{}").get("links") or []
    except (ValueError, AttributeError):
        return False
    return row["fault"] == "toxic" and bool(links) and "client" not in links


def _finding(row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    own = {**at, "node": row["node"]}
    return Finding(
        RULE,
        f"{row['late']} records of {row['topic']}-{row['partition']} that had been sent to node "
        f"{row['node']} waited there until their time was up, up to "
        f"{(row['last_t'] - row['_t']) / 1e9:.1f} s after it had begun to follow another",
        row["arm"],
        row["trial"],
        (
            Pick("leader_change", {**own, "t": row["_t"]}, rows=1),
            Pick("produce", {**at, "value": row["value"]}, rows=1),
        ),
    )
