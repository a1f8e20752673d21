"""Answers of brokers that did not run: who was asked after a process had ended, or was paused, is
answered by it only once it goes on.

The harness ends, pauses and begins processes, and writes that down once one has ended and before it
goes on (`checkers.facts.lives`). So no operation was begun and answered by a broker within a time
in which that did not run: whoever tells of it tells it of another broker, or of another time. Of an
acknowledged record that names no broker it is the leader who answered: the one that was committed
all the while, and known as such for `KNOWN_NS` to whoever else ever led it, who ran, and whom no
fault kept from hearing of it.

Lawful, and similar: what had been sent before, and was answered already; what waits in a socket
until its broker goes on; a leader of before that has not heard of its successor yet, as one that
was paused shortly before it was succeeded, or meanwhile, or whose link is slow by which it hears of
leaders; records that a consumer had fetched before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.faults import ASKING, faults_within
from checkers.facts.leadership import TP, leadership
from checkers.facts.lives import Node, runs
from checkers.facts.timeline import FOREVER, FROM, TO, Timeline
from checkers.history import OPERATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

KNOWN_NS: Final = 2_000_000_000
BACK_NS: Final = 10_000_000_000
"""So long after it went on a broker may have to register anew before it is told anything."""
_NODE: Final = ("arm", "trial", "node")
_BY: Final = ("arm", "trial", "kind", "process", "node")
Trial = tuple[str, int]


def answered_by_nobody(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: who was answered how often by whom, who did not run as it was asked."""
    away = {node: list(_away(of)) for node, of in runs(history).items()}
    if not any(away.values()):
        return []
    frames = [*_by_nodes(history, away), *_by_leaders(history, away)]
    if not frames:
        return []
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"{row['process']} ({row['kind']}): node {row['node']} answered {row['count']} times "
            "what it was asked while it did not run",
        )
        for row in rows.groupBy(*_BY).count().toArrow().to_pylist()
    )


def _away(of: list[tuple[int, bool]]) -> Iterator[tuple[int, int]]:
    """From when until when (ns) a process did not run."""
    down_t: int | None = None
    for t, running in of:
        if running and down_t is not None:
            yield down_t, t
        down_t = None if running else t if down_t is None else down_t
    if down_t is not None:
        yield down_t, FOREVER


def _by_nodes(history: History, away: dict[Node, list[tuple[int, int]]]) -> Iterator[DataFrame]:
    spans = [
        {**dict(zip(_NODE, node, strict=True)), FROM: begin, TO: end}
        for node, of in away.items()
        for begin, end in of
    ]
    timeline = Timeline(spans, _NODE)
    for kind in sorted(OPERATIONS):
        if history.has(kind):
            rows = history.frame(kind).where("node is not null and (type = 'ok' or error >= 0)")
            rows = rows.select("arm", "trial", "process", "node", "invoke_t", "t")
            yield _within(history, rows, timeline, kind)


def _by_leaders(history: History, away: dict[Node, list[tuple[int, int]]]) -> Iterator[DataFrame]:
    spans: list[dict[str, Any]] = []
    for key, of in leadership(history).items():
        # `epochs` has those as well that nobody saw, and whose time nobody knows.
        ends = [*(epoch.earliest_t for epoch in of.epochs[1:]), FOREVER]
        for epoch, until_t in zip(of.epochs, ends, strict=True):
            if epoch.leader is None or epoch.committed_t is None or until_t is None:
                continue
            own = {**dict(zip(TP, key, strict=True)), "_leader": epoch.leader}
            nodes = {one.leader for one in of.epochs if one.leader is not None} - {epoch.leader}
            others = [span for node in nodes for span in away.get((*key[:2], node), ())]
            for begin, end in away.get((*key[:2], epoch.leader), ()):
                span = max(begin, epoch.committed_t + KNOWN_NS), min(end, until_t)
                heard_t = epoch.committed_t - BACK_NS
                missed = any(a < span[1] and b > heard_t for a, b in others) or any(
                    fault.name not in ASKING and any(map(fault.concerns, nodes))
                    for fault in faults_within(history, key[:2], epoch.committed_t, span[1])
                )
                if span[0] < span[1] and not missed:
                    spans.append({**own, FROM: span[0], TO: span[1]})
    if not spans or not history.has("produce"):
        return
    acked = history.frame("produce").where("type = 'ok' and acks <> 0 and node is null")
    rows = acked.select(*TP, "process", "invoke_t", "t")
    timeline = Timeline(spans, TP, {"_leader": "int"})
    yield _within(history, rows, timeline, "produce", who="_leader")


def _within(
    history: History, rows: DataFrame, timeline: Timeline, kind: str, who: str = "node"
) -> DataFrame:
    found = timeline.at(history, rows, F.col("invoke_t"), "inner").where(F.col("t") < F.col(TO))
    return found.select(
        "arm", "trial", F.lit(kind).alias("kind"), "process", F.col(who).alias("node")
    )
