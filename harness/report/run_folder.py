"""What lies in a run's folder, as far as it is there and can be read.

A report is wanted most when something went wrong, so nothing here raises for what is missing or
torn: it is noted in ``missing`` (a sentence each) and read as empty. Histories are read through
Arrow, the columns that a picture needs and no more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkers.history import KINDS, HistoryError
from checkers.history.parts import files_of, read_file

Row = dict[str, Any]
_SHAPES: Final[tuple[Mapping[str, tuple[type, type]], ...]] = (
    {"arms": (dict, dict), "trials": (list, dict), "settings": (dict, object)},
    {"entries": (list, dict)},
    {"arms": (dict, dict), "checks": (dict, dict), "reasons": (list, str)},
)
"""Of run.json, plan.json and results.json: fields that everything builds on, as (container, items).
A file of another hand may have them otherwise; then they are taken as absent, and named."""


@dataclass(slots=True)
class RunFolder:
    """A run as it lies on disk. ``missing``: what could not be read, in words."""

    path: Path
    run: dict[str, Any]
    plan: dict[str, Any]
    results: dict[str, Any]
    missing: list[str] = field(default_factory=list)
    _rows: dict[tuple[str, tuple[str, ...]], list[Row]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        missing: list[str] = []
        parts = [
            _json(path / f"{name}.json", says, missing)
            for name, says in (
                ("run", "what was asked is not known"),
                ("plan", "what was planned is not known"),
                ("results", "nothing was judged: run `biplane check` on this folder"),
            )
        ]
        for name, part, shapes in zip(("run", "plan", "results"), parts, _SHAPES, strict=True):
            _hold_to(part, shapes, f"{name}.json", missing)
        return cls(path, parts[0], parts[1], parts[2], missing)

    # -- small tables for pictures ----------------------------------------------------------------

    def figure(self, name: str) -> list[Row]:
        """A checker's table ``results/<name>.parquet``; nothing when there is none."""
        file = self.path / "results" / f"{name}.parquet"
        if not file.exists():
            return []
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_table(file).to_pylist())
        except (OSError, pa.ArrowException) as error:
            self.missing.append(f"results/{name}.parquet cannot be read: {_line(error)}")
            return []

    # -- the history ------------------------------------------------------------------------------

    def has_history(self) -> bool:
        return (self.path / "history").is_dir()

    def rows(self, kind: str, columns: Sequence[str], **equal: str) -> list[Row]:
        """Rows of a kind in order of ``t``, with ``arm`` and ``trial``; nothing when there is none.

        ``equal``: only rows whose column has this value.
        """
        wanted = tuple(dict.fromkeys(("t", *columns, *equal)))
        key = (kind, (*wanted, *(f"{k}={v}" for k, v in equal.items())))
        if key not in self._rows:
            self._rows[key] = self._read(kind, wanted, equal)
        return self._rows[key]

    def _read(self, kind: str, columns: tuple[str, ...], equal: Mapping[str, str]) -> list[Row]:
        files = files_of(self.path / "history", kind)
        if not files:
            return []
        import pyarrow as pa

        known = [c for c in columns if c in KINDS[kind].all_columns]
        rows: list[Row] = []
        for file in files:
            try:
                # A file at a time, so that a torn one costs no more than itself.
                table = read_file(file, kind, known, _condition(equal))
            except (OSError, pa.ArrowException, HistoryError) as error:
                self.missing.append(f"history of {kind!r} ({file.name}): {_line(error)}")
                continue
            rows += table.to_pylist()
        rows.sort(key=lambda row: row["t"] or 0)
        return rows

    # -- what every section asks ------------------------------------------------------------------

    @property
    def arms(self) -> list[str]:
        """Arms in the order in which they are compared: single, priority, dual."""
        return order_arms(self.results.get("arms") or self.run.get("arms") or {})

    def planes(self, arm: str) -> str:
        facts = (self.results.get("arms") or {}).get(arm) or (self.run.get("arms") or {}).get(arm)
        return str((facts or {}).get("planes") or "")

    def topics(self, arm: str, trial: int) -> set[str]:
        """The topics under test; empty when the run does not say."""
        for entry in _list(self.run.get("trials")):
            if (entry.get("arm"), entry.get("trial")) == (arm, trial):
                return set(entry.get("topics") or {})
        return set(self.run.get("topics") or {})


PLANE_ORDER: Final = ("single", "priority", "dual")


def order_arms(arms: Mapping[str, Any]) -> list[str]:
    """The order of comparisons: what came first in Kafka stands first."""

    def rank(arm: str) -> tuple[str, int, str]:
        facts = arms[arm] if isinstance(arms[arm], Mapping) else {}
        planes = facts.get("planes")
        place = PLANE_ORDER.index(planes) if planes in PLANE_ORDER else len(PLANE_ORDER)
        return str(facts.get("sut", "")), place, arm

    return sorted(arms, key=rank)


def _condition(equal: Mapping[str, str]) -> Any:
    if not equal:
        return None
    import pyarrow.dataset as ds

    conditions = [ds.field(name) == value for name, value in equal.items()]
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def _json(path: Path, says: str, missing: list[str]) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        missing.append(f"{path.name} is not there: {says}")
        return {}
    except (OSError, ValueError) as error:
        missing.append(f"{path.name} cannot be read ({_line(error)}): {says}")
        return {}
    if not isinstance(found, dict):
        missing.append(f"{path.name} is not an object: {says}")
        return {}
    return found


def _hold_to(
    part: dict[str, Any], shapes: Mapping[str, tuple[type, type]], file: str, missing: list[str]
) -> None:
    """Drop what has not the form that it must have."""
    for name, (container, item) in shapes.items():
        value = part.get(name)
        if value is None:
            continue
        items = value.values() if isinstance(value, dict) else value
        if not isinstance(value, container) or not all(isinstance(i, item) for i in items):
            missing.append(f"{file}: field {name!r} has not the form that it should have")
            del part[name]


def _list(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value or [] if isinstance(entry, dict)]


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
