"""Members that say nothing any more, and how long others wait for them, for
`checkers.promises.groups`.

Who joins a group waits until the members that there are have joined anew. One that says nothing is
waited for until its session is over, or until the time is up in which it would have had to join
(rebalance timeout, KIP-62; of several members the longest): whatever comes first, and no less
(GroupCoordinator.onExpireHeartbeat and onCompleteJoin, GroupMetadata.rebalanceTimeoutMs). A
coordinator that takes a group over knows nothing of how long its members have been silent, and lets
each of them have its session anew from the moment that it has read the group
(GroupCoordinator.onGroupLoaded).

Asked is by clients (role group-absent) that come one after the other and are silent once they have
what they are given; `keep_ms` of their joining is how long each may be waited for, alone. And by
two that join together (role group-couple), of which the one that is to assign says nothing: when
its time is over the other is told to join anew, for nobody else would tell it
(removeMemberAndUpdateGroup).

- ``kept-waiting``: who joins was not let in `SLACK_NS` after that time, since it asked: whoever it
  waits for was silent by then already; or who waits for what it is given was told nothing;
- ``put-out-too-soon``: who joins was let in before that time was over, since the one before asked
  for what it is given. That one was a member still, had not left (``part``), and would have come
  back in time; the time of an earlier rebalance, which ended before it was over, is nothing to it.

Lawful, and looks similar: an answer that is late because its broker is paused, flooded, ended or
cut off from its clients, or loses the group's partition; a group that the present coordinator never
knew. Judged is what a broker said that led the partition all along, and that nothing kept from
answering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.offices import Offices, offices

if TYPE_CHECKING:
    from checkers.history.frames import History

LONG: Final = "kept-waiting"
SOON: Final = "put-out-too-soon"
AWAITED: Final = "members that waited for one who said nothing"
SLACK_NS: Final = 2_000_000_000
"""What takes milliseconds, and on a busy machine a second."""
_EARLY_NS: Final = 50_000_000
"""How far timers may be off."""
_ROLE: Final = "group-absent"
_COUPLE: Final = "group-couple"
_MS: Final = 1_000_000
Row = Mapping[str, Any]


def absent_members(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    asking = [
        {"arm": arm, "trial": trial, "process": one.process, "role": one.role}
        for (arm, trial), workloads in history.run.workloads.items()
        for one in workloads
        if one.role in (_ROLE, _COUPLE)
    ]
    if not asking or not history.has("group_step"):
        return
    table = history.table(asking, "arm string, trial int, process string, role string")
    steps = history.frame("group_step").where("node is not null")
    steps = steps.where("step in ('enter', 'sync', 'part')")
    steps = steps.join(F.broadcast(table), ["arm", "trial", "process"])
    steps = steps.select(
        *("arm", "trial", "process", "role", "group", "node", "step", "type", "error"),
        *("keep_ms", "invoke_t", "t"),
    )
    # In order of time; who leaves may have left as soon as it said so.
    steps = steps.withColumn("when", F.expr("if(step = 'part', invoke_t, t)"))
    judge = partial(_of_process, offices(history))
    yield from in_courses(outcome, steps, ["arm", "trial", "process"], ["when"], judge)


def _of_process(offices: Offices, rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    given: Row | None = None
    """The last member that was given something, if nobody else came."""
    if rows[0]["role"] == _COUPLE:
        yield from _of_couple(offices, rows, outcome)
        return
    longest_ms = max((row["keep_ms"] for row in rows if row["step"] == "enter"), default=0)
    own_ms: dict[int, int] = {}
    """By node: of the member that it let in last."""
    for row in rows:
        if row["step"] == "part":
            given = None
        elif row["step"] == "sync":
            mine = {**row, "keep_ms": own_ms.get(row["node"], 0)}
            given = mine if row["type"] == "ok" else None
        elif row["type"] != "fail":
            before, given = given, None
            own_ms[row["node"]] = row["keep_ms"]
            yield from _judged(offices, outcome, row, before, longest_ms)


def _of_couple(offices: Offices, rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    keep_ms = 0
    for row in rows:
        if row["step"] == "enter":
            keep_ms = row["keep_ms"]
        elif row["step"] == "sync" and keep_ms:
            until_t = row["invoke_t"] + keep_ms * _MS + SLACK_NS
            is_long = row["t"] > until_t
            if not is_long and row["type"] == "info":
                continue
            if offices.served(row, row["invoke_t"], min(row["t"], until_t)):
                outcome.saw(row["arm"], row["trial"], AWAITED)
                if is_long:
                    yield _finding(LONG, {**row, "keep_ms": keep_ms}, None)


def _judged(
    offices: Offices, outcome: Outcome, row: Row, before: Row | None, longest_ms: int
) -> Iterator[Finding]:
    until_t = row["invoke_t"] + longest_ms * _MS + SLACK_NS
    is_long = row["t"] > until_t
    if not is_long and row["type"] != "ok":
        return
    if not offices.served(row, row["invoke_t"], min(row["t"], until_t)):
        return
    if is_long:
        outcome.saw(row["arm"], row["trial"], AWAITED)
        yield _finding(LONG, {**row, "keep_ms": longest_ms}, None)
    elif before is not None and before["node"] == row["node"]:
        if not offices.served(row, before["invoke_t"], row["t"]):
            return
        outcome.saw(row["arm"], row["trial"], AWAITED)
        keep_ms = max(row["keep_ms"], before["keep_ms"])
        if row["t"] < before["invoke_t"] + keep_ms * _MS - _EARLY_NS:
            yield _finding(SOON, {**row, "keep_ms": keep_ms}, before)


def _finding(rule: str, row: Row, before: Row | None) -> Finding:
    waited_ms = (row["t"] - row["invoke_t"]) / _MS
    if row["step"] == "sync":
        says = (
            f"who was let into group {row['group']} at node {row['node']} waited {waited_ms:.0f} "
        )
        says += (
            "ms to hear what it is given, or that it has to join anew: who was to say that said "
        )
        says += f"nothing, and may be waited for {row['keep_ms']} ms"
    elif before is None:
        how = "was not let in" if row["type"] != "ok" else "was let in late"
        says = f"who joined group {row['group']} at node {row['node']} {how}: it waited "
        says += f"{waited_ms:.0f} ms for members that may be waited for {row['keep_ms']} ms"
    else:
        silent_ms = (row["t"] - before["invoke_t"]) / _MS
        says = f"group {row['group']}: node {row['node']} let somebody in {silent_ms:.0f} ms after "
        says += f"a member was given its part, which had {row['keep_ms']} ms to be heard of again"
    at = {"group": row["group"], "node": row["node"]}
    picks = [Pick("group_step", {**at, "step": row["step"], "t": row["t"]}, rows=1)]
    if before is not None:
        picks.insert(0, Pick("group_step", {**at, "step": "sync", "t": before["t"]}, rows=1))
    return Finding(rule, says, row["arm"], row["trial"], tuple(picks))
