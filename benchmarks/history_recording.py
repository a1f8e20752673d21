"""``python -m benchmarks.history_recording``: what writing an operation down costs.

One process records produce operations (an invocation and a completion each) through
`harness.workload.recorder.LiveRecorder`, as workloads do, into a file that is thrown away. The arms
take turns: the recorder, the same rows through the standard library's JSON, and the loop alone,
which is taken off the others. CPU time of the whole process counts, so the writing thread's too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.workload.recorder import LiveRecorder

Arm = Callable[[int, Path], None]


def recorder(operations: int, path: Path) -> None:
    with LiveRecorder(path, "bench") as live:
        for op in range(operations):
            live.invoke("produce", op, op, topic="t", partition=0, value=op, acks=1, node=1)
            live.complete(
                "produce", op, "ok", op, op, topic="t", partition=0, value=op, acks=1,
                node=1, error=0, offset=op, log_append_time_ms=op,
            )  # fmt: skip


def standard_json(operations: int, path: Path) -> None:
    with path.open("w") as file:
        for op in range(operations):
            row = {"f": "produce", "process": "bench", "op": op, "topic": "t", "partition": 0}
            row |= {"value": op, "acks": 1, "node": 1}
            file.write(json.dumps({**row, "type": "invoke", "t": op}) + "\n")
            done = {"type": "ok", "invoke_t": op, "t": op, "error": 0, "offset": op}
            file.write(json.dumps({**row, **done, "log_append_time_ms": op}) + "\n")


def nothing(operations: int, path: Path) -> None:
    for _ in range(operations):
        pass


ARMS: dict[str, Arm] = {"recorder": recorder, "json": standard_json, "loop": nothing}


def cost_us(arm: Arm, operations: int) -> tuple[float, float]:
    """(CPU microseconds an operation, bytes an operation)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "live.jsonl"
        before = time.process_time()
        arm(operations, path)
        spent = time.process_time() - before
        size = path.stat().st_size if path.exists() else 0
    return spent / operations * 1e6, size / operations


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    costs: dict[str, list[float]] = {name: [] for name in ARMS}
    sizes: dict[str, float] = {}
    for _ in range(options.rounds):
        for name, arm in ARMS.items():
            spent, sizes[name] = cost_us(arm, options.operations)
            costs[name].append(spent)
    floor = statistics.median(costs["loop"])
    medians = {name: statistics.median(costs[name]) - floor for name in ("recorder", "json")}
    for name, median in medians.items():
        low, high = min(costs[name]), max(costs[name])
        print(
            f"{name:9} {median:6.2f} us CPU an operation [{low:.2f}, {high:.2f}], "
            f"two rows, {sizes[name]:.0f} bytes"
        )
    print(f"json / recorder: {medians['json'] / medians['recorder']:.1f}")


if __name__ == "__main__":
    main()
