"""Records and questions refused for nothing: for `checkers.promises.records`.

What clients of a run send is sound: no error says that a record, or a question (`_KINDS`), is
malformed, too large or forbidden lawfully (Kafka's Errors; LogValidator, KafkaApis). That a
partition is led elsewhere, too few are in sync, or a producer's sequence is unknown are answers of
other promises, and lawful as such; but how many are in sync, and that they take their time,
concerns nobody who does not ask for all of them (Partition.appendRecordsToLeader,
ReplicaManager.delayedProduceRequestRequired). Not every system knows every question: that it does
not is no refusal (UNSUPPORTED_VERSION).

Nor is any request answered with an error that Kafka does not have for it: its client cannot know
what to do (`checkers.facts.answerable`).

``failed-for-nothing``: no request of a client's is answered UNKNOWN_SERVER_ERROR, unless the
harness has broken a disk: Kafka has other errors for all that comes from outside (a replica that is
gone, a store that is away), and this one for what no code foresaw (Errors.forException). Of
KAFKA_STORAGE_ERROR nobody is accused: a disk may fail by itself (`checkers.promises.activity`).

``refused-in-calm``: that there is no such partition, or that another leads it, says nobody to who
finds the leader by itself and sends a record long after all was healed
(`checkers.facts.calm_leaders`). Who asks one broker is told by that one (``leader-denies``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.answerable import ERRORS, STEPS
from checkers.facts.calm_leaders import DENIALS, LEADER, asked_in_calm
from checkers.facts.failings import UNKNOWN_SERVER_ERROR, failed_clients
from checkers.facts.leadership import TP, key_of
from checkers.judging.excuses import excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.refusals.failures import AUTHORIZER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

IN_CALM: Final = "refused-in-calm"
FAILED: Final = "failed-for-nothing"
_NEVER: Final = (2, 10, 17, 18, 21, 32, 35, 42, 43, 44, 76, 87, 89)
"""CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TOPIC, RECORD_LIST_TOO_LARGE, INVALID_REQUIRED_ACKS,
INVALID_TIMESTAMP, UNSUPPORTED_VERSION, INVALID_REQUEST, UNSUPPORTED_FOR_MESSAGE_FORMAT,
POLICY_VIOLATION, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD, THROTTLING_QUOTA_EXCEEDED."""
_OF_A_PRODUCER: Final = (45, 46, 47, 48, 49, 59, 90)
"""OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, PRODUCER_FENCED: to who is not
idempotent, and has neither sequences nor an epoch."""
_WITH_EPOCHS: Final = ("joint-producer",)
"""They send nothing again, and have sequences and epochs all the same."""
_FORBIDDEN: Final = (29, 30, 31, 53, 58)
_KINDS: Final = (
    *("fetch", "metadata", "listed_offset", "epoch_end", "read_at", "read_below"),
    *("records_deleted", "coordinator", "commit", "committed", "group_step", "repeated"),
)
_UNSOUND: Final = (2, 12, 17, 23, 24, 26, 28, 42, 43, 44)
"""CORRUPT_MESSAGE, OFFSET_METADATA_TOO_LARGE, INVALID_TOPIC, INCONSISTENT_GROUP_PROTOCOL,
INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_COMMIT_OFFSET_SIZE, INVALID_REQUEST,
UNSUPPORTED_FOR_MESSAGE_FORMAT, POLICY_VIOLATION (only topics that lose records are asked to): to
who asks."""
_OF_ALL: Final = (7, 19, 20)
"""REQUEST_TIMED_OUT; NOT_ENOUGH_REPLICAS, before and after the append: of acks=all alone."""


def judge_refused(history: History) -> Iterator[Finding]:
    forbidden = () if AUTHORIZER in history.run.brokers else _FORBIDDEN
    unasked = F.col("error").isin(*_OF_ALL) & (F.col("acks") != -1)
    odd = F.col("error").isin(*_NEVER, *forbidden) | unasked | _unanswerable("produce")
    rows = history.frame("produce").where(odd)
    rows = rows.unionByName(_of_producers(history))
    by = rows.groupBy("arm", "trial", "error").agg(
        F.count("*").alias("n"), F.min_by("value", "t").alias("value"), F.min("t").alias("t")
    )
    for row in sorted(by.toArrow().to_pylist(), key=lambda r: (r["arm"], r["trial"], r["t"])):
        error = row["error"]
        says = f"{row['n']} records were refused with error {error}, the first value {row['value']}"
        picks = (Pick("produce", {"error": error}, rows=3),)
        yield Finding("refused-for-nothing", says, row["arm"], row["trial"], picks)
    yield from _questions(history, (*_UNSOUND, *forbidden))


def judge_failures(history: History) -> Iterator[tuple[Finding, int]]:
    """One finding for each kind of request, and how many were answered so."""
    for one in failed_clients(history):
        if one.error == UNKNOWN_SERVER_ERROR and not one.broken:
            says = f"{one.says}, and nobody had broken a disk"
            picks = (Pick(one.kind, {"error": one.error}),)
            yield Finding(FAILED, says, *one.trial, picks), one.n


def _unanswerable(kind: str) -> Column:
    """An error that Kafka has for no such request. (Below 0 are those of clients' libraries.)"""
    error = F.col("error")
    if kind != "group_step":
        return (error > 0) & ~error.isin(*ERRORS[kind])
    odd = [(F.col("step") == step) & ~error.isin(*errors) for step, errors in STEPS.items()]
    return (error > 0) & functools.reduce(lambda one, other: one | other, odd)


def refused_in_calm(history: History, outcome: Outcome, of: str) -> Iterator[tuple[Finding, int]]:
    """One finding for each producer and partition, and how many records. ``of``: what its excuses
    are shares of."""
    sent = history.frame("produce").where("node is null and partition is not null")
    sent = sent.where("topic is not null and invoke_t is not null")
    asked = asked_in_calm(history, sent.select(*TP, "process", "invoke_t", "t", "error", "value"))
    if asked is None:
        return
    by, known = (*TP, "process", LEADER), excuses(history)
    denied = asked.where(F.col("error").isin(*DENIALS)).groupBy(*by)
    sums = denied.agg(
        F.count("*").alias("n"),
        F.min("t").alias("t"),
        *(F.min_by(name, "t").alias(name) for name in ("error", "value")),
    )
    for row in sums.orderBy(*by).toArrow().to_pylist():
        excuse = known.of(*key_of(row), row["t"])
        if excuse is not None:
            outcome.excuse(row["arm"], row["trial"], IN_CALM, excuse, of=of, n=row["n"])
            continue
        at = {"topic": row["topic"], "partition": row["partition"]}
        says = (
            f"{row['process']} sent {row['n']} records to {row['topic']}-{row['partition']} long "
            f"after all was healed, and was refused with error {row['error']}, the first value "
            f"{row['value']}; node {row[LEADER]} led it all the while"
        )
        picks = (
            Pick("leadership", at, to_t=row["t"], last=True, rows=1),
            Pick("produce", {**at, "process": row["process"], "error": row["error"]}, rows=3),
        )
        yield Finding(IN_CALM, says, row["arm"], row["trial"], picks), row["n"]


def _of_producers(history: History) -> DataFrame:
    """What only idempotent producers can be told, to who certainly is none."""
    plain = history.table(
        [
            {"arm": arm, "trial": trial, "process": one.process}
            for (arm, trial), of in history.run.workloads.items()
            for one in of
            if one.delivery not in (None, "idempotent") and one.role not in _WITH_EPOCHS
        ],
        "arm string, trial int, process string",
    )
    rows = history.frame("produce").where(F.col("error").isin(*_OF_A_PRODUCER))
    return rows.join(F.broadcast(plain), ["arm", "trial", "process"], "left_semi")


def _questions(history: History, never: tuple[int, ...]) -> Iterator[Finding]:
    asked = [
        history.frame(kind)
        .where(F.col("error").isin(*never) | _unanswerable(kind))
        .select("arm", "trial", "node", "error", F.lit(kind).alias("kind"))
        for kind in _KINDS
        if history.has(kind)
    ]
    if not asked:
        return
    rows = functools.reduce(lambda one, other: one.unionAll(other), asked)
    by = ("arm", "trial", "kind", "node", "error")
    for row in rows.groupBy(*by).count().orderBy(*by).toArrow().to_pylist():
        who = "a broker" if row["node"] is None else f"node {row['node']}"
        says = f"{who} refused {row['count']} questions ({row['kind']}) with error {row['error']}"
        picks = (Pick(row["kind"], {"node": row["node"], "error": row["error"]}, rows=3),)
        yield Finding("refused-for-nothing", says, row["arm"], row["trial"], picks)
