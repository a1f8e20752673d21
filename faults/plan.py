"""A plan: what goes wrong, when, as data. Seeded, saved with the run, replayable.

On disk it is JSON:

    {"version": 1, "seed": 7, "entries": [
        {"id": "flood-1", "fault": "flood-heavy-produce", "at_ms": 1000, "duration_ms": 4000,
         "params": {"target": "leader:t-0"}, "after": "kill-1"}]}

Targets stay symbolic in a plan; what they meant in one run is in that run's ``fault`` rows. A plan
is checked whole before a run starts: each entry's fault must exist and take its parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from faults.errors import PlanError
from faults.protocol import Capability, Entry, Fault
from faults.registry import FAULTS, build

__all__ = ["Plan", "PlanError"]

VERSION: Final = 1
_FIELDS: Final = ("id", "fault", "at_ms", "duration_ms", "params", "after")
_MAX_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """The seed of a run's random choices and its entries, in order of time."""

    seed: int
    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, seed: int, entries: Iterable[Entry]) -> Plan:
        """A checked plan, its entries sorted by time."""
        plan = cls(seed, tuple(sorted(entries, key=lambda e: (e.at_ms, e.id))))
        plan.check()
        return plan

    def check(self) -> None:
        """`PlanError` when an entry cannot be built, an id appears twice, or ``after`` names no
        entry before it."""
        seen: set[str] = set()
        for entry in self.entries:
            if entry.id in seen:
                raise PlanError(
                    "appears twice; allowed: an id of its own", entry=entry.id, field="id"
                )
            if entry.after and entry.after not in seen:
                allowed = ", ".join(sorted(seen)) or "none: it is the first entry"
                raise PlanError(
                    f"{entry.after!r} is no entry before it; allowed: {allowed}",
                    entry=entry.id,
                    field="after",
                )
            seen.add(entry.id)
            build(entry)

    def build(self) -> list[tuple[Entry, Fault]]:
        """Fresh faults for one run, in order."""
        return [(entry, build(entry)) for entry in self.entries]

    @property
    def duration_ms(self) -> int:
        """From the start of the chaos phase until the last entry is to be healed."""
        return max((entry.at_ms + entry.duration_ms for entry in self.entries), default=0)

    def needs(self) -> frozenset[Capability]:
        """What a system must offer for every entry to run."""
        return frozenset(c for entry in self.entries for c in FAULTS[entry.fault].needs)

    def for_capabilities(
        self, offered: frozenset[Capability]
    ) -> tuple[Plan, list[tuple[Entry, str]]]:
        """The plan without what the system cannot do, and what was left out with the reason."""
        kept, skipped = [], []
        for entry in self.entries:
            missing = FAULTS[entry.fault].needs - offered
            if missing:
                skipped.append((entry, f"needs {', '.join(sorted(missing))}"))
            else:
                kept.append(entry)
        return replace(self, entries=tuple(kept)), skipped

    # -- JSON -----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "seed": self.seed,
            "entries": [
                {
                    "id": e.id,
                    "fault": e.fault,
                    "at_ms": e.at_ms,
                    "duration_ms": e.duration_ms,
                    "params": dict(e.params),
                    **({"after": e.after} if e.after else {}),
                }
                for e in self.entries
            ],
        }

    @classmethod
    def from_dict(cls, data: Any, *, file: str | None = None) -> Plan:
        try:
            return cls._read(data)
        except PlanError as error:
            raise error.within(file=file) from None

    @classmethod
    def _read(cls, data: Any) -> Plan:
        if not isinstance(data, Mapping):
            raise PlanError("is not an object; allowed: {version, seed, entries}", field="plan")
        for name in data:
            if name not in ("version", "seed", "entries"):
                raise PlanError("is unknown; allowed: version, seed, entries", field=str(name))
        if data.get("version", VERSION) != VERSION:
            raise PlanError(
                f"{data['version']!r} is not allowed; allowed: {VERSION}", field="version"
            )
        seed = data.get("seed")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise PlanError(f"{seed!r} is not allowed; allowed: an integer", field="seed")
        rows = data.get("entries")
        if not isinstance(rows, Sequence) or isinstance(rows, str):
            raise PlanError(f"{rows!r} is not allowed; allowed: a list of entries", field="entries")
        return cls.of(seed, [_entry(row, index) for index, row in enumerate(rows)])

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> Plan:
        try:
            text = path.read_text()
        except OSError as error:
            raise PlanError(f"cannot be read: {error.strerror}", file=str(path)) from None
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise PlanError(
                f"line {error.lineno}, column {error.colno}: not JSON ({error.msg})", file=str(path)
            ) from None
        return cls.from_dict(data, file=str(path))


def _entry(row: Any, index: int) -> Entry:
    """One entry of a plan's JSON; an entry without a usable id is named by its position."""
    where = f"#{index}"
    if not isinstance(row, Mapping):
        raise PlanError(f"{row!r} is not allowed; allowed: an object", entry=where)
    named = row.get("id")
    where = named if isinstance(named, str) and named else where
    for name in row:
        if name not in _FIELDS:
            raise PlanError(
                f"is unknown; allowed: {', '.join(_FIELDS)}", entry=where, field=str(name)
            )
    for name in ("id", "fault"):
        value = row.get(name)
        if not isinstance(value, str) or not value:
            raise PlanError(
                f"{value!r} is not allowed; allowed: a non-empty string", entry=where, field=name
            )
    for name in ("at_ms", "duration_ms"):
        value = row.get(name, 0 if name == "duration_ms" else None)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_MS:
            raise PlanError(
                f"{value!r} is not allowed; allowed: an integer 0..{_MAX_MS}",
                entry=where,
                field=name,
            )
    after = row.get("after", "")
    if not isinstance(after, str):
        raise PlanError(f"{after!r} is not allowed; allowed: an id", entry=where, field="after")
    params = row.get("params", {})
    if not isinstance(params, Mapping):
        raise PlanError(
            f"{params!r} is not allowed; allowed: an object", entry=where, field="params"
        )
    return Entry(
        id=row["id"],
        fault=row["fault"],
        at_ms=row["at_ms"],
        duration_ms=row.get("duration_ms", 0),
        params=dict(params),
        after=after,
    )
