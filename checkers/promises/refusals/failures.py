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

    -1         of a LeaderAndIsr, where the broker's registration was gone: a log is made with its
               topic's configuration, which ZooKeeper tells no session that is over
               (ZooKeeperClientExpiredException out of Partition.createLogIfNotExists); excused

Anything else, -1 above all, says that the broker could not do what it had to. Judged of
controllers' own requests only: a forger may send what nobody can handle.

A LeaderAndIsr that was accepted for a partition makes the broker its leader or follower, which it
says (`leader_change`), before it says that it handled the request. Judged of brokers that number
their rows, so that none can be missing unnoticed. Without a leader (-1) nothing changes; nor does
it where the leader is another whom the broker does not know to live (ReplicaManager.makeFollowers):
excused, and counted, where that one's registration was gone, by ZooKeeper's log or its watch
(`checkers.facts.registrations`), when the request entered the controller's queue, or had been gone
until `_NOTICED_NS` before. However long it waited there: what counts is what the controller knew. A
leader that registered later than that is known before it leads, since the controller tells of
brokers first, new in office (onControllerFailover) or not (onBrokerStartup), by the same
connection, in which each request is answered before the next is sent. A forger does not: its order
to follow somebody may come to a broker that has just begun and knows nobody. Excused, and counted,
where no controller had been told by then that it took in an UpdateMetadata in that life.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import Topic, deletion_steps
from checkers.facts.control_requests import FORGED, accepted_by
from checkers.facts.failings import BrokenDisk, broken_disks
from checkers.facts.leadership import Key, key_of
from checkers.facts.lives import cuts, with_life
from checkers.facts.office import in_order
from checkers.facts.registrations import Absence, Node, absences, was_absent
from checkers.facts.timeline import steps
from checkers.judging.outcome import Outcome
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick
from checkers.sail import as_read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

REQUESTS: Final = "control requests"
APPLIED: Final = "partitions of accepted LeaderAndIsr requests"
FAILED: Final = "failed-in-handling"
LOST: Final = "accepted-but-not-applied"
_UNAUTHORIZED: Final = (29, 31, 58)
AUTHORIZER: Final = "authorizer.class.name"
_STALE: Final = (0, 11, 77)
_STALE_PARTS: Final = (0, 11, 74)
_NOT_MINE: Final = 3
_DISK: Final = 56
_OTHER_TOPIC: Final = 103
_UNKNOWN: Final = -1
_KEYS: Final = [
    "arm",
    "trial",
    "api",
    "correlation_id",
    "controller_epoch",
    "controller_id",
    "node",
]
_NOTICED_NS: Final = 2_000_000_000
"""So long after a broker is back in ZooKeeper a controller may still take it for gone: its events
wait, and one that is new in office has read who lives before it decides. The broker's own handlers
may be about what they began with the session before."""
Row = Mapping[str, Any]


def judge_failures(history: History, outcome: Outcome) -> None:
    """Add what failed, and what came to nothing."""
    if not history.has("control_request"):
        return
    if history.has("control_send"):
        _failed(history, outcome)
    if history.has("leader_change"):
        _lost(history, outcome)


# -- failed ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reasons:
    """Why a partition may be refused, by others than the broker."""

    deleted: frozenset[Topic]
    assigned: Mapping[Key, frozenset[int]]
    """The brokers that had a replica of it all along, by ZooKeeper's log."""
    broken: Sequence[BrokenDisk]
    absent: Mapping[Node, list[Absence]]

    def had_no_session(self, row: Row) -> bool:
        if row["code"] != _UNKNOWN or row["api"] != "LEADER_AND_ISR":
            return False
        absent = self.absent.get((row["arm"], row["trial"], row["node"]), [])
        return was_absent(absent, row["t"], _NOTICED_NS)

    def is_lawful(self, row: Row) -> bool:
        if row["code"] == _OTHER_TOPIC:
            return (row["arm"], row["trial"], row["topic"]) in self.deleted
        if row["code"] != _NOT_MINE or row["api"] != "LEADER_AND_ISR":
            return False
        of = self.assigned.get(key_of(row))
        return of is None or row["node"] not in of

    def was_broken(self, row: Row) -> bool:
        trial = row["arm"], row["trial"]
        return any(disk.may_fail(trial, row["node"], row["t"]) for disk in self.broken)


def _failed(history: History, outcome: Outcome) -> None:
    """Errors of whole requests; of those that were handled, errors of partitions."""
    sends = history.frame("control_send").withColumn("controller_id", F.col("node"))
    sends = sends.withColumn("node", F.col("to")).select(*_KEYS).distinct()
    rows = history.frame("control_request").select(*_KEYS, "t", "error", "partitions")
    ok = F.coalesce(F.col("error"), F.lit(0)) == 0
    odd = F.exists("partitions", lambda p: ~p["error"].isin(*_STALE_PARTS))
    suspects = (
        as_read(rows).where(~ok | F.coalesce(odd, F.lit(False))).join(sends, _KEYS, "left_semi")
    )
    authorized = _UNAUTHORIZED if AUTHORIZER in history.run.brokers else ()
    failed = ~F.coalesce(F.col("error").isin(*_STALE, *authorized), F.lit(True))
    whole = F.array(F.struct(F.col("error").alias("code"), *_nowhere()))

    def fails(part: Column) -> Column:
        lawful = part["error"].isin(*_STALE_PARTS, *authorized)
        lawful = lawful | part["error"].eqNullSafe(F.col("error"))
        return ~F.coalesce(lawful, F.lit(True))

    parts = F.transform(
        F.filter("partitions", fails),
        lambda p: F.struct(*(p[name].alias(as_) for name, as_ in _PART.items())),
    )
    each = suspects.select(*_KEYS, "t", F.inline(F.when(failed, whole).otherwise(parts)))
    found = tally(each, None, partial(_failure, _reasons(history)))
    add(outcome, found, _failed_in_handling)
    for (arm, trial, why, excused), n in found.in_order():
        if why is not None:
            outcome.unknown(arm, trial, f"{why}, and nobody had broken it")
        if excused is not None:
            outcome.excuse(arm, trial, FAILED, "session-over", of=excused, n=n)


