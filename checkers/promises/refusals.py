"""Refusals: a request is refused when it is stale and only then, with Kafka's error, and for good.

What must not be accepted at all is `checkers.promises.fencing`. This is the other half, Kafka's
table (KafkaApis, ReplicaManager.becomeLeaderOrFollower and stopReplicas; broker epochs first):

    request                                     must be refused with
    older broker epoch (-1 passes)              77 STALE_BROKER_EPOCH
    older controller epoch                      11 STALE_CONTROLLER_EPOCH
    LeaderAndIsr, leader epoch older or equal   11 for that partition
    StopReplica, leader epoch older (and >= 0)  74 FENCED_LEADER_EPOCH for that partition

Violations:
- ``refused-with-wrong-error``: certainly stale, and refused with another error than that;
- ``current-epoch-refused``: refused with 77 although its broker epoch is the newest that ZooKeeper
  has registered for that broker; with 11 although its controller epoch is the newest that anybody
  was elected with; or, a partition, with 11 although its leader epoch is above every one that the
  broker can have known (KAFKA-9839 is of this kind: the broker stays behind for good);
- ``refused-but-applied``: a change that bears the number of a refused request, traced while that
  was being handled.

Lawful and alike: a broker that registers anew knows of it before the watch does (`LATE_WATCH_NS`);
a forger who came from the future, and was believed, has everybody else refused; a disk that failed
(56) and another topic id (103) are looked at before leader epochs; authorization (29, 31, 58).
Blind: a broker epoch that ZooKeeper never had (KRaft); state that changes without a trace.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.control_requests import (
    ID,
    PLACE,
    REQUEST,
    answered_leader_epochs,
    known_leader_epochs,
    requests,
    without_anew,
)
from checkers.facts.lives import with_start
from checkers.facts.spans import earliest, error, latest
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

STALE_CONTROLLER_EPOCH: Final = 11
FENCED_LEADER_EPOCH: Final = 74
STALE_BROKER_EPOCH: Final = 77
_UNAUTHORIZED: Final = (29, 31, 58)
_LOOKED_AT_BEFORE: Final = (56, 103)
LATE_WATCH_NS: Final = 2_000_000_000
"""So much later may the watch see what a broker or controller knew when ZooKeeper answered it."""
REFUSED: Final = "refused control requests"
_SUSPECTS: Final = 10_000


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("control_request") and not history.has("forged"):
        return outcome
    for row in requests(history).groupBy("arm", "trial", "error").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], "control requests", row["count"])
        outcome.saw(row["arm"], row["trial"], REFUSED, row["count"] if row["error"] else 0)
    for finding in (
        *_wrong_errors(history),
        *_wrong_partition_errors(history),
        *_current_refused(history, outcome),
        *_current_leader_epoch_refused(history),
    ):
        _add_once(outcome, finding)
    for row in _applied_though_refused(history):
        outcome.add(_applied_finding(row))
    return outcome


def _add_once(outcome: Outcome, finding: Finding) -> None:
    """A forged request shows twice: as the forger saw it and as the broker did."""
    if not any(f.rule == finding.rule and f.says == finding.says for f in outcome.findings):
        outcome.add(finding)


# -- the right error ----------------------------------------------------------------------------


def _wrong_errors(history: History) -> list[Finding]:
    """Requests that were certainly stale as a whole, and how they were answered."""
    rows = requests(history).where("life is not null and error is not null")
    stated = rows.where("own_broker_epoch is not null")
    stated = stated.withColumnRenamed("own_broker_epoch", "_own")
    own = stated.groupBy(*ID, "_own").agg(F.min("end_t").alias("_t"))
    accepted = rows.where("error = 0").withColumnRenamed("controller_epoch", "_heard")
    heard = accepted.groupBy(*ID, "_heard").agg(F.min("end_t").alias("_t"))
    refused = rows.where(F.col("error") != 0).where(~F.col("error").isin(*_UNAUTHORIZED))
    by_broker = refused.where(f"broker_epoch >= 0 and error <> {STALE_BROKER_EPOCH}")
    by_broker = by_broker.join(F.broadcast(own), ID).where("_own > broker_epoch and _t < begin_t")
    by_controller = refused.where(~F.col("error").isin(STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH))
    by_controller = by_controller.join(F.broadcast(heard), ID)
    by_controller = by_controller.where("_heard > controller_epoch and _t < begin_t")
    found: dict[tuple[Any, ...], Finding] = {}
    for frame, what, newer, must in (  # broker epochs are looked at first
        (by_broker, "broker_epoch", "_own", STALE_BROKER_EPOCH),
        (by_controller, "controller_epoch", "_heard", STALE_CONTROLLER_EPOCH),
    ):
        each = frame.groupBy(*ID, *REQUEST, "begin_t", "t", "error", F.col(what).alias("older"))
        suspects = each.agg(F.max(newer).alias("newer")).orderBy("begin_t").limit(_SUSPECTS)
        for row in suspects.collect():
            name = what.replace("_", " ")
            says = (
                f"node {row['node']} refused {row['api']} no. {row['correlation_id']} with {name} "
                f"{row['older']} (it knew {row['newer']}) with error {row['error']}, not {must}"
            )
            request = tuple(row[k] for k in (*ID, *REQUEST, "t"))
            found.setdefault(request, _finding("refused-with-wrong-error", says, row))
    return list(found.values())


def _wrong_partition_errors(history: History) -> list[Finding]:
    """Partitions whose leader epoch was certainly older than one that the broker had accepted."""
    rows = answered_leader_epochs(history).where("life is not null and error <> 0")
    fenced = F.when(F.col("api") == "STOP_REPLICA", FENCED_LEADER_EPOCH).otherwise(
        STALE_CONTROLLER_EPOCH
    )
    rows = rows.withColumn("must", fenced)
    rows = rows.where(F.col("error") != F.col("must"))
    rows = rows.where(~F.col("error").isin(*_LOOKED_AT_BEFORE))
    found = rows.join(known_leader_epochs(history), PLACE)
    found = without_anew(history, found.where("newer > leader_epoch and known_t < begin_t"))
    each = found.groupBy(*PLACE, *REQUEST, "begin_t", "t", "error", "must", "leader_epoch")
    suspects = each.agg(F.max("newer").alias("newer")).orderBy("begin_t").limit(_SUSPECTS)
    return [
        _finding(
            "refused-with-wrong-error",
            f"node {row['node']} refused {row['api']} no. {row['correlation_id']} for "
            f"{row['topic']}-{row['partition']} with leader epoch {row['leader_epoch']} (it knew "
            f"{row['newer']}) with error {row['error']}, not {row['must']}",
            row,
            at=(row["topic"], row["partition"]),
        )
        for row in suspects.collect()
    ]


# -- refused although current -------------------------------------------------------------------


def _current_refused(history: History, outcome: Outcome) -> list[Finding]:
    refused = requests(history).where(
        F.col("error").isin(STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH)
    )
    found = []
    for code, what, newest in (
        (STALE_BROKER_EPOCH, "broker_epoch", _registered(history)),
        (STALE_CONTROLLER_EPOCH, "controller_epoch", _elected(history)),
    ):
        if not newest:
            for arm in history.arms:
                outcome.unjudged(arm, f"refusals with {code}: nobody tells the true {what}")
            continue
        table = history.table(
            newest, "arm string, trial int, _node int, _epoch bigint, _from bigint"
        )
        rows = refused.where(F.col("error") == code)
        joined = rows.join(F.broadcast(table), ["arm", "trial"])
        known = joined.where("_node is null or _node = node").where("_from <= end_t")
        each = known.groupBy(
            "arm", "trial", "node", *REQUEST, "begin_t", "t", "error", F.col(what).alias("own")
        ).agg(F.max("_epoch").alias("newest"))
        suspects = each.where("own >= newest").orderBy("begin_t").limit(_SUSPECTS)
        for row in suspects.collect():
            name = what.replace("_", " ")
            says = (
                f"node {row['node']} refused {row['api']} no. {row['correlation_id']} with error "
                f"{code} although its {name} {row['own']} is the newest that there was "
                f"({row['newest']})"
            )
            found.append(_finding("current-epoch-refused", says, row))
    return found


def _registered(history: History) -> list[dict[str, Any]]:
    """Broker epochs as ZooKeeper has them, each from when the broker may have known it."""
    found = []
    for row in history.rows("node_event"):
        epoch = _detail(row["detail"]).get("broker_epoch")
        if row["event"] == "registered" and isinstance(epoch, int):
            found.append(_newest(row, row["node"], epoch))
    return found


def _elected(history: History) -> list[dict[str, Any]]:
    """Controller epochs of elections, and those of forgers who were believed (by that broker)."""
    elected = [
        _newest(row, None, row["controller_epoch"])
        for row in history.rows("controller")
        if row["event"] == "elected" and row["controller_epoch"] is not None
    ]
    if not elected:
        return []
    believed = [
        _newest({**row, "t": row["invoke_t"]}, row["node"], row["controller_epoch"])
        for row in history.rows("forged")
        if row["controller_epoch"] is not None and row["error"] in (0, None)
    ]
    return elected + believed


def _newest(row: Any, node: int | None, epoch: int) -> dict[str, Any]:
    from_t = row["t"] - (row["error_ns"] or 0) - LATE_WATCH_NS
    return {
        "arm": row["arm"], "trial": row["trial"], "_node": node, "_epoch": epoch, "_from": from_t,
    }  # fmt: skip


def _detail(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _current_leader_epoch_refused(history: History) -> list[Finding]:
    """A LeaderAndIsr's partition refused although its leader epoch is above all that the broker
    accepted, or says it did, since it was started and until it had answered: a broker that shuts
    down serves on. Who was refused for the whole request is not judged here: the partitions' own
    errors say nothing then."""
    rows = answered_leader_epochs(history).where("life is not null and api = 'LEADER_AND_ISR'")
    rows = rows.where(F.col("error") == STALE_CONTROLLER_EPOCH)
    rows = with_start(history, rows, F.col("begin_t"))
    at = [name for name in PLACE if name != "life"]
    known = known_leader_epochs(history, in_one_life=False)
    known = known.select(*at, "newer", "known_t", "known_from").alias("k")
    same = (F.col("newer") >= F.col("leader_epoch")) & (F.col("known_from") <= F.col("end_t"))
    same = same & (F.col("known_t") >= F.col("started_t"))
    for name in at:
        same = same & (F.col(f"r.{name}") == F.col(f"k.{name}"))
    suspects = rows.alias("r").join(known, same, "left_anti").orderBy("begin_t")
    return [
        _finding(
            "current-epoch-refused",
            f"node {row['node']} refused {row['api']} no. {row['correlation_id']} for "
            f"{row['topic']}-{row['partition']} with error {STALE_CONTROLLER_EPOCH} although its "
            f"leader epoch {row['leader_epoch']} is newer than any that it had accepted",
            row,
            at=(row["topic"], row["partition"]),
        )
        for row in suspects.limit(_SUSPECTS).collect()
    ]


def _finding(rule: str, says: str, row: Any, at: tuple[str, int] | None = None) -> Finding:
    node = {"node": row["node"]}
    same = {**node, "api": row["api"], "correlation_id": row["correlation_id"]}
    picks = [
        Pick("node_event", {**node, "event": "registered"}, to_t=row["t"], last=True, rows=1),
        Pick("controller", {"event": "elected"}, to_t=row["t"], last=True, rows=1),
        Pick("control_request", same, row["begin_t"], row["t"], at=at, rows=1),
    ]
    if at is not None:
        epochs = {**node, "topic": at[0], "partition": at[1]}
        picks.append(Pick("leader_change", epochs, to_t=row["t"], last=True, rows=1))
    if row["source"] == "forged":
        picks.append(Pick("forged", same, row["t"], row["t"], rows=1))
    return Finding(rule, says, row["arm"], row["trial"], tuple(picks))


# -- refused, and applied all the same ----------------------------------------------------------


def _applied_though_refused(history: History) -> list[Any]:
    """Changes traced while a refused request was being handled, and by no accepted one.

    The change bears the request's correlation id, which is unique to one sender; another sender's
    accepted request with the same id at the same time would explain it, so such pairs are dropped.
    """
    if not history.has("control_request"):
        return []
    rows = history.frame("control_request").where("dequeue_t is not null and handled_t is not null")
    each = (
        rows.select(
            "arm",
            "trial",
            "node",
            "api",
            "correlation_id",
            "client_id",
            "error",
            "t",
            earliest(F.col("dequeue_t")).alias("dequeue_t"),
            latest(F.col("handled_t")).alias("handled_t"),
            F.explode_outer("partitions").alias("p"),
        )
        .select(
            "*",
            F.col("p.topic").alias("topic"),
            F.col("p.partition").alias("partition"),
            F.col("p.error").alias("p_error"),
        )
        .drop("p")
    )
    bad = F.coalesce(F.col("error"), F.lit(0)) != 0
    bad = bad | (F.coalesce(F.col("p_error"), F.lit(0)).isin(11, 74))
    changes = _traced_changes(history)
    join = (
        (F.col("r.arm") == F.col("c.arm"))
        & (F.col("r.trial") == F.col("c.trial"))
        & (F.col("r.node") == F.col("c.node"))
        & (F.col("r.correlation_id") == F.col("c.correlation_id"))
        & (F.col("r.api") == F.col("c.api"))
        & (F.col("r.topic") == F.col("c.topic"))
        & (F.col("r.partition") == F.col("c.partition"))
        & (F.col("c.change_t") + error("c.change_error") >= F.col("r.dequeue_t"))
        & (F.col("c.change_t") - error("c.change_error") <= F.col("r.handled_t"))
    )
    hits = (
        each.where(bad)
        .alias("r")
        .join(changes.alias("c"), join)
        .select("r.*", "c.change_t", "c.change_error", "c.kind")
    )
    fine = each.where(~bad).alias("r")
    lawful = hits.alias("c").join(fine, join, "left_anti")
    return lawful.orderBy("change_t").limit(_SUSPECTS).collect()


def _traced_changes(history: History) -> DataFrame:
    kinds = {
        "leader_change": "LEADER_AND_ISR",
        "metadata_update": "UPDATE_METADATA",
        "replica_stop": "STOP_REPLICA",
    }
    parts = [
        history.frame(kind).select(
            "arm",
            "trial",
            "node",
            "topic",
            "partition",
            "correlation_id",
            F.lit(api).alias("api"),
            F.col("t").alias("change_t"),
            F.col("error_ns").alias("change_error"),
            F.lit(kind).alias("kind"),
        )
        for kind, api in kinds.items()
        if history.has(kind)
    ]
    if not parts:
        return history.table(
            [],
            "arm string, trial int, node int, topic string, partition int, correlation_id int, "
            "api string, change_t bigint, change_error bigint, kind string",
        )
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    return rows


def _applied_finding(row: Any) -> Finding:
    error = row["error"] or row["p_error"]
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        "refused-but-applied",
        f"node {row['node']} refused {row['api']} for {row['topic']}-{row['partition']} with error "
        f"{error}, and changed its state all the same",
        row["arm"],
        row["trial"],
        (
            Pick(
                row["kind"], {**at, "node": row["node"]}, row["change_t"], row["change_t"], rows=1
            ),
            Pick(
                "control_request",
                {"node": row["node"], "correlation_id": row["correlation_id"]},
                row["t"],
                row["t"],
                at=(row["topic"], row["partition"]),
                rows=1,
            ),
        ),
    )


PROMISE: Final = Promise(
    name="refusals",
    says="A stale control request is refused with Kafka's error for it and changes nothing; a "
    "current one is not refused.",
    source="KafkaApis, ReplicaManager.becomeLeaderOrFollower and stopReplicas; KIP-380; KAFKA-9839",
    rules={
        "refused-with-wrong-error": "A stale request is refused with Kafka's error for it.",
        "current-epoch-refused": "A request with the newest epochs is not refused as stale.",
        "refused-but-applied": "A refused request changes nothing.",
    },
    evidence={
        "control requests": "as brokers handled them, and forged ones as answered",
        REFUSED: "those with an error of their own",
    },
    blind=("broker epochs that ZooKeeper never had (KRaft)", "changes that leave no trace"),
    check=check,
)
