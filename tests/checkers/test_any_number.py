"""Whatever numbers, lists and texts a broker tells: no check crashes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from checkers.check import check_all
from checkers.history import KINDS
from checkers.history.frames import History
from checkers.history.made import make
from checkers.history.parts import read_rows
from checkers.promises import NAMES

WORDS: Final = frozenset(
    ("type", "process", "phase", "name", "event", "fault", "id", "source", "what", "role")
)
"""By these a history is put together; nothing that a broker says is in them."""
ODD: Final[dict[str, tuple[Any, ...]]] = {
    "int32": (2**31 - 1, -(2**31), 0),
    "int64": (2**63 - 1, -(2**63), 0),
    "string": ("9" * 30, "@", "-"),
    "list<int32>": ([2**31 - 1], [], [-(2**31)]),
    "list<string>": (["9" * 30], [], ["@", "1@"]),
}
COUNTED: Final = frozenset({"fault", "flood", "phase", "source", "connection"})
"""Kinds of what the harness says of itself."""
OWN: Final = ("arm", "trial", "seq", "boot", "t", "error_ns", "invoke_t", "op")


def altered(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each column in a few rows of its own, in one way after the other."""
    if kind in COUNTED:
        return rows
    told = {
        name: ODD[of]
        for name, of in KINDS[kind].columns.items()
        if of in ODD and name not in (*OWN, *WORDS) and not name.endswith("_t")
    }
    ways = [(name, way) for name, odd in told.items() for way in odd]
    for number, (name, way) in enumerate(ways):
        for row in rows[number :: len(ways)][:2]:
            row[name] = way
    return rows


@pytest.mark.spark
def test_no_check_crashes(spark: Any, tmp_path: Path) -> None:
    make(tmp_path / "run", rows=8_000)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    kinds = [path.name.removeprefix("f=") for path in (tmp_path / "run" / "history").glob("f=*")]
    rows = {kind: altered(kind, read_rows(tmp_path / "run" / "history", kind)) for kind in kinds}
    found = check_all(History.of(spark, rows, run), NAMES)
    reasons = [(name, why) for name, check in found.checks.items() for why in check.reasons]
    crashed = [each for each in reasons if "crashed" in each[1]]
    assert not crashed
    assert found.checks["evidence"].verdict != "valid"
