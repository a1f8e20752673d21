"""Kept offsets of groups with members: where who is given a partition begins, and what coordinators
tell of what they acknowledged, for `checkers.promises.groups`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.leadership import key_of
from checkers.facts.unions import united
from checkers.judging.excuses import Excuses, excuses
from checkers.judging.outcome import Outcome
from checkers.judging.tally import RULE, Sort, add, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.offices import Offices, has_begun, offices, told_late
from checkers.promises.groups.strangers import answers, members_answers, strangers_answers
from checkers.promises.polls import RESET_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

BEGINNINGS: Final = "partitions given to a member, and begun"
KEPT: Final = "kept offsets asked for"
_TP: Final = ["arm", "trial", "topic", "partition"]
_TOLD: Final = 1_000
"""So many partitions of which nobody asked are named as reasons."""
Row = Mapping[str, Any]


def kept_offsets(history: History, outcome: Outcome, commits: DataFrame) -> None:
    """``commits``: those that were acknowledged."""
    _judge_beginnings(history, outcome, _beginnings(history, commits))
    if history.has("committed"):
        _judge_kept(history, outcome, _kept(history, commits))
        add(outcome, tally(_never_asked(history), None, _answer), _kept_otherwise)
    _asked_for(history, outcome, commits)


def _beginnings(history: History, commits: DataFrame) -> DataFrame:
    """Each assignment that led to a first record, with the newest offset kept before it: `_TP`,
    process, group, offset, t, given_t, kept, kept_t."""
    given = history.frame("assignment").select(
        *_TP,
        "process",
        "group",
        "t",
        F.col("event").alias("what"),
        F.lit(-1).cast("long").alias("offset"),
    )
    reset = F.coalesce(F.col("error").isin(*RESET_ERRORS), F.lit(False))
    got = (F.col("type") == "ok") & (F.col("offset") >= 0)
    polls = (
        history.frame("fetch")
        .where(got | reset)
        .select(
            *_TP,
            "process",
            F.lit(None).cast("string").alias("group"),
            "t",
            F.when(got, "got").otherwise("reset").alias("what"),
            F.coalesce("offset", F.lit(-1)).alias("offset"),
        )
    )
    members = given.select("arm", "trial", "process").distinct()
    polls = polls.join(F.broadcast(members), ["arm", "trial", "process"])
    rows = polls.unionByName(given)
    order = Window.partitionBy(*_TP, "process").orderBy("t", F.col("what") != "assigned", "offset")
    rows = rows.withColumn("_before", F.lag("what").over(order))
    rows = rows.withColumn("_given_t", F.lag("t").over(order))
    rows = rows.withColumn("group", F.coalesce("group", F.lag("group").over(order)))
    first = rows.where("what = 'got' and _before = 'assigned'")
    return _with_kept(first, commits, "_given_t").withColumnRenamed("_given_t", "given_t")


def _with_kept(rows: DataFrame, commits: DataFrame, at: str) -> DataFrame:
    """Rows with the newest offset (``kept``, asked for at ``kept_invoke_t``, acknowledged at
    ``kept_t``) of those that had been acknowledged for their partition and group before time
    ``at``: commits and rows are put in one order of time."""
    mine = [*_TP, "group", "process", "offset", "t", at]
    kept = F.struct(
        F.col("offset").alias("kept"),
        F.col("invoke_t").alias("kept_invoke_t"),
        F.col("t").alias("kept_t"),
    ).alias("_kept")
    done = commits.select(*_TP, "group", F.col("t").alias("_at"), F.lit(1).alias("_step"), kept)
    asked = rows.select(*mine, F.col(at).alias("_at"), F.lit(0).alias("_step"))
    both = united(asked, done)
    so_far = Window.partitionBy(*_TP, "group").orderBy("_at", "_step")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, 0)
    both = both.withColumn("_newest", F.max("_kept").over(so_far)).where("_step = 0")
    return both.select(*mine, "_newest.kept", "_newest.kept_invoke_t", "_newest.kept_t")


def _judge_beginnings(history: History, outcome: Outcome, rows: DataFrame) -> None:
    back = F.coalesce(F.col("offset") < F.col("kept"), F.lit(False))
    if not _saw(outcome, rows, BEGINNINGS, back):
        return
    found = tally(rows.where(back), None, partial(_beginning, excuses(history)))
    add(outcome, found, _went_back)
    for (arm, trial, excuse), n in found.in_order():
        if excuse is not None:
            outcome.excuse(arm, trial, "group-offset-went-back", excuse, of=BEGINNINGS, n=n)


def _saw(outcome: Outcome, rows: DataFrame, what: str, suspect: Column) -> int:
    """Count what there is to judge; how many are suspects."""
    found = rows.groupBy("arm", "trial").agg(
        F.count("*").alias("n"), F.sum(suspect.cast("int")).alias("suspects")
    )
    suspects = 0
    for row in found.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], what, row["n"])
        suspects += row["suspects"]
    return suspects


def _beginning(known: Excuses, row: Row) -> Sort:
    excuse = known.of(*key_of(row), row["t"])
    order = (row["t"], *key_of(row), row["process"])
    rule = "group-offset-went-back" if excuse is None else None
    return Sort((row["arm"], row["trial"], excuse), order, rule)


def _went_back(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    own = {**at, "process": row["process"]}
    return Finding(
        rule,
        f"{row['process']} of group {row['group']} was given {row['topic']}-{row['partition']} "
        f"and began at offset {row['offset']}, although {row['kept']} had been committed",
        row["arm"],
        row["trial"],
        (
            Pick("commit", {**at, "offset": row["kept"], "t": row["kept_t"]}, rows=1),
            Pick("assignment", {**own, "t": row["given_t"]}, rows=1),
            Pick("fetch", {**own, "offset": row["offset"], "t": row["t"]}, rows=1),
        ),
    )


def _kept(history: History, commits: DataFrame) -> DataFrame:
    """Each answer about a kept offset, with the newest that was acknowledged before (``kept``), and
    when the answered one was asked to be kept for the last time (``again_t``)."""
    told = members_answers(history).unionByName(strangers_answers(history))
    found = _with_kept(told, commits, "invoke_t")
    # An answer that nobody got may have come at any time.
    came = F.when(F.col("type") == "info", F.lit(2**62))
    came = F.max(came.when(F.col("type") != "fail", F.col("t")))
    tries = history.frame("commit").where("offset >= 0")
    each = tries.groupBy(*_TP, "group", "offset").agg(came.alias("again_t"))
    return found.join(each, [*_TP, "group", "offset"], "left")


def _never_asked(history: History) -> DataFrame:
    """Answers that tell of an offset that nobody had asked to be kept by then, whatever came of it
    (a client tries again by itself, and a refusal is that of its last try); with the highest that
    anybody ever did (``tried``). Whoever is asked: what a broker of the past kept, it was asked to,
    and who reads the log reads what was."""
    tries = history.frame("commit").where("offset >= 0")
    tried = tries.groupBy(*_TP, "group").agg(F.max("offset").alias("tried"))
    first = tries.groupBy(*_TP, "group", "offset").agg(F.min("invoke_t").alias("first_t"))
    told = answers(history).where("offset > 0").join(first, [*_TP, "group", "offset"], "left")
    told = told.where(~F.coalesce(F.col("first_t") <= F.col("t"), F.lit(False)))
    told = told.join(F.broadcast(tried), [*_TP, "group"], "left")
    names = (*_TP, "group", "process", "offset", "t", "tried")
    return told.select(*names, F.lit("committed-never").alias(RULE))


def _judge_kept(history: History, outcome: Outcome, rows: DataFrame) -> None:
    """A commit that was tried when a newer one already was may have replaced that, whatever came of
    it: who had polled before a rebalance may commit an older offset after it. Clients ask without
    require_stable: a coordinator that has just begun may lawfully know less (`told_late`)."""
    replaced = F.coalesce(F.col("again_t") >= F.col("kept_invoke_t"), F.lit(False))
    lost = F.coalesce(F.col("offset") < F.col("kept"), F.lit(False)) & ~replaced
    if _saw(outcome, rows, KEPT, lost):
        sort = partial(_lost, told_late(history), offices(history))
        found = tally(rows.where(lost), None, sort)
        add(outcome, found, _kept_otherwise)
        for (arm, trial, excuse), n in found.in_order():
            if excuse is not None:
                outcome.excuse(arm, trial, "committed-offset-lost", excuse, of=KEPT, n=n)


def _lost(late: frozenset[str], known: Offices, row: Row) -> Sort:
    arm, trial = row["arm"], row["trial"]
    begun = arm in late and has_begun(known.of(arm, trial, row["group"]), row)
    order = (row["t"], *key_of(row), row["process"])
    rule = None if begun else "committed-offset-lost"
    return Sort((arm, trial, "has-begun" if begun else None), order, rule)


def _answer(row: Row) -> Sort:
    return Sort((), (row["t"], *key_of(row), row["process"]), row[RULE])


def _kept_otherwise(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "group": row["group"]}
    place = f"{row['topic']}-{row['partition']}"
    if rule == "committed-never":
        says = (
            f"{row['process']} was told offset {row['offset']} of {place} as what group "
            f"{row['group']} keeps, which nobody had asked to be kept; the highest that anybody "
            f"ever did is {row['tried']}"
        )
        commit = Pick("commit", at, last=True, rows=2)
    else:
        says = (
            f"group {row['group']} had committed offset {row['kept']} of {place}; asked "
            f"afterwards, its coordinator had {row['offset']}"
        )
        commit = Pick("commit", {**at, "offset": row["kept"], "type": "ok"}, rows=1)
    answer = Pick("committed", {**at, "t": row["t"]}, rows=1)
    return Finding(rule, says, row["arm"], row["trial"], (commit, answer))


def _asked_for(history: History, outcome: Outcome, commits: DataFrame) -> None:
    """Whether somebody asked for each partition's kept offset, after the last commit of it."""
    last = commits.groupBy(*_TP, "group").agg(F.max("t").alias("_last_t"))
    asked = members_answers(history)
    asked = asked.groupBy(*_TP, "group").agg(F.max("invoke_t").alias("_asked_t"))
    vain = last.join(asked, [*_TP, "group"], "left")
    vain = vain.where("_asked_t is null or _asked_t < _last_t")
    for row in vain.orderBy(*_TP).limit(_TOLD).toArrow().to_pylist():
        says = f"nobody was told which offset of {row['topic']}-{row['partition']} was kept"
        outcome.unknown(row["arm"], row["trial"], f"{says} for group {row['group']}")
