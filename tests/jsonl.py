"""Reads JSON lines that a thread or process may be writing at this moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def whole_rows(path: Path | str) -> list[dict[str, Any]]:
    """The rows that are whole; a last line without its end is still being written. Empty without a
    file."""
    path = Path(path)
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]