_PART: Final = {"error": "code", "topic": "topic", "partition": "partition"}


def _nowhere() -> tuple[Column, Column]:
    none = F.lit(None)
    return none.cast("string").alias("topic"), none.cast("int").alias("partition")


def _reasons(history: History) -> _Reasons:
    assigned: dict[Key, frozenset[int]] = {}
    for row in in_order(history):
        if row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
            of = frozenset(row["replicas"])
            assigned[key_of(row)] = assigned.get(key_of(row), of) & of
    disks = broken_disks(history)
    return _Reasons(frozenset(deletion_steps(history)), assigned, disks, absences(history))


def _failure(known: _Reasons, row: Row) -> Sort:
    why = rule = excused = None
    if known.had_no_session(row):
        excused = REQUESTS if row["topic"] is None else APPLIED
    elif row["topic"] is None:
        rule = FAILED
    elif row["code"] == _DISK:
        if not known.was_broken(row):
            at = f"{row['topic']}-{row['partition']}"
            why = f"node {row['node']} says that its disk failed ({at})"
    elif not known.is_lawful(row):
        rule = FAILED
    return Sort((row["arm"], row["trial"], why, excused), _order(row), rule)


def _order(row: Row) -> tuple[Any, ...]:
    place = (row["node"], row["correlation_id"], row["topic"] or "", row["partition"] or 0)
    return (row["t"], *place)


# -- came to nothing ------------------------------------------------------------------------------


def _lost(history: History, outcome: Outcome) -> None:
    """Partitions of accepted LeaderAndIsr requests in whose leader epoch the broker never was
    anything."""
    place = ["arm", "trial", "node", "topic", "partition", "leader_epoch"]
    telling = history.frame("leader_change").where("seq is not null").select(*place[:3]).distinct()
    rows = history.frame("control_request").where("api = 'LEADER_AND_ISR' and error = 0")
    rows = rows.where("seq is not null").join(F.broadcast(telling), place[:3], "left_semi")
    each = rows.selectExpr(*_KEYS, "t", f"{FORGED} as forged", "explode(partitions) as p")
    accepted = each.where("p.leader >= 0 and coalesce(p.error, 0) = 0").select(
        *_KEYS,
        *("t", "forged"),
        *("p.topic", "p.partition", "p.leader", "p.leader_epoch"),
    )
    for row in accepted.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], APPLIED, row["count"])
    roles = history.frame("leader_change").select(*place).distinct()
    lost = _with_decided(history, accepted.join(roles, place, "left_anti"))
    found = tally(lost, None, partial(_unless_unknown, absences(history), _knew_nobody(history)))
    add(outcome, found, _unapplied)
    for (arm, trial, excuse), n in found.in_order():
        if excuse is not None:
            outcome.excuse(arm, trial, LOST, excuse, of=APPLIED, n=n)


def _with_decided(history: History, rows: DataFrame) -> DataFrame:
    """Add ``decided_t``: when the request entered its controller's queue. Numbers begin again when
    a channel is rebuilt: the last such send is meant; where nobody tells of any, when the request
    was handled."""
    sends = history.frame("control_send").withColumn("controller_id", F.col("node"))
    sends = sends.withColumn("node", F.col("to"))
    sends = sends.select(*_KEYS, F.coalesce("enqueue_t", "t").alias("_sent_t"))
    sent = F.coalesce(F.col("_sent_t") <= F.col("t"), F.lit(False))
    names = rows.columns
    joined = rows.join(sends, _KEYS, "left").groupBy(*names)
    last = joined.agg(F.max(F.when(sent, F.col("_sent_t"))).alias("_last_t"))
    return last.select(*names, F.coalesce("_last_t", "t").alias("decided_t"))


def _knew_nobody(history: History) -> dict[Node, list[tuple[int, int]]]:
    """By broker, from when to when (ns) it ran without having told any controller that it took in
    who lives: a span each of its lives."""
    told = accepted_by(history).where("api = 'UPDATE_METADATA'")
    lived = with_life(history, told, F.col("t"), F.col("t")).where("life is not null")
    first = lived.groupBy("arm", "trial", "node", "life").agg(F.min("t").alias("t"))
    heard = {
        (row["arm"], row["trial"], row["node"], row["life"]): row["t"]
        for row in first.toArrow().to_pylist()
    }
    return {
        node: [
            (since, min(until, heard.get((*node, life), until)))
            for life, (since, until) in enumerate(steps(times))
        ]
        for node, times in cuts(history).items()
    }


def _unless_unknown(
    absent: Mapping[Node, list[Absence]],
    knew_nobody: Mapping[Node, Sequence[tuple[int, int]]],
    row: Row,
) -> Sort:
    trial, why = (row["arm"], row["trial"]), None
    if row["leader"] != row["node"]:
        spans = knew_nobody.get((*trial, row["node"]), ())
        if was_absent(absent.get((*trial, row["leader"]), []), row["decided_t"], _NOTICED_NS):
            why = "unregistered"
        elif row["forged"] and any(since <= row["t"] <= until for since, until in spans):
            why = "knows-nobody"
    return Sort((*trial, why), _order(row), LOST if why is None else None)


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


def _failed_in_handling(rule: str, row: Row) -> Finding:
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
