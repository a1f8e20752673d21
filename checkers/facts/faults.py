"""Faults, each by all that its rows tell: whom it names, and from when to when it was in place.

A row of a fault says one step of it (``injecting``, ``injected``, ``failed``, ``heal``, ``healed``)
and the brokers that it named so far. Who is named by any of them is meant by all; what was never
healed may last for ever, also where it failed on the way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import all_details
from checkers.facts.timeline import FOREVER

if TYPE_CHECKING:
    from checkers.history.frames import History

ASKING: Final = frozenset(
    {
        *("move-leadership", "leadership-churn", "reassign"),
        *("topic-churn", "delete-topic", "recreate-topic"),
    }
)
"""Those that do nothing but ask the controller for something: whom they name they leave alone."""
FLOOD: Final = "flood-"
"""So begin the names of all floods."""
Trial = tuple[str, int]
Row = dict[str, Any]


@dataclass(slots=True)
class Fault:
    """One entry of a trial's plan, by its rows in order of time."""

    trial: Trial
    id: str
    name: str
    rows: Sequence[Row]
    nodes: frozenset[int] = field(init=False)
    """Whom it names; nobody: it may be in place anywhere."""
    phases: frozenset[str] = field(init=False)
    from_t: int = field(init=False)
    """Its first step, ns."""
    to_t: int = field(init=False)
    """When it was healed, for the last time (ns); FOREVER where nobody says so."""

    def __post_init__(self) -> None:
        self.nodes = frozenset(node for row in self.rows for node in row["nodes"] or ())
        self.phases = frozenset(row["phase"] for row in self.rows)
        self.from_t = int(self.rows[0]["t"])
        healed = (row["t"] for row in self.rows if row["phase"] == "healed")
        self.to_t = max(healed, default=FOREVER)

    @property
    def emptied(self) -> tuple[int, int] | None:
        """Whose disk it emptied, and when (ns), where it tells of that apart from its steps."""
        told = all_details(self.rows).get("emptied")
        return (int(told["node"]), int(told["t"])) if isinstance(told, dict) else None

    def meets(self, from_t: int, to_t: int) -> bool:
        """Whether it was in place within a span (ns)."""
        return self.from_t < to_t and self.to_t > from_t

    def concerns(self, node: int) -> bool:
        """Whether it names a broker, or nobody."""
        nodes = self.nodes
        return not nodes or node in nodes


def faults(history: History) -> list[Fault]:
    """All of them: by trial, in the order in which they began; gathered once a history."""
    return [fault for of in _by_trial(history).values() for fault in of]


def faults_of(history: History, trial: Trial) -> list[Fault]:
    """Those of one trial."""
    return _by_trial(history).get(trial, [])


def faults_within(history: History, trial: Trial, from_t: int, to_t: int) -> list[Fault]:
    """Those of one trial that were in place within a span (ns), without a look at all others."""

    def make() -> tuple[list[int], list[int]]:
        of = faults_of(history, trial)
        return [f.from_t for f in of], list(accumulate((f.to_t for f in of), max))

    begins, all_ended = history.memo(f"faults in order of time, {trial}", make)
    near = slice(bisect_right(all_ended, from_t), bisect_left(begins, to_t))
    return [fault for fault in faults_of(history, trial)[near] if fault.meets(from_t, to_t)]


def _by_trial(history: History) -> dict[Trial, list[Fault]]:
    def make() -> dict[Trial, list[Fault]]:
        rows_of: dict[tuple[str, int, str], list[Row]] = {}
        for row in history.rows("fault"):
            key = (row["arm"], row["trial"], row["id"] or row["fault"] or "?")
            rows_of.setdefault(key, []).append(row)
        found: dict[Trial, list[Fault]] = {}
        for (arm, trial, one), rows in rows_of.items():
            fault = Fault((arm, trial), one, rows[0]["fault"] or "?", rows)
            found.setdefault(fault.trial, []).append(fault)
        return found

    known: dict[Trial, list[Fault]] = history.memo("faults", make)
    return known
