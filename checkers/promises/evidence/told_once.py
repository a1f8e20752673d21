"""What is told once by what it is, and is there twice.

Besides its number each row has what it is about: a read's answer about one partition, the state of
one partition in the end, what a plane took of one API until some moment. Two rows of that are one
row that was copied, or one of which the place was changed; both would be counted, and the promise
that takes either of them goes by chance.

``connection`` rows are written when a number changed: of one link no two in a row are alike.

Told of as often as it happens, and not looked at: roles that are taken up again, requests that are
sent again, records that are delivered again (`checkers.promises.polls`), states of znodes
(`checkers.promises.evidence.znodes`), records of one log (`checkers.promises.replicas`).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.unions import named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

Trial = tuple[str, int]
Row = Mapping[str, Any]
_GROWING: Final = {
    **dict.fromkeys(("produce", "probe"), ("process",)),
    **dict.fromkeys(
        ("forged", "metadata", "listed_offset", "epoch_end", "commit", "committed"),
        ("process", "topic", "partition"),
    ),
}
"""By kind whose operations are numbered, what a row is about: once in each operation."""
_COUNTED: Final = ("process", "node", "boot", "plane", "listener", "api")
"""What a row of `plane_use` is about: once at each time."""
_BLOCK: Final = 64
"""So many operations are one row when it is looked whether one is there twice: as many as a number
has bits, of which each tells that one of them is there."""
_OTHERS: Final[Mapping[str, Mapping[str | None, tuple[str, ...]]]] = {
    "final_state": {
        "node": ("node",),
        "partition": ("topic", "partition"),
        "replica": ("node", "topic", "partition"),
    },
    "log_end": {None: ("node", "topic", "partition")},
    "log_folder": {None: ("node", "topic", "partition")},
    "described": {None: ("node", "api", "name", "key")},
    "controller": {None: ("node", "boot", "event", "controller_epoch")},
    "exception": {None: ("node", "boot", "error", "place")},
    "source": {None: ("source", "boot")},
}
"""The same of kinds that do not grow with the load; by ``what``."""


def repeated(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: how many things of which kind."""
    counts: Counter[tuple[Trial, str]] = Counter()
    for row in _of_growing(history):
        counts[(row["arm"], row["trial"]), row["kind"]] += row["n"]
    counts.update(_of_others(history))
    counts.update(_unchanged(history))
    return [
        (key, f"{kind}: {n} things that are told of once are told of twice")
        for (key, kind), n in sorted(counts.items())
    ]


def _of_growing(history: History) -> list[Row]:
    parts = [
        _blocks(history, kind, about, F.expr(f"op div {_BLOCK}"), F.expr(f"op % {_BLOCK}"))
        for kind, about in _GROWING.items()
        if history.has(kind)
    ]
    if history.has("plane_use"):
        parts.append(_blocks(history, "plane_use", _COUNTED, F.col("t"), F.lit(0)))
    if not parts:
        return []
    rows = functools.reduce(lambda one, other: one.unionAll(other), parts)
    there = F.bit_count(F.bit_or("bit"))
    each = rows.groupBy("arm", "trial", "kind", "about", "block").agg(
        (F.count("*") - there).alias("n")
    )
    found = each.where("n > 0").groupBy("arm", "trial", "kind").agg(F.sum("n").alias("n"))
    return list(found.toArrow().to_pylist())


def _blocks(
    history: History, kind: str, about: Sequence[str], block: Column, place: Column
) -> DataFrame:
    """Each row's block, and the bit of its place in that."""
    rows = history.frame(kind).select(
        "arm",
        "trial",
        named(kind),
        F.xxhash64(*about).alias("about"),
        block.cast("bigint").alias("block"),
        F.expr("1L").alias("one"),
        place.cast("int").alias("place"),
    )
    bit = F.expr("shiftleft(one, place)").alias("bit")
    return rows.where("block is not null").select("arm", "trial", "kind", "about", "block", bit)


def _of_others(history: History) -> Iterator[tuple[Trial, str]]:
    for kind, by in _OTHERS.items():
        seen: Counter[tuple[Any, ...]] = Counter()
        for row in history.rows(kind):
            what = row.get("what")
            if what in by:
                place = tuple(row[name] for name in by[what])
                seen[row["arm"], row["trial"], what, *place] += 1
        for (arm, trial, *_), n in seen.items():
            if n > 1:
                yield (arm, trial), kind


def _unchanged(history: History) -> Iterator[tuple[Trial, str]]:
    last: dict[tuple[Any, ...], int] = {}
    for row in history.rows("connection"):
        link = tuple(row[name] for name in ("arm", "trial", "process", "node", "to", "link"))
        if last.get(link) == row["connections"]:
            yield (row["arm"], row["trial"]), "connection"
        last[link] = row["connections"]
