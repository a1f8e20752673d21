"""The HTML page of a run."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path) -> Path:
    """Write ``report.html`` of a stored run; answers its path."""
    raise NotImplementedError
