"""Rows of two sorts under one another, and rows that are counted by two sets of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

BY_OTHERS: Final = "by_others"


def is_true(condition: Column) -> Column:
    """Whether it holds, and not null. (What else says so Sail loses sight of in a union.)"""
    from pyspark.sql import functions as F

    return condition.eqNullSafe(F.lit(True))


def named(kind: str) -> Column:
    """The name of a kind, in rows of several kinds. Sail knows a literal for a column that is in
    order, and groups by it as if rows came in turn: several times slower."""
    from pyspark.sql import functions as F

    return F.when(F.col("arm").isNotNull(), F.lit(kind)).alias("kind")


def united(one: DataFrame, other: DataFrame) -> DataFrame:
    """Both, by the names of their columns; what one lacks is null in its rows. Its type is told,
    which `unionByName` leaves to the engine: not each finds a struct's again."""
    from pyspark.sql import functions as F

    def with_all(frame: DataFrame, names: Sequence[str], of: DataFrame) -> DataFrame:
        kinds = {name: of.schema[name].dataType for name in names}
        more = [F.lit(None).cast(kind).alias(name) for name, kind in kinds.items()]
        return frame.select("*", *more) if more else frame

    has, others = one.columns, other.columns
    one = with_all(one, [name for name in others if name not in has], other)
    return one.unionByName(with_all(other, [name for name in has if name not in others], one))


def by_two(rows: DataFrame, keys: Sequence[str], others: Sequence[str], *sums: Column) -> DataFrame:
    """``sums`` by ``keys``, and by ``others``, in one pass: rows of the latter have `BY_OTHERS`,
    and null in keys that are not theirs. What SQL calls grouping sets, which not each engine has
    for frames."""
    from pyspark.sql import functions as F

    twice = rows.withColumn(BY_OTHERS, F.explode(F.array(F.lit(False), F.lit(True))))
    of = {name: F.lit(True) for name in [*keys, *others]}  # the sums see all that is in a row
    of |= {name: ~F.col(BY_OTHERS) for name in keys if name not in others}
    of |= {name: F.col(BY_OTHERS) for name in others if name not in keys}
    names = [F.when(there, F.col(name)).alias(name) for name, there in of.items()]
    return twice.groupBy(BY_OTHERS, *names).agg(*sums)
