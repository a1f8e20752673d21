"""New whole lines of files that grow, and which files those of a run are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.history import KINDS

_MOST_BYTES: Final = 16 << 20
"""Of one file in one look."""
_ROW_START: Final = b'{"f":'
_NODES: Final = "node-*.jsonl"
_TRACES: Final = "*/trace.jsonl"
_HARNESS: Final = "harness.jsonl"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LiveTrial:
    """A trial under way: its folder holds ``live/`` and the nodes' folders."""

    folder: Path
    arm: str
    trial: int

    def clients(self) -> list[Path]:
        """What clients and faults of their own process write."""
        live = self.folder / "live"
        late = {*live.glob(_NODES), live / _HARNESS}
        return sorted(path for path in live.rglob("*.jsonl") if path not in late)

    def others(self) -> list[Path]:
        """The harness's own file and the nodes' traces, which hold what excuses clients' rows. A
        system that keeps no trace tells of its nodes when the trial is over."""
        live = self.folder / "live"
        traces = sorted(self.folder.glob(_TRACES)) or sorted(live.glob(_NODES))
        return [live / _HARNESS, *traces]


def live_trials(run: Path) -> list[LiveTrial]:
    """Those that have begun, in order of their beginning."""
    found = []
    for live in run.glob("trials/*/live"):
        arm, _, number = live.parent.name.rpartition("-")
        if arm and number.isdigit():
            found.append((live.stat().st_ctime, LiveTrial(live.parent, arm, int(number))))
    return [trial for _, trial in sorted(found, key=lambda one: (one[0], str(one[1].folder)))]


class Tail:
    """Reads on from where it was. Owned by one thread. ``skipped``: lines that are no rows."""

    def __init__(self) -> None:
        self._at: dict[Path, int] = {}
        self.skipped = 0

    def read(self, path: Path) -> Iterator[Row]:
        """The rows of whole lines that are new; nothing of a file that is not there yet."""
        try:
            with path.open("rb") as file:
                file.seek(self._at.get(path, 0))
                data = file.read(_MOST_BYTES)
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._at[path] = self._at.get(path, 0) + end
        for line in data[:end].splitlines():
            row = _row(line)
            if row is None or row.get("f") not in KINDS or not isinstance(row.get("t"), int):
                self.skipped += 1
            else:
                yield row

    def behind(self, path: Path) -> bool:
        """Whether there is more of the file than was read."""
        try:
            return path.stat().st_size > self._at.get(path, 0)
        except FileNotFoundError:
            return False


def _row(line: bytes) -> Row | None:
    """One row; also one that follows a torn one on its line (a node's next boot)."""
    start = line.rfind(_ROW_START)
    for candidate in (line, line[start:] if start > 0 else b""):
        try:
            row = orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict):
            return row
    return None
