"""Refused, and applied all the same: for `checkers.promises.refusals`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.spans import earliest, error, latest
from checkers.judging.outcome import Outcome
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

Row = Mapping[str, Any]
_FAILED: Final = -1
"""UNKNOWN_SERVER_ERROR."""


def judge_applied(history: History, outcome: Outcome) -> None:
    if history.has("control_request"):
        add(outcome, tally(_applied_though_refused(history), None, _sort), _applied_finding)


def _sort(row: Row) -> Sort:
    return Sort((), (row["change_t"], row["node"]), "refused-but-applied")


def _applied_though_refused(history: History) -> DataFrame:
    """Changes traced while a refused request was being handled, and by no accepted one.

    The change bears the request's correlation id, which is unique to one sender; another sender's
    accepted request with the same id at the same time would explain it, so such pairs are dropped.
    """
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
    # Who fails while it handles a request (KafkaApis.handleError) may have done a part of it; that
    # it failed is another rule's (`failures`).
    bad = ~F.coalesce(F.col("error"), F.lit(0)).isin(0, _FAILED)
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
    return hits.alias("c").join(fine, join, "left_anti")


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


def _applied_finding(rule: str, row: Row) -> Finding:
    error = row["error"] or row["p_error"]
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        rule,
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
