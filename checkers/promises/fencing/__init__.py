"""Fencing: was anything accepted from a controller, a broker registration or a leader of the past?

Guarantee: once a broker has accepted an epoch, requests with an older one are refused, as long as
the broker lives. With which error, and that they change nothing: `checkers.promises.refusals`.

Violations: ``stale-controller-epoch-accepted``, ``stale-broker-epoch-accepted``,
``stale-leader-epoch-accepted``; ``sent-to-no-life`` (`addressed`); ``stale-shutdown-accepted``
(`goodbyes`).

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

from bisect import bisect_left
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.control_requests import (
    ID,
    PLACE,
    REQUEST,
    accepted_leader_epochs,
    counted,
    known_leader_epochs,
    requests,
    without_anew,
)
from checkers.facts.epoch_bounds import bounds, folded, with_newer
from checkers.facts.leadership import NEVER
from checkers.facts.lives import with_life
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import Sort, add, one_of_each, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.fencing.addressed import SENT, addressed
from checkers.promises.fencing.goodbyes import GOODBYES, goodbyes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_OWN: Final = "own_broker_epoch"
_NAMES: Final = {
    rule: f"stale-{rule}-epoch-accepted" for rule in ("controller", "broker", "leader")
}
Row = Mapping[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    for finding in (*addressed(history, outcome), *goodbyes(history, outcome)):
        outcome.add(finding)
    if not history.has("control_request") and not history.has("forged"):
        return outcome
    _count(outcome, counted(history))
    _exposure(history, outcome)
    for rule in _may_be_stale(history):
        rows = _accepted_stale_leader(history)
        if rule != "leader":
            rows = _accepted_stale(requests(history), rule)
        # A forged request shows twice: as the forger saw it and as the broker did.
        names = ["arm", "trial", "node", "api", "correlation_id"]
        once = one_of_each(rows, names, ["begin_t", "source", "topic", "partition"])
        found = tally(once, None, partial(_sort, rule))
        add(outcome, found, _finding)
    return outcome


def _sort(rule: str, row: Row) -> Sort:
    return Sort((), (row["begin_t"], row["node"], row["correlation_id"]), _NAMES[rule])


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


def _exposure(history: History, outcome: Outcome) -> None:
    """Accepted from an older controller after a newer one had been elected."""
    for figures in outcome.arms.values():
        figures["exposure"] = {"accepted": 0}
    succeeded = _succeeded(history)
    if not succeeded:
        return
    table = history.table(
        succeeded, "arm string, trial int, controller_epoch int, _elected_t bigint"
    )
    taken = requests(history).where("error = 0")
    taken = taken.join(F.broadcast(table), ["arm", "trial", "controller_epoch"])
    each = taken.where("_elected_t < begin_t").groupBy("arm", "trial", "node", *REQUEST, "begin_t")
    late_ns = (F.col("begin_t") - F.min("_elected_t")).alias("late_ns")
    late = each.agg(late_ns).groupBy("arm")
    found = late.agg(
        F.count("*").alias("n"),
        F.count_distinct("trial", "node").alias("brokers"),
        F.max("late_ns").alias("late_ns"),
    )
    for row in found.collect():
        outcome.arm(row["arm"])["exposure"] = {
            "accepted": row["n"],
            "brokers": row["brokers"],
            "longest_after_election_ms": round(row["late_ns"] / 1e6, 3),
        }


def _succeeded(history: History) -> list[dict[str, Any]]:
    """By controller epoch of accepted requests: when the first newer one was elected."""
    elected: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in history.rows("controller"):
        if row["event"] == "elected" and row["controller_epoch"] is not None:
            of = elected.setdefault((row["arm"], row["trial"]), [])
            of.append((row["controller_epoch"], row["t"]))
    first: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for trial, of in elected.items():
        soonest = NEVER
        for epoch, t in sorted(of, reverse=True):
            soonest = min(soonest, t)
            first.setdefault(trial, []).append((-epoch, soonest))
    told = {
        (row["arm"], row["trial"], row["controller_epoch"])
        for row in counted(history)
        if row["error"] == 0 and row["controller_epoch"] is not None
    }
    found = []
    for arm, trial, epoch in sorted(told):
        of = first.get((arm, trial), [])
        newer = bisect_left(of, -epoch, key=lambda one: one[0])  # all of higher epochs
        if newer:
            row = {"arm": arm, "trial": trial, "controller_epoch": epoch}
            found.append({**row, "_elected_t": of[newer - 1][1]})
    return found


# -- accepted although stale ---------------------------------------------------------------------


def _may_be_stale(history: History) -> list[str]:
    """The rules that a request may break: going by the bounds in time of all that had one epoch, it
    was not properly refused and came after a newer one was known. Only then are single requests
    worth looking at."""
    changes = None
    if history.has("leader_change"):
        changes = with_life(history, history.frame("leader_change"), F.col("t"), F.col("t"))
    every = bounds(requests(history), accepted_leader_epochs(history), changes)
    found = with_newer(folded(every)).where("newer_t < begin_t")
    rules = {row["rule"] for row in found.select("rule").distinct().collect()}
    return [rule for rule in _NAMES if rule in rules]


def _accepted_stale(requests: DataFrame, rule: str) -> DataFrame:
    """Requests with an older epoch than one that the broker had accepted before it took them.

    What binds it: controller epochs of requests that it accepted; its own broker epochs, as it
    stated them while handling earlier requests.
    """
    rows = requests.where("life is not null")
    judged, column, epoch = rows.where("error = 0"), "controller_epoch", "controller_epoch"
    bound = judged
    if rule == "broker":
        judged, column, epoch = judged.where("broker_epoch >= 0"), "broker_epoch", _OWN
        bound = rows.where(F.col(_OWN).isNotNull())
    known = bound.groupBy(*ID, F.col(epoch).alias("newer")).agg(F.min("end_t").alias("known_t"))
    found = judged.join(F.broadcast(known), ID).where(
        (F.col("newer") > F.col(column)) & (F.col("known_t") < F.col("begin_t"))
    )
    first = found.groupBy(*ID, *REQUEST, "begin_t", "t", "error", F.col(column).alias("older")).agg(
        F.max("newer").alias("newer"), F.min("known_t").alias("known_t")
    )
    first = first.withColumn("topic", F.lit(None).cast("string"))
    return first.withColumn("partition", F.lit(None).cast("int"))


def _accepted_stale_leader(history: History) -> DataFrame:
    """The same by partition, for LeaderAndIsr and StopReplica."""
    rows = accepted_leader_epochs(history).where("life is not null")
    found = rows.join(known_leader_epochs(history), PLACE)
    found = found.where("newer > leader_epoch and known_t < begin_t")
    found = without_anew(history, found)
    names = [*PLACE, *REQUEST, "begin_t", "t", "error"]
    return found.groupBy(*names, F.col("leader_epoch").alias("older")).agg(
        F.max("newer").alias("newer"), F.min("known_t").alias("known_t")
    )


def _finding(name: str, row: Row) -> Finding:
    rule = next(rule for rule, of in _NAMES.items() if of == name)
    at = (row["topic"], row["partition"]) if row["topic"] is not None else None
    place = f" for {row['topic']}-{row['partition']}" if at else ""
    says = (
        f"node {row['node']} accepted {row['api']}{place} with {rule} epoch {row['older']} after "
        f"it had accepted {row['newer']}"
    )
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
    return Finding(name, says, row["arm"], row["trial"], tuple(picks))


PROMISE: Final = Promise(
    name="fencing",
    says="Requests of a past controller, broker or leader are refused.",
    source="KIP-380 (broker epochs); KafkaApis and ReplicaManager.becomeLeaderOrFollower",
    rules={
        "stale-controller-epoch-accepted": "A request with an older controller epoch is refused.",
        "stale-broker-epoch-accepted": "A request with an older broker epoch is refused.",
        "stale-leader-epoch-accepted": "A request with an older leader epoch is refused.",
        "sent-to-no-life": "A request names the registration of the broker that it is for.",
        "stale-shutdown-accepted": "Who shut down, and is back, is not taken for who shuts down.",
    },
    evidence={
        "control requests": "as brokers handled them, and forged ones as answered",
        SENT: "by sender, receiver and epoch, where ZooKeeper's log tells of registrations",
        GOODBYES: "ControlledShutdowns with a broker epoch of the past, that a forger sent",
    },
    blind=(
        "requests while a broker shuts down",
        "who comes between two epochs in time",
        "epochs that only a forger's order to follow somebody told, which who knows nobody yet "
        "answers without taking it up",
    ),
    check=check,
)
