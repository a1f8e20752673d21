"""When things happened in a trial, counted from one beginning: the start of its chaos phase.

That is what a plan's offsets count from, so that the same moment of two arms is the same number. A
trial that never came so far counts from its first row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from harness.report.run_folder import Row, RunFolder

Key = tuple[str, int]
FAULT_COLUMNS: Final = ("fault", "id", "phase", "nodes", "took_hold", "detail")


@dataclass(frozen=True, slots=True)
class Clock:
    """One trial's milestones, ns of CLOCK_MONOTONIC. ``end_t``: the end of its last phase; what
    comes later is the cluster being stopped."""

    start_t: int
    chaos_t: int | None
    end_t: int

    @property
    def zero_t(self) -> int:
        return self.start_t if self.chaos_t is None else self.chaos_t

    def seconds(self, t: int) -> float:
        """Since the chaos phase began; before it, negative."""
        return (t - self.zero_t) / 1e9

    def since_start_s(self, t: int) -> float:
        return (t - self.start_t) / 1e9


def clocks(folder: RunFolder) -> dict[Key, Clock]:
    """Of every trial that left a milestone, a fault or a node's event."""
    phases: dict[Key, list[int]] = {}
    others: dict[Key, list[int]] = {}
    chaos: dict[Key, int] = {}
    for row in folder.rows("phase", ("name", "event")):
        phases.setdefault(key_of(row), []).append(row["t"])
        if row["name"] == "chaos" and row["event"] == "begin":
            chaos.setdefault(key_of(row), row["t"])
    for kind, columns in (("fault", FAULT_COLUMNS), ("node_event", ("node", "event"))):
        for row in folder.rows(kind, columns):
            others.setdefault(key_of(row), []).append(row["t"])
    return {
        key: Clock(
            min(phases.get(key, []) + others.get(key, [])),
            chaos.get(key),
            max(phases.get(key) or others[key]),
        )
        for key in sorted(phases.keys() | others.keys())
    }


def key_of(row: Row) -> Key:
    return row["arm"], row["trial"]


# -- faults


@dataclass(slots=True)
class FaultTime:
    """One plan entry as it happened in one trial."""

    id: str
    fault: str
    inject_t: int | None = None
    injected_t: int | None = None
    heal_t: int | None = None
    healed_t: int | None = None
    failed_t: int | None = None
    nodes: list[int] = field(default_factory=list)
    took_hold: bool | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    def span(self, end_t: int) -> tuple[int, int] | None:
        """[in place, healed), as checkers count it; None when it never was."""
        if self.injected_t is None:
            return None
        return self.injected_t, self.healed_t if self.healed_t is not None else end_t


def faults(folder: RunFolder) -> dict[Key, list[FaultTime]]:
    """In order of their injection."""
    found: dict[Key, dict[str, FaultTime]] = {}
    for row in folder.rows("fault", FAULT_COLUMNS):
        name = row["id"] or row["fault"] or "?"
        known = found.setdefault(key_of(row), {})
        entry = known.setdefault(name, FaultTime(name, row["fault"] or "?"))
        phase = row["phase"]
        if phase in ("inject", "injected", "heal", "healed", "failed"):
            setattr(entry, f"{phase}_t", row["t"])
        entry.nodes = row["nodes"] or entry.nodes
        entry.took_hold = row["took_hold"] if row["took_hold"] is not None else entry.took_hold
        entry.detail |= parse_detail(row["detail"])
    return {key: list(entries.values()) for key, entries in found.items()}


def parse_detail(text: str | None) -> dict[str, Any]:
    """A row's ``detail`` (JSON); what is no object is kept under its own name."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {"detail": text}
    return found if isinstance(found, dict) else {"detail": found}


# -- leadership


@dataclass(frozen=True, slots=True)
class Commit:
    """A leader epoch's first sighting. ``before``: who led before, None when that is not known."""

    t: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    before: int | None

    @property
    def moved(self) -> bool:
        return self.before is not None and self.before != self.leader


def commits(folder: RunFolder) -> dict[Key, list[Commit]]:
    """Every leader epoch that was seen committed, of the topics under test, in order of time."""
    first: dict[Key, dict[tuple[str, int], dict[int, Row]]] = {}
    for row in folder.rows("leadership", ("topic", "partition", "leader", "leader_epoch")):
        if row["topic"] is None or (row["leader_epoch"] or 0) < 0:
            continue
        of_trial = first.setdefault(key_of(row), {})
        of_trial.setdefault((row["topic"], row["partition"]), {}).setdefault(
            row["leader_epoch"], row
        )
    found: dict[Key, list[Commit]] = {}
    for key, partitions in first.items():
        tested = folder.topics(*key)
        for (topic, partition), epochs in partitions.items():
            if tested and topic not in tested:
                continue
            before: int | None = None
            for leader_epoch in sorted(epochs):
                row = epochs[leader_epoch]
                found.setdefault(key, []).append(
                    Commit(row["t"], topic, partition, row["leader"], leader_epoch, before)
                )
                before = row["leader"]
    for of_key in found.values():
        of_key.sort(key=lambda commit: commit.t)
    return found


# -- controller requests


@dataclass(frozen=True, slots=True)
class Latency:
    """One request there and back. ``answered``: False when it was given up after ``took_ns``."""

    at_t: int
    took_ns: int
    node: int | None
    api: str
    plane: str | None
    answered: bool


def probes(folder: RunFolder) -> dict[Key, list[Latency]]:
    """Probes, counted from when they were planned."""
    columns = ("planned_t", "invoke_t", "node", "api", "plane", "type")
    return _by_trial(
        (row, row["planned_t"] or row["invoke_t"], row["node"], row["type"] == "ok")
        for row in folder.rows("probe", columns)
    )


def round_trips(folder: RunFolder) -> dict[Key, list[Latency]]:
    """The controller's own requests, from its send to its having the answer."""
    return _by_trial(
        (row, row["send_t"], row["to"], row["failure"] is None)
        for row in folder.rows("control_response", ("send_t", "to", "api", "failure"))
        if row["failure"] != "removed"
    )


def _by_trial(rows: Iterable[tuple[Row, int | None, int | None, bool]]) -> dict[Key, list[Latency]]:
    found: dict[Key, list[Latency]] = {}
    for row, at_t, node, answered in rows:
        if at_t is not None:
            found.setdefault(key_of(row), []).append(
                Latency(
                    at_t,
                    max(0, row["t"] - at_t),
                    node,
                    row["api"] or "?",
                    row.get("plane"),
                    answered,
                )
            )
    return found


# -- nodes that were down

_DOWN: Final = frozenset({"kill", "stop", "stopped", "exited"})


def down_spans(folder: RunFolder) -> dict[tuple[str, int, int], list[tuple[int, int]]]:
    """By (arm, trial, node): when its process was not serving (until ready again, or for ever)."""
    found: dict[tuple[str, int, int], list[tuple[int, int]]] = {}
    since: dict[tuple[str, int, int], int] = {}
    for row in folder.rows("node_event", ("node", "event")):
        if row["node"] is None:
            continue
        node = (*key_of(row), row["node"])
        if row["event"] in _DOWN:
            since.setdefault(node, row["t"])
        elif row["event"] == "ready" and node in since:
            found.setdefault(node, []).append((since.pop(node), row["t"]))
    for node, t in since.items():
        found.setdefault(node, []).append((t, 2**62))
    return found
