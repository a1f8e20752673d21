"""What each plane served, once a second, and what the handlers count of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkers.history import problem_with
from nodes.plane_use import PlaneUse
from nodes.trace import Trace
from tests.jsonl import whole_rows


def test_what_came_since_the_last_time_is_told(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace.jsonl", node=1)
    served: dict[tuple[str, str, int], int] = {("data", "CLIENT", 0): 5}
    times = iter([100, 200, 300, 400])
    use = PlaneUse(lambda: served, trace, {0: "PRODUCE", 4: "LEADER_AND_ISR"}.__getitem__,
                   lambda: next(times))  # fmt: skip
    use.tell()
    served = {("data", "CLIENT", 0): 7, ("control", "CONTROLLER", 4): 1}
    use.tell()
    use.tell()
    trace.close()
    rows = whole_rows(tmp_path / "trace.jsonl")
    told: list[Any] = [r for r in rows if r["f"] == "plane_use"]
    assert [(r["plane"], r["listener"], r["api"], r["requests"], r["interval_ns"])
            for r in told] == [
        ("data", "CLIENT", "PRODUCE", 5, 100),
        ("control", "CONTROLLER", "LEADER_AND_ISR", 1, 100),
        ("data", "CLIENT", "PRODUCE", 2, 100),
    ]  # fmt: skip
    assert all(problem_with(r) is None for r in told)
