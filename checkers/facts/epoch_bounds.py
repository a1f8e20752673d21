"""By epoch, when a broker certainly knew it, and when somebody last came to it with that.

One row an epoch at a place: ``known_t`` (ns), by when it was certainly known there, null when it
never was; ``begin_t``, the latest moment before which nobody can have looked at what came with it,
null when nothing did. What came with an epoch after a higher one was known: ``newer_t < begin_t``.
Both are bounds (a least and a greatest time), so that parts of a history may be folded one after
the other: `checkers.promises.fencing` folds a whole one, `checkers.live.order` what is new of it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.control_requests import ID, PLACE
from checkers.facts.spans import latest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BOUNDED: Final = ("rule", *PLACE)
"""A place: which rule (controller, broker, leader), broker and life, partition (null: none)."""


def bounds(told: DataFrame, led: DataFrame, changes: DataFrame | None) -> DataFrame:
    """What control requests say of each rule's epochs: `BOUNDED`, epoch, known_t, begin_t; several
    rows an epoch (`folded`). ``told``, ``led``: `requests` and `accepted_leader_epochs` of
    `checkers.facts.control_requests`; ``changes``: `leader_change` rows; each with ``life``."""
    rows = told.where("life is not null")
    taken = F.col("error") == 0
    own = rows.where("own_broker_epoch is not null")
    led = led.where("life is not null")
    applied = F.when(F.col("binding"), F.col("end_t"))
    never = F.lit(None).cast("long")
    each = [
        bound(rows, "controller", "controller_epoch", F.when(taken, F.col("end_t")),
              F.when(taken, F.col("begin_t"))),
        bound(own, "broker", "own_broker_epoch", F.col("end_t"), never),
        bound(rows.where("broker_epoch >= 0"), "broker", "broker_epoch", never,
              F.when(taken, F.col("begin_t"))),
        bound(led, "leader", "leader_epoch", applied, F.col("begin_t")),
    ]  # fmt: skip
    if changes is not None:
        changes = changes.where("leader_epoch >= 0 and life is not null")
        each.append(bound(changes, "leader", "leader_epoch", latest(F.col("t")), never))
    both = functools.reduce(lambda a, b: a.unionAll(b), each)
    return both.where("epoch is not null")


def bound(
    of: DataFrame, rule: str, epoch: str, known: Column, begun: Column, *, at: bool = False
) -> DataFrame:
    """Rows as those of `bounds`. ``at``: by partition; the rule ``leader`` always is."""
    here = at or rule == "leader"
    nobody, none = F.lit(None).cast("string"), F.lit(None).cast("int")
    place = (F.col("topic"), F.col("partition")) if here else (nobody, none)
    return of.select(
        F.lit(rule).alias("rule"),
        *ID,
        *(column.alias(name) for column, name in zip(place, PLACE[-2:], strict=True)),
        F.col(epoch).cast("long").alias("epoch"),
        known.alias("known_t"),
        begun.alias("begin_t"),
    )


def folded(rows: DataFrame) -> DataFrame:
    """One row an epoch."""
    return rows.groupBy(*BOUNDED, "epoch").agg(
        F.min("known_t").alias("known_t"), F.max("begin_t").alias("begin_t")
    )


def with_newer(rows: DataFrame) -> DataFrame:
    """Add ``newer_t``: when any higher epoch was first known there; null when none was."""
    down = Window.partitionBy(*BOUNDED).orderBy(F.col("epoch").desc())
    newer = F.min("known_t").over(down.rowsBetween(Window.unboundedPreceding, -1))
    return rows.withColumn("newer_t", newer)
