"""What cannot be: of stored rows by themselves, whatever their writers' files were like.

`source` rows say what finishing saw of each live file. These are the rows that are judged: whether
each one's times stand in their order, whether it says what every row of its kind says
(`checkers.facts.whole_rows`), and whether each client's operations, which it numbers as it begins
them, were begun in that order. One pass over the kinds that grow with the load, of which a row a
writer and kind leaves Spark; the others come to the driver anyway, and are looked at there one by
one, where they are few or something is wrong with them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.unions import is_true, named
from checkers.facts.whole_rows import lacking, lacks
from checkers.history import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_OPERATION: Final = ("invoke_t", "t")
_IN_ORDER: Final = {
    **dict.fromkeys(
        (
            *("produce", "fetch", "metadata", "commit", "committed", "forged"),
            *("listed_offset", "epoch_end", "records_deleted", "read_at", "read_below"),
            *("coordinator", "group_step", "admin_request", "repeated"),
        ),
        _OPERATION,
    ),
    "probe": ("planned_t", "invoke_t", "t"),
    "control_send": ("enqueue_t", "t"),
    "control_response": ("send_t", "t"),
    "control_request": ("receive_t", "enqueue_t", "dequeue_t", "handled_t", "t"),
    **dict.fromkeys(("channel_queue", "waiting"), ("from_t", "t")),
    **dict.fromkeys(("plane_use", "metadata_update", "log_read"), ("t",)),
}
"""By kind that grows with the load, times that follow each other; what is null is left out."""
_EXACT: Final = frozenset(
    {
        *("leadership", "zk_write", "leader_change", "replica_stop", "truncation", "isr_change"),
        *("controller", "topic_deletion", "node_event", "fault"),
    }
)
"""Kinds besides these by whose times others are judged."""
TOLD_AFTERWARDS: Final = frozenset({"leadership", "topic_deletion"})
"""What ZooKeeper's own log may tell at the end of a run, with the times of then."""
_NUMBERED: Final = ("produce", "fetch", "commit", "committed")
_BLOCK: Final = 256
"""So many operations of a client are one row when their order is looked at: a jump inside one block
shows in the next, unless the clock went back again by then."""
_MANY: Final = 2_000
"""Rows of a kind that come to the driver, and which yet the engine looks through first."""
_KEYS: Final = ["arm", "trial", "kind", "process"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Of one writer's rows of a kind. ``wrong``: rows whose times do not stand in their order;
    ``lacking``: rows that do not say what every row of the kind says; ``back_ns``: how far its
    operations were begun before earlier ones, at most."""

    key: tuple[str, int]
    kind: str
    process: str
    rows: int
    wrong: int
    lacking: int
    back_ns: int
    off_ns: int
    """By how much the rows' times may be off, at most."""
    first_t: int | None
    last_t: int | None
    """Of rows read off the clock."""
    columns: tuple[str, ...] = ()
    """Which columns those rows lack, or have wrong: of kinds that do not grow with the load."""


def times(history: History) -> list[Times]:
    """Looked at once a history."""
    found: list[Times] = history.memo("times", lambda: _times(history))
    return found


def _times(history: History) -> list[Times]:
    return [*_of_growing(history), *_of_others(history)]


def _of_others(history: History) -> Iterator[Times]:
    """Of kinds whose rows come to the driver."""
    kinds = KINDS.keys() - _IN_ORDER.keys() - {"source"}
    whole = _whole(history, [kind for kind in kinds if len(history.rows(kind)) > _MANY])
    for kind in kinds:
        by: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
        for row in (*history.rows(kind), *history.without_time(kind)):
            by.setdefault((row["arm"], row["trial"], row["process"]), []).append(row)
        for (arm, trial, process), rows in by.items():
            dated = [r["t"] for r in rows if r["error_ns"] is None and r["t"] is not None]
            void = [tuple(lacks(kind, row)) for row in rows if kind not in whole]
            off_ns = max(abs(row["error_ns"] or 0) for row in rows)
            yield Times(
                key=(arm, trial),
                kind=kind,
                process=str(process),
                rows=len(rows),
                wrong=0,
                lacking=sum(map(bool, void)),
                columns=tuple(sorted({name for names in void for name in names})),
                back_ns=0,
                off_ns=off_ns if kind in _EXACT else 0,
                first_t=min(dated, default=None),
                last_t=max(dated, default=None),
            )


def _whole(history: History, kinds: Iterable[str]) -> set[str]:
    """Those of which no row lacks anything, looked at where the rows are: one by one it takes
    longer than they are read."""
    frames = [
        history.frame(kind).select(
            named(kind), is_true(lacking(kind)).cast("int").alias("_lacking")
        )
        for kind in sorted(kinds)
    ]
    if not frames:
        return set()
    rows = functools.reduce(lambda a, b: a.unionAll(b), frames)
    found = rows.groupBy("kind").agg(F.max("_lacking").alias("lacking")).toArrow().to_pylist()
    return {row["kind"] for row in found if not row["lacking"]}


def _of_growing(history: History) -> list[Times]:
    frames = [_rows(history, kind) for kind in _IN_ORDER if history.has(kind)]
    if not frames:
        return []
    rows = functools.reduce(lambda a, b: a.unionAll(b), frames)
    blocks = rows.groupBy(*_KEYS, "_block").agg(
        F.count("*").alias("rows"),
        F.sum("_wrong").alias("wrong"),
        F.sum("_lacking").alias("lacking"),
        F.max("_off").alias("off_ns"),
        F.min("_t").alias("first_t"),
        F.max("_t").alias("last_t"),
        F.min("_begun").alias("_low"),
        F.max("_begun").alias("_high"),
    )
    earlier = (
        Window.partitionBy(*_KEYS).orderBy("_block").rowsBetween(Window.unboundedPreceding, -1)
    )
    blocks = blocks.withColumn("_back", F.max("_high").over(earlier) - F.col("_low"))
    found = blocks.groupBy(*_KEYS).agg(
        F.sum("rows").alias("rows"),
        F.sum("wrong").alias("wrong"),
        F.sum("lacking").alias("lacking"),
        F.max("off_ns").alias("off_ns"),
        F.min("first_t").alias("first_t"),
        F.max("last_t").alias("last_t"),
        F.greatest(F.max("_back"), F.lit(0)).alias("back_ns"),
    )
    return [
        Times(key=(row.pop("arm"), row.pop("trial")), **row) for row in found.toArrow().to_pylist()
    ]


def _rows(history: History, kind: str) -> DataFrame:
    numbered, in_order = kind in _NUMBERED, _IN_ORDER[kind]
    return history.frame(kind).select(
        "arm",
        "trial",
        named(kind),
        "process",
        F.expr(f"op div {_BLOCK}" if numbered else "bigint(null)").alias("_block"),
        F.expr("invoke_t" if numbered else "bigint(null)").alias("_begun"),
        is_true(F.expr(_wrong(in_order))).cast("int").alias("_wrong"),
        is_true(lacking(kind)).cast("int").alias("_lacking"),
        F.expr("if(error_ns is null, t, null)").alias("_t"),
        F.expr(_OFF_OF_OPERATIONS if in_order == _OPERATION else _OFF).alias("_off"),
    )


_OFF: Final = "abs(coalesce(error_ns, bigint(0)))"
"""By how much a row's time may be off."""
_OFF_OF_OPERATIONS: Final = (
    f"if(coalesce(type = 'info' and error_ns <= t - invoke_t, false), bigint(0), {_OFF})"
)
"""An operation whose completion nobody saw may have ended at any time since it was begun: that it
says so makes its time no vaguer."""


def _wrong(names: tuple[str, ...]) -> str:
    """Whether any time lies before the one before it, by more than both may be off."""
    return (
        " or ".join(
            f"{earlier} - {later} > 2 * coalesce(error_ns, 0)"
            for number, later in enumerate(names)
            for earlier in names[:number]
        )
        or "false"
    )
