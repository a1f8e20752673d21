"""Polls: is a consumer given every record, once, in order, and the same as everybody else?

Guarantee: of one partition, a consumer that goes on from where it was is given offsets that grow
without a gap in what was committed; two consumers are given the same record at one offset.

Violations:
- ``poll-went-back``: a consumer was given an offset again (no reset in between), or, within one
  poll, a lower one after a higher;
- ``poll-skipped``: a consumer was never given a record between two that it was given;
- ``position-lost``: a consumer was told that its position is out of range, although the final log
  has the record before it;
- ``inconsistent-offset``: two consumers were given different values at one offset;
- ``never-delivered``: a record that acks=all acknowledged before the faults were healed, and that a
  consumer which reads its partition and went on polling for seconds after that was never given,
  nor anything after it (Jepsen's unseen: `unseen`);
- ``poll-began-late``: a consumer that began at a partition's start was not given its first record
  first (ListOffsets, earliest);
- ``poll-began-early``: a consumer that began at a partition's end was given a record that acks=all
  had acknowledged before it asked where that is (ListOffsets, latest; KIP-207);
- ``poll-refused``: a consumer was told, once all was calm, that there is no such partition, leader
  or leader epoch (`refused_polls`);
- ``given-late``: a consumer that waits is not given at once what is committed (`given_late`).

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
from checkers.facts.blocks import chosen
from checkers.facts.disputes import disputed
from checkers.facts.histogram import grouped
from checkers.facts.leadership import key_of
from checkers.facts.timeline import FROM, TO, Timeline, steps
from checkers.judging.excuses import Excuses, excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import RULE, Sort, add, by_rule, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.polls.given_late import AWAITED, given_late
from checkers.promises.polls.refused_polls import POLLED, refused_polls
from checkers.promises.polls.unseen import DELIVERED, judge_unseen

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

RESET_ERRORS: Final = (1, -139, -140)
"""OFFSET_OUT_OF_RANGE and librdkafka's _LOG_TRUNCATION and _AUTO_OFFSET_RESET: the consumer's
position was moved, and it said so."""
_SKIPPED: Final = "poll-skipped"
_RESET: Final = "position-lost"
BEGUN: Final = "partitions that a consumer began to read"
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
    judge_unseen(history, outcome, known)
    for finding, n in (
        *given_late(history, outcome, known),
        *refused_polls(history, outcome, known),
    ):
        outcome.add(finding, n)
    _beginnings(history, outcome, known)
    return outcome


def _delivered(history: History, outcome: Outcome) -> None:
    rows = history.frame("fetch").where("type = 'ok' and offset >= 0")
    for row in grouped(rows.groupBy("arm", "trial", "process").count()):
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
    rows, keys = _held(history)
    rows = rows.where("topic is not null")
    reset = F.coalesce(F.col("error").isin(*RESET_ERRORS), F.lit(False))
    got = (F.col("type") == "ok") & (F.col("offset") >= 0)
    rows = rows.where(got | reset).withColumn("_poll", F.coalesce("poll", "op"))
    if history.many("fetch"):
        rows = chosen(rows, _out_of_step(rows, reset, keys), keys)
    polls = rows.groupBy(*keys, "_poll").agg(
        F.min(F.when(got, F.col("offset"))).alias("first"),
        F.max(F.when(got, F.col("offset"))).alias("last"),
        F.count(F.when(got, 1)).alias("n"),
        F.max(reset.cast("int")).alias("reset"),
        F.min("t").alias("t"),
        F.array_sort(F.collect_list(F.when(got, F.struct("seq", "offset")))).alias("_given"),
    )
    given = F.col("_given.offset")
    within = (F.col("reset") == 0) & (given != F.array_sort(given))
    distinct = F.size(F.array_distinct(given)).alias("distinct")
    polls = polls.select("*", within.alias("_within"), distinct).drop("_given")
    order = Window.partitionBy(*keys).orderBy("_poll")
    polls = polls.withColumn("_before", F.lag("last").over(order))
    polls = polls.withColumn("_before_t", F.lag("t").over(order))
    after_reset = (F.col("reset") == 1) | (F.coalesce(F.lag("reset").over(order), F.lit(0)) == 1)
    whole = polls.withColumn("_free", after_reset)
    back = (
        (F.col("n") != F.col("distinct"))
        | F.col("_within")
        | (~F.col("_free") & F.coalesce(F.col("first") <= F.col("_before"), F.lit(False)))
    )
    # A position lies after what was read, which is committed: it stays in range.
    kept = leaders_table(history).select(*_TP, "log_start", "log_end")
    whole = whole.join(F.broadcast(kept), _TP, "left")
    lost = (F.col("reset") == 1) & F.col("_before").isNotNull()
    there = F.col("_before").between(F.col("log_start"), F.col("log_end") - 1)
    lost = lost & F.coalesce(there, F.lit(False))
    gap_between = ~F.col("_free") & F.coalesce(F.col("first") - 1 > F.col("_before"), F.lit(False))
    gap_within = F.col("distinct") <= F.col("last") - F.col("first")
    judged = whole.withColumn("back", back).withColumn("skip", gap_between | gap_within)
    judged = judged.withColumn("lost", lost)
    odd = by_rule(
        judged,
        {"poll-went-back": F.col("back"), _SKIPPED: F.col("skip"), _RESET: F.col("lost")},
    )
    found = tally(odd, None, partial(_poll, known))
    may_skip = found.leave_out(_SKIPPED)
    add(outcome, found, _poll_finding)
    labels = found.in_order()
    if may_skip or any(label[2] == _SKIPPED for label, _ in labels):
        missed = _missed(history, judged.where("skip")).withColumn(RULE, F.lit(_SKIPPED))
        skipped = tally(missed, None, partial(_poll, known))
        add(outcome, skipped, _skipped)
        # Only where a record lies in it a gap is a skip.
        labels = [one for one in labels if one[0][2] != _SKIPPED] + skipped.in_order()
    for (arm, trial, rule, excuse), n in labels:
        if excuse is not None:
            outcome.excuse(arm, trial, rule, excuse, of=DELIVERED, n=n)


def _poll(known: Excuses, row: Row) -> Sort:
    rule = row[RULE]
    place = key_of(row)
    excuse = known.of(*place, row["t"])
    order = (row["t"], *place, row["process"])
    return Sort((*place[:2], rule, excuse), order, rule if excuse is None else None)


def _out_of_step(rows: DataFrame, reset: Column, keys: list[str]) -> DataFrame:
    """``keys`` of who was ever given another offset than the next one, or was reset: of all others
    every poll is as it should be."""
    before = F.lag("offset").over(Window.partitionBy(*keys).orderBy("_poll", "seq"))
    rows = rows.select(*keys, "offset", reset.alias("_reset"), before.alias("_before"))
    odd = rows.where("_reset or _before <> offset - 1").groupBy(*keys).agg(F.count("*").alias("n"))
    return odd.where("n > 0")  # Sail has no way to limit what is but distinct


def _held(history: History) -> tuple[DataFrame, list[str]]:
    """`fetch` rows, and by which columns they are one consumer's of one partition. Where partitions
    are assigned ``_hold`` is one of these: how often it had been assigned to its reader by then; 0
    for a consumer without a group. A poll's rows are written when it ends, so that what came with
    or after an assignment counts to it, and what came before does not."""
    rows, keys = history.frame("fetch"), [*_TP, "process"]
    if not history.has("assignment"):
        return rows, keys
    given: dict[tuple[Any, ...], list[int]] = {}
    for row in history.rows("assignment"):
        if row["event"] == "assigned":
            given.setdefault((*key_of(row), row["process"]), []).append(row["t"])
    spans = [
        {**dict(zip(keys, key, strict=True)), FROM: begin, TO: end, "_hold": number}
        for key, times in given.items()
        for number, (begin, end) in enumerate(steps(times))
    ]
    held = Timeline(spans, keys, {"_hold": "int"}).at(history, rows, F.col("t"))
    held = held.withColumn("_hold", F.coalesce("_hold", F.lit(0))).drop(FROM, TO)
    return held, [*keys, "_hold"]


def _poll_finding(rule: str, row: Row) -> Finding:
    return (_position_lost if rule == _RESET else _went_back)(rule, row)


def _position_lost(rule: str, row: Row) -> Finding:
    at = {**_at(row), "process": row["process"]}
    return Finding(
        rule,
        f"{row['process']} had been given {_place(row)} up to offset {row['_before']}, and was "
        f"told that its position is out of range; the final log has it ({row['log_start']} to "
        f"{row['log_end'] - 1})",
        row["arm"],
        row["trial"],
        (
            Pick("fetch", {**at, "offset": row["_before"]}, rows=1),
            Pick("fetch", {**at, "t": row["t"]}, rows=2),
            Pick("log_end", {**_at(row), "is_leader": True}, rows=1),
        ),
    )


def _went_back(rule: str, row: Row) -> Finding:
    at = {**_at(row), "process": row["process"]}
    before = row["_before"]
    if before is None or row["_within"]:
        before = row["last"]
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


PROMISE: Final = Promise(
    name="polls",
    says="A consumer is given every record, once, in order, and the same as everybody else.",
    source="Jepsen's Kafka workload (poll skip, nonmonotonic poll, inconsistent offsets, unseen)",
    rules={
        "poll-went-back": "A consumer is given each offset once.",
        "poll-skipped": "A consumer is given every record.",
        "position-lost": "A consumer's position stays in range while the record before it is kept.",
        "inconsistent-offset": "All consumers read the same record at an offset.",
        "poll-began-late": "Who begins at the start is given the first record.",
        "poll-began-early": "Who begins at the end is given nothing older.",
        "never-delivered": "A consumer that goes on polling is given what was acknowledged.",
        "given-late": "A consumer that waits is given what is committed at once.",
        "poll-refused": "Who polls what is led is not told, once all is calm, that it is not.",
    },
    evidence={
        DELIVERED: "to consumers",
        BEGUN: "at their start, or at their end",
        AWAITED: "once all was calm, and it had all before them",
        POLLED: "of a partition and a consumer, that a record or an error came of",
    },
    unknown_when=(
        "a trial in which no consumer was given anything",
        "a consumer was behind in the end, and did not poll long enough after healing, or asked "
        "nobody",
    ),
    blind=(
        "records of a consumer's last second, and of one that lags and goes on",
        "what a consumer was given late that had waited for it since before all was calm: it may "
        "have been waiting to connect anew",
    ),
    timed=frozenset({"never-delivered", "given-late", "poll-refused"}),
    check=check,
)
