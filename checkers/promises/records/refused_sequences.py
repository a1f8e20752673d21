"""Sequences refused: idempotent producers that brokers drove to give up, for
`checkers.promises.records`.

An idempotent producer retries with the sequence that it sent before, and its leader, whoever that
is by then, knows what it has of it: written once (KIP-98). A leader that refuses the batch that
must come next as out of order (OUT_OF_ORDER_SEQUENCE_NUMBER) leaves the producer no way to go on
that writes each record once; Kafka's client and librdkafka give it up.

Lawful, and looks similar: a leader knows only the last batch of a producer from a snapshot
(`checkers.facts.producer_memory`): of one that loaded it since the refused records were first sent
nothing is said; but a start does not excuse it where the producer has one request at a time with a
broker (``in_flight``): what it sends again is its last batch, or none. A topic that lost records
lawfully (an unclean election, say) lost their sequences with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import key_of
from checkers.facts.producer_memory import leader_at, loaded_since
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
        led = leader_at(history, key, row["t"])
        leader = None if led is None else led[1]
        one = (*key[:2], row["process"]) in one_by_one
        if excuse is not None:
            outcome.excuse(*key[:2], RULE, excuse, of=of, n=row["n"])
        elif leader is None or loaded_since(
            history, key, leader, row["invoke_t"], row["t"], newest=one
        ):
            says = f"{row['process']} was refused its next sequence at {row['topic']}"
            says += f"-{row['partition']} by a leader that had loaded its producers since"
            outcome.unknown(*key[:2], says)
        else:
            yield _finding(row, leader)


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
