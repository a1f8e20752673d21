"""Visited groups: somebody asks to join a group, and never comes back, for
`checkers.promises.groups`.

Who asks to join without an id of its own, as every new member does, is given one and told to come
back with it (MEMBER_ID_REQUIRED, KIP-394): else whoever loses its connection meanwhile stays behind
as a member, for whom all others wait. An id that nobody comes back with is forgotten when the
session is over that was asked for, and an empty group the next time that coordinators look
(GroupMetadataManager.cleanupGroupMetadata, every ``offsets.retention.check.interval.ms``).

- ``joined-without-id``: it is made a member at once;
- ``visitor-remembered``: the coordinator says of such a group, which nobody was ever let into, that
  it has members or waits for some (DescribeGroups: any state but `Empty` and `Dead`); or, once all
  is calm (`checkers.facts.calm`), and the session and that look are over, it still tells of it
  (`Dead`: there is none).

A static member (KIP-345) is asked for no id: role group-keeper visits as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.kept_groups import when_calm

if TYPE_CHECKING:
    from checkers.history.frames import History

LEFT: Final = "groups that somebody had asked to join looked at"
JOINED, REMEMBERED = "joined-without-id", "visitor-remembered"
_WITHOUT_MEMBERS: Final = ("Dead", "Empty")
_MS: Final = 1_000_000
_BY: Final = ["arm", "trial", "group"]
Row = Mapping[str, Any]


def visited_groups(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where(
        "group is not null and step in ('join', 'look', 'enter')"
    )
    steps = steps.join(F.broadcast(when_calm(history)), ["arm", "trial"], "left")
    joins = steps.where("step = 'join'").groupBy(*_BY)
    visits = joins.agg(
        F.max(F.col("t") + F.col("keep_ms") * _MS).alias("over_t"),
        F.min(F.when(F.col("type") == "ok", F.struct("t", "node"))).alias(JOINED),
    )
    enters = steps.where("step = 'enter' and type != 'fail'").groupBy(*_BY)
    entered = enters.agg(F.min("invoke_t").alias("entered_t"))
    looks = steps.where("step = 'look' and type = 'ok'").join(visits, _BY)
    looks = looks.join(entered, _BY, "left")
    late = F.expr("invoke_t > greatest(over_t + looked_ns, healed_t) + needed_ns")
    is_due = F.coalesce(late & F.col(JOINED).isNull(), F.lit(False))
    is_alive = is_due & (F.col("state") != "Dead")
    is_full = F.expr("entered_t is null or t < entered_t") & ~F.col("state").isin(*_WITHOUT_MEMBERS)
    wrong = is_alive | (is_full & F.col(JOINED).isNull())
    found = looks.groupBy(*_BY).agg(
        F.count(F.when(is_due, 1)).alias("n"),
        F.min(F.when(wrong, F.struct("t", "node", "state"))).alias(REMEMBERED),
    )
    yield from in_courses(outcome, visits.join(found, _BY, "left"), _BY, (), _of_group)


def _of_group(rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    (row,) = rows
    outcome.saw(row["arm"], row["trial"], LEFT, row["n"] or 0)
    for rule in (JOINED, REMEMBERED):
        if row[rule] is not None:
            yield _finding(rule, row)


def _finding(rule: str, row: Row) -> Finding:
    one, group = row[rule], {"group": row["group"]}
    says = {
        JOINED: "made who asked to join a member at once, without an id to come back with",
        REMEMBERED: f"has it as {one.get('state')}, though nobody had come back to join it",
    }[rule]
    return Finding(
        rule,
        f"group {row['group']}: node {one['node']} {says}",
        row["arm"],
        row["trial"],
        (
            Pick("group_step", {**group, "step": "join"}, rows=1),
            Pick("group_step", {**group, "node": one["node"], "t": one["t"]}, rows=1),
        ),
    )
