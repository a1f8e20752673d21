"""Logs: Jepsen's Kafka anomalies, and agreement of all replicas up to the high watermark.

Guarantee: an offset holds one record for ever, in every replica and for every reader; a record is
appended once for each time it was sent; a consumer sees every record in order.

Violations:
- ``replica-differs``: two replicas hold different records (value or leader epoch) below their own
  and the leader's high watermark;  ``replica-hole``: one lacks records in the midst of its log;
- ``inconsistent-offset``: two consumers read different values at one offset;
- ``duplicate-append``: a value is in the final log twice although its operation was answered too
  soon for a retry (longer ones may be retries: lawful without idempotence, counted);
- ``failed-write-visible``: an operation that certainly failed (and was not retried) is in the log;
- ``poll-went-back``: a consumer was given an offset again (no reset in between);
- ``poll-skipped``: a consumer was never given a record between two that it was given.

Counted: duplicates after retries, records that nobody offered. Exempt: topics with unclean
elections, compacted, deleted or forged ones (`checkers.judging.excuses`), and going back or
skipping across a reset that the client reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import accounts, leaders_table
from checkers.facts.disputes import disputes, replica_rows
from checkers.judging.excuses import Excuses, excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RESET_ERRORS: Final = (1, -139, -140)
"""OFFSET_OUT_OF_RANGE and librdkafka's _LOG_TRUNCATION and _AUTO_OFFSET_RESET: the consumer's
position was moved, and it said so."""
_SUSPECTS: Final = 10_000
_TP: Final = ["arm", "trial", "topic", "partition"]


def check(history: History) -> Outcome:
    outcome = Outcome()
    known = excuses(history)
    if history.has("log_read") or history.has("fetch"):
        _offsets(history, outcome, known)
    if history.has("log_read"):
        _holes(history, outcome)
        _values(history, outcome)
    if history.has("fetch"):
        _polls(history, outcome, known)
    if history.has("produce") and not history.has("log_end"):
        outcome.unknowns.append("no final log was read")
    return outcome


def _at(row: Any) -> dict[str, Any]:
    return {"topic": row["topic"], "partition": row["partition"]}


def _place(row: Any) -> str:
    return f"{row['topic']}-{row['partition']}"


# -- offsets ------------------------------------------------------------------------------------


def _offsets(history: History, outcome: Outcome, known: Excuses) -> None:
    found = disputes(history)
    for row in found:
        outcome.saw(row["arm"], row["trial"], "offsets", row["n"])
        figures = outcome.arm(row["arm"])
        figures["offsets"] = figures.get("offsets", 0) + row["n"]
    odd = [r for r in found if r["class"] in ("replica-differs", "fetch-disagree")]
    for row in sorted(odd, key=lambda r: [r[k] for k in (*_TP, "offset")]):
        since = row["first_read_t"] or 0
        if known.of(row["arm"], row["trial"], row["topic"], row["partition"], since) is not None:
            continue
        at = {**_at(row), "offset": row["offset"]}
        if row["class"] == "replica-differs":
            outcome.add(
                Finding(
                    "replica-differs",
                    f"replicas of {_place(row)} hold different records at offset {row['offset']}, "
                    "below their high watermarks",
                    row["arm"],
                    row["trial"],
                    (Pick("log_read", at, rows=9), Pick("log_end", _at(row), rows=9)),
                )
            )
        else:
            outcome.add(
                Finding(
                    "inconsistent-offset",
                    f"consumers read different values at {_place(row)} offset {row['offset']}",
                    row["arm"],
                    row["trial"],
                    (Pick("fetch", at, rows=9), Pick("log_read", at)),
                )
            )


def _holes(history: History, outcome: Outcome) -> None:
    """Equal counts where the values agree mean no hole: within the span that a replica and its
    leader both cover, below both high watermarks."""
    rows = replica_rows(history)
    low = F.greatest("log_start", F.coalesce("_own_start", F.lit(0)))
    spans = rows.withColumn("_low", low).where("offset < _bound and offset >= _low")
    counts = spans.groupBy(*_TP, "node", "leader_node", "_low", "_bound").agg(
        F.count("*").alias("n"), F.min("offset").alias("first"), F.max("offset").alias("last")
    )
    found = counts.collect()
    leaders = {tuple(r[k] for k in _TP): r for r in found if r["node"] == r["leader_node"]}
    for row in found:
        outcome.arm(row["arm"])["replicas"] = outcome.arm(row["arm"]).get("replicas", 0) + 1
        leader = leaders.get(tuple(row[k] for k in _TP))
        if leader is None or row["node"] == leader["node"]:
            continue
        dense = row["last"] - row["first"] + 1 == row["n"] and row["first"] <= leader["first"]
        if dense and row["last"] + 1 >= row["_bound"]:
            continue
        _count_hole(history, outcome, row)


def _count_hole(history: History, outcome: Outcome, row: Any) -> None:
    """The slow path: offsets that the leader has and the replica lacks, inside the common span."""
    same = (F.col("arm") == row["arm"]) & (F.col("trial") == row["trial"])
    same = same & (F.col("topic") == row["topic"]) & (F.col("partition") == row["partition"])
    span = F.col("offset").between(row["_low"], row["_bound"] - 1)
    records = history.frame("log_read").where(same & span)
    theirs = records.where(F.col("node") == row["leader_node"]).select("offset")
    own = records.where(F.col("node") == row["node"]).select("offset")
    lacking = theirs.join(own, "offset", "left_anti")
    first = lacking.agg(F.min("offset").alias("first"), F.count("*").alias("n")).collect()[0]
    if not first["n"]:
        return
    outcome.add(
        Finding(
            "replica-hole",
            f"node {row['node']} lacks {first['n']} records of {_place(row)} below the high "
            f"watermark, the first at offset {first['first']}",
            row["arm"],
            row["trial"],
            (
                Pick("log_read", {**_at(row), "offset": first["first"]}),
                Pick("log_end", {**_at(row), "node": row["node"]}, rows=1),
                Pick("log_end", {**_at(row), "is_leader": True}, rows=1),
            ),
        )
    )


# -- values -------------------------------------------------------------------------------------


def _values(history: History, outcome: Outcome) -> None:
    found = accounts(history)
    for row in found:
        figures = outcome.arm(row["arm"])
        if row["twice"]:
            figures["duplicates"] = figures.get("duplicates", 0) + row["n"]
        if row["class"] == "foreign":
            figures["foreign_records"] = figures.get("foreign_records", 0) + row["n"]
    odd = [
        r
        for r in found
        if r["value"] is not None
        and r["quick"]
        and (r["class"] == "failed-landed" or (r["twice"] and r["class"] != "foreign"))
    ]
    for row in sorted(odd, key=lambda r: r["value"]):
        value = row["value"]
        failed = row["class"] == "failed-landed"
        if failed:
            says = f"value {value} certainly failed, yet it is in the final log"
        else:
            says = (
                f"value {value}, sent once and answered at once, is in the final log at offsets "
                f"{row['final_offset']} and {row['final_last_offset']}"
            )
        outcome.add(
            Finding(
                "failed-write-visible" if failed else "duplicate-append",
                says,
                row["arm"],
                row["trial"],
                (
                    Pick("produce", {"value": value}, rows=1),
                    Pick("log_read", {"value": value}, rows=6),
                ),
            )
        )


# -- polls ----------------------------------------------------------------------------------------


def _polls(history: History, outcome: Outcome, known: Excuses) -> None:
    """Consecutive polls of one consumer. Records are folded to one row a poll before sorting."""
    rows = history.frame("fetch").where("topic is not null")
    reset = F.coalesce(F.col("error").isin(*RESET_ERRORS), F.lit(False))
    got = (F.col("type") == "ok") & (F.col("offset") >= 0)
    rows = rows.where(got | reset).withColumn("_poll", F.coalesce("poll", "op"))
    keys = [*_TP, "process"]
    polls = rows.groupBy(*keys, "_poll").agg(
        F.min(F.when(got, F.col("offset"))).alias("first"),
        F.max(F.when(got, F.col("offset"))).alias("last"),
        F.count(F.when(got, 1)).alias("n"),
        F.count_distinct(F.when(got, F.col("offset"))).alias("distinct"),
        F.max(reset.cast("int")).alias("reset"),
        F.min("t").alias("t"),
    )
    order = Window.partitionBy(*keys).orderBy("_poll")
    polls = polls.withColumn("_before", F.lag("last").over(order))
    polls = polls.withColumn("_before_t", F.lag("t").over(order))
    after_reset = (F.col("reset") == 1) | (F.coalesce(F.lag("reset").over(order), F.lit(0)) == 1)
    whole = polls.withColumn("_free", after_reset)
    back = (F.col("n") != F.col("distinct")) | (
        ~F.col("_free") & F.coalesce(F.col("first") <= F.col("_before"), F.lit(False))
    )
    gap_between = ~F.col("_free") & F.coalesce(F.col("first") > F.col("_before") + 1, F.lit(False))
    gap_within = F.col("distinct") < F.col("last") - F.col("first") + 1
    judged = whole.withColumn("back", back).withColumn("skip", gap_between | gap_within)
    odd = judged.where("back or skip").orderBy("t").limit(_SUSPECTS).collect()
    skips: list[Any] = []
    for row in odd:
        if known.of(row["arm"], row["trial"], row["topic"], row["partition"], row["t"]) is not None:
            continue
        if row["back"]:
            outcome.add(_went_back(row))
        if row["skip"]:
            skips.append(row)
    if skips:
        _judge_skips(history, outcome, skips)


def _went_back(row: Any) -> Finding:
    at = {**_at(row), "process": row["process"]}
    before = row["_before"] if row["_before"] is not None else row["last"]
    return Finding(
        "poll-went-back",
        f"{row['process']} was given offset {row['first']} of {_place(row)} after {before}",
        row["arm"],
        row["trial"],
        (
            Pick("fetch", {**at, "offset": before}, rows=2),
            Pick("fetch", {**at, "offset": row["first"]}, rows=2),
        ),
    )


def _judge_skips(history: History, outcome: Outcome, skips: list[Any]) -> None:
    """A gap is a skip only when the final log has a record in it (above the log's start)."""
    fields = (
        "arm string, trial int, topic string, partition int, process string, "
        "low bigint, high bigint"
    )
    spans = history.table(
        [
            {
                **{k: row[k] for k in [*_TP, "process"]},
                "low": row["first"]
                if row["_before"] is None
                else min(row["_before"], row["first"]),
                "high": row["last"],
            }
            for row in skips
        ],
        fields,
    )
    final = (
        history.frame("log_read")
        .join(F.broadcast(leaders_table(history)), _TP)
        .where("node = leader_node and offset < leader_hw")
        .select(*_TP, "offset", "value")
    )
    given = (
        history.frame("fetch")
        .where("type = 'ok' and offset >= 0")
        .select(*_TP, "process", "offset")
        .distinct()
    )
    inside = final.join(F.broadcast(spans), _TP).where("offset > low and offset < high")
    missed: DataFrame = inside.join(given, [*_TP, "process", "offset"], "left_anti")
    for row in missed.orderBy("offset").dropDuplicates([*_TP, "process", "low"]).collect():
        at = {**_at(row), "process": row["process"]}
        outcome.add(
            Finding(
                "poll-skipped",
                f"{row['process']} was never given offset {row['offset']} of {_place(row)}, which "
                "lies between two that it was given",
                row["arm"],
                row["trial"],
                (
                    Pick("fetch", {**at, "offset": row["low"]}, rows=1),
                    Pick("fetch", {**at, "offset": row["high"]}, rows=1),
                    Pick("log_read", {**_at(row), "offset": row["offset"]}),
                ),
            )
        )


PROMISE: Final = Promise(
    name="log",
    says="Replicas agree; no record is lost, doubled, reordered or skipped.",
    source="Jepsen's Kafka workload; Kafka's UnifiedLog and high watermark",
    rules={
        "replica-differs": "All replicas agree up to the high watermark.",
        "replica-hole": "A replica lacks nothing below the high watermark.",
        "inconsistent-offset": "All consumers read the same record at an offset.",
        "duplicate-append": "A record that was sent once is in the log once.",
        "failed-write-visible": "A record whose write certainly failed is not in the log.",
        "poll-went-back": "A consumer is given each offset once.",
        "poll-skipped": "A consumer is given every record.",
    },
    evidence={"offsets": "of which a consumer or a replica says something"},
    unknown_when=("no final log was read",),
    check=check,
)
