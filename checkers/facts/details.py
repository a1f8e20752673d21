"""What the harness wrote beside an event: the JSON object in ``detail``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


def details(row: Row) -> dict[str, Any]:
    """Nothing where nothing was written, or what there is is no JSON object."""
    try:
        found = json.loads(row["detail"] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def all_details(rows: Iterable[Row]) -> dict[str, Any]:
    """Of a fault's steps, in their order: what a later one says counts."""
    found: dict[str, Any] = {}
    for row in rows:
        found |= details(row)
    return found
