"""Who led the partitions of groups, and when they may have been kept from answering, for
`checkers.promises.groups`: as plain data, for what is judged course by course takes it along to
Spark's workers (`checkers.judging.courses`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.committed import State, committed
from checkers.facts.demotions import troubles
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

OFFSETS_TOPIC: Final = "__consumer_offsets"
MOVED_NS: Final = 1_000_000_000
"""A watch may see a commit so late."""
_ENDS: Final = frozenset({"kill", "stop", "stopped", "exited", "pause"})
CAUGHT_UP_NS: Final = 3_000_000_000
"""So long may a coordinator that has just begun not know what its followers have."""
TOLD_LATE: Final = "positions_told_late"
"""In run.json, of an arm: coordinators answer from what is committed as they know it."""
Trial = tuple[str, int]
Broker = tuple[str, int, int]
"""Arm, trial and node."""
Span = tuple[int, int]


def partition_of(group: str, partitions: int) -> int:
    """Java's String.hashCode of the id (UTF-16 units), its absolute value modulo the partitions."""
    code, units = 0, group.encode("utf-16-be")
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    size = 0x1_0000_0000 - code if code > 0x8000_0000 else code
    return (0 if size == 0x8000_0000 else size) % partitions


@dataclass(frozen=True, slots=True)
class Offices:
    """``states``: by trial and partition, what was committed of it, in order; ``troubles``: by
    trial and leader, when a fault was in place there, or it was ended, stopped or started (ns);
    ``ends``: when it was ended or stopped."""

    states: Mapping[Trial, Mapping[int, Sequence[State]]]
    troubles: Mapping[Broker, Sequence[Span]]
    ends: Mapping[Broker, Sequence[int]]

    def of(self, arm: str, trial: int, group: str) -> Sequence[State]:
        """What was committed of the group's partition, in order."""
        known = self.states.get((arm, trial), {})
        return known.get(partition_of(group, len(known)), ()) if known else ()

    def had_trouble(self, row: Mapping[str, Any], from_t: int, to_t: int) -> bool:
        """Whether something may have kept the row's broker from answering then."""
        spans = self.troubles.get((row["arm"], row["trial"], row["node"]), ())
        return any(begin <= to_t and end >= from_t for begin, end in spans)

    def served(self, row: Mapping[str, Any], from_t: int, to_t: int) -> bool:
        """Whether the row's broker led the group's partition all along, and nothing kept it from
        answering."""
        states = self.of(row["arm"], row["trial"], row["group"])
        before = [state for state in states if state.t < from_t - MOVED_NS]
        during = [s for s in states if from_t - MOVED_NS <= s.t <= to_t + MOVED_NS]
        if not before or any(s.row["leader"] != row["node"] for s in (before[-1], *during)):
            return False
        return not self.had_trouble(row, from_t, to_t)


def offices(history: History) -> Offices:
    """Gathered once a history."""
    found: Offices = history.memo("offices", lambda: _gather(history))
    return found


def _gather(history: History) -> Offices:
    states: dict[Trial, dict[int, Sequence[State]]] = {}
    leaders: set[Broker] = set()
    for (arm, trial, topic, partition), of in committed(history).items():
        if topic == OFFSETS_TOPIC:
            states.setdefault((arm, trial), {})[partition] = tuple(of.states)
            led = {state.row["leader"] for state in of.states}
            leaders |= {(arm, trial, node) for node in led if node is not None}
    spans = {one: tuple(troubles(history, one[:2], one[2])) for one in sorted(leaders)}
    ends: dict[Broker, list[int]] = {}
    for place in states:
        for row in rows_of(history, "node_event", place):
            if row["event"] in _ENDS:
                ends.setdefault((*place, row["node"]), []).append(row["t"])
    return Offices(states, spans, ends)


def told_late(history: History) -> frozenset[str]:
    """The arms in which a coordinator that has just begun may tell of less than it has read
    (CoordinatorRuntime of Apache Kafka since 4.0, without require_stable)."""
    return frozenset(arm for arm, facts in history.run.arms.items() if facts.get(TOLD_LATE))


def has_begun(states: Sequence[State], row: Mapping[str, Any], node: int | None = None) -> bool:
    """Whether another leader of the group's partition was committed (``node``, if given) so shortly
    before the row was asked, or since."""
    before: int | None = None
    since_t: int | None = None
    for state in states:
        leader = state.row["leader"]
        if state.t <= row["t"] and leader != before and node in (None, leader):
            since_t = state.t
        before = leader
    return since_t is not None and row["invoke_t"] - since_t < CAUGHT_UP_NS
