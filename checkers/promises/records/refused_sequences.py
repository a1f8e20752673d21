"""Sequences refused: idempotent producers that brokers drove to give up, for
`checkers.promises.records`.

An idempotent producer retries with the sequence that it sent before, and its leader, whoever that
is by then, knows what it has of it: written once (KIP-98). A leader that refuses the batch that
must come next as out of order (OUT_OF_ORDER_SEQUENCE_NUMBER) leaves the producer no way to go on
that writes each record once; Kafka's client and librdkafka give it up.

Lawful, and looks similar: a leader knows the last five batches of a producer, from a snapshot only
the last one. It loads a snapshot when it starts, and when its log is cut: of a leader that did
either since the refused records were first sent, nothing is said; but a start does not excuse it
where the producer has one request at a time with a broker (``in_flight``): what it sends again is
its last batch, or none. A topic that lost records
lawfully (an unclean election, say) lost their sequences with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import Key, key_of, leadership
from checkers.facts.trials import rows_of
from checkers.judging.excuses import excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "sequence-refused"
_OUT_OF_ORDER: Final = 45
_BY: Final = ("arm", "trial", "topic", "partition", "process")


def refused_sequences(history: History, outcome: Outcome, of: str) -> Iterator[Finding]:
    """``of``: what its excuses are shares of."""
    idempotent = {key for key, how in history.run.deliveries().items() if how == "idempotent"}
    if not idempotent:
        return
    refused = history.frame("produce").where(f"error = {_OUT_OF_ORDER}")
    found = refused.groupBy(*_BY).agg(
        F.count("*").alias("n"),
        F.min("invoke_t").alias("invoke_t"),
        F.min("t").alias("t"),
        F.min_by("value", "invoke_t").alias("value"),
    )
    known = excuses(history)
    one_by_one = {
        (*trial, one.process)
        for trial, of_it in history.run.workloads.items()
        for one in of_it
        if one.in_flight == 1
    }
    for row in found.orderBy(*_BY).toArrow().to_pylist():
        key = key_of(row)
        if (row["arm"], row["trial"], row["process"]) not in idempotent:
            continue
        excuse = known.of(*key, row["t"])
        leader = _leader(history, key, row["t"])
        if excuse is not None:
            outcome.excuse(*key[:2], RULE, excuse, of=of, n=row["n"])
        elif leader is None or _forgot(
            history, key, leader, row, one_by_one=(*key[:2], row["process"]) in one_by_one
        ):
            says = f"{row['process']} was refused its next sequence at {row['topic']}"
            says += f"-{row['partition']} by a leader that had loaded its producers since"
            outcome.unknown(*key[:2], says)
        else:
            yield _finding(row, leader)


def _leader(history: History, key: Key, t: int) -> int | None:
    """Who led it by the last commit before ``t`` (ns)."""
    of = leadership(history).get(key)
    led = [e for e in of.commits if (e.committed_t or 0) <= t] if of is not None else []
    return led[-1].leader if led else None


def _forgot(
    history: History, key: Key, leader: int, row: Mapping[str, Any], *, one_by_one: bool
) -> bool:
    """Whether it may know too little of producers, as it had loaded that since the records were
    first sent, when the producer told of the first refusal."""
    starts = [
        event
        for event in rows_of(history, "node_event", key[:2])
        if event["event"] == "start" and not one_by_one
    ]
    cuts = [cut for cut in history.rows("truncation") if key_of(cut) == key]
    return any(
        one["node"] == leader and row["invoke_t"] < one["t"] <= row["t"] for one in (*starts, *cuts)
    )


def _finding(row: Mapping[str, Any], leader: int) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        RULE,
        f"{row['process']}, which is idempotent, had to give up: leader {leader} of "
        f"{row['topic']}-{row['partition']} refused its next records as out of order, the first "
        f"value {row['value']}",
        row["arm"],
        row["trial"],
        (
            Pick("leadership", {**at, "leader": leader}, rows=1, last=True, to_t=row["t"]),
            Pick("produce", {**at, "process": row["process"], "error": _OUT_OF_ORDER}, rows=3),
        ),
    )
