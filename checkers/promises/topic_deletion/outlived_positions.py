"""Positions in topics that are deleted, for `checkers.promises.topic_deletion`.

A topic's positions go with it: a broker that is told that a partition is no more forgets all
positions in it (GroupCoordinator.handleDeletedPartitions). Its namesake is another topic, whose
records begin at 0: who goes on from where the dead one was left leaves out records of it, or is out
of range.

- ``position-outlived-topic``: a coordinator told a position (``see``) that it had been asked to
  keep (``raise``) before its topic's deletion was asked for, after it had deleted its own replica
  of that; UpdateMetadata, which tells of the deletion, comes before StopReplica. Or the next one
  did, that took over long after: that a position is gone is written into the groups' log as well.

Lawful, and looks similar: nobody waits until that is written down, so that the next coordinator may
know the position again where it takes over within 5 s; one that was kept since is another. Where
the coordinator was replaced just before it heard of the deletion nothing is said of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.offices import MOVED_NS, offices

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.promises.topic_deletion import Deletion

RULE: Final = "position-outlived-topic"
OUTLIVED: Final = "positions asked for after their topic's deletion"
_NAMES: Final = ("arm", "trial", "process", "group", "node", "step", "type", "offset")
Process = tuple[str, int, str]
"""Arm, trial and process."""
_WRITTEN_NS: Final = 5_000_000_000
"""So long after a coordinator heard that a position is gone, its log says so on all replicas."""


class _Gone(NamedTuple):
    """``asked_t``: when the topic's deletion was asked for; ``stops``: by broker, when it deleted
    its replica; ``led``: who coordinates groups, and since when (ns), in order, where all groups
    have one coordinator."""

    topic: str
    asked_t: int
    stops: Mapping[int, int]
    led: Sequence[tuple[int, int]]


def outlived_positions(
    history: History, outcome: Outcome, deletions: Iterable[Deletion]
) -> Iterator[tuple[Finding, int]]:
    if not history.has("group_step"):
        return
    of_topic: dict[tuple[str, int, str], list[str]] = {}
    for trial, workloads in history.run.workloads.items():
        for one in workloads:
            for topic in one.topics if one.role == "group-riser" else ():
                of_topic.setdefault((*trial, topic), []).append(one.process)
    gone: dict[Process, list[_Gone]] = {}
    for deleted in deletions:
        trial = (deleted.arm, deleted.trial)
        for process in of_topic.get((*trial, deleted.topic), ()):
            stops = {node: row["t"] for (node, number), row in deleted.stops.items() if number == 0}
            each = _Gone(deleted.topic, deleted.requested["t"], stops, _led(history, *trial))
            gone.setdefault((*trial, process), []).append(each)
    if not gone:
        return
    names = ["arm", "trial", "process"]
    who = [dict(zip(names, key, strict=True)) for key in gone]
    steps = history.frame("group_step").where("step in ('raise', 'see') and group is not null")
    steps = steps.select(*_NAMES, "invoke_t", "t").join(
        F.broadcast(history.table(who, "arm string, trial int, process string")), names
    )
    yield from in_courses(outcome, steps, names, ["t", "invoke_t"], partial(_of_process, gone))


def _led(history: History, arm: str, trial: int) -> list[tuple[int, int]]:
    """Empty where groups have several coordinators."""
    partitions = offices(history).states.get((arm, trial), {})
    terms: list[tuple[int, int]] = []
    for state in next(iter(partitions.values())) if len(partitions) == 1 else ():
        if not terms or terms[-1][0] != state.row["leader"]:
            terms.append((state.row["leader"], state.t))
    return terms


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
    led: Sequence[tuple[int, int]],
) -> Iterator[Finding]:
    seen = [row for row in rows if row["step"] == "see" and row["type"] == "ok"]
    by = next((row["node"] for row in reversed(seen) if row["t"] < asked_t), None)
    before = {row["offset"] for row in rows if row["step"] == "raise" and row["t"] < asked_t}
    late = [row for row in seen if row["invoke_t"] > stops.get(row["node"], row["t"])]
    later = _later(by, asked_t, stops, led)
    late = [
        row
        for row in late
        if row["node"] == by or (later is not None and row["invoke_t"] > later + MOVED_NS)
    ]
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


def _later(
    by: int | None, asked_t: int, stops: Mapping[int, int], led: Sequence[tuple[int, int]]
) -> int | None:
    """From when on (ns) whoever coordinates groups knows by its log that the position is gone; None
    when ``by`` did not, from before the deletion was asked for until it had written that down."""
    written_t = stops.get(-1 if by is None else by, 2**62) + _WRITTEN_NS
    before = [leader for leader, t in led if t < asked_t - MOVED_NS]
    meanwhile = [t for _, t in led if asked_t - MOVED_NS <= t <= written_t]
    return written_t if before and before[-1] == by and not meanwhile else None
