"""A node's trace: rows of the history's own schema, a JSON object a line, over all of its boots.
Nothing has to be parsed or converted: rows are read back as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError

_ROW_START: Final = b'{"f":'


def read_trace(path: Path) -> Iterator[Mapping[str, Any]]:
    """A torn last line (the node was killed) is left out; raises ``HistoryError`` for other damage,
    naming file and line."""
    if not path.exists():
        return  # it never got as far as its first event
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            row = _row(line)
            if row is None and not line.endswith(b"\n"):
                return  # cut off by a kill: the event was not written, so it was not said
            if row is None:
                raise HistoryError(f"{path}, line {number}: not a JSON object: {line[:80]!r}")
            yield row


def _row(line: bytes) -> dict[str, Any] | None:
    """One row; a row that follows a torn one on the same line (the next boot's first) is found."""
    start = line.rfind(_ROW_START)
    for candidate in (line, line[start:] if start > 0 else b""):
        try:
            row = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(row, dict):
            return row
    return None
