"""Two members that commit for one partition in turn, for `checkers.promises.groups`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.leadership import key_of
from checkers.judging.outcome import Outcome
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

_TP: Final = ["arm", "trial", "topic", "partition"]
_OFTEN: Final = 3
"""Once proves nothing: see `checkers.promises.groups`."""
_SLOT_NS: Final = 10_000_000_000
Row = Mapping[str, Any]


def two_members(history: History, outcome: Outcome, commits: DataFrame) -> None:
    """``commits``: those that were acknowledged."""
    add(outcome, tally(_by_two(history, commits), None, _second), lambda _, row: _two(row))


def _by_two(history: History, commits: DataFrame) -> DataFrame:
    """Pairs of members that committed for one partition in turn, each in a term of its own.

    A member's term begins when it was given the partition. What the other one began to commit after
    that, and had acknowledged before the member committed again in the same term, it committed for
    what was not its own. Terms are listed under each slot of time that they touch.
    """
    begun = history.frame("assignment").where("event = 'assigned'")
    begun = begun.select(*_TP, "process", "group", "t", F.lit(None).cast("long").alias("invoke_t"))
    done = commits.select(*_TP, "process", "group", "t", "invoke_t")
    order = Window.partitionBy(*_TP, "group", "process").orderBy(F.coalesce("invoke_t", "t"))
    last = F.last(F.when(F.col("invoke_t").isNull(), F.col("t")), ignorenulls=True)
    kept = begun.unionByName(done).withColumn("term_t", last.over(order))
    kept = kept.where("invoke_t is not null and term_t is not null")
    terms = kept.groupBy(*_TP, "group", "process", "term_t").agg(
        F.max("invoke_t").alias("last_invoke_t")
    )
    slots = F.sequence(_slot("term_t"), _slot("last_invoke_t"))
    terms = terms.where("term_t <= last_invoke_t").withColumn("_slot", F.explode(slots))
    kept = kept.withColumn("_slot", _slot("invoke_t"))
    same = (F.col("o.process") != F.col("m.process")) & (F.col("o.invoke_t") > F.col("m.term_t"))
    same = same & (F.col("o.t") < F.col("m.last_invoke_t"))
    for name in (*_TP, "group", "_slot"):
        same = same & (F.col(f"o.{name}") == F.col(f"m.{name}"))
    joined = kept.alias("o").join(terms.alias("m"), same)
    found = joined.groupBy(
        *(F.col(f"m.{name}").alias(name) for name in (*_TP, "group", "process", "term_t")),
        F.col("o.process").alias("other"),
        F.col("o.term_t").alias("other_term_t"),
    ).agg(F.count("*").alias("n"), F.min("o.t").alias("t"))
    return found.where(F.col("n") >= _OFTEN)


def _slot(t: str) -> Column:
    return F.expr(f"{t} div {_SLOT_NS}")


def _second(row: Row) -> Sort:
    return Sort((), (row["t"], *key_of(row), row["process"], row["other"]), "committed-by-two")


def _two(row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    own, other = {**at, "process": row["process"]}, {**at, "process": row["other"]}
    return Finding(
        "committed-by-two",
        f"{row['other']} committed {row['n']} times for {row['topic']}-{row['partition']} while "
        f"{row['process']} of group {row['group']} had it and committed as well",
        row["arm"],
        row["trial"],
        (
            Pick("assignment", {**own, "t": row["term_t"]}, rows=1),
            Pick("commit", {**other, "t": row["t"]}, rows=1),
            Pick("commit", {**own, "type": "ok"}, from_t=row["t"], rows=1),
        ),
    )
