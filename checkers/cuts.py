"""Truncations, each with the demotion that led to it: what a lost record is tied to.

A broker cuts its log because it follows again. For one that had led before, the demotion is: the
last epoch in which it led below the truncation's leader epoch (``led_epoch``); the commit of the
next one (``commit_t``); and the first LeaderAndIsr to that broker that names another leader with a
higher epoch (``send_t``, from `control_send`). A record appended by that broker after ``send_t``
would have been refused, had the broker handled the request on arrival.

A replica that is deleted (StopReplica with delete) loses everything, which is a cut from 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.leadership import TP, epochs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.frames import History

CUT: Final = [*TP, "node", "cut_t", "to_offset", "from_offset", "cut_epoch"]


def cuts(history: History) -> DataFrame:
    """CUT columns and led_epoch, commit_t, send_t (null when unknown). Small, shared."""
    found: DataFrame = history.memo("cuts", lambda: history.pin(_cuts(history)))
    return found


def _cuts(history: History) -> DataFrame:
    made = _rows(history)
    led = _led(history)
    # The last epoch that the broker led before it cut.
    before = (
        made.alias("c")
        .join(
            led.alias("l"),
            _same("c", "l", [*TP, "node"])
            & (F.col("l.leader_epoch") < F.coalesce(F.col("c.cut_epoch"), F.lit(2**31 - 1)))
            & (F.col("l.since_t") <= F.col("c.cut_t")),
            "left",
        )
        .groupBy(*[F.col(f"c.{name}") for name in CUT])
        .agg(F.max("l.leader_epoch").alias("led_epoch"))
    )
    commits = epochs(history).where("committed_t is not null")
    committed = (
        before.alias("c")
        .join(
            commits.alias("e"),
            _same("c", "e", TP)
            & (F.col("e.leader_epoch") > F.col("c.led_epoch"))
            & (F.col("e.committed_t") <= F.col("c.cut_t")),
            "left",
        )
        .groupBy(*[F.col(f"c.{name}") for name in [*CUT, "led_epoch"]])
        .agg(F.min("e.committed_t").alias("commit_t"))
    )
    sends = _demotions(history)
    return (
        committed.alias("c")
        .join(
            sends.alias("s"),
            _same("c", "s", [*TP, "node"])
            & (F.col("s.leader_epoch") > F.col("c.led_epoch"))
            & (F.col("s.t") <= F.col("c.cut_t")),
            "left",
        )
        .groupBy(*[F.col(f"c.{name}") for name in [*CUT, "led_epoch", "commit_t"]])
        .agg(F.min("s.t").alias("send_t"))
    )


def _rows(history: History) -> DataFrame:
    cut = history.frame("truncation").where("from_offset > to_offset")
    rows = cut.select(
        *TP,
        "node",
        F.col("t").alias("cut_t"),
        "to_offset",
        "from_offset",
        F.col("leader_epoch").alias("cut_epoch"),
    )
    dropped = history.frame("replica_stop").where("delete")
    return rows.unionAll(
        dropped.select(
            *TP,
            "node",
            F.col("t").alias("cut_t"),
            F.lit(0).cast("long").alias("to_offset"),
            F.lit(2**62).cast("long").alias("from_offset"),
            F.lit(None).cast("int").alias("cut_epoch"),
        )
    )


def _led(history: History) -> DataFrame:
    """Which broker led in which epoch: as committed, and as the broker itself said."""
    by_commit = (
        epochs(history)
        .where("leader >= 0")
        .select(
            *TP,
            F.col("leader").alias("node"),
            "leader_epoch",
            F.col("committed_t").alias("since_t"),
        )
    )
    by_broker = (
        history.frame("leader_change")
        .where("role = 'leader'")
        .select(*TP, "node", "leader_epoch", F.col("t").alias("since_t"))
    )
    both = by_commit.unionAll(by_broker)
    return both.groupBy(*TP, "node", "leader_epoch").agg(F.min("since_t").alias("since_t"))


def _demotions(history: History) -> DataFrame:
    """Every (partition, broker) to which a LeaderAndIsr with another leader was sent."""
    sent = history.frame("control_send").where("api = 'LEADER_AND_ISR'")
    each = sent.select(
        "arm", "trial", "t", F.col("to").alias("node"), F.explode("partitions").alias("p")
    )
    others = each.where("p.leader != node and p.leader_epoch >= 0")
    return others.groupBy(
        "arm",
        "trial",
        F.col("p.topic").alias("topic"),
        F.col("p.partition").alias("partition"),
        "node",
        F.col("p.leader_epoch").alias("leader_epoch"),
    ).agg(F.min("t").alias("t"))


def _same(left: str, right: str, names: list[str]) -> F.Column:  # type: ignore[name-defined]
    condition = F.lit(True)
    for name in names:
        condition = condition & (F.col(f"{left}.{name}") == F.col(f"{right}.{name}"))
    return condition
