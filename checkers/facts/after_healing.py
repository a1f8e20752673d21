"""A trial from the end of healing to the end of its load: what the cluster was like in the end, and
what nothing can be held against.

Faults that were begun and never healed hold something down that cannot be asked to recover. A fault
counts as begun when the harness set about it (``inject``), whether or not it succeeded: one that
failed on the way may have been put in place by half. Healing is tried for these, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.faults import faults
from checkers.facts.segments import fallen
from checkers.facts.strain import patience_of
from checkers.facts.timeline import FOREVER
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Trial = tuple[str, int]
At = tuple[str, int]
"""Topic and partition."""
_TAKEN_DOWN: Final = frozenset({"kill", "stop", "stopped", "pause"})
_RUNS_OR_NOT: Final = _TAKEN_DOWN | {"start", "resume", "exited"}


@dataclass(slots=True)
class LeftOpen:
    """One trial's. ``all``: one of them does not say whom it was meant for."""

    ids: set[str] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)
    all: bool = False


def left_open(history: History) -> dict[tuple[str, int], LeftOpen]:
    """By (arm, trial); absent where every fault was healed."""
    found: dict[Trial, LeftOpen] = history.memo("left open", lambda: _left_open(history))
    return found


def _left_open(history: History) -> dict[Trial, LeftOpen]:
    found: dict[tuple[str, int], LeftOpen] = {}
    for fault in faults(history):
        if fault.to_t == FOREVER:
            of = found.setdefault(fault.trial, LeftOpen())
            of.ids.add(fault.id)
            of.nodes |= fault.nodes
            of.all |= not fault.nodes
    return found


@dataclass(slots=True)
class AfterHealing:
    """What one trial is judged by. Times in ns."""

    key: Trial
    since_t: int
    """All faults were healed by then."""
    until_t: int
    """Until then the load went on and was looked at."""
    left_open: LeftOpen
    nodes: dict[int, Row] = field(default_factory=dict)
    partitions: dict[At, Row] = field(default_factory=dict)
    replicas: dict[tuple[int, str, int], Row] = field(default_factory=dict)
    others: list[Row] = field(default_factory=list)
    exited: frozenset[int] = frozenset()
    was_away: frozenset[int] = frozenset()
    """Nodes that the harness ended or paused at any time."""
    taken_down: frozenset[int] = frozenset()
    """Nodes that the harness stopped, killed or paused, and did not begin again."""
    stood_ns: int = 0
    """For how long the machine stood still in all, at any time in the trial."""
    patience: float = 1.0
    """So many times as long is waited for what is late (`checkers.facts.strain`)."""

    @property
    def looked_ns(self) -> int:
        return self.until_t - self.since_t

    def cannot_serve(self, nodes: Iterable[int]) -> str | None:
        """Why nothing can be held against these nodes; None when something can."""
        wanted = set(nodes)
        if self.left_open.all or wanted & self.left_open.nodes:
            return f"{', '.join(sorted(self.left_open.ids))} was not healed"
        ended = wanted & self.exited
        if ended:
            return f"node {min(ended)} ended by itself"
        lost = {n for n in wanted if n in self.nodes and not self.nodes[n]["running"]}
        if lost - self.taken_down:
            node = min(lost - self.taken_down)
            return f"node {node} does not run, and nobody had taken it down"
        return None

    def left_down(self, nodes: Iterable[int]) -> bool:
        """Whether one of them was taken down on purpose, and is down in the end."""
        down = self.taken_down
        return any(n in self.nodes and not self.nodes[n]["running"] for n in down & set(nodes))

    def may_be_slow(self, node: int, topic: str, partition: int, leader: int) -> str | None:
        """Why a replica that is not in sync may only be slow; None: it is stuck, or kept out."""
        own = self.replicas.get((node, topic, partition))
        of_leader = self.replicas.get((leader, topic, partition))
        if own is None or of_leader is None:
            return "where its log ends was not told"
        moved = own["log_end_offset"] - own["earlier_end_offset"]
        added = of_leader["log_end_offset"] - of_leader["earlier_end_offset"]
        before = of_leader["earlier_end_offset"] - own["earlier_end_offset"]
        lag = of_leader["log_end_offset"] - own["log_end_offset"]
        # Behind by less than what came in a quarter of the time, and no nearer than before, or in a
        # twentieth: nothing is left to wait for.
        is_near = 20 * lag <= added or (4 * lag <= added and moved <= added)
        is_abreast = own["log_end_offset"] >= of_leader["earlier_end_offset"] and is_near
        if moved <= 0 or is_abreast:
            return None
        return f"it is catching up, {before} and then {lag} records behind"


def after_healing(history: History, key: Trial) -> AfterHealing | str:
    """What is known of that trial since its faults were healed, or why nothing is."""

    def mine(kind: str) -> list[dict[str, Any]]:
        return rows_of(history, kind, key)

    if key in fallen(history):
        return fallen(history)[key]
    phases = mine("phase")
    healed = [r["t"] for r in phases if r["name"] == "heal" and r["event"] == "end"]
    looked = [r["t"] for r in phases if r["name"] in ("quiesce", "settle")]
    if not healed or not looked:
        return "it did not come to the phases in which what was healed recovers"
    opened = left_open(history).get(key, LeftOpen())
    known = [r for r in mine("fault") if r["phase"] == "healed"]
    since_t = max(healed[-1], *(r["t"] for r in known), 0) if known else healed[-1]
    exited = {r["node"] for r in mine("node_event") if r["event"] == "exited"}
    away = {r["node"] for r in mine("node_event") if r["event"] in ("kill", "stop", "pause")}
    last = {r["node"]: r["event"] for r in mine("node_event") if r["event"] in _RUNS_OR_NOT}
    found = AfterHealing(
        *(key, since_t, max(looked), opened),
        exited=frozenset(exited),
        was_away=frozenset(away),
        taken_down=frozenset(n for n, event in last.items() if event in _TAKEN_DOWN),
        stood_ns=sum(r["lasting_ns"] for r in mine("standstill")),
        patience=patience_of(history).get(key, 1.0),
    )
    for row in mine("final_state"):
        match row["what"]:
            case "node":
                found.nodes[row["node"]] = row
            case "partition":
                found.partitions[row["topic"], row["partition"]] = row
            case "replica":
                found.replicas[row["node"], row["topic"], row["partition"]] = row
            case _:
                found.others.append(row)
    if not found.nodes:
        unread = [row["failure"] for row in found.others if row["what"] == "unread"]
        return f"the state in the end was not read: {unread[0] if unread else 'there is no row'}"
    return found
