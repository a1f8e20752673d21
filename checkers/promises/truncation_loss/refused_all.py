"""acks=all refused for too few in sync while enough were, for `checkers.promises.truncation_loss`.

A leader answers NOT_ENOUGH_REPLICAS only while fewer replicas than ``min.insync.replicas`` are in
the committed in-sync set that it knows (Partition.appendRecordsToLeader; one that it has asked for
counts when it is committed). So what was sent long after a set that is large enough was committed,
and answered before any that is too small can have been, is not refused so. Who is refused goes
without, for no reason that anybody could see.

A leader hears of a larger set by the answer to its own AlterPartition, or of any with the
LeaderAndIsr that makes it leader: when it says so, or within `HEARD_NS`. Lawful, and looks similar:
a partition whose states nobody dates, or of which some are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.decisions import Decision, lives
from checkers.facts.leadership import TP, key_of
from checkers.facts.timeline import FOREVER, FROM, TO, Timeline
from checkers.judging.witness import Finding, Pick
from checkers.promises.truncation_loss.shortages import HEARD_NS, is_led, knew, known, least

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "refused-above-min-isr"
_TOO_FEW: Final = (19, 20)
"""NOT_ENOUGH_REPLICAS, before and after the append."""
_MS: Final = 1_000_000
Span = tuple[int, int]


def refused_all(history: History) -> Iterator[Finding]:
    if not history.has("produce"):
        return
    refused = history.frame("produce").where("acks = -1").where(F.col("error").isin(*_TOO_FEW))
    heard = known(history)
    spans = [
        {**dict(zip(TP, key, strict=True)), FROM: begin, TO: end}
        for key, of in lives(history).items()
        for begin, end in (_enough(history, heard, of[0]) if len(of) == 1 else ())
    ]
    if not spans:
        return
    rows = refused.select(*TP, "process", "value", "error", "invoke_t", "t")
    found = Timeline(spans, TP).at(history, rows, F.col("invoke_t"), "inner")
    found = found.where(F.col("t") < F.col(TO))
    each = found.groupBy(*TP).agg(
        F.count("*").alias("n"), F.min_by(F.struct("value", "error", "t"), "t").alias("first")
    )
    for row in each.orderBy(*TP).toArrow().to_pylist():
        yield _finding(row)


def _enough(
    history: History, heard: dict[tuple[Any, ...], int], states: Sequence[Decision]
) -> Iterator[Span]:
    """When (ns) its leader certainly knew of a set that is large enough."""
    offset_ns, off_ns = history.run.clock_offset_ns, history.run.clock_error_ns
    if offset_ns is None or not states:
        return
    wanted = max(1, history.run.topic(*states[0].key[:3]).min_insync_replicas)
    begun_t: int | None = None
    before: Decision | None = None
    epochs: set[int] = set()
    for state in states:
        told_t = knew(heard, state, state.leader_epoch not in epochs)
        epochs.add(state.leader_epoch)
        missed = before is not None and state.partition_epoch != before.partition_epoch + 1
        before = state
        if state.commit_ms is None:
            begun_t = None
            continue
        written_t = state.commit_ms * _MS + offset_ns
        enough = state.isr is not None and is_led(state)
        enough = enough and len(state.isr or ()) >= least(history, state.key, state, wanted)
        if begun_t is not None and not (enough and not missed):
            yield begun_t, written_t - off_ns
            begun_t = None
        if enough and begun_t is None:
            begun_t = written_t + _MS + off_ns + HEARD_NS if told_t is None else told_t
    if begun_t is not None:
        yield begun_t, FOREVER


def _finding(row: dict[str, Any]) -> Finding:
    arm, trial, topic, partition = key_of(row)
    at, first = {"topic": topic, "partition": partition}, row["first"]
    return Finding(
        RULE,
        f"{row['n']} records of {topic}-{partition} with acks=all were refused with error "
        f"{first['error']}, the first value {first['value']}, though enough were in sync",
        arm,
        trial,
        (
            Pick("leadership", at, to_t=first["t"], rows=2, last=True),
            Pick("produce", {**at, "value": first["value"]}, rows=1),
        ),
    )
