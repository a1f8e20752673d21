"""Replicas: do all logs of a partition say the same, up to what was committed?

Guarantee: below the high watermark an offset holds one record (value, leader epoch, time) in every
replica of the in-sync set, for ever; the high watermark never goes back behind what a consumer has
read or acks=all has promised; leader epochs only grow along a log; a log has no holes.

Violations, at the final read, when the cluster has come to rest:
- ``replica-differs``: two replicas hold different records at an offset that both must agree on;
- ``replica-hole``: a replica lacks a record that the leader has and that it must have, in its midst
  or at its end, were it all of them; or the leader's own log leaps over an offset;
- ``high-watermark-went-back``: the final leader's high watermark is below a record that a consumer
  was given or that acks=all acknowledged;
- ``high-watermark-behind``: an in-sync follower's high watermark stays behind the leader's although
  nothing more is written: its consumers, and its own election, would lack committed records;
- ``high-watermark-beyond-end``: a broker that took up a role said that its high watermark lay
  beyond its own log's end (UnifiedLog never lets it): what it committed it does not have;
- ``log-went-back``: a broker's log ended earlier than it had, with no truncation in between
  (`checkers.facts.kept_logs`);
- ``high-watermark-stuck``: the final leader's high watermark stays below its log's end although all
  replicas are in sync and have what it has: what is not committed then never will be;
- ``epoch-never-committed``: a log has records of a leader epoch that ZooKeeper's log does not have;
- ``epochs-out-of-order``: of one log, a later record has an older leader epoch (KIP-101's cache
  would then lead a follower to cut at the wrong place).

Up to where: `checkers.facts.replicas`. Lawful and alike: a follower that is not in sync may differ
beyond its own high watermark until it truncates; a partition that takes records in LogAppendTime
has gaps in time, never in offsets; compaction and aborted transactions leave holes (compacted
topics are excused, transactions there are none).

Unknown: a replica that could not be read although its node ran, or every follower of a trial; one
that was in sync in the end, or a whole partition, of which no log was read; logs of which none, or
two, or another than the committed one is the leader's; a log that tells of one offset twice, or of
a high watermark beyond its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.committed import committed
from checkers.facts.decisions import from_log
from checkers.facts.kept_logs import Shrunk, kept_logs
from checkers.facts.leadership import TP, key_of
from checkers.facts.replicas import Replica, compared, proved, replicas
from checkers.facts.segments import fallen
from checkers.judging.excuses import excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.unread import unread

if TYPE_CHECKING:
    from checkers.history.frames import History

COMPARED: Final = "records compared with another replica"
FOLLOWERS: Final = "followers' logs"
ENDS: Final = "ends of logs held against earlier ones"
_FIRST: Final = 100
"""So many of a kind are looked at one by one, by place; the rest is in the counts."""
Place = tuple[str, int, str, int]
Row = Mapping[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("log_end"):
        if history.has("produce"):
            outcome.unknowns.append("no final log was read")
        return outcome
    _unreadable(history, outcome)
    for arm, trial, why in unread(history):
        outcome.unknown(arm, trial, why)
    for finding in (*_watermarks(history, outcome), *_of_no_epoch(history)):
        _add(history, outcome, finding, 1)
    kept = kept_logs(history)
    for (arm, trial), n in kept.compared.items():
        outcome.saw(arm, trial, ENDS, n)
    for (arm, trial), n in kept.taken.items():
        outcome.excuse(arm, trial, "log-went-back", "taken", of=ENDS, n=n)
    for one in kept.shrunk:
        outcome.add(_went_back(one))
    for beyond in _beyond_end(history):
        outcome.add(beyond)
    for finding, n in (
        *_differences(history, outcome),
        *_holes(history, outcome),
        *_disorder(history),
    ):
        _add(history, outcome, finding, n)
    return outcome


def _add(history: History, outcome: Outcome, found: _Found, n: int) -> None:
    """A finding stands for ``n`` records; what an excuse covers is counted instead."""
    arm, trial, topic, partition = found.key
    excuse = excuses(history).of(arm, trial, topic, partition, found.since_t)
    if excuse is not None:
        outcome.excuse(arm, trial, found.finding.rule, excuse, of=COMPARED, n=n)
        return
    outcome.add(found.finding)
    outcome.counts[found.finding.rule] += n - 1


class _Found:
    """``since_t``: from when on the record was known to be committed (ns; 0: nobody can say)."""

    __slots__ = ("finding", "key", "since_t")

    def __init__(self, key: Place, finding: Finding, since_t: int = 0) -> None:
        self.key, self.finding, self.since_t = key, finding, since_t


def _proof(one: Shrunk) -> Pick:
    at = {"topic": one.key[2], "partition": one.key[3], "t": one.had["t"]}
    own = {"node": one.node} if one.had_kind == "leader_change" else {"value": one.had["value"]}
    return Pick(one.had_kind, {**at, **own}, rows=1)


def _went_back(one: Shrunk) -> Finding:
    arm, trial, topic, partition = one.key
    at = {"topic": topic, "partition": partition, "node": one.node}
    return Finding(
        "log-went-back",
        f"node {one.node}'s log of {topic}-{partition} had all below {one.before}, and later ended "
        f"at {one.after}; it had told of no truncation",
        arm,
        trial,
        (
            _proof(one),
            Pick(one.has_kind, {**at, "t": one.has["t"]}, rows=1),
        ),
    )


def _beyond_end(history: History) -> Iterator[Finding]:
    """By the broker's own word, told in one breath."""
    for row in history.rows("leader_change"):
        end, mark = row["log_end_offset"], row["high_watermark"]
        if None in (end, mark) or end < 0 or mark <= end:
            continue
        at = {"topic": row["topic"], "partition": row["partition"], "node": row["node"]}
        yield Finding(
            "high-watermark-beyond-end",
            f"node {row['node']} took up leader epoch {row['leader_epoch']} of {row['topic']}-"
            f"{row['partition']} with a high watermark of {mark}, its log ending at {end}",
            row["arm"],
            row["trial"],
            (Pick("leader_change", {**at, "t": row["t"]}, rows=1),),
        )


