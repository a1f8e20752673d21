"""Values, folded (`checkers.facts.blocks`): blocks of which each value was offered once,
acknowledged, is in the final logs once, where it was acknowledged, and was read, if at all, by each
consumer once, under the leader epoch that it has there, the first and the last of them after they
were offered (what lies between them is not held against each other's times); and none of a leader
epoch that was over before the last of them was.

That is nearly all of a long history, and of these values nothing is left to be said but how many
there are (`checkers.facts.accounts` looks at all others one by one). Producers number their values,
so that those of one block were offered about the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

from checkers.facts.blocks import bit_of, block_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

VALUE_BLOCK: Final = ("arm", "trial", "block")
_SORT: Final = ("acks", "delivery", "quick")
_FOLDED: Final = {
    **{"acks": "int", "delivery": "int", "quick": "int", "held": "bigint", "n": "bigint"},
    **{"places": "bigint", "epochs": "bigint", "odd": "int", "low": "bigint", "high": "bigint"},
    **{"first_t": "bigint", "last_t": "bigint", "over_t": "bigint"},
}
_OFFERED, _IN_LOGS, _DELIVERED = range(3)


class Sources(NamedTuple):
    """All that is told of values (`checkers.facts.accounts`)."""

    offered: DataFrame
    in_logs: DataFrame
    delivered: DataFrame


def value_blocks(history: History, rows: Sources) -> DataFrame | None:
    """`VALUE_BLOCK`, given (1: to every consumer that read of it), and whether its values are
    ``alike``. None: there is too little to be folded."""
    if not (history.many("produce") and history.many("log_read")):
        return None
    return history.keep("value blocks", lambda: _blocks(_folds(history, rows)))


def alike_sorts(history: History, rows: Sources) -> list[dict[str, Any]]:
    """Of blocks that are alike: arm, trial, acks, delivery, quick, given, n, lowest, highest."""
    blocks = value_blocks(history, rows)
    if blocks is None:
        return []
    own = _folds(history, rows).where(F.col("what") == _OFFERED)
    own = own.join(blocks.where("alike"), list(VALUE_BLOCK))
    found = own.groupBy("arm", "trial", *_SORT, "given").agg(
        F.sum("n").alias("n"), F.min("low").alias("lowest"), F.max("high").alias("highest")
    )
    return list(found.toArrow().to_pylist())


def _folds(history: History, rows: Sources) -> DataFrame:
    """By what is told (``what``, and of offers `_SORT`, of reads the consumer)."""

    def make() -> DataFrame:
        place = F.xxhash64("value", "place", "offset")
        epoch = F.xxhash64("value", "leader_epoch")
        missing = (F.col("outcome") != 4) | F.col("offset").isNull() | F.col("home").isNull()
        missing |= F.col("old") == 1
        offers = _fold(
            rows.offered,
            *_SORT,
            places=F.bit_xor(place),
            odd=F.max(missing.cast("int")),
            low=F.min("value"),
            high=F.max("value"),
            first_t=F.min("invoke_t"),
            last_t=F.max("invoke_t"),
        )
        prints = {"places": F.bit_xor(place), "epochs": F.bit_xor(epoch)}
        logs = _fold(rows.in_logs, **prints, over_t=F.min("over_t"))
        # Not every client tells leader epochs.
        told = F.when(F.count("leader_epoch") > 0, F.bit_xor(epoch))
        times = {"first_t": F.min("t"), "last_t": F.max("t")}
        reads = _fold(rows.delivered, "process", epochs=told, **times)
        both = _told(offers, _OFFERED).unionAll(_told(logs, _IN_LOGS))
        return both.unionAll(_told(reads, _DELIVERED))

    return history.keep("value folds", make)


def _fold(rows: DataFrame, *by: str, **more: Column) -> DataFrame:
    each = rows.groupBy("arm", "trial", block_of("value").alias("block"), *by)
    return each.agg(
        F.bit_or(bit_of("value")).alias("held"),
        F.count("*").alias("n"),
        *(column.alias(name) for name, column in more.items()),
    )


def _told(folds: DataFrame, what: int) -> DataFrame:
    known = set(folds.columns)
    columns = [
        (F.col(name) if name in known else F.lit(None)).cast(kind).alias(name)
        for name, kind in _FOLDED.items()
    ]
    return folds.select(*VALUE_BLOCK, F.lit(what).alias("what"), *columns)


def _blocks(folds: DataFrame) -> DataFrame:
    def of(what: int, name: str) -> Column:
        return F.when(F.col("what") == what, F.col(name))

    found = folds.groupBy(*VALUE_BLOCK).agg(
        F.bit_or(of(_OFFERED, "held")).alias("held"),
        F.sum(of(_OFFERED, "n")).alias("n"),
        F.bit_xor(of(_OFFERED, "places")).alias("places"),
        F.max(of(_OFFERED, "odd")).alias("odd"),
        F.max(of(_IN_LOGS, "held")).alias("there"),
        F.max(of(_IN_LOGS, "n")).alias("copies"),
        F.max(of(_IN_LOGS, "places")).alias("true_places"),
        F.max(of(_IN_LOGS, "epochs")).alias("true_epochs"),
        F.min(of(_IN_LOGS, "over_t")).alias("over_t"),
        F.count(of(_DELIVERED, "n")).alias("readers"),
        F.min(of(_DELIVERED, "held")).alias("read_min"),
        F.max(of(_DELIVERED, "held")).alias("read_max"),
        F.max(of(_DELIVERED, "n")).alias("times"),
        F.min(of(_DELIVERED, "epochs")).alias("epochs_min"),
        F.max(of(_DELIVERED, "epochs")).alias("epochs_max"),
        *(
            low(of(what, name)).alias(f"{name}_{what}")
            for what in (_OFFERED, _DELIVERED)
            for name, low in (("first_t", F.min), ("last_t", F.min if what else F.max))
        ),
    )
    alike = F.expr(
        "odd = 0 and n = bit_count(held) and there = held and copies = n and "
        f"places = true_places and (over_t is null or over_t >= last_t_{_OFFERED}) and "
        "(readers = 0 or (read_min = held and read_max = held and "
        f"times = n and first_t_{_DELIVERED} >= first_t_{_OFFERED} and "
        f"last_t_{_DELIVERED} >= last_t_{_OFFERED} and (epochs_min is null or "
        "(epochs_min = true_epochs and epochs_max = true_epochs))))"
    )
    given = (F.col("readers") > 0).cast("int").alias("given")
    return found.select(*VALUE_BLOCK, given, F.coalesce(alike, F.lit(False)).alias("alike"))
