"""Fencing: was anything accepted from a controller, a broker registration or a leader of the past?

Guarantee: once a broker has accepted an epoch, requests with an older one are refused, as long as
the broker lives. With which error, and that they change nothing: `checkers.promises.refusals`.

Violations: ``stale-controller-epoch-accepted``, ``stale-broker-epoch-accepted``,
``stale-leader-epoch-accepted``.

"Had accepted" means: another request with the newer epoch had been *handled* before this one was
*taken from the queue* (for a forger's rows: answered before it was sent), in the same life of that
broker, whatever the error of the rows' times (`checkers.facts.control_requests`). Whoever comes
between the two proves nothing. An equal leader epoch is refused with 11 as a matter of routine and
says nothing either way; an update of metadata is not fenced by leader epochs. A broker epoch of -1
passes. A StopReplica or a deletion that somebody sent begins the partition's epochs anew.

Controller epochs are taken from requests, not from `leader_change` or `metadata_update` rows: those
carry the epoch of whoever wrote the partition's state, which need not be the sender's.

Counted as *exposure*: requests that a broker accepted from an older controller after a newer one
had been elected, because it had not heard of it yet. That is Kafka, not a bug.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.control_requests import (
    ID,
    PLACE,
    REQUEST,
    accepted_leader_epochs,
    known_leader_epochs,
    requests,
    without_anew,
)
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_SUSPECTS: Final = 10_000


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("control_request") and not history.has("forged"):
        return outcome
    groups = _groups(history)
    _count(outcome, groups)
    _exposure(history, outcome, groups)
    seen: set[tuple[Any, ...]] = set()
    for rule, epoch in (("controller", "controller_epoch"), ("broker", "own_broker_epoch")):
        if _may_be_stale(groups, rule, epoch):
            for row in _accepted_stale(requests(history), rule, epoch):
                _add(outcome, seen, _finding(row, rule))
    if _may_be_stale_leader(history):
        for row in _accepted_stale_leader(history):
            _add(outcome, seen, _finding(row, "leader"))
    return outcome


def _add(outcome: Outcome, seen: set[tuple[Any, ...]], found: tuple[Finding, Any]) -> None:
    """A forged request shows twice: as the forger saw it and as the broker did."""
    finding, row = found
    key = (finding.rule, finding.arm, finding.trial, row["node"], row["api"], row["correlation_id"])
    if key not in seen:
        seen.add(key)
        outcome.add(finding)


def _groups(history: History) -> list[dict[str, Any]]:
    """Requests by what they said and were answered: one pass, from which most runs can be cleared.

    ``first_end_t``, ``first_begin_t`` and ``last_begin_t`` bound the group in time.
    """
    names = ["source", "controller_epoch", "broker_epoch", "own_broker_epoch", "error", "lie"]
    found = (
        requests(history)
        .groupBy(*ID, *names)
        .agg(
            F.count("*").alias("n"),
            F.min("end_t").alias("first_end_t"),
            F.max("begin_t").alias("last_begin_t"),
        )
    )
    return list(found.toArrow().to_pylist())


def _count(outcome: Outcome, groups: list[dict[str, Any]]) -> None:
    for row in groups:
        outcome.saw(row["arm"], row["trial"], "control requests", row["n"])
        figures, error = outcome.arm(row["arm"]), str(row["error"])
        if row["source"] == "forged":
            answers = figures.setdefault("forged", {}).setdefault(row["lie"] or "none", {})
            answers[error] = answers.get(error, 0) + row["n"]
            continue
        figures["requests"] = figures.get("requests", 0) + row["n"]
        if row["error"]:
            refused = figures.setdefault("refused", {})
            refused[error] = refused.get(error, 0) + row["n"]


def _exposure(history: History, outcome: Outcome, groups: list[dict[str, Any]]) -> None:
    """Accepted from an older controller after a newer one had been elected."""
    elected = [r for r in history.rows("controller") if r["event"] == "elected"]
    for figures in outcome.arms.values():
        figures["exposure"] = {"accepted": 0}
    exposed = any(
        g["error"] == 0
        and (g["arm"], g["trial"]) == (r["arm"], r["trial"])
        and g["controller_epoch"] < r["controller_epoch"]
        and g["last_begin_t"] > r["t"]
        for g in groups
        for r in elected
    )
    if not exposed:
        return
    table = history.table(
        [
            {
                "arm": r["arm"],
                "trial": r["trial"],
                "_epoch": r["controller_epoch"],
                "_elected_t": r["t"],
            }
            for r in elected
        ],
        "arm string, trial int, _epoch int, _elected_t bigint",
    )
    taken = requests(history).where("error = 0").join(F.broadcast(table), ["arm", "trial"])
    taken = taken.where("_epoch > controller_epoch and _elected_t < begin_t")
    each = taken.groupBy("arm", "trial", "node", *REQUEST, "begin_t").agg(
        (F.col("begin_t") - F.min("_elected_t")).alias("late_ns")
    )
    late = each.groupBy("arm").agg(
        F.count("*").alias("n"),
        F.count_distinct("trial", "node").alias("brokers"),
        F.max("late_ns").alias("late_ns"),
    )
    for row in late.collect():
        outcome.arm(row["arm"])["exposure"] = {
            "accepted": row["n"],
            "brokers": row["brokers"],
            "longest_after_election_ms": round(row["late_ns"] / 1e6, 3),
        }


# -- accepted although stale ---------------------------------------------------------------------


def _may_be_stale(groups: list[dict[str, Any]], rule: str, epoch: str) -> bool:
    """Whether a request not properly refused came after a newer epoch was known, going by the
    groups' bounds: only then is it worth looking at single requests."""
    column = "controller_epoch" if rule == "controller" else "broker_epoch"
    known = [
        g
        for g in groups
        if g["life"] is not None and g[epoch] is not None and (rule == "broker" or g["error"] == 0)
    ]
    judged = [g for g in groups if g["error"] == 0 and g[column] is not None and g[column] >= 0]
    return any(
        older[column] < newer[epoch]
        and older["last_begin_t"] > newer["first_end_t"]
        and all(older[name] == newer[name] for name in ID)
        for newer in known
        for older in judged
    )