def _unreadable(history: History, outcome: Outcome) -> None:
    """Who could not be read; a node that somebody left down is no wonder, and named."""
    down = _down(history)
    leaders = {one.key for one in replicas(history)}
    for key in sorted({key_of(row) for row in history.rows("log_end")} - leaders):
        outcome.unknown(*key[:2], f"no leader's log of {_place(key)} was read")
    for one in replicas(history):
        arm, trial = one.key[:2]
        figures = outcome.arm(arm)
        figures["replicas"] = figures.get("replicas", 0) + (one.error is None)
        if one.error is None:
            outcome.saw(arm, trial, FOLLOWERS, int(not one.is_leader))
        elif (arm, trial, one.node) in down:
            outcome.unjudged(arm, f"replicas of node {one.node}, which was down at the end")
        else:
            outcome.unknown(
                arm, trial, f"node {one.node}'s replica of {_place(one.key)}: {one.error}"
            )
    followed = {one.key[:2] for one in replicas(history) if not one.is_leader}
    for arm, trial in sorted(followed):
        if not outcome.evidence[arm, trial, FOLLOWERS]:
            outcome.unknown(arm, trial, "no follower's log was read")


def _down(history: History) -> set[tuple[str, int, int]]:
    """Nodes that the harness took down and did not start again."""
    last: dict[tuple[str, int, int], str] = {}
    for row in history.rows("node_event"):
        if row["event"] in ("kill", "stop", "stopped", "pause", "start", "resume", "exited"):
            last[row["arm"], row["trial"], row["node"]] = row["event"]
    return {key for key, event in last.items() if event in ("kill", "stop", "stopped", "pause")}


# -- high watermarks ----------------------------------------------------------------------------


def _watermarks(history: History, _outcome: Outcome) -> Iterator[_Found]:
    known, down = proved(history), fallen(history)
    for one in replicas(history):
        if one.error is not None or one.high_watermark is None:
            continue
        at = {"topic": one.key[2], "partition": one.key[3]}
        ends = Pick("log_end", at, rows=9)
        if one.is_leader:
            for kind, how, where in (
                ("read", "a consumer was given", "fetch"),
                ("acked", "acks=all acknowledged", "produce"),
            ):
                offset, value = known.get(one.key, {}).get(kind, (-1, None))
                if one.high_watermark <= offset:
                    says = (
                        f"{_place(one.key)}: the final leader's (node {one.node}) high watermark "
                        f"is {one.high_watermark}, although {how} offset {offset}"
                    )
                    pick = Pick(where, {**at, "offset": offset, "value": value}, rows=1)
                    yield _found("high-watermark-went-back", says, one.key, pick, ends)
            if one.key[:2] not in down and _is_stuck(history, one):
                says = (
                    f"{_place(one.key)}: the final leader's (node {one.node}) high watermark "
                    f"stayed at {one.high_watermark}, below the log's end {one.end}, to which all "
                    "replicas came"
                )
                yield _found("high-watermark-stuck", says, one.key, ends)
        elif (
            one.in_sync
            and one.key[:2] not in down
            and one.high_watermark < _leader_hw(history, one)
        ):
            says = (
                f"{_place(one.key)}: in-sync node {one.node}'s high watermark stayed at "
                f"{one.high_watermark}, the leader's being {_leader_hw(history, one)}"
            )
            yield _found("high-watermark-behind", says, one.key, ends)


