"""Acknowledged without all that are in sync: every acks=all answer to a record that a member of the
in-sync set cannot have, for `checkers.promises.truncation_loss`.

The harness ends and stops brokers, and knows when. Who does not run fetches nothing: what is
offered after that is not in its log before it runs again. As long as it is in the committed set,
nobody may say that all in sync have it; a smaller set is to be committed first (KIP-497: a leader
counts on those who leave until the controller has agreed). Such a record need not be lost for it:
it is, when that broker is the next to lead.

Lawful, and looks similar: a record that was offered before the broker was ended, or answered after
the smaller set was committed, or after the broker ran again. When a set began to be in force, and
ceased to be, is told by the store's own clock, each as late, and as early, as it may have been; no
leader's word is needed, for whichever leads must count on the committed set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.decisions import Decision, lives
from checkers.facts.leadership import NEVER, TP, Key
from checkers.facts.lives import runs
from checkers.judging.excuses import Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.truncation_loss.lost import LEVELS

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "acked-without-in-sync"
UNABLE: Final = "records offered with acks=all while a member of the in-sync set did not run"
_MS: Final = 1_000_000
_SPANS: Final = (
    "arm string, trial int, topic string, partition int, _number int, _from bigint, _to bigint"
)


@dataclass(frozen=True, slots=True)
class _Unable:
    """``node`` was in sync and did not run, from ``from_t`` to ``to_t`` (ns), both certain."""

    key: Key
    node: int
    state: Decision
    from_t: int
    to_t: int


def judge_all_in_sync(history: History, outcome: Outcome, known: Excuses) -> None:
    unable = list(_unable(history))
    if not unable or not history.has("produce"):
        return
    spans = [
        dict(zip(TP, one.key, strict=True)) | {"_number": n, "_from": one.from_t, "_to": one.to_t}
        for n, one in enumerate(unable)
    ]
    table = F.broadcast(history.table(spans, _SPANS))
    offers = history.frame("produce").where("acks = -1 and value is not null").join(table, TP)
    ok = F.expr("type = 'ok' and t < _to")
    counted = (
        offers.where("invoke_t > _from and invoke_t < _to")
        .groupBy("_number")
        .agg(
            F.count("*").alias("offered"),
            F.count(F.when(ok, 1)).alias("n"),
            F.min_by("value", F.when(ok, F.col("t"))).alias("value"),
        )
    )
    for row in counted.orderBy("_number").toArrow().to_pylist():
        one = unable[row["_number"]]
        arm, trial = one.key[:2]
        outcome.saw(arm, trial, UNABLE, row["offered"])
        if not row["n"]:
            continue
        if one.key in known.forged:
            outcome.excuse(arm, trial, RULE, "forged", of=LEVELS[-1], n=row["n"])
            continue
        outcome.add(_finding(one, row), row["n"])


def _unable(history: History) -> Iterator[_Unable]:
    offset_ns = history.run.clock_offset_ns
    if offset_ns is None:
        return
    error_ns, away = history.run.clock_error_ns, _away(history)
    for key, of in sorted(lives(history).items()):
        for number, life in enumerate(of):
            born = of[number + 1][0] if number + 1 < len(of) else None
            for node in {n for state in life for n in state.isr or ()}:
                for first, after in _in_sync(life, born, node):
                    if first.commit_ms is None or (after is not None and after.commit_ms is None):
                        continue
                    from_t = (first.commit_ms + 1) * _MS + offset_ns + error_ns
                    to_t = NEVER
                    if after is not None and after.commit_ms is not None:
                        to_t = after.commit_ms * _MS + offset_ns - error_ns
                    for begin, end in away.get((*key[:2], node), ()):
                        span = max(begin, from_t), min(end, to_t)
                        if span[0] < span[1]:
                            yield _Unable(key, node, first, *span)


def _in_sync(
    life: list[Decision], born: Decision | None, node: int
) -> Iterator[tuple[Decision, Decision | None]]:
    """Each stretch of states that have it in sync: its first, and what was committed after its
    last; None: nothing. What follows a state that was missed ends a stretch without saying when:
    then the last that is known of it counts for nothing."""
    first: Decision | None = None
    for state, after in pairwise([*life, born]):
        assert state is not None
        if node not in (state.isr or ()):
            first = None
            continue
        first = first or state
        gap = (
            after is not None
            and after is not born
            and after.partition_epoch != state.partition_epoch + 1
        )
        if gap:
            if first is not state:
                yield first, state
            first = None
        elif after is None or after is born or node not in (after.isr or ()):
            yield first, after


def _away(history: History) -> dict[tuple[str, int, int], list[tuple[int, int]]]:
    """When the harness did not let a node run, by node."""
    found: dict[tuple[str, int, int], list[tuple[int, int]]] = {}
    for node, steps in runs(history).items():
        since: int | None = None
        for t, runs_on in steps:
            if not runs_on and since is None:
                since = t
            elif runs_on and since is not None:
                found.setdefault(node, []).append((since, t))
                since = None
        if since is not None:
            found.setdefault(node, []).append((since, NEVER))
    return found


def _finding(one: _Unable, row: dict[str, Any]) -> Finding:
    arm, trial, topic, partition = one.key
    at = {"topic": topic, "partition": partition}
    says = (
        f"{row['n']} records were offered to {topic}-{partition} and acknowledged with acks=all "
        f"while node {one.node} was in sync and did not run; the first is value {row['value']}"
    )
    picks = (
        one.state.pick,
        Pick("node_event", {"node": one.node}, to_t=one.from_t, last=True, rows=1),
        Pick("produce", {**at, "value": row["value"]}, rows=1),
    )
    return Finding(RULE, says, arm, trial, picks)
