"""``python -m benchmarks.checkers``: what judging costs, by a history's size and shape.

Histories are made (`checkers.history.made`), clean and planted. Each is judged by the command that
users have, in a process of its own, and what counts is the CPU time of its whole process tree, the
engine's included: the one that users get (`checkers.spark.engine`), or ``--master``'s. Beside it
four promises alone, and the same questions put to DuckDB (`tests.checkers.second_opinion`), also
with all that a process costs. By row:

    rows/CPU-s  of a full check; engine (the JVM, or Sail's server), Python: their peak memory;
    exponent: how CPU time grew against the next smaller size of that shape (1.0: as the rows did);
    exact: every planted anomaly was counted, and nothing else; of DuckDB: four promises' CPU time,
    by DuckDB's

Sizes take turns, so that the machine's drift falls on all of them; ``--repeat 3`` gives medians.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkers.history.made import make
from checkers.history.made.plants import parse
from harness.cli_options import rows_of

PLANTED = "acked-all-lost=7,unexplained-loss=5,replica-differs=11,metadata-never-committed=3"
QUESTIONS = ("truncation-loss", "stale-metadata", "controller-latency", "records")
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_S = 0.05


@dataclass(slots=True)
class Cost:
    """Of one process tree. Memory: the most that each program's processes had, together."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    engine_bytes: int = 0
    python_bytes: int = 0
    exit_code: int = 0


@dataclass(slots=True)
class Row:
    shape: str
    planted: bool
    rows: int
    costs: list[Cost] = field(default_factory=list)
    four: list[Cost] = field(default_factory=list)
    duckdb: list[Cost] = field(default_factory=list)
    verdict: str = ""
    exact: bool = True

    def median(self, name: str, of: str = "costs") -> float:
        return statistics.median(getattr(cost, name) for cost in getattr(self, of))


def tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree(int(child))


def cost_of(command: Sequence[str]) -> Cost:
    """Run it to its end, looking at its processes on the way: of one that nobody waits for (a JVM
    outlives the Python that started it) what it did since the last look is not counted."""
    begun, cost, before = time.monotonic(), Cost(), _waited_for_s()
    cpu: dict[int, float] = {}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        while process.poll() is None:
            memory = {True: 0, False: 0}
            for pid in tree(process.pid):
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    command_line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                cpu[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
                answers = command_line[0].endswith(b"java") or b"checkers.sail" in command_line
                memory[answers] += int(fields[21]) * 4096
            cost.engine_bytes = max(cost.engine_bytes, memory[True])
            cost.python_bytes = max(cost.python_bytes, memory[False])
            time.sleep(_LOOK_S)
        cost.exit_code = process.returncode
        if cost.exit_code not in (0, 1, 2):
            output.seek(0)
            raise RuntimeError(output.read().decode(errors="replace")[-3000:])
    cost.cpu_s = max(sum(cpu.values()), _waited_for_s() - before)
    cost.wall_s = time.monotonic() - begun
    return cost


def _waited_for_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


_FOUR = """
import sys
from checkers.check import check_all
from checkers.history.frames import History
with History.load(sys.argv[1], master=sys.argv[2] or None, judge=True) as history:
    check_all(history, sys.argv[3].split(","))
"""
_DUCKDB = """
import sys
from pathlib import Path
from tests.checkers.second_opinion import SecondOpinion
SecondOpinion({f.name[2:]: f for f in Path(sys.argv[1], "history").glob("f=*")})
"""


def measure(row: Row, run: Path, master: str, truth: dict[str, int]) -> None:
    out = run.parent / "out"
    check = [sys.executable, "-m", "harness.cli", "check", str(run)]
    check += ["--master", master] if master else []
    row.costs.append(cost_of([*check, "--out", str(out)]))
    results: dict[str, Any] = json.loads((out / "results.json").read_text())
    row.verdict = f"{results['verdict']}, by {results['engine']}"
    counts: dict[str, int] = {}
    for found in results["checks"].values():
        for rule, n in found["violation_counts"].items():
            counts[rule] = counts.get(rule, 0) + n
    row.exact = row.exact and counts == truth
    four = [sys.executable, "-c", _FOUR, str(run), master, ",".join(QUESTIONS)]
    row.four.append(cost_of(four))
    row.duckdb.append(cost_of([sys.executable, "-c", _DUCKDB, str(run)]))


def lines(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "shape planted         rows   CPU s  wall s  M rows/CPU-s  engine MB  Python MB  exponent  "
        "of DuckDB  exact  verdict"
    )
    before: dict[tuple[str, bool], Row] = {}
    for row in rows:
        cpu_s = row.median("cpu_s")
        key = (row.shape, row.planted)
        exponent = "-"
        if key in before:
            grown = math.log(cpu_s / before[key].median("cpu_s"))
            exponent = f"{grown / math.log(row.rows / before[key].rows):.2f}"
        before[key] = row
        ratio = row.median("cpu_s", "four") / row.median("cpu_s", "duckdb")
        yield (
            f"{row.shape:5} {'planted' if row.planted else 'clean':7} {row.rows:12,} {cpu_s:7.1f} "
            f"{row.median('wall_s'):7.1f} {row.rows / cpu_s / 1e6:13.3f} "
            f"{row.median('engine_bytes') / 1e6:10.0f} {row.median('python_bytes') / 1e6:10.0f} "
            f"{exponent:>9} {ratio:10.1f} {'yes' if row.exact else 'NO':>6}  {row.verdict}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="1M,10M", help="sizes, by comma")
    parser.add_argument("--shapes", default="load,soak")
    parser.add_argument("--plants", default="clean,planted")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--master", default="", help="sail, local[2], ... (default: by size)")
    parser.add_argument("--folder", default=None, help="for the histories (default: temporary)")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(dir=given.folder))
    rows: list[tuple[Row, Path, dict[str, int]]] = []
    try:
        for size in given.rows.split(","):
            for shape in given.shapes.split(","):
                for what in given.plants.split(","):
                    run = home / f"{shape}-{size}-{what}" / "run"
                    plants = parse(PLANTED) if what == "planted" else {}
                    begun = time.process_time()
                    truth = make(run, rows=rows_of(size), shape=shape, plants=plants)
                    spent = time.process_time() - begun
                    print(
                        f"made {shape} {size} {what}: {truth.rows / spent / 1e6:.2f} M rows/CPU-s"
                    )
                    rows.append((Row(shape, bool(plants), truth.rows), run, plants))
        for _ in range(given.repeat):
            for row, run, plants in rows:
                measure(row, run, given.master, plants)
                print(f"judged {run.parent.name}: {row.costs[-1].cpu_s:.1f} CPU-s", flush=True)
        for line in lines([row for row, _, _ in rows]):
            print(line)
    finally:
        shutil.rmtree(home)
    return 0 if all(row.exact for row, _, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
