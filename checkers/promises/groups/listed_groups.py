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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.calm import Debts
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.coordinators import leader_of
from checkers.promises.groups.kept_groups import SURE_NS, was_replaced

if TYPE_CHECKING:
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


@dataclass(slots=True)
class _List:
    """A broker's: when it was asked (ns), and what it named."""

    t: int
    groups: set[str] = field(default_factory=set)


def listed_groups(history: History, outcome: Outcome) -> Iterator[Finding]:
    lists = _lists(history)
    if not lists:
        return
    ends: dict[tuple[str, int], int] = {}
    for (arm, trial, _), asked in lists.items():
        ends[arm, trial] = max(asked.t, ends.get((arm, trial), 0))
    debts = Debts(history, ends)
    lives = {tuple(row[name] for name in _BY): row for row in _lives(history)}
    for key in sorted(lists):
        of, (arm, trial, node) = lists[key], key
        known = {group for a, n, group in lives if (a, n) == (arm, trial)}
        for group in sorted(of.groups | known):
            state = leader_of(history, arm, trial, group)
            since = None if state is None else debts.owed_from(key, state.t)
            if state is None or since is None or of.t < since:
                continue
            leads = state.row["leader"] == node
            wanted = _is_there(history, lives.get((arm, trial, group)), of.t) if leads else False
            if wanted is None:
                continue
            outcome.saw(arm, trial, LISTED)
            if wanted != (group in of.groups):
                yield _finding(key, group, state.row["leader"], wanted)


def _lists(history: History) -> dict[Node, _List]:
    found: dict[Node, _List] = {}
    for row in history.rows("described"):
        if row["api"] == API and row["error"] is None:
            one = found.setdefault((row["arm"], row["trial"], row["node"]), _List(row["t"]))
            if row["name"]:
                one.groups.add(row["name"])
    return found


def _lives(history: History) -> list[Row]:
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
        return []
    rows = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    ok, commit = F.col("type") == "ok", F.expr(f"step in {_COMMITS}")
    lives = rows.where("group is not null").groupBy(*_BY)
    found = lives.agg(
        F.min(F.when(commit & ok, F.col("t"))).alias("kept_t"),
        F.count(F.when(commit & (F.col("type") == "info"), 1)).alias("vague"),
        F.count(F.when(commit & ~F.col("sure"), 1)).alias("brief"),
        F.min(F.when(~commit, F.col("invoke_t"))).alias("tried_t"),
        F.min(F.when(~commit & ok, F.col("t"))).alias("gone_t"),
        F.min_by("node", F.when(~commit & ok, F.col("t"))).alias("by"),
    )
    return list(found.where("kept_t is not null").toArrow().to_pylist())


def _is_there(history: History, life: Row | None, t: int) -> bool | None:
    """None: nobody knows."""
    if life is None or life["brief"]:
        return None
    if life["tried_t"] is None:
        return True
    if life["vague"] or life["gone_t"] is None or t < life["gone_t"] + SURE_NS:
        return None
    return None if was_replaced(history, life, life["by"], life["gone_t"]) else False


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
