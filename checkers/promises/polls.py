"""Polls: is a consumer given every record, once, in order, and the same as everybody else?

Guarantee: of one partition, a consumer that goes on from where it was is given offsets that grow
without a gap in what was committed; two consumers are given the same record at one offset.

Violations:
- ``poll-went-back``: a consumer was given an offset again (no reset in between);
- ``poll-skipped``: a consumer was never given a record between two that it was given;
- ``inconsistent-offset``: two consumers were given different values at one offset;
- ``never-delivered``: a record that acks=all acknowledged before the faults were healed, and that a
  consumer which reads its partition and went on polling for seconds after that was never given,
  nor anything after it (Jepsen's unseen).

- ``poll-began-late``: a consumer that began at a partition's start was not given its first record
  first (ListOffsets, earliest);
- ``poll-began-early``: a consumer that began at a partition's end was given a record that acks=all
  had acknowledged before it asked where that is (ListOffsets, latest; KIP-207).

Lawful and alike: a reset that the client reported (`RESET_ERRORS`) moves its position either way;
a partition that is assigned anew begins where the group's offset says (`checkers.promises.groups`),
so that a member of a group is held to its polls from one assignment to the next; never to have been
given a record is the fate of a group as a whole; compacted topics have gaps, and deleted ones begin
anew (`checkers.judging.excuses`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.facts.disputes import disputed
from checkers.facts.leadership import key_of
from checkers.facts.segments import fallen
from checkers.facts.timeline import FROM, TO, Timeline, steps
from checkers.judging.excuses import Excuses, excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import RULE, Sort, add, by_rule, tally
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RESET_ERRORS: Final = (1, -139, -140)
"""OFFSET_OUT_OF_RANGE and librdkafka's _LOG_TRUNCATION and _AUTO_OFFSET_RESET: the consumer's
position was moved, and it said so."""
DELIVERED: Final = "records delivered"
_SKIPPED: Final = "poll-skipped"
BEGUN: Final = "partitions that a consumer began to read"
_LONG_ENOUGH_NS: Final = 5_000_000_000
"""For a consumer to be given what was there when the last fault was healed."""
_A_WHILE_NS: Final = 1_000_000_000
"""Who was given nothing new in so long, but had no longer, is not known to be stuck."""
Row = Mapping[str, Any]
_TP: Final = ["arm", "trial", "topic", "partition"]


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("fetch"):
        return outcome
    known = excuses(history)
    _delivered(history, outcome)
    _disagreements(history, outcome, known)
    _polls(history, outcome, known)
    _never_delivered(history, outcome, known)
    _beginnings(history, outcome, known)
    return outcome


def _delivered(history: History, outcome: Outcome) -> None:
    rows = history.frame("fetch").where("type = 'ok' and offset >= 0")
    for row in rows.groupBy("arm", "trial", "process").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], DELIVERED, row["count"])
        by_process = outcome.arm(row["arm"]).setdefault("delivered", {})
        by_process[row["process"]] = by_process.get(row["process"], 0) + row["count"]


def _disagreements(history: History, outcome: Outcome, known: Excuses) -> None:
    rows, n = disputed(history, "fetch-disagree")
    if not n:
        return
    found = tally(rows, n, partial(_disagreement, known))
    add(outcome, found, _disagreement_finding)
    for (arm, trial, rule, excuse), n_of in found.in_order():
        if excuse is not None:
            outcome.excuse(arm, trial, rule, excuse, of=DELIVERED, n=n_of)


def _disagreement_finding(rule: str, row: Row) -> Finding:
    at = {**_at(row), "offset": row["offset"]}
    return Finding(
        rule,
        f"consumers read different values at {_place(row)} offset {row['offset']}",
        row["arm"],
        row["trial"],
        (Pick("fetch", at, rows=9), Pick("log_read", at)),
    )


def _disagreement(known: Excuses, row: Row) -> Sort:
    place = key_of(row)
    excuse, rule = known.of(*place, row["first_read_t"] or 0), "inconsistent-offset"
    broken = rule if excuse is None else None
    return Sort((*place[:2], rule, excuse), (*place, row["offset"]), broken)


def _at(row: Any) -> dict[str, Any]:
    return {"topic": row["topic"], "partition": row["partition"]}


def _place(row: Any) -> str:
    return f"{row['topic']}-{row['partition']}"


def _polls(history: History, outcome: Outcome, known: Excuses) -> None:
    """Consecutive polls of one consumer. Records are folded to one row a poll before sorting."""
    rows = _held(history).where("topic is not null")
    reset = F.coalesce(F.col("error").isin(*RESET_ERRORS), F.lit(False))
    got = (F.col("type") == "ok") & (F.col("offset") >= 0)
    rows = rows.where(got | reset).withColumn("_poll", F.coalesce("poll", "op"))
    keys = [*_TP, "process", "_hold"]
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
    odd = by_rule(judged, {"poll-went-back": F.col("back"), _SKIPPED: F.col("skip")})
    found = tally(odd, None, partial(_poll, known))
    may_skip = found.broken.pop(_SKIPPED, 0)
    found.firsts.pop(_SKIPPED, None)
    add(outcome, found, _went_back)
    if may_skip:
        missed = _missed(history, judged.where("skip")).withColumn(RULE, F.lit(_SKIPPED))
        add(outcome, tally(missed, None, partial(_poll, known)), _skipped)


def _poll(known: Excuses, row: Row) -> Sort:
    rule = row[RULE]
    place = key_of(row)
    excuse = known.of(*place, row["t"])
    return Sort((excuse,), (row["t"], *place, row["process"]), rule if excuse is None else None)


def _held(history: History) -> DataFrame:
    """`fetch` rows with ``_hold``: how often the partition had been assigned to its reader by then;
    0 for a consumer without a group. A poll's rows are written when it ends, so that what came with
    or after an assignment counts to it, and what came before does not."""
    rows = history.frame("fetch")
    if not history.has("assignment"):
        return rows.withColumn("_hold", F.lit(0))
    given: dict[tuple[Any, ...], list[int]] = {}
    for row in history.rows("assignment"):
        if row["event"] == "assigned":
            given.setdefault((*key_of(row), row["process"]), []).append(row["t"])
    keys = (*_TP, "process")
    spans = [
        {**dict(zip(keys, key, strict=True)), FROM: begin, TO: end, "_hold": number}
        for key, times in given.items()
        for number, (begin, end) in enumerate(steps(times))
    ]
    held = Timeline(spans, keys, {"_hold": "int"}).at(history, rows, F.col("t"))
    return held.withColumn("_hold", F.coalesce("_hold", F.lit(0))).drop(FROM, TO)


def _readers(history: History) -> DataFrame:
    """`fetch` rows with ``reader``: the process, or the group that it is a member of."""
    members = history.frame("assignment").select("arm", "trial", "process", "group").distinct()
    rows = history.frame("fetch").join(F.broadcast(members), ["arm", "trial", "process"], "left")
    return rows.withColumn("reader", F.coalesce(F.concat(F.lit("group "), "group"), "process"))


def _went_back(rule: str, row: Row) -> Finding:
    at = {**_at(row), "process": row["process"]}
    before = row["_before"] if row["_before"] is not None else row["last"]
    return Finding(
        rule,
        f"{row['process']} was given offset {row['first']} of {_place(row)} after {before}",
        row["arm"],
        row["trial"],
        (
            Pick("fetch", {**at, "offset": before}, rows=2),
            Pick("fetch", {**at, "offset": row["first"]}, rows=2),
        ),
    )


def _missed(history: History, skips: DataFrame) -> DataFrame:
    """A gap is a skip only when the final log has a record in it (above the log's start) that the
    consumer was never given: the first of each gap, with ``low`` and ``high``, which it was."""
    keys = [*_TP, "process"]
    low = F.least("first", "_before").alias("low")  # skips nulls
    gaps = skips.select(*keys, low, F.col("last").alias("high"), "t")
    final = (
        history.frame("log_read")
        .join(F.broadcast(leaders_table(history)), _TP)
        .where("node = leader_node and offset < leader_hw")
        .select(*_TP, "offset")
    )
    given = history.frame("fetch").where("type = 'ok' and offset >= 0").select(*keys, "offset")
    kept = final.join(F.broadcast(gaps.select(*keys).distinct()), _TP)
    kept = kept.join(given, [*keys, "offset"], "left_anti")
    gap = F.struct("low", "high", "t")
    both = gaps.select(*keys, F.col("low").alias("offset"), gap.alias("gap")).unionByName(
        kept.select(
            *keys, "offset", F.lit(None).cast("struct<low:long,high:long,t:long>").alias("gap")
        )
    )
    so_far = Window.partitionBy(*keys).orderBy("offset", F.col("gap").isNull())
    so_far = so_far.rowsBetween(Window.unboundedPreceding, 0)
    both = both.withColumn("_in", F.last("gap", ignorenulls=True).over(so_far))
    both = both.withColumn("_until", F.max("gap.high").over(so_far))
    inside = both.where("gap is null and offset > _in.low and offset < _until")
    first = inside.groupBy(*keys, F.col("_in.low").alias("low"))
    return first.agg(
        F.min("offset").alias("offset"), F.max("_until").alias("high"), F.min("_in.t").alias("t")
    )


def _skipped(rule: str, row: Row) -> Finding:
    at = {**_at(row), "process": row["process"]}
    return Finding(
        rule,
        f"{row['process']} was never given offset {row['offset']} of {_place(row)}, which lies "
        "between two that it was given",
        row["arm"],
        row["trial"],
        (
            Pick("fetch", {**at, "offset": row["low"]}, rows=1),
            Pick("fetch", {**at, "offset": row["high"]}, rows=1),
            Pick("log_read", {**_at(row), "offset": row["offset"]}),
        ),
    )


# -- where it begins -----------------------------------------------------------------------------


def _beginnings(history: History, outcome: Outcome, known: Excuses) -> None:
    """The first offset that each consumer was given of a partition, against where it was to begin.
    What comes after a reset is another thing."""
    begins = [
        {"arm": arm, "trial": trial, "process": one.process, "begins": one.begins}
        for (arm, trial), workloads in history.run.workloads.items()
        for one in workloads
        if one.role == "consumer" and one.begins is not None
    ]
    if not begins:
        return
    table = history.table(begins, "arm string, trial int, process string, begins string")
    rows = history.frame("fetch").join(F.broadcast(table), ["arm", "trial", "process"])
    asked = rows.groupBy("arm", "trial", "process").agg(F.min("invoke_t").alias("asked_t"))
    got = (F.col("type") == "ok") & (F.col("offset") >= 0)
    poll = F.coalesce("poll", "op")
    reset = F.coalesce(F.col("error").isin(*RESET_ERRORS), F.lit(False))
    first = (
        rows.where("topic is not null")
        .groupBy(*_TP, "process", "begins")
        .agg(
            F.min(F.when(got, F.struct(poll.alias("poll"), "offset", "t"))).alias("first"),
            F.min(F.when(reset, poll)).alias("reset"),
        )
    )
    first = first.where("first is not null and (reset is null or reset > first.poll)")
    first = first.select(*_TP, "process", "begins", "first.offset", "first.t")
    first = first.join(F.broadcast(asked), ["arm", "trial", "process"])
    leaders = leaders_table(history).select(*_TP, "log_start")
    first = first.join(F.broadcast(leaders), _TP)
    acked = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    acked = acked.select(*_TP, F.col("offset").alias("acked"), F.col("t").alias("acked_t"))
    ends = F.broadcast(first.where("begins = 'end'").select(*_TP, "process", "asked_t"))
    before = acked.join(ends, _TP).where("acked_t < asked_t")
    before = before.groupBy(*_TP, "process").agg(F.max("acked").alias("acked"))
    for row in first.join(before, [*_TP, "process"], "left").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], BEGUN)
        late = row["begins"] == "start" and row["offset"] > row["log_start"]
        early = row["begins"] == "end" and row["offset"] <= (
            -1 if row["acked"] is None else row["acked"]
        )
        if not late and not early:
            continue
        rule = "poll-began-late" if late else "poll-began-early"
        place = (row["arm"], row["trial"], row["topic"], row["partition"])
        excuse = known.of(*place, row["t"])
        if excuse is not None:
            outcome.excuse(*place[:2], rule, excuse, of=BEGUN)
            continue
        says = (
            f"at {_place(row)}'s start, which is offset {row['log_start']}"
            if late
            else f"at {_place(row)}'s end, though offset {row['acked']} had been acknowledged"
        )
        at = {**_at(row), "process": row["process"], "offset": row["offset"]}
        picks = [Pick("fetch", at, rows=1)]
        if early:
            picks.insert(0, Pick("produce", {**_at(row), "offset": row["acked"]}, rows=1))
        outcome.add(
            Finding(
                rule,
                f"{row['process']} was first given offset {row['offset']}; it began {says}",
                *place[:2],
                tuple(picks),
            )
        )


# -- never given --------------------------------------------------------------------------------


def _never_delivered(history: History, outcome: Outcome, known: Excuses) -> None:
    """Acknowledged before the last fault was healed, against the last that each consumer was given
    of that partition, among those that polled long enough after."""
    healed: dict[tuple[str, int], int] = {}
    down = fallen(history)
    for row in history.rows("phase"):
        here = (row["arm"], row["trial"])
        if row["name"] == "heal" and row["event"] == "end" and here not in down:
            healed[row["arm"], row["trial"]] = row["t"]
    for arm in sorted({a for a, _ in history.trials} - {a for a, _ in healed}):
        outcome.unjudged(arm, "records that were never delivered: nobody tells when it was healed")
    if not healed or not history.has("produce"):
        return
    table = history.table(
        [{"arm": a, "trial": t, "_healed_t": h} for (a, t), h in healed.items()],
        "arm string, trial int, _healed_t bigint",
    )
    reads = _readers(history).join(F.broadcast(table), ["arm", "trial"])
    polls = reads.groupBy("arm", "trial", "reader").agg(F.max("t").alias("_last_poll_t"))
    given = (
        reads.where("type = 'ok' and offset >= 0")
        .groupBy(*_TP, "reader")
        .agg(F.max("offset").alias("_given"))
    )
    patient = given.join(F.broadcast(polls), ["arm", "trial", "reader"])
    acked = history.frame("produce").join(F.broadcast(table), ["arm", "trial"])
    acked = acked.where("type = 'ok' and acks = -1 and offset >= 0 and t < _healed_t")
    highest = acked.groupBy(*_TP).agg(
        F.max("offset").alias("_acked"),
        F.max_by("value", "offset").alias("value"),
        F.max("_healed_t").alias("_healed_t"),
    )
    stuck = patient.join(highest, _TP).where(f"_last_poll_t > _healed_t + {_A_WHILE_NS}")
    for row in stuck.toArrow().to_pylist():
        arm, trial = row["arm"], row["trial"]
        seconds = (row["_last_poll_t"] - row["_healed_t"]) / 1e9
        was_patient = row["_last_poll_t"] > row["_healed_t"] + _LONG_ENOUGH_NS
        outcome.saw(arm, trial, "partitions that a consumer was patient with", int(was_patient))
        if row["_given"] >= row["_acked"]:
            continue
        excuse = known.of(arm, trial, row["topic"], row["partition"], row["_healed_t"])
        if excuse is not None:
            outcome.excuse(arm, trial, "never-delivered", excuse, of=DELIVERED)
            continue
        if not was_patient:
            says = (
                f"{row['reader']} was given nothing of {_place(row)} after offset {row['_given']}"
            )
            why = f"and {row['_acked']} had been acknowledged {seconds:.1f} s before its last poll"
            outcome.unknown(arm, trial, f"{says}, {why}: too short to tell")
            continue
        at = {**_at(row), "offset": row["_given"]}
        outcome.add(
            Finding(
                "never-delivered",
                f"{row['reader']} polled for {seconds:.1f} s after healing and was never given "
                f"{_place(row)} offset {row['_acked']}, acknowledged before; its last was "
                f"{row['_given']}",
                arm,
                trial,
                (
                    Pick("produce", {**_at(row), "value": row["value"]}, rows=1),
                    Pick("fetch", at, rows=1),
                    Pick("fetch", {"type": "ok"}, last=True, rows=2),
                ),
            )
        )


PROMISE: Final = Promise(
    name="polls",
    says="A consumer is given every record, once, in order, and the same as everybody else.",
    source="Jepsen's Kafka workload (poll skip, nonmonotonic poll, inconsistent offsets, unseen)",
    rules={
        "poll-went-back": "A consumer is given each offset once.",
        "poll-skipped": "A consumer is given every record.",
        "inconsistent-offset": "All consumers read the same record at an offset.",
        "poll-began-late": "Who begins at the start is given the first record.",
        "poll-began-early": "Who begins at the end is given nothing older.",
        "never-delivered": "A consumer that goes on polling is given what was acknowledged.",
    },
    evidence={DELIVERED: "to consumers", BEGUN: "at their start, or at their end"},
    unknown_when=(
        "a trial in which no consumer was given anything",
        "a consumer was behind in the end, and did not poll long enough after healing",
    ),
    blind=("records of a consumer's last seconds",),
    check=check,
)
