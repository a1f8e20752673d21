"""What the benchmark of the checkers says of a process, and of its rows."""

from __future__ import annotations

import sys

import pytest

from benchmarks.checkers import Cost, Row, cost_of, lines

_WORK = """
import subprocess, sys, time
begun = time.process_time()
held = bytearray(80_000_000)
while time.process_time() - begun < 0.5:
    pass
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


@pytest.mark.slow
def test_a_process_costs_what_it_and_its_children_do() -> None:
    """The child's time counts although the parent waits for it; memory is that of both at once."""
    alone = cost_of([sys.executable, "-c", _WORK])
    both = cost_of([sys.executable, "-c", _WORK, _WORK])
    assert alone.cpu_s > 0.4
    assert both.cpu_s > 0.9
    assert alone.python_bytes > 80_000_000
    assert both.python_bytes > 160_000_000
    assert both.engine_bytes == 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        cost_of([sys.executable, "-c", "import sys\ntry:\n    1/0\nexcept Exception as e:\n"
                 "    print(repr(e)); sys.exit(255)"])  # fmt: skip


def test_rows_say_how_cost_grew() -> None:
    def row(rows: int, cpu_s: float, exact: bool = True) -> Row:
        one = Row("load", True, rows, verdict="invalid", exact=exact)
        one.costs = [Cost(cpu_s=cpu_s * n, engine_bytes=10**9) for n in (0.5, 1, 3)]
        one.four, one.duckdb = [Cost(cpu_s=6.0)], [Cost(cpu_s=1.5)]
        return one

    small, large = list(lines([row(10**6, 20.0), row(10**7, 63.246, exact=False)]))[1:]
    assert small.split() == [
        *("load", "planted", "1,000,000", "20.0", "0.0", "0.050", "1000", "0", "-", "4.0"),
        *("yes", "invalid"),
    ]
    assert large.split()[8:11] == ["0.50", "4.0", "NO"]
