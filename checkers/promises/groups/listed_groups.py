"""Listed groups: does every coordinator list its groups to an operator, and no others, for
`checkers.promises.groups`?

Whoever looks after consumers begins with a list of groups (``kafka-consumer-groups --list``,
ListGroups), which is put together from what each broker lists: the groups that it has loaded. So
after the final read, when all is calm and a broker has had its time (`checkers.facts.calm`),

- ``listed-otherwise``: it lists a group of whose partition of ``__consumer_offsets`` it is not the
  leader (somebody else lists it as well, or would have to); it does not list one that it leads,
  for which a commit was acknowledged and which nobody deleted; or it lists one that was deleted
  (DeleteGroups, or OffsetDelete of all that it had).

Lawful, and similar: what a deletion took may be back where its coordinator was replaced
(`kept_groups.was_replaced`); positions go with their topic, and with their time; a commit of which
nobody knows the end; groups of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.calm import Debts
from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.kept_groups import SURE_NS, was_replaced
from checkers.promises.groups.offices import Offices, offices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "listed-otherwise"
LISTED: Final = "groups that a coordinator is to list, or not to"
API: Final = "ListGroups"
_BY: Final = ["arm", "trial", "group"]
_COMMITS: Final = ("commit", "raise")
_REMOVALS: Final = ("delete", "clear")
_COLUMNS: Final = (*_BY, "step", "type", "node", "invoke_t", "t", "sure")
Node = tuple[str, int, int]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Lists:
    """``asked``: by trial, when (ns) each broker was asked for its list; ``owed``: by broker and
    partition of groups, from when on it owes the truth."""

    offices: Offices
    asked: Mapping[tuple[str, int], Mapping[int, int]]
    owed: Mapping[tuple[str, int, int, int], int]


def listed_groups(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    if not history.has("described"):
        return
    told = history.frame("described").where(f"api = '{API}' and error is null")
    named = told.where("name <> ''").withColumnRenamed("name", "group")
    lists = named.groupBy(*_BY).agg(F.collect_set("node").alias("by_nodes"))
    lives = _lives(history)
    found = lists.join(lives, _BY, "full") if lives is not None else lists
    yield from in_courses(outcome, found, _BY, (), partial(_of_group, _lists(history, told)))


def _lists(history: History, told: DataFrame) -> _Lists:
    asked: dict[tuple[str, int], dict[int, int]] = {}
    for row in told.groupBy("arm", "trial", "node").agg(F.max("t").alias("t")).collect():
        asked.setdefault((row["arm"], row["trial"]), {})[row["node"]] = row["t"]
    debts = Debts(history, {trial: max(of.values()) for trial, of in asked.items()})
    known, owed = offices(history), dict[tuple[str, int, int, int], int]()
    for (arm, trial), of in asked.items():
        for partition, states in known.states.get((arm, trial), {}).items():
            for node in of if states else ():
                since = debts.owed_from((arm, trial, node), states[-1].t)
                if since is not None:
                    owed[arm, trial, node, partition] = since
    return _Lists(known, asked, owed)


def _of_group(lists: _Lists, rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    (row,) = rows
    arm, trial, group = (row[name] for name in _BY)
    states = lists.offices.of(arm, trial, group)
    if not states or (states[-1].row["leader"] or 0) < 0:
        return
    leader, partition = states[-1].row["leader"], states[-1].row["partition"]
    for node, t in sorted(lists.asked.get((arm, trial), {}).items()):
        since = lists.owed.get((arm, trial, node, partition))
        if since is None or t < since:
            continue
        wanted = _is_there(lists.offices, row, t) if node == leader else False
        if wanted is not None:
            outcome.saw(arm, trial, LISTED)
            if wanted != (node in (row["by_nodes"] or ())):
                yield _finding((arm, trial, node), group, leader, wanted)


def _lives(history: History) -> DataFrame | None:
    """Groups for which a commit was acknowledged: ``gone_t``, when they were deleted, ``tried_t``,
    when somebody first tried to; ``vague``, how many commits may have come late; ``brief``, how
    many are to be kept for a time only, or in topics that were deleted (of a group without members:
    any topic)."""
    gone = [
        {"arm": arm, "trial": trial, "topic": topic, "gone": 1}
        for arm, trial, topic in deletion_steps(history)
    ]
    deleted = history.table(gone, "arm string, trial int, topic string, gone bigint")
    frames = []
    if history.has("group_step"):
        steps = history.frame("group_step").where(f"step in {_COMMITS} or step in {_REMOVALS}")
        trials = deleted.drop("topic").distinct()
        steps = steps.join(F.broadcast(trials), ["arm", "trial"], "left")
        sure = F.col("keep_ms").isNull() & F.col("gone").isNull()
        frames.append(steps.withColumn("sure", sure).select(*_COLUMNS))
    if history.has("commit"):
        commits = history.frame("commit").where("offset >= 0")
        commits = commits.join(F.broadcast(deleted), ["arm", "trial", "topic"], "left")
        commits = commits.withColumn("step", F.lit("commit"))
        frames.append(commits.withColumn("sure", F.col("gone").isNull()).select(*_COLUMNS))
    if not frames:
        return None
    rows = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    ok, commit = F.col("type") == "ok", F.expr(f"step in {_COMMITS}")
    lives = rows.where("group is not null").groupBy(*_BY)
    return lives.agg(
        F.min(F.when(commit & ok, F.col("t"))).alias("kept_t"),
        F.count(F.when(commit & (F.col("type") == "info"), 1)).alias("vague"),
        F.count(F.when(commit & ~F.col("sure"), 1)).alias("brief"),
        F.min(F.when(~commit, F.col("invoke_t"))).alias("tried_t"),
        F.min(F.when(~commit & ok, F.col("t"))).alias("gone_t"),
        F.min_by("node", F.when(~commit & ok, F.col("t"))).alias("by"),
    )


def _is_there(offices: Offices, life: Row, t: int) -> bool | None:
    """None: nobody knows."""
    if life.get("kept_t") is None or life["brief"]:
        return None
    if life["tried_t"] is None:
        return True
    if life["vague"] or life["gone_t"] is None or t < life["gone_t"] + SURE_NS:
        return None
    return None if was_replaced(offices, life, life["by"], life["gone_t"]) else False


def _finding(key: Node, group: str, leader: int, wanted: bool) -> Finding:
    arm, trial, node = key
    if wanted:
        says = f"node {node} coordinates group {group}, and does not list it"
    elif leader == node:
        says = f"node {node} lists group {group}, whose deletion was acknowledged"
    else:
        says = f"node {node} lists group {group}, which node {leader} coordinates"
    listed = {"node": node, "api": API}
    return Finding(
        RULE,
        says,
        arm,
        trial,
        (
            Pick("group_step", {"group": group}, last=True, rows=2),
            Pick("described", listed if wanted else {**listed, "name": group}, rows=3),
        ),
    )
