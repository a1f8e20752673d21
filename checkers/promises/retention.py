"""Retention: does a log lose what is too old or too much, and nothing else?

And what goes as a whole, its segments, does not grow beyond measure.

Guarantee (UnifiedLog.deleteOldSegments): every ``log.retention.check.interval.ms`` the oldest
segments of a log go for which it is true that ``retention.bytes`` are left without them, or that
their latest record is older than ``retention.ms``; no others. Disks run full otherwise, or records
are gone before anybody could read them.

Violations, of the folders of final leaders as they lay on disk in the end (`log_folder`), of topics
that set one of the two themselves:
- ``kept-beyond-size``: without its oldest segment a log has ``retention.bytes`` or more;
- ``kept-beyond-time``: the latest record of its oldest segment is far older than ``retention.ms``;
- ``expired-too-soon``: a log has lost its beginning, and has less than ``retention.bytes`` left; or
  a record was acknowledged there that was appended less than ``retention.ms`` ago, and the log
  begins behind it; or it was told to begin behind one (ListOffsets, Fetch) so soon;
- ``rolled-too-late``: of a topic that sets ``segment.ms``, and whose brokers date what they append,
  a segment has a record that was appended more than that after its first one, where the final
  leader has taken both in its last leader epoch (LogSegment.shouldRoll). What is in the segment
  that is written to is never compacted, and goes only when its latest record is too old. Where that
  was set while the topic was used (`checkers.facts.altered`), a segment that was there by then is
  as old as it may be at once.

Lawful, and looks similar: a broker looks for the first time some seconds after it began
(log.initial.task.delay.ms; `FIRST_LOOK` in run.json), and every so often after that; what is not
committed stays; the segment that is written to goes by its age, but not when it is empty; records
that somebody has deleted (DeleteRecords) are gone, whatever is left; where both limits are set,
either of them takes. A segment goes as a whole: nobody is owed what lies in one whose latest record
is too old. A follower that takes in several batches at once rolls before all of them, or not at
all.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import final_leaders
from checkers.facts.altered import Altered, Topic, altered
from checkers.facts.deleted_records import deleted_to
from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.lives import runs
from checkers.history.run_info import dated_by_brokers, segment_ms_of
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.history.run_info import TopicFacts

TOLD: Final = "beginnings told of logs that lose what is old"
LOGS: Final = "logs of topics whose retention bites"
TAKEN: Final = "logs that lost their beginning to retention"
ROLLED: Final = "segments that one leader has written alone"
FIRST_LOOK: Final = "first_look_ms"
"""In run.json, of an arm: how long after its start a broker may first look after its logs."""
FIRST_LOOK_MS: Final = 30_000
"""Where nobody says: Kafka's default (LogManager.InitialTaskDelayMs before 3.8)."""
SLACK_NS: Final = 5_000_000_000
"""Beyond that, and beyond an interval of a second, on a busy machine."""
SLACK_MS: Final = 5_000
_CLOCKS_MS: Final = 1_000
"""By so much the times of records may be off that somebody else's clock gave them."""
_LIMITS: Final = "arm string, trial int, topic string, partition int, limit_ms bigint"
_BEGINNINGS: Final = (
    ("listed_offset", "asked_ms = -2", "offset"),
    ("read_at", "log_start_offset is not null", "log_start_offset"),
)
"""By kind of answer: which of them tell where a log begins, and by which column."""
_FIRSTS: Final = "arm string, trial int, topic string, partition int, node int, offset bigint"
Row = dict[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    leaders = final_leaders(history)
    acked: dict[Key, list[tuple[int, int]]] | None = None
    for row in history.rows("log_folder"):
        key, end = key_of(row), leaders.get(key_of(row))
        facts = history.run.topic(*key[:3])
        bites = facts.retention_ms is not None or facts.retention_bytes is not None
        if not bites or row["error"] is not None or row["kept"] is None:
            continue
        if end is None or end["node"] != row["node"]:
            continue
        outcome.saw(*key[:2], LOGS)
        begins = end["log_start_offset"] or 0
        if begins > 0 and not deleted_to(history, key):
            outcome.saw(*key[:2], TAKEN)
            if acked is None:
                acked = _acked(history)
            for says in _too_soon(history, row, facts, begins, acked.get(key, [])):
                outcome.add(_finding("expired-too-soon", row, says))
        if not _has_looked(history, row):
            outcome.unjudged(key[0], "what is kept too long: brokers began shortly before the end")
            continue
        for rule, says in _too_long(history, row, facts, end):
            outcome.add(_finding(rule, row, says))
    for finding in _told_too_soon(history, outcome):
        outcome.add(finding)
    for row, says in _too_late(history, outcome):
        outcome.add(_finding("rolled-too-late", row, says))
    return outcome


def _has_looked(history: History, row: Row) -> bool:
    """Whether its broker has run on for long enough before its folder was read."""
    of = runs(history).get((row["arm"], row["trial"], row["node"]), [])
    began = [t for t, up in of if t <= row["t"]]
    running = bool(of) and [up for t, up in of if t <= row["t"]][-1:] == [True]
    told = history.run.arms.get(row["arm"], {}).get(FIRST_LOOK)
    first_look_ms = FIRST_LOOK_MS if told is None else told
    return running and row["t"] - began[-1] >= first_look_ms * 1_000_000 + SLACK_NS


def _too_long(history: History, row: Row, facts: TopicFacts, end: Row) -> Iterator[tuple[str, str]]:
    kept = row["kept"]
    if not kept:
        return
    following = kept[1]["base_offset"] if len(kept) > 1 else row["end_offset"]
    committed = end["high_watermark"]
    if committed is not None and following > committed:
        return
    if facts.retention_bytes is not None and len(kept) > 1:
        left = sum(segment["bytes"] for segment in kept[1:])
        if left >= facts.retention_bytes:
            yield (
                "kept-beyond-size",
                f"has {left} bytes without its oldest segment, and keeps that, too; "
                f"retention.bytes={facts.retention_bytes}",
            )
    age_ms = _age_ms(history, row, kept[0]["newest_ms"])
    if facts.retention_ms is None or kept[0]["newest_ms"] < 0 or age_ms is None:
        return
    if age_ms > facts.retention_ms + SLACK_MS:
        yield (
            "kept-beyond-time",
            f"keeps a segment whose latest record is {age_ms / 1000:.1f} s old; "
            f"retention.ms={facts.retention_ms}",
        )


def _too_soon(
    history: History, row: Row, facts: TopicFacts, begins: int, acked: list[tuple[int, int]]
) -> Iterator[str]:
    """``acked``: offsets and append times (ms)."""
    left = sum(segment["bytes"] for segment in row["kept"])
    by_size, by_time = facts.retention_bytes, facts.retention_ms
    if by_time is None and by_size is not None and left < by_size:
        yield f"begins at offset {begins}, and has {left} bytes left; retention.bytes={by_size}"
    if by_size is None and by_time is not None:
        lost = [(offset, ms) for offset, ms in acked if offset < begins]
        offset, newest_ms = max(lost, key=lambda one: one[1], default=(0, 0))
        age_ms = _age_ms(history, row, newest_ms)
        if lost and age_ms is not None and age_ms < by_time - _CLOCKS_MS:
            yield (
                f"begins at offset {begins}, behind offset {offset}, which was appended "
                f"{age_ms / 1000:.1f} s ago; retention.ms={by_time}"
            )


def _told_too_soon(history: History, outcome: Outcome) -> Iterator[Finding]:
    """One a broker and partition: against the append time of the record before the beginning."""
    run, later = history.run, altered(history)
    limits = [
        {**dict(zip(TP, key, strict=True)), "limit_ms": facts.retention_ms}
        for key in final_leaders(history)
        if (facts := run.topic(*key[:3])).retention_ms is not None and facts.retention_bytes is None
        if key[:3] not in later and not deleted_to(history, key)
    ]
    told = [
        history.frame(kind).where(f"type = 'ok' and {which}").select(
            *TP, "node", "t", F.col(begin).alias("offset"), F.lit(kind).alias("kind")
        )
        for kind, which, begin in _BEGINNINGS
        if history.has(kind)
    ]  # fmt: skip
    if not limits or not told or run.clock_offset_ns is None:
        return
    of = F.broadcast(history.table(limits, _LIMITS))
    begins = functools.reduce(lambda one, other: one.unionAll(other), told).join(of, TP)
    for one in begins.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(one["arm"], one["trial"], TOLD, one["count"])
    dated = history.frame("produce").where(
        "type = 'ok' and offset >= 0 and log_append_time_ms >= 0"
    )
    behind = (F.col("offset") + 1).alias("offset")
    dated = dated.select(*TP, behind, "log_append_time_ms").distinct()
    age_ms = ((F.col("t") - run.clock_offset_ns) / 1e6 - F.col("log_append_time_ms")).alias(
        "age_ms"
    )
    rows = begins.where("offset > 0").join(dated, [*TP, "offset"])
    rows = rows.select(*TP, "node", "t", "offset", "kind", "limit_ms", age_ms)
    young = rows.where(f"age_ms < limit_ms - {_CLOCKS_MS}").groupBy(*TP, "node", "limit_ms")
    one = F.min_by(F.struct("t", "offset", "kind", "age_ms"), "t").alias("one")
    first = young.agg(F.count("*").alias("n"), one).orderBy(*TP, "node")
    for row in first.toArrow().to_pylist():
        one, at = row["one"], {name: row[name] for name in ("node", "topic", "partition")}
        yield Finding(
            "expired-too-soon",
            f"node {row['node']} told {row['n']} times that its log of {row['topic']}-"
            f"{row['partition']} begins behind a record younger than its retention: at offset "
            f"{one['offset']}, behind one of {one['age_ms'] / 1000:.1f} s; "
            f"retention.ms={row['limit_ms']}",
            row["arm"],
            row["trial"],
            (
                Pick(one["kind"], {**at, "t": one["t"]}, rows=1),
                Pick("produce", {**at, "offset": one["offset"] - 1}, rows=1),
            ),
        )


def _too_late(history: History, outcome: Outcome) -> Iterator[tuple[Row, str]]:
    """One a log."""
    leaders, later = final_leaders(history), altered(history)
    own: dict[Key, tuple[Row, list[Row]]] = {}
    limits: dict[Key, tuple[int, float]] = {}
    for row in history.rows("log_folder"):
        key = key_of(row)
        end, limit = leaders.get(key), _limit(history, key, later)
        if limit is None or row["error"] is not None:
            continue
        if end is None or end["node"] != row["node"] or not row["epochs"]:
            continue
        alone_from = row["epochs"][-1]["first_offset"]
        kept = [one for one in row["kept"] or () if one["base_offset"] >= alone_from]
        if kept:
            own[key], limits[key] = (row, kept), limit
    if not own:
        return
    begun = _begun_ms(history, own)
    for key, (row, kept) in own.items():
        limit_ms, since_ms = limits[key]
        for segment in kept:
            first_ms = begun.get((*key, segment["base_offset"]))
            if first_ms is None or segment["newest_ms"] < 0:
                continue
            outcome.saw(*key[:2], ROLLED)
            if segment["newest_ms"] > max(first_ms + limit_ms, since_ms) + _CLOCKS_MS:
                spans_ms = segment["newest_ms"] - first_ms
                yield (
                    row,
                    f"has a segment at offset {segment['base_offset']} with records of "
                    f"{spans_ms / 1000:.1f} s, all of its present leader; segment.ms={limit_ms}",
                )
                break


def _limit(
    history: History, key: Key, later: Mapping[Topic, Altered | None]
) -> tuple[int, float] | None:
    """How old a segment may be (ms), and from when on (ms); None: nobody says, or not for sure."""
    run, since_ms = history.run, 0.0
    if key[:3] not in later:
        facts = run.topic(*key[:3])
        limit_ms, dated = facts.segment_ms, facts.log_append_time
    else:
        of = later[key[:3]]
        if of is None or run.clock_offset_ns is None:
            return None
        limit_ms, dated = segment_ms_of(of.configs), dated_by_brokers(of.configs, run.brokers)
        since_ms = (of.owed_t - run.clock_offset_ns) / 1e6
    return None if limit_ms is None or not dated else (limit_ms, since_ms)


def _begun_ms(
    history: History, own: Mapping[Key, tuple[Row, list[Row]]]
) -> dict[tuple[Any, ...], int]:
    """When the first record of each segment was appended (ms), as its leader's log was read."""
    table = [
        {**dict(zip(TP, key, strict=True)), "node": row["node"], "offset": one["base_offset"]}
        for key, (row, kept) in own.items()
        for one in kept
    ]
    firsts = history.table(table, _FIRSTS)
    read = history.frame("log_read").where("append_time_ms >= 0")
    names = [*TP, "node", "offset"]
    rows = read.join(F.broadcast(firsts), names).select(*TP, "offset", "append_time_ms")
    return {
        (*key_of(one), one["offset"]): one["append_time_ms"] for one in rows.toArrow().to_pylist()
    }


def _age_ms(history: History, row: Row, time_ms: int) -> float | None:
    """How old a time of a record was when the folder was read; None: nobody tied the clocks."""
    run = history.run
    if run.clock_offset_ns is None:
        return None
    return float(row["t"] - run.clock_offset_ns) / 1e6 - time_ms


def _acked(history: History) -> dict[Key, list[tuple[int, int]]]:
    """By partition, the offset and the append time of each acknowledged record that has one, of
    topics that go by `retention_ms`."""
    found: dict[Key, list[tuple[int, int]]] = {}
    told = history.frame("produce").where("type = 'ok' and offset >= 0 and log_append_time_ms >= 0")
    topics = sorted({key[2] for key in final_leaders(history)
                     if history.run.topic(*key[:3]).retention_ms is not None})  # fmt: skip
    rows = told.where(told["topic"].isin(topics)).select(*TP, "offset", "log_append_time_ms")
    for row in rows.toArrow().to_pylist():
        found.setdefault(key_of(row), []).append((row["offset"], row["log_append_time_ms"]))
    return found


def _finding(rule: str, row: Row, says: str) -> Finding:
    at = {name: row[name] for name in ("node", "topic", "partition")}
    return Finding(
        rule,
        f"node {row['node']}'s log of {row['topic']}-{row['partition']} {says}",
        row["arm"],
        row["trial"],
        (Pick("log_folder", at, rows=1), Pick("log_end", at, rows=1)),
    )


PROMISE: Final = Promise(
    name="retention",
    says="A log loses what is too old or too much, and nothing else.",
    source="UnifiedLog.deleteOldSegments, LogSegment.shouldRoll; topic configs retention.ms, "
    "retention.bytes and segment.ms",
    rules={
        "kept-beyond-size": "A log is not longer than its retention and one segment.",
        "kept-beyond-time": "What is older than its retention goes.",
        "expired-too-soon": "What is within the retention stays.",
        "rolled-too-late": "A segment has no records further apart than it may be old.",
    },
    evidence={
        LOGS: "that were read, of final leaders",
        TOLD: "to who asked its leader where it begins, or read it",
        TAKEN: "of those",
        ROLLED: "of topics that set how old a segment may be",
    },
    unknown_when=("no folder of such a topic was read",),
    blind=(
        "what is kept too long by a broker that began less than 35 s before the end",
        "topics with both limits, or with neither; followers, and leaders of before",
        "segments that followers, or leaders of before, have written to; those of a size",
        "when it went, where nobody asks meanwhile: only whether it may be gone in the end",
    ),
    timed=frozenset({"kept-beyond-size", "kept-beyond-time"}),
    check=check,
)
