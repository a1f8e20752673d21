"""Clients that stopped asking one sort of question, or asked none of it for long.

Each role has a rhythm, and a sort that ceases, while all else goes on, blinds the promises that
live of its answers; its first ones are there, and so nobody misses it (`checkers.facts.questions`
knows what was never asked). How long a sort rests in a sound run was measured on 200 of them, of
both systems and on machines that were three times too busy:

    each       of every broker, on a clock: at the end 3.1 s at most (`END_NS`), and of whichever
               broker, in between, 12.6 s, where a connection had to time out (`GAP_NS`)
    at all     asked of whoever coordinates, or of a group that has to be made first: at the end 3.2
               s at most, in between for as long as nobody coordinates
    paced      producers and consumers: they pause (7 s), and wait for free connections (13.2 s)

Blind: a partition, or a topic, that is left out of questions that go on about others; a hole after
healing that ends before the load does.

Both are as many times as long as `checkers.facts.strain` says of a busy machine. The end begins
once all is healed: who does not run then, or is cut off, is not asked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.after_healing import AfterHealing, Trial
from checkers.facts.clients import healed_trials

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

END_NS: Final = 6_000_000_000
GAP_NS: Final = 20_000_000_000
_SECOND_NS: Final = 1_000_000_000
_EACH: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata-reader": ("metadata",),
    "prober": ("probe",),
    "offset-reader": ("listed_offset", "epoch_end", "read_at"),
    "record-deleter": ("listed_offset", "records_deleted", "read_below"),
    "refused-asker": ("admin_request",),
    "group-stranger": ("commit", "coordinator"),
    "group-keeper": ("group_step ask", "group_step look"),
    "group-riser": ("group_step see",),
    "group-couple": ("group_step enter",),
    "group-absent": ("group_step enter",),
}
"""By role: kinds of rows, or one sort of a kind (`_DETAILS`)."""
_AT_ALL: Final[Mapping[str, tuple[str, ...]]] = {
    "group-keeper": tuple(
        f"group_step {step}" for step in ("commit", "join", "enter", "clear", "delete", "spare")
    ),
    "group-stranger": ("committed",),
    "group-couple": ("group_step sync",),
    "group-pair": ("group_step own", "group_step live"),
    "group-absent": ("group_step sync",),
}
_PACED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("producer", "direct-producer", "joint-producer"), ("produce",)),
    "consumer": ("fetch",),
}
_DETAILS: Final[Mapping[str, str]] = {
    "group_step": "step",
    "admin_request": "api",
    "probe": "api",
    "listed_offset": "case when believed_epoch >= 0 then 'by another epoch' "
    "when asked_ms = -1 then 'end' when asked_ms = -2 then 'beginning' "
    "when asked_ms >= 0 then 'time' end",
}
"""By kind, what tells its sorts apart, in Spark's SQL; null: of no sort."""
_BY: Final = ("arm", "trial", "process", "role", "sort")
Row = Mapping[str, Any]


def ceased(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: which sort of question who asked no more, or not for how long. Of trials
    whose clients run.json names, and whose load went on after healing."""
    healed = {k: s for k, s in healed_trials(history).items() if not isinstance(s, str)}
    roles = [
        {"arm": key[0], "trial": key[1], "process": workload.process, "role": workload.role}
        for key, workloads in history.run.workloads.items()
        if key in healed
        for workload in workloads
        if workload.role in _EACH.keys() | _PACED.keys()
    ]
    tables = (_EACH, _AT_ALL, _PACED)
    wanted = {sort.split()[0] for table in tables for sorts in table.values() for sort in sorts}
    kinds = [kind for kind in sorted(wanted) if history.has(kind)]
    if not roles or not kinds:
        return []
    known = history.table(roles, "arm string, trial int, process string, role string")
    frames = [_seconds(history, kind, known) for kind in kinds]
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    place = Window.partitionBy(*_BY).orderBy("first_t")
    at_all = rows.groupBy(*_BY, "kind", "second").agg(
        F.min("first_t").alias("first_t"), F.max("last_t").alias("last_t")
    )
    gap = F.col("first_t") - F.lag("last_t").over(place)
    of_all = at_all.withColumn("gap_ns", gap).groupBy(*_BY, "kind")
    by_process = of_all.agg(F.max("last_t").alias("last_t"), F.max("gap_ns").alias("gap_ns"))
    by_node = rows.where("node is not null").groupBy(*_BY, "kind", "node")
    each = by_node.agg(F.max("last_t").alias("last_t"))
    found: list[tuple[Trial, str]] = []
    for row in by_process.toArrow().to_pylist():
        found += _of_process(healed[row["arm"], row["trial"]], row)
    for row in each.toArrow().to_pylist():
        found += _of_node(healed[row["arm"], row["trial"]], row)
    return sorted(found)


def _seconds(history: History, kind: str, known: DataFrame) -> DataFrame:
    """When there were questions, second by second: what else is made of rows does not grow with how
    many there are."""
    detail = _DETAILS.get(kind)
    sort = F.lit(kind) if detail is None else F.concat(F.lit(f"{kind} "), F.expr(detail))
    rows = history.frame(kind).where("invoke_t is not null").withColumn("sort", sort)
    rows = rows.where("sort is not null").join(F.broadcast(known), ["arm", "trial", "process"])
    second = F.floor(F.col("invoke_t") / _SECOND_NS).alias("second")
    return rows.groupBy(*_BY, F.lit(kind).alias("kind"), "node", second).agg(
        F.min("invoke_t").alias("first_t"), F.max("invoke_t").alias("last_t")
    )


def _is_in(table: Mapping[str, tuple[str, ...]], row: Row) -> bool:
    return bool({row["kind"], row["sort"]} & set(table.get(row["role"], ())))


def _of_process(seen: AfterHealing, row: Row) -> Iterator[tuple[Trial, str]]:
    who = f"{row['process']} ({row['role']})"
    is_paced, is_each = _is_in(_PACED, row), _is_in(_EACH, row)
    limit_ns = int(seen.patience * GAP_NS) + seen.stood_ns
    if (is_paced or is_each) and (row["gap_ns"] or 0) > limit_ns:
        seconds = row["gap_ns"] / 1e9
        yield seen.key, f"{who}: there is no {row['sort']} of it for {seconds:.1f} s"
    if is_paced:
        quiet_ns = seen.until_t - row["last_t"]
    elif _is_in(_AT_ALL, row):
        quiet_ns = seen.until_t - max(row["last_t"], seen.since_t)
        limit_ns = int(seen.patience * END_NS) + seen.stood_ns
    else:
        return
    if quiet_ns > limit_ns and not seen.left_open.all and not seen.left_open.nodes:
        yield (
            seen.key,
            f"{who}: there is no {row['sort']} of it for the last {quiet_ns / 1e9:.1f} s",
        )


def _of_node(seen: AfterHealing, row: Row) -> Iterator[tuple[Trial, str]]:
    node = row["node"]
    runs = seen.nodes.get(node, {}).get("running")
    quiet_ns = seen.until_t - max(row["last_t"], seen.since_t)
    if not _is_in(_EACH, row) or quiet_ns <= int(seen.patience * END_NS) + seen.stood_ns:
        return
    if runs and seen.cannot_serve([node]) is None:
        who, long = f"{row['process']} ({row['role']})", f"{quiet_ns / 1e9:.1f} s"
        yield seen.key, f"{who}: it asked node {node} ({row['sort']}) no more in the last {long}"