def _accepted_stale(requests: DataFrame, rule: str, epoch: str) -> list[Any]:
    """Requests with an older epoch than one that the broker had accepted before it took them.

    What binds it: controller epochs of requests that it accepted; its own broker epochs, as it
    stated them while handling earlier requests.
    """
    rows = requests.where("life is not null")
    accepted = rows.where("error = 0") if rule == "controller" else rows
    bound = accepted.where(F.col(epoch).isNotNull())
    known = bound.groupBy(*ID, F.col(epoch).alias("newer")).agg(F.min("end_t").alias("known_t"))
    judged, column = rows.where("error = 0"), "controller_epoch"
    if rule == "broker":
        judged, column = judged.where("broker_epoch >= 0"), "broker_epoch"
    found = judged.join(F.broadcast(known), ID).where(
        (F.col("newer") > F.col(column)) & (F.col("known_t") < F.col("begin_t"))
    )
    first = found.groupBy(*ID, *REQUEST, "begin_t", "t", "error", F.col(column).alias("older")).agg(
        F.max("newer").alias("newer"), F.min("known_t").alias("known_t")
    )
    first = first.withColumn("topic", F.lit(None).cast("string"))
    first = first.withColumn("partition", F.lit(None).cast("int"))
    return first.orderBy("begin_t").limit(_SUSPECTS).collect()


