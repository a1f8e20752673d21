"""What became of every value: offered by a producer, and found (or not) in the final log.

The final log of a partition is its leader's at the final read (``log_read`` of the node whose
``log_end`` says ``is_leader``). It begins at 0, whatever its broker says, unless the topic's
retention may bite within a run (`lawful_start`): a record below any other start is absent.

One scan and one hash aggregation by value over offers, final records and what consumers were given,
on primitives only (strings in aggregates make Spark sort): no join of two large tables. In a large
history only of those blocks of values with which anything is odd (`checkers.facts.value_blocks`).

Classes of an acknowledged record (acks=1 or all; where its offset is unknown, any will do):

    present    in the final log at its offset
    moved      in the final log, but elsewhere only
    absent     nowhere in the final log
    purged     absent, below a log start that may have moved: retention took it
    unread     the partition's final log could not be read: nothing can be said

Classes of the others: ``unacked-landed``/``unacked-missing`` (acks=0: sent, never answered),
``info-landed``/``info-missing`` (nobody knows), ``failed-landed`` (a definite failure that happened
all the same), ``failed``, and ``foreign`` (a record that nobody offered).
Values are folded into one row for each sort of them, so that what remains does not grow with the
load; those that are gone are asked for by themselves (`gone`), and only where there are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.blocks import unlike
from checkers.facts.deleted_records import deleted_to
from checkers.facts.past_epochs import over_since
from checkers.facts.topics import made_again
from checkers.facts.value_blocks import VALUE_BLOCK, Sources, alike_sorts, value_blocks

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

GONE: Final = ("absent", "moved")
DELIVERIES: Final = {"once": 1, "idempotent": 2, "once-a-leader": 3}
"""How often a producer sends a record (`checkers.history.run_info.Workload`), as a number; 0: it
may send again, or nobody says."""


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
    """Where the log of a ``log_end`` row may begin: at 0 unless retention may have moved it, or up
    to where somebody told a broker to delete (`checkers.facts.deleted_records`).

    No fault wipes a replica. A follower takes over its leader's log start, so that none may begin
    later where the leader's cannot; it may begin earlier, for a leader may be gone before it told.
    """
    expires = history.run.topic(end["arm"], end["trial"], end["topic"]).expires
    place = (end["arm"], end["trial"], end["topic"], end["partition"])
    return max((end["log_start_offset"] or 0) if expires else 0, deleted_to(history, place))


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
    """Values folded by sort: arm, trial, n, and

    class, acks                of offered values; null of what was only read
    offered, failed, delivery  whether it was, and certainly failed; how its producer sends
    quick                      1: every try was answered before another was possible
    copies, found              how often it is in the final logs (2: more than once); of all values
    given                      1: a consumer was given it
    apart                      each copy is of another epoch: of its producer, if that is
                               idempotent, else of its leader
    again                      it was offered more than once
    strayed                    it is in the log of a partition that it was not sent to
    misread                    a consumer was given it under another leader epoch than it has there
    early                      a consumer was given it before it was first offered
    outlived                   it is there, and was acknowledged in a life of its topic that is over
    past                       it is there in a leader epoch that was over as it was first offered
    lowest, highest            of the values
    """

    def make() -> list[dict[str, Any]]:
        sorts = ["class", "acks", "offered", "failed", "delivery", "quick", "copies", "given"]
        sorts += ["apart", "again", "strayed", "misread", "early", "outlived", "past"]
        found = _by_value(history).groupBy("arm", "trial", *sorts)
        folded = found.agg(
            F.count("*").alias("n"),
            F.sum("found").alias("found"),
            F.min("value").alias("lowest"),
            F.max("value").alias("highest"),
        )
        return [*folded.toArrow().to_pylist(), *_alike(history)]

    found: list[dict[str, Any]] = history.memo("accounts", make)
    return found


def _alike(history: History) -> list[dict[str, Any]]:
    """What is told by blocks alone: acknowledged once, there once, and read as it is there."""
    same = {
        **{"class": "present", "offered": True, "failed": 0, "copies": 1, "apart": False},
        **{"again": False, "strayed": False, "misread": False, "early": False},
        **{"outlived": False, "past": False},
    }
    sorts = alike_sorts(history, _sources(history))
    return [{**row, **same, "found": row["n"]} for row in sorts]


def gone(history: History) -> DataFrame:
    """The acknowledged values that are absent or moved: arm, trial, value, class, final_offset."""
    found = _by_value(history).where(F.col("class").isin(*GONE))
    return found.select("arm", "trial", "value", "class", "final_offset")


def twice_by_one_leader(history: History) -> DataFrame:
    """Arm, trial, value of those with several copies of one leader epoch, though their producer
    sends again only to another leader, and were not answered too soon for a second try."""
    found = _by_value(history).where(F.col("delivery") == DELIVERIES["once-a-leader"])
    slow = F.coalesce("quick", F.lit(0)) != 1
    return found.where((F.col("copies") > 1) & ~F.col("apart") & slow).select(
        "arm", "trial", "value"
    )


_VALUE: Final[Mapping[str, str]] = {
    "_outcome": "int",
    "acks": "int",
    "offset": "bigint",
    "_place": "bigint",
    "_home": "bigint",
    "failed": "int",
    "delivery": "int",
    "quick": "int",
    "_final": "bigint",
    "_final_place": "bigint",
    "_epoch": "int",
    "_life": "int",
    "read": "int",
    "_read_epoch": "int",
    "_old": "int",
    "_offered_t": "bigint",
    "_read_t": "bigint",
    "_over_t": "bigint",
}
"""What is told of a value: by who offered it, by the final logs, by consumers."""


def _told(rows: DataFrame, **names: str) -> DataFrame:
    """``names``: columns of the rows, by what they tell; the rest is null."""
    return rows.select(
        "arm",
        "trial",
        "value",
        *(
            (F.col(names[name]) if name in names else F.lit(None)).cast(kind).alias(name)
            for name, kind in _VALUE.items()
        ),
    )


def _by_value(history: History) -> DataFrame:
    found: DataFrame = history.memo("by value", lambda: _gathered(history))
    return found


def _sources(history: History) -> Sources:
    found: Sources = history.memo(
        "value sources",
        lambda: Sources(_offered(history), _in_logs(history), _delivered(history)),
    )
    return found


def _gathered(history: History) -> DataFrame:
    leaders, rows = leaders_table(history), _sources(history)
    blocks = value_blocks(history, rows)
    if blocks is not None:
        rows = Sources(*unlike(rows, blocks, VALUE_BLOCK, "value"))
    offers = _told(
        rows.offered,
        _outcome="outcome",
        acks="acks",
        offset="offset",
        _place="place",
        _home="home",
        failed="failed",
        delivery="delivery",
        quick="quick",
        _old="old",
        _offered_t="invoke_t",
    )
    finals = _told(
        rows.in_logs,
        _final="offset",
        _final_place="place",
        _epoch="leader_epoch",
        _life="producer_epoch",
        _over_t="over_t",
    )
    values = offers.unionAll(finals).unionAll(
        _told(rows.delivered, read="read", _read_epoch="leader_epoch", _read_t="t")
    )
    by_value = values.groupBy("arm", "trial", "value").agg(
        F.max("_outcome").alias("_outcome"),
        F.max("acks").alias("acks"),
        F.max("offset").alias("offset"),
        F.max("_place").alias("_place"),
        F.max("_home").alias("_home"),
        F.count("failed").alias("_offers"),
        F.max("failed").alias("failed"),
        F.max("delivery").alias("delivery"),
        F.min("quick").alias("quick"),
        F.count("_final").alias("found"),
        F.min("_final").alias("final_offset"),
        F.max("_final").alias("final_last_offset"),
        F.min("_final_place").alias("_place_min"),
        F.max("_final_place").alias("_place_max"),
        F.when(F.max("delivery") == DELIVERIES["idempotent"], F.max("_life") - F.min("_life"))
        .otherwise(F.max("_epoch") - F.min("_epoch"))
        .alias("_epochs"),
        F.max("read").alias("_read"),
        F.max("_old").alias("_old"),
        (F.min("_read_t") < F.min("_offered_t")).alias("_early"),
        (F.min("_over_t") < F.min("_offered_t")).alias("_past"),
        ((F.min("_read_epoch") < F.min("_epoch")) | (F.max("_read_epoch") > F.max("_epoch"))).alias(
            "_misread"
        ),
    )
    place = F.xxhash64("topic", "partition").alias("_place")
    ranges = leaders.select("arm", "trial", place, "log_start", "log_end")
    known = by_value.join(F.broadcast(ranges), ["arm", "trial", "_place"], "left")
    many, landed = F.col("found") > 1, F.col("found") > 0
    home = F.col("_home")
    strayed = (F.col("_place_min") != home) | (F.col("_place_max") != home)
    return known.select(
        "*",
        _class().alias("class"),
        F.col("failed").isNotNull().alias("offered"),
        F.least("found", F.lit(2)).alias("copies"),
        F.coalesce("_read", F.lit(0)).alias("given"),
        (F.col("_offers") > 1).alias("again"),
        F.coalesce(strayed, F.lit(False)).alias("strayed"),
        (many & (F.coalesce("_epochs", F.lit(0)) >= F.col("found") - 1)).alias("apart"),
        F.coalesce("_misread", F.lit(False)).alias("misread"),
        F.coalesce("_early", F.lit(False)).alias("early"),
        (landed & (F.coalesce("_old", F.lit(0)) == 1)).alias("outlived"),
        F.coalesce("_past", F.lit(False)).alias("past"),
    )


def _offered(history: History) -> DataFrame:
    """Arm, trial, value, outcome, acks, offset (where it was acknowledged), place (of its
    partition), home (the same, where one was named), failed, delivery, quick, old (1: acknowledged
    before its topic was made again), invoke_t."""
    deliveries = [
        {"arm": arm, "trial": trial, "process": process, "_delivery": DELIVERIES.get(how, 0)}
        for (arm, trial, process), how in history.run.deliveries().items()
    ]
    offers = history.frame("produce").where("value is not null")
    delivery = F.lit(0)
    if deliveries:
        table = history.table(deliveries, "arm string, trial int, process string, _delivery int")
        offers = offers.join(F.broadcast(table), ["arm", "trial", "process"], "left")
        delivery = F.coalesce("_delivery", F.lit(0))
    lives = [
        {"arm": arm, "trial": trial, "topic": topic, "_again_t": t}
        for (arm, trial, topic), t in made_again(history).items()
    ]
    again_t: Column = F.lit(None)
    if lives:
        table = history.table(lives, "arm string, trial int, topic string, _again_t bigint")
        offers = offers.join(F.broadcast(table), ["arm", "trial", "topic"], "left")
        again_t = F.col("_again_t")
    acked = (F.col("type") == "ok") & (F.col("acks") != 0)
    old = F.coalesce((acked & (F.col("t") < again_t)).cast("int"), F.lit(0))
    outcome = F.when(acked, 4).when(definite_failure(), 2).when(F.col("acks") == 0, 1).otherwise(3)
    took = F.coalesce(F.col("t") - F.col("invoke_t"), F.lit(NO_RETRY_NS))
    place = F.xxhash64("topic", "partition")
    return offers.select(
        "arm",
        "trial",
        "value",
        outcome.alias("outcome"),
        "acks",
        F.when(acked & (F.col("offset") >= 0), F.col("offset")).alias("offset"),
        place.alias("place"),
        F.when(F.col("partition").isNotNull(), place).alias("home"),
        definite_failure().alias("failed"),
        delivery.alias("delivery"),
        (took < NO_RETRY_NS).cast("int").alias("quick"),
        old.alias("old"),
        "invoke_t",
    )


def _in_logs(history: History) -> DataFrame:
    """Arm, trial, value, offset, place, leader_epoch, producer_epoch, over_t (since when that
    leader epoch was over, ns; null: nobody knows) of the final logs."""
    final = history.frame("log_read").where("value is not null")
    named = leaders_table(history).select("arm", "trial", "topic", "partition", "leader_node")
    final = final.join(F.broadcast(named), ["arm", "trial", "topic", "partition"])
    place = F.xxhash64("topic", "partition").alias("place")
    names = ("arm", "trial", "value", "offset", place, "leader_epoch", "producer_epoch", "over_t")
    return _with_over(history, final.where("node = leader_node")).select(*names)


def _with_over(history: History, final: DataFrame) -> DataFrame:
    by = ("arm", "trial", "topic", "partition")
    rows = [
        {**dict(zip(by, key, strict=True)), "leader_epoch": epoch, "over_t": t}
        for (key, epoch), t in over_since(history, final_leaders(history)).items()
    ]
    if not rows:
        return final.withColumn("over_t", F.lit(None).cast("bigint"))
    columns = "arm string, trial int, topic string, partition int, leader_epoch int, over_t bigint"
    return final.join(F.broadcast(history.table(rows, columns)), [*by, "leader_epoch"], "left")


def _delivered(history: History) -> DataFrame:
    """Arm, trial, value, process, read (1), leader_epoch, t of what consumers were given."""
    reads = history.frame("fetch").where("type = 'ok' and value is not null")
    epoch = F.when(F.col("leader_epoch") >= 0, F.col("leader_epoch")).alias("leader_epoch")
    return reads.select("arm", "trial", "value", "process", F.lit(1).alias("read"), epoch, "t")


def _class() -> Column:
    landed = F.col("found") > 0
    at_home = (F.col("_place_min") == F.col("_place")) | (F.col("_place_max") == F.col("_place"))
    in_place = (F.col("offset") == F.col("final_offset")) | (
        F.col("offset") == F.col("final_last_offset")
    )
    among = (F.col("found") > 2) & F.col("offset").between(
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
        .when(F.col("_outcome").isNull(), F.when(landed, "foreign"))
        .when(F.col("_outcome") == 1, F.when(landed, "unacked-landed").otherwise("unacked-missing"))
        .when(F.col("_outcome") == 3, F.when(landed, "info-landed").otherwise("info-missing"))
        .otherwise(F.when(landed, "failed-landed").otherwise("failed"))
    )
