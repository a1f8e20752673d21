"""Positions in topics that are deleted, for `checkers.promises.topic_deletion`.

A topic's positions go with it: a broker that is told that a partition is no more forgets all
positions in it (GroupCoordinator.handleDeletedPartitions). Its namesake is another topic, whose
records begin at 0: who goes on from where the dead one was left leaves out records of it, or is out
of range.

- ``position-outlived-topic``: a coordinator told a position (``see``) that it had been asked to
  keep (``raise``) before its topic's deletion was asked for, after it had deleted its own replica
  of that; UpdateMetadata, which tells of the deletion, comes before StopReplica.

Lawful, and looks similar: nobody waits until it is written down that a position is gone, so that
the next coordinator may know it again; one that was kept since is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.promises.topic_deletion import Deletion

RULE: Final = "position-outlived-topic"
OUTLIVED: Final = "positions asked for after their topic's deletion"
_NAMES: Final = ("arm", "trial", "process", "group", "node", "step", "type", "offset")
Process = tuple[str, int, str]
"""Arm, trial and process."""


class _Gone(NamedTuple):
    """``asked_t``: when the topic's deletion was asked for; ``stops``: by broker, when it deleted
    its replica (ns)."""

    topic: str
    asked_t: int
    stops: Mapping[int, int]


def outlived_positions(
    history: History, outcome: Outcome, deletions: Iterable[Deletion]
) -> Iterator[tuple[Finding, int]]:
    if not history.has("group_step"):
        return
    of_topic = {
        (*trial, topic): one.process
        for trial, workloads in history.run.workloads.items()
        for one in workloads
        if one.role == "group-riser"
        for topic in one.topics
    }
    gone: dict[Process, list[_Gone]] = {}
    for one in deletions:
        if (process := of_topic.get((one.arm, one.trial, one.topic))) is not None:
            stops = {node: row["t"] for (node, number), row in one.stops.items() if number == 0}
            each = _Gone(one.topic, one.requested["t"], stops)
            gone.setdefault((one.arm, one.trial, process), []).append(each)
    if not gone:
        return
    names = ["arm", "trial", "process"]
    who = [dict(zip(names, key, strict=True)) for key in gone]
    steps = history.frame("group_step").where("step in ('raise', 'see') and group is not null")
    steps = steps.select(*_NAMES, "invoke_t", "t").join(
        F.broadcast(history.table(who, "arm string, trial int, process string")), names
    )
    yield from in_courses(outcome, steps, names, ["t", "invoke_t"], partial(_of_process, gone))


def _of_process(
    gone: Mapping[Process, list[_Gone]], rows: list[Mapping[str, Any]], outcome: Outcome
) -> Iterator[Finding]:
    for one in gone[rows[0]["arm"], rows[0]["trial"], rows[0]["process"]]:
        yield from _of(outcome, rows, *one)


def _of(
    outcome: Outcome,
    rows: list[Mapping[str, Any]],
    topic: str,
    asked_t: int,
    stops: Mapping[int, int],
) -> Iterator[Finding]:
    seen = [row for row in rows if row["step"] == "see" and row["type"] == "ok"]
    by = next((row["node"] for row in reversed(seen) if row["t"] < asked_t), None)
    before = {row["offset"] for row in rows if row["step"] == "raise" and row["t"] < asked_t}
    late = [row for row in seen if row["invoke_t"] > stops.get(row["node"], row["t"])]
    late = [row for row in late if row["node"] == by]
    if not late:
        return
    trial = (late[0]["arm"], late[0]["trial"])
    outcome.saw(*trial, OUTLIVED, len(late))
    wrong = [row for row in late if row["offset"] in before]
    if wrong:
        row, since_ms = wrong[0], (wrong[0]["invoke_t"] - stops[wrong[0]["node"]]) / 1e6
        group = {"group": row["group"], "node": row["node"]}
        yield Finding(
            RULE,
            f"node {row['node']} told offset {row['offset']} of group {row['group']} in "
            f"{topic}-0, {since_ms:.0f} ms after it had deleted that; so it did {len(wrong)} times",
            *trial,
            (
                Pick("replica_stop", {"topic": topic, "node": row["node"]}, rows=1, last=True),
                Pick("group_step", {**group, "step": "see", "t": row["t"]}, rows=1),
            ),
        )