def _may_be_stale_leader(history: History) -> bool:
    """Going by the bounds of each (broker, partition, epoch), as `_may_be_stale` does."""
    key = [*ID, "topic", "partition"]
    rows = accepted_leader_epochs(history).where("life is not null")
    applied = F.when(F.col("api") == "LEADER_AND_ISR", F.col("end_t"))
    found = rows.groupBy(*key, "leader_epoch").agg(
        F.min(applied).alias("known_t"), F.max("begin_t").alias("last_begin_t")
    )
    known: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    judged = found.toArrow().to_pylist()
    for row in judged:
        if row["known_t"] is not None:
            of = known.setdefault(tuple(row[k] for k in key[:3] + key[4:]), [])
            of.append((row["leader_epoch"], row["known_t"]))
    for row in history.rows("leader_change"):
        of = known.setdefault(tuple(row[k] for k in key[:3] + key[4:]), [])
        of.append((row["leader_epoch"], row["t"] + (row["error_ns"] or 0)))
    return any(
        epoch > row["leader_epoch"] and known_t < row["last_begin_t"]
        for row in judged
        for epoch, known_t in known.get(tuple(row[k] for k in key[:3] + key[4:]), ())
    )


def _accepted_stale_leader(history: History) -> list[Any]:
    """The same by partition, for LeaderAndIsr and StopReplica."""
    rows = accepted_leader_epochs(history).where("life is not null")
    found = rows.join(known_leader_epochs(history), PLACE)
    found = found.where("newer > leader_epoch and known_t < begin_t")
    found = without_anew(history, found)
    names = [*PLACE, *REQUEST, "begin_t", "t", "error"]
    first = found.groupBy(*names, F.col("leader_epoch").alias("older")).agg(
        F.max("newer").alias("newer"), F.min("known_t").alias("known_t")
    )
    return first.orderBy("begin_t").limit(_SUSPECTS).collect()


def _finding(row: Any, rule: str) -> tuple[Finding, Any]:
    at = (row["topic"], row["partition"]) if row["topic"] is not None else None
    place = f" for {row['topic']}-{row['partition']}" if at else ""
    says = (
        f"node {row['node']} accepted {row['api']}{place} with {rule} epoch {row['older']} after "
        f"it had accepted {row['newer']}"
    )
    name = f"stale-{rule}-epoch-accepted"
    node = {"node": row["node"]}
    column = {"controller": "controller_epoch", "broker": "own_broker_epoch"}.get(rule)
    picks = []
    if column:
        picks.append(Pick("control_request", {**node, column: row["newer"]}, to_t=row["t"], rows=1))
    if rule == "controller":
        picks.append(Pick("forged", {**node, column or "": row["newer"]}, to_t=row["t"], rows=1))
    if at:
        epoch = {**node, "topic": at[0], "partition": at[1], "leader_epoch": row["newer"]}
        picks.append(Pick("leader_change", epoch, to_t=row["t"], rows=1))
        picks.append(Pick("forged", epoch, to_t=row["t"], rows=1))
        picks.append(
            Pick(
                "control_request",
                {**node, "api": "LEADER_AND_ISR"},
                row["known_t"],
                row["t"],
                at=at,
                rows=2,
            )
        )
    same = {**node, "api": row["api"], "correlation_id": row["correlation_id"]}
    picks.append(Pick("control_request", same, row["begin_t"], row["t"], at=at, rows=1))
    picks.append(
        Pick(
            row["source"],
            same,
            row["t"],
            row["t"],
            at=at if row["source"] != "forged" else None,
            rows=1,
        )
    )
    finding = Finding(name, says, row["arm"], row["trial"], tuple(picks))
    return finding, row


PROMISE: Final = Promise(
    name="fencing",
    says="Requests of a past controller, broker or leader are refused.",
    source="KIP-380 (broker epochs); KafkaApis and ReplicaManager.becomeLeaderOrFollower",
    rules={
        "stale-controller-epoch-accepted": "A request with an older controller epoch is refused.",
        "stale-broker-epoch-accepted": "A request with an older broker epoch is refused.",
        "stale-leader-epoch-accepted": "A request with an older leader epoch is refused.",
    },
    evidence={"control requests": "as brokers handled them, and forged ones as answered"},
    blind=("requests while a broker shuts down", "who comes between two epochs in time"),
    check=check,
)