def _is_stuck(history: History, leader: Replica) -> bool:
    """Its log ends above its high watermark, and so do those of all replicas, each in sync."""
    if leader.end is None or leader.high_watermark is None or leader.high_watermark >= leader.end:
        return False
    of = [one for one in replicas(history) if one.key == leader.key]
    return len(of) > 1 and all(one.in_sync and (one.end or 0) >= leader.end for one in of)


def _leader_hw(history: History, one: Replica) -> int:
    leader = next(r for r in replicas(history) if r.key == one.key and r.is_leader)
    return leader.high_watermark or 0


# -- records ------------------------------------------------------------------------------------


def _differences(history: History, outcome: Outcome) -> Iterator[tuple[_Found, int]]:
    """Offsets at which records differ: one aggregation by offset, on primitives."""
    rows = compared(history).where("offset < bound and offset >= leader_start")
    value = F.coalesce("value", F.lit(-(2**63)))
    # A batch is copied as it is: also what is not told of it is the same everywhere.
    stamp, epoch = (F.coalesce(name, F.lit(-1)) for name in ("append_time_ms", "leader_epoch"))
    life = F.coalesce("producer_epoch", F.lit(-1))
    by_offset = rows.groupBy(*TP, "offset").agg(
        F.min(value).alias("_low"),
        F.max(value).alias("_high"),
        F.min(epoch).alias("_old"),
        F.max(epoch).alias("_new"),
        F.min(stamp).alias("_early"),
        F.max(stamp).alias("_late"),
        F.min(life).alias("_first_life"),
        F.max(life).alias("_last_life"),
        F.count("*").alias("_n"),
    )
    differs = (F.col("_low") != F.col("_high")) | (F.col("_old") != F.col("_new"))
    differs = differs | (F.col("_early") != F.col("_late"))
    differs = differs | (F.col("_first_life") != F.col("_last_life"))
    found = by_offset.groupBy(*TP).agg(
        F.sum(F.when(F.col("_n") > 1, F.col("_n")).otherwise(0)).alias("compared"),
        F.count("*").alias("offsets"),
        F.sum(differs.cast("int")).alias("n"),
        F.min(F.when(differs, F.col("offset"))).alias("first"),
    )
    for row in found.toArrow().to_pylist():
        key = (row["arm"], row["trial"], row["topic"], row["partition"])
        outcome.saw(*key[:2], COMPARED, row["compared"])
        outcome.saw(*key[:2], "offsets", row["offsets"])
        if row["n"]:
            at = {"topic": row["topic"], "partition": row["partition"]}
            says = (
                f"replicas of {_place(key)} hold different records at {row['n']} offsets below "
                f"their high watermarks, the first at offset {row['first']}"
            )
            log = Pick("log_read", {**at, "offset": row["first"]}, rows=9)
            ends = Pick("log_end", at, rows=9)
            yield _found("replica-differs", says, key, log, ends), row["n"]


def _holes(history: History, outcome: Outcome) -> Iterator[tuple[_Found, int]]:
    """Equal counts mean no hole, where the values agree. Every readable replica is asked, were its
    log empty."""
    rows = compared(history).where("offset < bound and offset >= leader_start")
    counts = {
        (row["arm"], row["trial"], row["topic"], row["partition"], row["node"]): row
        for row in rows.groupBy(*TP, "node")
        .agg(
            F.count_distinct("offset").alias("n"),
            F.count("*").alias("rows"),
            F.max("offset").alias("last"),
        )
        .toArrow()
        .to_pylist()
    }
    for one in replicas(history):
        span = max(0, one.bound - one.leader_start)
        counted = counts.get((*one.key, one.node))
        have = counted["n"] if counted else 0
        if counted and counted["rows"] > have:
            twice = f"node {one.node}'s log of {_place(one.key)} was read with an offset twice"
            outcome.unknown(*one.key[:2], twice)
        if one.error is not None or have >= span:
            continue
        first = _first_missing(history, one)
        what = "the leader's own log" if one.is_leader else f"node {one.node}'s log"
        says = (
            f"{what} of {_place(one.key)} lacks {span - have} of the {span} records from "
            f"{one.leader_start} to {one.bound - 1}, the first at offset {first}"
        )
        at = {"topic": one.key[2], "partition": one.key[3]}
        picks = (
            Pick("log_read", {**at, "offset": first}, rows=3),
            Pick("log_end", {**at, "node": one.node}, rows=1),
            Pick("log_end", {**at, "is_leader": True}, rows=1),
        )
        yield _found("replica-hole", says, one.key, *picks), span - have


