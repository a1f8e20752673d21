"""What became of every value: offered by a producer, and found (or not) in the final log.

The final log of a partition is its leader's at the final read (``log_read`` of the node whose
``log_end`` says ``is_leader``). It begins at 0, whatever its broker says, unless the topic's
retention may bite within a run (`lawful_start`): a record below any other start is absent.

One scan and one hash aggregation by value over offers and final records, on primitives only
(strings in aggregates make Spark sort): no join of two large tables.

Classes of an acknowledged record (acks=1 or all; where its offset is unknown, any will do):

    present    in the final log at its offset
    moved      in the final log, but elsewhere only
    absent     nowhere in the final log
    purged     absent, below a log start that may have moved: retention took it
    unread     the partition's final log could not be read: nothing can be said

Classes of the others: ``unacked-landed``/``unacked-missing`` (acks=0: sent, never answered),
``info-landed``/``info-missing`` (nobody knows), ``failed-landed`` (a definite failure that happened
all the same), ``failed``, and ``foreign`` (a record that nobody offered).
``twice`` is a flag: at more than one offset.

Unremarkable values are folded into one row for each class, so that what remains is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

INDEFINITE_ERRORS: Final = (-1, 6, 7, 13, 20, 56)
"""Answers after which a record may be in the log: UNKNOWN_SERVER_ERROR, NOT_LEADER_OR_FOLLOWER
(KAFKA-13574), REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
KAFKA_STORAGE_ERROR. A producer that called them failures is not believed."""

NO_RETRY_NS: Final = 50_000_000
"""An operation answered sooner cannot have been retried: librdkafka waits 80 ms or more before it
sends again. Longer ones may lawfully be in the log twice (no idempotence), or be there although the
last try failed."""

_SUSPECT: Final = ("moved", "absent", "failed-landed")


def final_leaders(history: History) -> dict[tuple[str, int, str, int], dict[str, Any]]:
    """By (arm, trial, topic, partition): the `log_end` row of the final leader, if it was read.

    Two that both claim to lead: the one with the longer log.
    """
    found: dict[tuple[str, int, str, int], dict[str, Any]] = {}
    for row in history.rows("log_end"):
        if not row["is_leader"] or row["error"] is not None or row["log_end_offset"] is None:
            continue
        key = (row["arm"], row["trial"], row["topic"], row["partition"])
        if key not in found or row["log_end_offset"] > found[key]["log_end_offset"]:
            found[key] = row
    return found


def lawful_start(history: History, end: Mapping[str, Any]) -> int:
    """Where the log of a ``log_end`` row may begin: at 0 unless retention may have moved it.

    Nobody here sends DeleteRecords, and no fault wipes a replica. A follower takes over its
    leader's log start, so that none may begin later where the leader's cannot."""
    expires = history.run.topic(end["arm"], end["trial"], end["topic"]).expires
    return (end["log_start_offset"] or 0) if expires else 0


def leaders_table(history: History) -> DataFrame:
    """`final_leaders` as a frame: arm, trial, topic, partition, leader_node, log_start (where it
    may begin: `lawful_start`), log_end, leader_hw (the log's end where none was read)."""

    def make() -> DataFrame:
        rows = [
            {
                "arm": arm,
                "trial": trial,
                "topic": topic,
                "partition": partition,
                "leader_node": end["node"],
                "log_start": lawful_start(history, end),
                "log_end": end["log_end_offset"],
                "leader_hw": (
                    end["log_end_offset"]
                    if end["high_watermark"] is None
                    else end["high_watermark"]
                ),
            }
            for (arm, trial, topic, partition), end in final_leaders(history).items()
        ]
        return history.table(
            rows,
            "arm string, trial int, topic string, partition int, leader_node int, "
            "log_start bigint, log_end bigint, leader_hw bigint",
        )

    found: DataFrame = history.memo("leaders_table", make)
    return found


def definite_failure() -> Column:
    """Whether a produce row says that the record certainly did not land."""
    vague = F.coalesce(F.col("error").isin(*INDEFINITE_ERRORS), F.lit(False))
    return (F.col("type") == "fail") & ~vague


def accounts(history: History) -> list[dict[str, Any]]:
    """Folded rows: arm, trial, class, acks, twice, quick (answered before a retry was possible),
    value (None in folded rows), n; for single values offset, final_offset, final_last_offset."""
    found: list[dict[str, Any]] = history.memo(
        "accounts", lambda: _accounts(history).toArrow().to_pylist()
    )
    return found


def _accounts(history: History) -> DataFrame:
    place = F.xxhash64("topic", "partition")
    leaders = leaders_table(history).withColumn("_place", place)
    acked = (F.col("type") == "ok") & (F.col("acks") != 0)
    outcome = F.when(acked, 4).when(definite_failure(), 2).when(F.col("acks") == 0, 1).otherwise(3)
    nothing = F.lit(None).cast("long")
    offers = (
        history.frame("produce")
        .where("value is not null")
        .select(
            "arm",
            "trial",
            "value",
            outcome.alias("_outcome"),
            F.col("acks").alias("_acks"),
            F.when(acked & (F.col("offset") >= 0), F.col("offset")).alias("_offset"),
            place.alias("_place"),
            (F.col("t") - F.col("invoke_t")).alias("_took"),
            nothing.alias("_final"),
            nothing.alias("_final_place"),
        )
    )
    final = (
        history.frame("log_read")
        .where("value is not null")
        .join(F.broadcast(leaders.drop("_place")), ["arm", "trial", "topic", "partition"])
        .where("node = leader_node")
        .select(
            "arm",
            "trial",
            "value",
            F.lit(None).cast("int").alias("_outcome"),
            F.lit(None).cast("int").alias("_acks"),
            nothing.alias("_offset"),
            nothing.alias("_place"),
            nothing.alias("_took"),
            F.col("offset").alias("_final"),
            place.alias("_final_place"),
        )
    )
    by_value = (
        offers.unionAll(final)
        .groupBy("arm", "trial", "value")
        .agg(
            F.max("_outcome").alias("_outcome"),
            F.max("_acks").alias("_acks"),
            F.max("_offset").alias("offset"),
            F.max("_place").alias("_place"),
            F.max("_took").alias("_took"),
            F.count("_final").alias("_found"),
            F.min("_final").alias("final_offset"),
            F.max("_final").alias("final_last_offset"),
            F.min("_final_place").alias("_place_min"),
            F.max("_final_place").alias("_place_max"),
        )
    )
    ranges = leaders.select("arm", "trial", "_place", "log_start", "log_end")
    known = by_value.join(F.broadcast(ranges), ["arm", "trial", "_place"], "left")
    known = known.withColumn("class", _class())
    known = known.withColumn(
        "twice",
        (F.col("final_offset") < F.col("final_last_offset"))
        | (F.col("_place_min") != F.col("_place_max")),
    )
    known = known.withColumn("twice", F.coalesce(F.col("twice"), F.lit(False)))
    known = known.withColumn("quick", F.coalesce(F.col("_took") < NO_RETRY_NS, F.lit(False)))
    remarkable = F.col("class").isin(*_SUSPECT) | (F.col("twice") & F.col("quick"))
    known = known.withColumn("value", F.when(remarkable, F.col("value")))
    return known.groupBy(
        "arm", "trial", "class", F.col("_acks").alias("acks"), "twice", "quick", "value"
    ).agg(
        F.count("*").alias("n"),
        F.max("offset").alias("offset"),
        F.min("final_offset").alias("final_offset"),
        F.max("final_last_offset").alias("final_last_offset"),
    )


def _class() -> Column:
    landed = F.col("_found") > 0
    at_home = (F.col("_place_min") == F.col("_place")) | (F.col("_place_max") == F.col("_place"))
    in_place = (F.col("offset") == F.col("final_offset")) | (
        F.col("offset") == F.col("final_last_offset")
    )
    among = (F.col("_found") > 2) & F.col("offset").between(
        F.col("final_offset"), F.col("final_last_offset")
    )
    acked = (
        F.when(landed & at_home & (in_place | among | F.col("offset").isNull()), "present")
        .when(landed, "moved")
        .when(F.col("log_end").isNull(), "unread")
        .when(F.coalesce("offset", F.lit(0)) < F.col("log_start"), "purged")
        .otherwise("absent")
    )
    return (
        F.when(F.col("_outcome") == 4, acked)
        .when(F.col("_outcome").isNull(), "foreign")
        .when(F.col("_outcome") == 1, F.when(landed, "unacked-landed").otherwise("unacked-missing"))
        .when(F.col("_outcome") == 3, F.when(landed, "info-landed").otherwise("info-missing"))
        .otherwise(F.when(landed, "failed-landed").otherwise("failed"))
    )
