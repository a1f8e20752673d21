"""Held up: acks=all that waits for who is not in sync, for `checkers.promises.departures`.

What is committed is what the in-sync set has (KIP-16: that is what a follower is dropped for). As
soon as a smaller set is committed, and it is large enough for min.insync.replicas, acks=all goes on
without those that are out of it, however long they stay away.

A partition was held up when for longer than `WAIT_NS` nothing that its leader had written with
acks=all was acknowledged (the final log says when it was written, with LogAppendTime, and in which
leader epoch), although it took records all the while (acks=1), the same smaller set was committed
from before the first of these was written until after the last of them had waited that long, and
nothing was done to any member of that set, or to anybody unnamed.

Lawful, and looks similar: too small a set (NOT_ENOUGH_REPLICAS); a member of the set that a fault
stops, slows or floods; a leader that has just been elected, or heard of the set a moment before; a
producer that is kept waiting by somebody who was the leader once; a set that is slow: where a
consumer was given anything that was written meanwhile, it was committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.decisions import Decision, lives
from checkers.facts.faults import faults_of
from checkers.facts.leadership import TP, Key
from checkers.facts.told_numbers import monotonic_ns
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "held-up"
OFFERED: Final = "records written with acks=all while a replica was out of sync"
WAIT_NS: Final = 2_500_000_000
"""What a healthy set acknowledges in milliseconds, and one on a busy machine within a second."""
HEARD_NS: Final = 500_000_000
"""By then a leader has heard of the set that it asked for."""
FEWEST: Final = 10
"""Records with acks=1 that were taken meanwhile. With acks=all one is enough: a producer that waits
for an answer keeps the next ones back."""
_MS: Final = 1_000_000
_SPANS: Final = (
    "arm string, trial int, topic string, partition int, _number int, _epoch int, _from bigint, "
    "_to bigint"
)


@dataclass(frozen=True, slots=True)
class _Span:
    """The set of ``state`` was committed, and left alone, from ``from_t`` to ``to_t`` (ns)."""

    key: Key
    state: Decision
    out: tuple[int, ...]
    from_t: int
    to_t: int


def held_up(history: History, outcome: Outcome) -> Iterator[Finding]:
    spans = list(_spans(history))
    if not spans or not history.has("produce"):
        return
    offset_ns, error_ns = history.run.clock_offset_ns or 0, history.run.clock_error_ns
    table = [
        {
            **dict(zip(TP, one.key, strict=True)),
            **{"_number": n, "_epoch": one.state.leader_epoch},
            **{"_from": one.from_t, "_to": one.to_t},
        }
        for n, one in enumerate(spans)
    ]
    place = F.broadcast(history.table(table, _SPANS))
    offers = history.frame("produce").where("value is not null and acks != 0").join(place, TP)
    offers = offers.where("t >= _from and invoke_t < _to")
    kept = history.frame("log_read").where("append_time_ms >= 0").join(place, TP, "left_semi")
    kept = kept.groupBy(*TP, "value").agg(
        monotonic_ns(F.min("append_time_ms"), offset_ns).alias("_written"),
        F.max("leader_epoch").alias("_in"),
    )
    own = offers.join(kept, [*TP, "value"]).where("_in = _epoch")
    given = history.frame("fetch").where("type = 'ok' and value is not null")
    given = given.join(place, TP, "left_semi")
    given = given.groupBy(*TP, "value").agg(F.min("t").alias("_given_t"))
    own = own.join(given, [*TP, "value"], "left")
    moved = F.expr(f"_written > _from and _given_t < _to - {HEARD_NS}")
    waited = F.expr(
        f"acks = -1 and least(t, _to) >= greatest(_written, _from) + {WAIT_NS + error_ns}"
    )
    # Who comes back has all records a moment before the larger set is committed.
    acked = F.expr(f"acks = -1 and type = 'ok' and t < _to - {HEARD_NS}")
    taken = F.expr("acks = 1 and type = 'ok' and log_append_time_ms >= 0 and t < _to")
    found = own.groupBy("_number").agg(
        F.count(F.when(acked | waited, 1)).alias("offered"),
        F.count(F.when(waited, 1)).alias("waited"),
        F.count(F.when(acked, 1)).alias("acked"),
        F.count(F.when(taken, 1)).alias("taken"),
        F.count(F.when(moved, 1)).alias("moved"),
        F.min_by("value", F.when(waited, F.col("invoke_t"))).alias("value"),
        F.min_by("value", F.when(taken, F.col("t"))).alias("other"),
    )
    for row in found.orderBy("_number").toArrow().to_pylist():
        one = spans[row["_number"]]
        arm, trial = one.key[:2]
        if not row["offered"] or row["taken"] < FEWEST:
            outcome.unjudged(arm, "whether acks=all was held up, where little was offered")
            continue
        outcome.saw(arm, trial, OFFERED, row["offered"])
        if row["acked"]:
            continue
        if not row["moved"]:
            yield _finding(one, row)
            continue
        figures = outcome.arm(arm)
        figures["slow_sets"] = figures.get("slow_sets", 0) + 1
        says = "in-sync sets that acknowledged nothing in time, and of which consumers were given"
        outcome.unjudged(arm, f"{says} what was written meanwhile: slow, or acks=all unanswered")


def _spans(history: History) -> Iterator[_Span]:
    offset_ns = history.run.clock_offset_ns
    if offset_ns is None:
        return
    error_ns = history.run.clock_error_ns
    for key, of in sorted(lives(history).items()):
        wanted = history.run.topic(*key[:3]).min_insync_replicas
        for number, life in enumerate(of):
            born = of[number + 1][0] if number + 1 < len(of) else None
            for state, after in pairwise([*life, born]):
                assert state is not None
                out = _out(state, wanted)
                if not out or state.commit_ms is None:
                    continue
                if after is None or after is born or after.commit_ms is None:
                    continue  # nobody dates its end
                if after.partition_epoch != state.partition_epoch + 1:
                    continue
                from_t = (state.commit_ms + 1) * _MS + offset_ns + error_ns + HEARD_NS
                to_t = after.commit_ms * _MS + offset_ns - error_ns
                for begin, end in _undisturbed(history, key[:2], state, from_t, to_t):
                    yield _Span(key, state, out, begin, end)


def _out(state: Decision, wanted: int) -> tuple[int, ...]:
    """The replicas that are out of sync, where all others are enough, and one of them leads."""
    isr = set(state.isr or ())
    out = sorted((state.replicas or frozenset()) - isr)
    return tuple(out) if state.leader in isr and len(isr) >= wanted else ()


def _undisturbed(
    history: History, trial: tuple[str, int], state: Decision, from_t: int, to_t: int
) -> Iterator[tuple[int, int]]:
    """The parts of a span that are long enough and in which nothing was done to the set."""
    at = from_t
    for begin, end in [*_troubles(history, trial, frozenset(state.isr or ())), (to_t, to_t)]:
        if min(begin, to_t) - at > WAIT_NS:
            yield at, min(begin, to_t)
        at = max(at, end)


def _troubles(
    history: History, trial: tuple[str, int], members: frozenset[int]
) -> list[tuple[int, int]]:
    """When a fault that names one of them, or nobody, was in place, or one of them was ended,
    stopped or started, ascending."""
    of = faults_of(history, trial)
    found = [(one.from_t, one.to_t) for one in of if any(map(one.concerns, members))]
    for row in rows_of(history, "node_event", trial):
        if row["node"] in members:
            found.append((row["t"] - WAIT_NS, row["t"] + WAIT_NS))
    return sorted(found)


def _finding(one: _Span, row: dict[str, Any]) -> Finding:
    arm, trial, topic, partition = one.key
    at = {"topic": topic, "partition": partition}
    return Finding(
        RULE,
        f"none of {row['waited']} records written to {topic}-{partition} with acks=all was "
        f"acknowledged in {(one.to_t - one.from_t) / 1e9:.1f} s, while its leader "
        f"{one.state.leader} took {row['taken']} with acks=1 and only {list(one.state.isr or ())} "
        f"were in sync; {list(one.out)} was not",
        arm,
        trial,
        (
            one.state.pick,
            Pick("produce", {**at, "value": row["value"]}, rows=1),
            Pick("produce", {**at, "value": row["other"]}, rows=1),
        ),
    )
