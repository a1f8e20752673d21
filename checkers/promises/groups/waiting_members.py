"""Who waits to be let into a group as its coordinator is one no more, for
`checkers.promises.groups`.

Who joins a group (JoinGroup) waits at its coordinator until the others have joined anew, or their
time is over; who has joined and asks for what it is given (SyncGroup), until the group's leader has
assigned. A broker that loses the group's partition forgets the group, and answers everybody who
waits there (NOT_COORDINATOR) at once: nobody else would (GroupCoordinator.onGroupUnloaded). The
client then looks for the new one; unanswered it stays out of the group until it gives up.

- ``left-waiting-to-join``: its answer came later than `WAIT_NS` after the broker had begun to
  follow, or never.

Lawful, and looks similar: an answer that is late because its broker is paused, flooded, ended or
cut off from its clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.demotions import DEMOTED, demotions
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.coordinators import partitions_of_groups
from checkers.promises.groups.offices import OFFSETS_TOPIC, partition_of

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "left-waiting-to-join"
WAITED: Final = "members that waited to be let in as their coordinator was deposed"
WAIT_NS: Final = 2_000_000_000
"""What takes milliseconds, and on a busy machine a second."""
Row = Mapping[str, Any]


def waiting_members(history: History, outcome: Outcome) -> Iterator[Finding]:
    if not history.has("group_step"):
        return
    deposed = [row for row in demotions(history) if row["topic"] == OFFSETS_TOPIC]
    if not deposed:
        return
    waiting = history.frame("group_step").where("step in ('enter', 'sync') and group is not null")
    waiting = waiting.select("arm", "trial", "group", "node", "step", "invoke_t", "t", "error")
    table = F.broadcast(history.table(deposed, DEMOTED))
    waiting = waiting.join(table.drop("topic"), ["arm", "trial", "node"])
    judged = f"least(t, _t + {WAIT_NS}) < _to and invoke_t > _from"
    waiting = waiting.where(f"invoke_t < _t and t > _t and {judged}")
    for row in waiting.orderBy("arm", "trial", "t", "group").toArrow().to_pylist():
        count = partitions_of_groups(history, row["arm"], row["trial"])
        if partition_of(row["group"], count) != row["partition"]:
            continue
        outcome.saw(row["arm"], row["trial"], WAITED)
        if row["t"] > row["_t"] + WAIT_NS:
            yield _finding(row)


def _finding(row: Row) -> Finding:
    place = {"topic": OFFSETS_TOPIC, "partition": row["partition"], "node": row["node"]}
    asked = {name: row[name] for name in ("group", "node", "step", "t")}
    how = "never" if row["error"] is None else f"with {row['error']}"
    return Finding(
        RULE,
        f"who waited at node {row['node']} for group {row['group']} ({row['step']}) was answered "
        f"{how}, {(row['t'] - row['_t']) / 1e9:.1f} s after that had begun to follow in the "
        "group's partition",
        row["arm"],
        row["trial"],
        (
            Pick("leader_change", {**place, "t": row["_t"]}, rows=1),
            Pick("group_step", asked, rows=1),
        ),
    )
