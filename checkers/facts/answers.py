"""What brokers answered to readers of metadata, folded to what differs.

Two foldings of the `metadata` rows, each one pass in Spark whose result grows with what was decided
and not with how often it was read:

    shown   about a partition: by broker and life, every (leader epoch, leader, ISR, error) shown
            (a frame: there may be many)
    named   about a topic: by broker, life and era, every set of partitions that one answer named,
            with the controller that it told of; a topic that is not known is an empty set

An *era* counts the steps of the topic's deletion (``requested``, ``gone``) before the read; a read
that spans a step, or the end of a life, has none, and is compared with nothing.

``forged``: a forger had told this broker of this partition (`checkers.facts.forgeries`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.forgeries import forgeries
from checkers.facts.leadership import TP
from checkers.facts.lives import with_life
from checkers.facts.office import in_order
from checkers.facts.timeline import ALWAYS, FOREVER, FROM, TO, Timeline, merged, steps

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

_TIMES: Final = ("first_t", "first_invoke_t", "last_invoke_t", "last_t", "n")
Topic = tuple[str, int, str]
Node = tuple[str, int, int]


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


def named(history: History) -> list[Named]:
    """Every answer, by topic; gathered once a history."""
    found: list[Named] = history.memo("answers named", lambda: _named(history))
    return found


_STATE: Final = ("node", "life", "era", "leader_epoch", "leader", "error", "forged")


def shown_rows(history: History) -> DataFrame:
    """Answers that name a leader epoch, folded: TP, node, life, era, leader_epoch, leader, error,
    forged, isr (sorted), first_t, first_invoke_t, last_invoke_t, last_t (ns), n. Kept."""

    def make() -> DataFrame:
        rows = history.frame("metadata").where(
            "type = 'ok' and leader_epoch >= 0 and node is not null and topic is not null "
            "and invoke_t is not null"
        )
        rows = with_forged(history, with_life(history, rows, F.col("invoke_t"), F.col("t")))
        rows = _with_era(history, rows)
        isr = F.array_sort("isr").alias("isr")
        return rows.groupBy(*TP, *_STATE, isr).agg(*_times())

    return history.keep("answers shown", make)


def with_forged(history: History, rows: DataFrame) -> DataFrame:
    """Add ``forged``: what the broker said of the partition may be what a forger told it."""

    def make() -> Timeline:
        # From the beginning of each span to that of the next one: when that span is over.
        spans = [
            {**dict(zip(TP, key, strict=True)), "node": node, FROM: begin, TO: end, "_over_t": over}
            for (key, node), told in forgeries(history).told.items()
            for (begin, over), (_, end) in _followed(merged([(s.from_t, s.to_t) for s in told]))
        ]
        return Timeline(spans, (*TP, "node"), {"_over_t": "bigint"})

    timeline: Timeline = history.memo("forged spans", make)
    if not timeline.rows:
        return rows.withColumn("forged", F.lit(False))
    joined = timeline.at(history, rows, F.col("t"))
    meets = F.coalesce(F.col("invoke_t") < F.col("_over_t"), F.lit(False))
    return joined.withColumn("forged", meets).drop(FROM, TO, "_over_t")


Pair = tuple[int, int]


def _followed(spans: list[Pair]) -> Iterator[tuple[Pair, Pair]]:
    """Each of disjoint, ascending spans, with the step that it begins: until the next begins."""
    return zip(spans, steps([begin for begin, _ in spans])[1:], strict=True)


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
    """Add ``era``: how many steps of the topic's deletion were certainly over when it was asked,
    where by the answer no other can have come."""
    timeline: Timeline = history.memo("eras", lambda: _eras(history))
    if not timeline.rows:
        return rows.withColumn("era", F.lit(0))
    joined = timeline.at(history, rows, F.col("invoke_t"))
    era = F.when(F.col(FROM).isNull(), F.lit(0))  # nobody deletes that topic
    era = era.when((F.col("t") < F.col(TO)) & (F.col("_era") >= 0), F.col("_era"))
    return joined.withColumn("era", era).drop(FROM, TO, "_era")


def _eras(history: History) -> Timeline:
    spans: list[dict[str, Any]] = []
    for topic, of in deletion_steps(history).items():
        before = sorted(step["t"] - (step["error_ns"] or 0) for step in of)
        after = sorted(step["t"] + (step["error_ns"] or 0) for step in of)
        key = dict(zip(("arm", "trial", "topic"), topic, strict=True))
        at = ALWAYS
        for era, end in enumerate([*before, FOREVER]):
            begin = max(at, after[era - 1] + 1) if era else ALWAYS
            spans.append({**key, FROM: at, TO: begin, "_era": -1})  # a step is under way
            spans.append({**key, FROM: begin, TO: end, "_era": era})
            at = max(begin, end)
    rows = [span for span in spans if span[FROM] < span[TO]]
    return Timeline(rows, ("arm", "trial", "topic"), {"_era": "int"})


def _times() -> tuple[Column, ...]:
    return (
        F.min("t").alias("first_t"),
        F.min("invoke_t").alias("first_invoke_t"),
        F.max("invoke_t").alias("last_invoke_t"),
        F.max("t").alias("last_t"),
        F.count("*").alias("n"),
    )
