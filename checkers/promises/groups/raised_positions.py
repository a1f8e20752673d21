"""Positions that are raised by one, and looked at meanwhile, for `checkers.promises.groups`.

Who keeps one position higher each time (role group-riser) is told so by the group's coordinator,
and whoever looks on is told no less from then on. That holds for the coordinator that said so, for
as long as it lives, and for whoever takes the partition over afterwards: it is to answer nobody
(COORDINATOR_LOAD_IN_PROGRESS) before it has read all that was kept.

- ``kept-offset-lost``: a broker told a lower position than it had kept itself, or than had been
  kept before it began to lead the group's partition; or none.

Lawful, and looks similar: one of the past, whether it has not heard yet that another coordinates
the group, or is just giving it up (an answer of Kafka's that is on its way then tells of no
position: GroupMetadataManager lets go of the partition and then of its groups); a position that was
asked for before the higher one was, and was answered later, or never, may have been kept after it.
Where coordinators answer from what is committed as they know it (`TOLD_LATE`: CoordinatorRuntime,
of Apache Kafka since 4.0; members ask with require_stable, and wait), one that has just begun may
know less of what others kept, until its followers have fetched from it: for `CAUGHT_UP_NS` after
its leadership was committed that is excused, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.committed import State
from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.kept_groups import LOST
from checkers.promises.groups.offices import (
    OFFSETS_TOPIC,
    Offices,
    has_begun,
    offices,
    partition_of,
    told_late,
)

if TYPE_CHECKING:
    from checkers.history.frames import History

RAISED: Final = "raised positions asked for"
_NEAR_NS: Final = 200_000_000
"""A broker may hear of its successor before anybody who watches ZooKeeper."""
_NAMES: Final = ("arm", "trial", "group", "node", "step", "type", "offset", "invoke_t", "t")
Row = Mapping[str, Any]


@dataclass(slots=True)
class _Kept:
    """The highest position that was kept: by anybody, by each broker, and by anybody before each
    began to lead."""

    last: Row | None = None
    by: dict[int, Row] = field(default_factory=dict)
    before: dict[int, Row] = field(default_factory=dict)

    def known_to(self, node: int) -> Row | None:
        known = [row for row in (self.by.get(node), self.before.get(node)) if row is not None]
        return max(known, key=lambda row: int(row["offset"]), default=None)


Led = Mapping[tuple[str, int, int], Sequence[Row]]
"""By arm, trial and partition of groups: by whom it was led, and from when on, in order."""


def raised_positions(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("step in ('raise', 'see') and group is not null")
    judge = partial(_of_group, offices(history), _led(history), told_late(history))
    by = ["arm", "trial", "group"]
    yield from in_courses(outcome, steps.select(*_NAMES), by, ["t", "invoke_t"], judge)


def _led(history: History) -> Led:
    found: dict[tuple[str, int, int], list[Row]] = {}
    for row in history.rows("leader_change"):
        if row["topic"] == OFFSETS_TOPIC and row["role"] == "leader":
            of = found.setdefault((row["arm"], row["trial"], row["partition"]), [])
            of.append({"t": row["t"], "node": row["node"]})
    return found


def _replaced(states: Sequence[State], row: Row) -> bool:
    """Whether another led the group's partition, or nobody, by the time of the answer."""
    by = row["t"] + _NEAR_NS
    leaders = [state.row["leader"] for state in states if state.t <= by]
    return bool(leaders) and leaders[-1] != row["node"]


def _of_group(
    offices: Offices, led: Led, late: frozenset[str], rows: Sequence[Row], outcome: Outcome
) -> Iterator[Finding]:
    arm, trial, group = (rows[0][name] for name in ("arm", "trial", "group"))
    partitions = max(offices.states.get((arm, trial), ()), default=0) + 1
    roles = led.get((arm, trial, partition_of(group, partitions)), ())
    states = offices.of(arm, trial, group)
    rows = [row for row in rows if row["step"] != "see" or not _replaced(states, row)]
    asked = {row["offset"]: row for row in rows if row["step"] == "raise"}
    events = [(row["t"], 0, row) for row in roles]
    events += [(r["t"], 1, r) for r in rows if r["step"] == "raise" and r["type"] == "ok"]
    events += [(r["invoke_t"], 2, r) for r in rows if r["step"] == "see" and r["type"] == "ok"]
    kept = _Kept()
    for _, sort, row in sorted(events, key=lambda event: event[:2]):
        node = row["node"]
        if sort == 0:
            if kept.last is not None:
                kept.before[node] = kept.last
        elif sort == 1:
            if kept.last is None or kept.last["offset"] < row["offset"]:
                kept.last = row
            if node not in kept.by or kept.by[node]["offset"] < row["offset"]:
                kept.by[node] = row
        elif (known := kept.known_to(node)) is not None:
            outcome.saw(row["arm"], row["trial"], RAISED)
            if row["offset"] < known["offset"] and _came_before(asked.get(row["offset"]), known):
                own = kept.by.get(node)
                knew = own is not None and row["offset"] < own["offset"]
                if arm in late and not knew and has_begun(states, row, node):
                    outcome.excuse(arm, trial, LOST, "has-begun", of=RAISED)
                    continue
                yield _finding(row, known)
                return


def _came_before(told: Row | None, known: Row) -> bool:
    """Whether what was told was certainly asked for, and answered, before the higher one; None: no
    position was told, or none that anybody asked for."""
    return told is None or (told["type"] != "info" and told["t"] < known["invoke_t"])


def _finding(row: Row, known: Row) -> Finding:
    at = {"group": row["group"]}
    return Finding(
        LOST,
        f"node {row['node']} told offset {row['offset']} of group {row['group']}, "
        f"{(row['invoke_t'] - known['t']) / 1e6:.0f} ms after node {known['node']} had kept "
        f"{known['offset']}",
        row["arm"],
        row["trial"],
        (
            Pick("group_step", {**at, "step": "raise", "t": known["t"]}, rows=1),
            Pick("group_step", {**at, "step": "see", "t": row["t"]}, rows=1),
        ),
    )
