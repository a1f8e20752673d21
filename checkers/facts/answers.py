"""What brokers answered to readers of metadata, folded to what differs.

Two foldings of the `metadata` rows, each one pass in Spark whose result grows with what was decided
and not with how often it was read:

    shown   about a partition: by broker and life, every (leader epoch, leader, ISR, error) shown
    named   about a topic: by broker, life and era, every set of partitions that one answer named,
            with the controller that it told of; a topic that is not known is an empty set

An *era* counts the steps of the topic's deletion (``requested``, ``gone``) before the read; a read
that spans a step, or the end of a life, has none, and is compared with nothing.

``forged``: a forger had told this broker of this partition (`checkers.facts.forgeries`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.forgeries import forgeries
from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.lives import with_life
from checkers.facts.office import in_order

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

_TIMES: Final = ("first_t", "first_invoke_t", "last_invoke_t", "last_t", "n")
_SPANS: Final = (
    "arm string, trial int, topic string, partition int, node int, _from bigint, _to bigint"
)
Topic = tuple[str, int, str]
Node = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """``n`` answers of one broker about one partition. Times in ns; ``isr`` is sorted."""

    key: Key
    node: int
    life: int | None
    era: int | None
    leader_epoch: int
    leader: int | None
    isr: tuple[int, ...] | None
    error: int | None
    forged: bool
    first_t: int
    first_invoke_t: int
    last_invoke_t: int
    last_t: int
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """``n`` answers of one broker about one topic. ``error``: why it told of no partition."""

    topic: Topic
    node: int
    life: int | None
    era: int | None
    partitions: frozenset[int]
    error: int | None
    controller_id: int | None
    first_t: int
    first_invoke_t: int
    last_invoke_t: int
    last_t: int
    n: int

    @property
    def broker(self) -> Node:
        return (*self.topic[:2], self.node)


def shown(history: History) -> list[Shown]:
    """Answers that name a leader epoch; gathered once a history."""
    found: list[Shown] = history.memo("answers shown", lambda: _shown(history))
    return found


def named(history: History) -> list[Named]:
    """Every answer, by topic; gathered once a history."""
    found: list[Named] = history.memo("answers named", lambda: _named(history))
    return found


def _shown(history: History) -> list[Shown]:
    if not history.has("metadata"):
        return []
    rows = history.frame("metadata").where(
        "type = 'ok' and leader_epoch >= 0 and node is not null and topic is not null "
        "and invoke_t is not null"
    )
    rows = with_forged(history, with_life(history, rows, F.col("invoke_t"), F.col("t")))
    rows = _with_era(history, rows)
    isr = F.array_sort("isr").alias("isr")
    state = ["node", "life", "era", "leader_epoch", "leader", "error", "forged"]
    found = rows.groupBy(*TP, *state, isr).agg(*_times())
    return [
        Shown(
            key=key_of(row),
            isr=None if row["isr"] is None else tuple(row["isr"]),
            **{name: row[name] for name in (*state, *_TIMES)},
        )
        for row in found.toArrow().to_pylist()
    ]


def with_forged(history: History, rows: DataFrame) -> DataFrame:
    """Add ``forged``: what the broker said of the partition may be what a forger told it."""
    spans = [
        {**dict(zip(TP, key, strict=True)), "node": node, "_from": span.from_t, "_to": span.to_t}
        for (key, node), told in forgeries(history).told.items()
        for span in _merged([(s.from_t, s.to_t) for s in told])
    ]
    if not spans:
        return rows.withColumn("forged", F.lit(False))
    table = history.table(spans, _SPANS)
    by = table.groupBy(*TP, "node").agg(F.collect_list(F.struct("_from", "_to")).alias("_spans"))
    joined = rows.join(F.broadcast(by), [*TP, "node"], "left")
    meets = F.expr("exists(_spans, s -> s._from <= t and invoke_t < s._to)")
    return joined.withColumn("forged", F.coalesce(meets, F.lit(False))).drop("_spans")


@dataclass(frozen=True, slots=True)
class _Merged:
    from_t: int
    to_t: int


def _merged(spans: list[tuple[int, int]]) -> list[_Merged]:
    """Overlapping spans made one: a forger repeats himself."""
    found: list[_Merged] = []
    for from_t, to_t in sorted(spans):
        if found and from_t <= found[-1].to_t:
            found[-1] = _Merged(found[-1].from_t, max(to_t, found[-1].to_t))
        else:
            found.append(_Merged(from_t, to_t))
    return found


def _named(history: History) -> list[Named]:
    if not history.has("metadata"):
        return []
    answers = history.frame("metadata").where(
        "type in ('ok', 'fail') and node is not null and topic is not null and invoke_t is not null"
    )
    # Rows of one answer share their times; a reader that numbers no reads is told apart by them.
    one = ["arm", "trial", "process", "node", "topic", "read", "invoke_t", "t"]
    read = answers.groupBy(*one).agg(
        F.array_sort(F.collect_set("partition")).alias("partitions"),
        F.max(F.when(F.col("partition").isNull(), F.col("error"))).alias("error"),
        F.max("controller_id").alias("controller_id"),
    )
    read = with_life(history, read, F.col("invoke_t"), F.col("t"))
    read = _with_era(history, read)
    state = ["arm", "trial", "topic", "node", "life", "era", "partitions", "error", "controller_id"]
    found = read.groupBy(*state).agg(*_times())
    return [
        Named(
            topic=(row["arm"], row["trial"], row["topic"]),
            partitions=frozenset(row["partitions"]),
            **{
                name: row[name]
                for name in ("node", "life", "era", "error", "controller_id", *_TIMES)
            },
        )
        for row in found.toArrow().to_pylist()
    ]


def hosts(history: History, topic: Topic, era: int) -> frozenset[int]:
    """Who had a replica of it when it went that has gone before this era, by ZooKeeper's log; who
    had one earlier, and was relieved of it, is told of a deletion like any other broker."""

    def make() -> dict[Topic, list[frozenset[int]]]:
        found: dict[Topic, list[frozenset[int]]] = {}
        assigned: dict[Topic, dict[int, tuple[int, ...]]] = {}
        for row in in_order(history):
            at = (row["arm"], row["trial"], row["topic"])
            if row["what"] == "topic" and row["step"] == "removed":
                replicas = assigned.pop(at, {}).values()
                found.setdefault(at, []).append(frozenset(n for of in replicas for n in of))
            elif row["what"] == "topic" and row["partition"] is not None:
                assigned.setdefault(at, {})[row["partition"]] = tuple(row["replicas"] or ())
        return found

    known: dict[Topic, list[frozenset[int]]] = history.memo("hosts", make)
    went = known.get(topic, [])
    return went[era // 2 - 1] if 0 < era // 2 <= len(went) else frozenset()


def deletion_steps(history: History) -> dict[Topic, list[dict[str, Any]]]:
    """By topic, the steps of its deletions in order of time."""
    found: dict[Topic, list[dict[str, Any]]] = {}
    for row in sorted(history.rows("topic_deletion"), key=lambda r: (r["t"], r["step"] == "gone")):
        if row["topic"] is not None:
            found.setdefault((row["arm"], row["trial"], row["topic"]), []).append(row)
    return found


def _with_era(history: History, rows: DataFrame) -> DataFrame:
    steps = [
        {
            "arm": topic[0],
            "trial": topic[1],
            "topic": topic[2],
            "_before": [step["t"] - (step["error_ns"] or 0) for step in of],
            "_after": [step["t"] + (step["error_ns"] or 0) for step in of],
        }
        for topic, of in deletion_steps(history).items()
    ]
    if not steps:
        return rows.withColumn("era", F.lit(0))
    table = history.table(
        steps, "arm string, trial int, topic string, _before array<bigint>, _after array<bigint>"
    )
    joined = rows.join(F.broadcast(table), ["arm", "trial", "topic"], "left")
    # The steps that were certainly over when it was asked, and those that may have come by then.
    over = F.expr("coalesce(size(filter(_after, s -> s < invoke_t)), 0)")
    begun = F.expr("coalesce(size(filter(_before, s -> s <= t)), 0)")
    era = F.when(F.col("_after").isNull(), F.lit(0)).when(over == begun, over)
    return joined.withColumn("era", era).drop("_before", "_after")


def _times() -> tuple[Column, ...]:
    return (
        F.min("t").alias("first_t"),
        F.min("invoke_t").alias("first_invoke_t"),
        F.max("invoke_t").alias("last_invoke_t"),
        F.max("t").alias("last_t"),
        F.count("*").alias("n"),
    )