def _first_missing(history: History, one: Replica) -> int:
    """The slow path, for a log that is known to have a hole."""
    own = compared(history).where(
        (F.col("arm") == one.key[0])
        & (F.col("trial") == one.key[1])
        & (F.col("topic") == one.key[2])
        & (F.col("partition") == one.key[3])
        & (F.col("node") == one.node)
        & F.col("offset").between(one.leader_start, one.bound - 1)
    )
    order = Window.partitionBy(*TP, "node").orderBy("offset")
    ranked = own.dropDuplicates(["offset"]).withColumn("_rank", F.row_number().over(order))
    leap = ranked.where(F.col("offset") != F.col("_rank") - 1 + one.leader_start)
    row = leap.agg(F.min(F.col("_rank")).alias("rank")).collect()[0]
    if row["rank"] is None:  # nothing is missing but the end
        return int(one.leader_start + own.dropDuplicates(["offset"]).count())
    return int(row["rank"]) - 1 + one.leader_start


def _of_no_epoch(history: History) -> Iterator[_Found]:
    """Leader epochs in logs that ZooKeeper's own log never had."""
    rows = compared(history).where("leader_epoch >= 0").groupBy(*TP, "node", "leader_epoch")
    for row in rows.agg(F.min("offset").alias("first")).toArrow().to_pylist():
        key = key_of(row)
        known = committed(history).get(key)
        if key[:2] not in from_log(history) or known is None:
            continue
        if row["leader_epoch"] in known.leaders or key[:3] in deletion_steps(history):
            continue
        says = (
            f"node {row['node']}'s log of {_place(key)} has records of leader epoch "
            f"{row['leader_epoch']}, which was never committed, the first at offset {row['first']}"
        )
        at = {"topic": row["topic"], "partition": row["partition"], "node": row["node"]}
        pick = Pick("log_read", {**at, "offset": row["first"]}, rows=1)
        yield _found("epoch-never-committed", says, key, pick)


def _disorder(history: History) -> Iterator[tuple[_Found, int]]:
    """Along one log, each leader epoch has one span of offsets, and they stand in order."""
    rows = compared(history).where("leader_epoch is not null")
    spans = rows.groupBy(*TP, "node", "leader_epoch").agg(
        F.min("offset").alias("first"), F.max("offset").alias("last")
    )
    order = Window.partitionBy(*TP, "node").orderBy("leader_epoch")
    spans = spans.withColumn("_before", F.max("last").over(order.rowsBetween(-(2**31), -1)))
    odd = spans.where("first < _before").orderBy(*TP, "node", "leader_epoch").limit(_FIRST)
    for row in odd.toArrow().to_pylist():
        key = (row["arm"], row["trial"], row["topic"], row["partition"])
        says = (
            f"node {row['node']}'s log of {_place(key)} has a record of leader epoch "
            f"{row['leader_epoch']} at offset {row['first']}, before one of an older epoch at "
            f"{row['_before']}"
        )
        at = {"topic": row["topic"], "partition": row["partition"], "node": row["node"]}
        picks = (
            Pick("log_read", {**at, "offset": row["first"]}, rows=1),
            Pick("log_read", {**at, "offset": row["_before"]}, rows=1),
        )
        yield _found("epochs-out-of-order", says, key, *picks), 1


def _found(rule: str, says: str, key: Place, *picks: Pick) -> _Found:
    return _Found(key, Finding(rule, says, key[0], key[1], picks))


def _place(key: Place) -> str:
    return f"{key[2]}-{key[3]}"


PROMISE: Final = Promise(
    name="replicas",
    says="All logs of a partition say the same, up to what was committed.",
    source="Kafka's high watermark and UnifiedLog; KIP-101, KIP-279",
    rules={
        "replica-differs": "All replicas agree up to the high watermark.",
        "replica-hole": "A replica lacks nothing below the high watermark.",
        "high-watermark-went-back": "The high watermark stays above what was read or promised.",
        "high-watermark-behind": "At rest, an in-sync follower's high watermark is its leader's.",
        "high-watermark-beyond-end": "No high watermark lies beyond the log's own end.",
        "log-went-back": "A log keeps what it has, but for truncations that its broker tells of.",
        "high-watermark-stuck": "At rest, what all replicas have is committed.",
        "epoch-never-committed": "Logs have records of committed leader epochs only.",
        "epochs-out-of-order": "Along a log leader epochs only grow.",
    },
    evidence={
        COMPARED: "at offsets of which two replicas have one",
        FOLLOWERS: "read to their ends",
        "offsets": "below what was committed, in any log",
        ENDS: "as brokers took up roles, and in the end",
    },
    unknown_when=(
        "a replica could not be read although its node ran, or was in sync and was not read",
        "no follower was read",
        "what was read contradicts itself, or what was committed",
    ),
    blind=("what differed and agreed again before the end", "what a record holds but its value"),
    check=check,
)
