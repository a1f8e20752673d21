"""One plan on several systems: was the same done to each at the same time?

``biplane offsets RUN`` reads a stored run: its plan.json says when each fault was to begin and to
be healed (ms from the start of the chaos phase), its history when the schedule did it in each arm.
How long a fault needs to be in place (a session must expire, 640 connections be dialled) is the
system's own affair and a column of its own: a fault whose setting in outlasts its planned end is
healed late, and says so. An entry that comes after another is due when that one has been healed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError
from checkers.history.parts import read_rows
from checkers.history.run_info import RunInfo
from faults.plan import Plan
from faults.protocol import Entry

TOLERANCE_MS: Final = 250.0
"""A thread on a busy machine is some milliseconds late; more is another plan."""
_FAULT_COLUMNS: Final = ("t", "id", "phase", "took_hold", "arm", "trial")
_PHASE_COLUMNS: Final = ("t", "name", "event", "arm", "trial")
Trial = tuple[str, int]


@dataclass(slots=True)
class Played:
    """One entry in one trial. Offsets in ms from the start of the chaos phase; None: never."""

    begun_ms: float | None = None
    in_place_ms: float | None = None
    heal_ms: float | None = None
    healed_ms: float | None = None
    took_hold: bool | None = None
    free_ms: float = 0.0
    """When the entry that it comes after had been healed."""

    def late_ms(self, entry: Entry) -> float:
        """How far off its time it began; only of what did."""
        assert self.begun_ms is not None
        return self.begun_ms - max(entry.at_ms, self.free_ms)


@dataclass(slots=True)
class Offsets:
    """What a run made of its plan, by arm and trial."""

    plan: Plan
    trials: dict[Trial, dict[str, Played]] = field(default_factory=dict)

    @property
    def arms(self) -> list[str]:
        return list(dict.fromkeys(arm for arm, _ in sorted(self.trials)))

    def of(self, arm: str, entry: Entry) -> list[Played]:
        """Over the arm's trials; one that never came is there, empty."""
        trials = [played for (its_arm, _), played in sorted(self.trials.items()) if its_arm == arm]
        return [played.get(entry.id, Played()) for played in trials]

    def deviation_ms(self, arm: str) -> float | None:
        """The largest, of what begun; None when nothing did."""
        late = [
            abs(played.late_ms(entry))
            for entry in self.plan.entries
            for played in self.of(arm, entry)
            if played.begun_ms is not None
        ]
        return max(late, default=None)

    def differences(self, tolerance_ms: float = TOLERANCE_MS) -> list[str]:
        """What was not done as planned in some arm: one line each."""
        found = []
        for entry in self.plan.entries:
            for arm in self.arms:
                for played in self.of(arm, entry):
                    what = f"{arm}: {entry.id} ({entry.fault})"
                    if played.begun_ms is None:
                        found.append(f"{what} never began")
                    elif played.in_place_ms is None or played.took_hold is False:
                        found.append(f"{what} did not take hold")
                    elif abs(played.late_ms(entry)) > tolerance_ms:
                        found.append(
                            f"{what} began at {played.begun_ms:.0f} ms, planned at {entry.at_ms}"
                        )
        return found


def read_offsets(folder: Path) -> Offsets:
    """Raises `HistoryError` when the folder holds no run, or nothing was played in it; PlanError
    for a plan that is none."""
    if not (folder / "plan.json").is_file():
        raise HistoryError(f"{folder}: it has no plan.json; allowed: a run's folder")
    found = Offsets(Plan.load(folder / "plan.json"))
    begun = {
        (row["arm"], int(row["trial"])): row["t"]
        for row in _rows(folder, "phase", _PHASE_COLUMNS)
        if (row["name"], row["event"]) == ("chaos", "begin")
    }
    if not begun:
        raise HistoryError(
            f"{folder}: its history has no chaos phase; allowed: a run that came to it"
        )
    record = folder / "run.json"
    told = RunInfo.parse(record.read_text(), str(record)).trials if record.is_file() else ()
    found.trials = {trial: {} for trial in (*begun, *told)}
    for row in sorted(_rows(folder, "fault", _FAULT_COLUMNS), key=lambda row: int(row["t"])):
        trial = (row["arm"], int(row["trial"]))
        if trial in begun:
            played = found.trials[trial].setdefault(row["id"], Played())
            _note(played, row, (row["t"] - begun[trial]) / 1e6)
    for by_id in found.trials.values():
        for entry in found.plan.entries:
            if entry.id in by_id and entry.after in by_id:
                by_id[entry.id].free_ms = by_id[entry.after].healed_ms or 0.0
    return found


def _note(played: Played, row: Mapping[str, Any], offset_ms: float) -> None:
    if row["phase"] == "inject":
        played.begun_ms = offset_ms
    elif row["phase"] == "injected":
        played.in_place_ms, played.took_hold = offset_ms, row["took_hold"]
    elif row["phase"] == "heal" and played.heal_ms is None:
        played.heal_ms = offset_ms
    elif row["phase"] == "healed" and played.healed_ms is None:
        played.healed_ms = offset_ms


def _rows(folder: Path, kind: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    return read_rows(folder / "history", kind, columns)


def table(offsets: Offsets) -> list[str]:
    """Markdown: by entry what was planned, and in each arm how far off it was."""
    arms = offsets.arms
    lines = [
        "Times in ms from the start of the chaos phase. A cell: begun (off plan), how long until "
        "the fault was in place, healed (off plan).",
        "",
        "| entry | fault | planned | to be healed | " + " | ".join(arms) + " |",
        "|---|---|---|---|" + "---|" * len(arms),
    ]
    for entry in offsets.plan.entries:
        end_ms = entry.at_ms + entry.duration_ms
        cells = ["; ".join(_cell(entry, p) for p in offsets.of(arm, entry)) for arm in arms]
        lines.append(f"| {entry.id} | {entry.fault} | {entry.at_ms} | {end_ms} | {_join(cells)} |")
    largest = [offsets.deviation_ms(arm) for arm in arms]
    words = ["-" if late is None else f"{late:.1f}" for late in largest]
    lines.append(f"| **largest deviation of a beginning** | | | | {_join(words)} |")
    return lines


def _join(cells: Sequence[str]) -> str:
    return " | ".join(cells)


def _cell(entry: Entry, played: Played) -> str:
    if played.begun_ms is None:
        return "never"
    words = [f"{played.begun_ms:.0f} ({played.late_ms(entry):+.0f})"]
    if played.in_place_ms is None or played.took_hold is False:
        words.append("did not take hold")
    else:
        words.append(f"{played.in_place_ms - played.begun_ms:.0f}")
    if played.heal_ms is not None:
        end_ms = entry.at_ms + entry.duration_ms
        words.append(f"{played.heal_ms:.0f} ({played.heal_ms - end_ms:+.0f})")
    return ", ".join(words)
