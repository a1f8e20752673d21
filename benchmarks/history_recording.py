"""``python -m benchmarks.history_recording``: what an operation's history costs a client.

One invocation and one completion through `LiveRecorder`, its writing thread included: CPU of the
whole process per operation, beside a loop that does the same without recording. In turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.workload.recorder import LiveRecorder


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--operations", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    found: dict[str, list[float]] = {"recorded": [], "not recorded": []}
    with tempfile.TemporaryDirectory(prefix="biplane-bench-") as scratch:
        for index in range(chosen.rounds):
            path = Path(scratch) / f"{index}.jsonl"
            found["recorded"].append(_recorded(path, chosen.operations))
            found["not recorded"].append(_bare(chosen.operations))
    for name, values in found.items():
        print(f"{name:13} {statistics.median(values):6.2f} us CPU per operation")
    cost = statistics.median(
        a - b for a, b in zip(found["recorded"], found["not recorded"], strict=True)
    )
    print(f"the history of an operation costs {cost:.2f} us")


def _recorded(path: Path, operations: int) -> float:
    with LiveRecorder(path, "bench") as recorder:
        invoke, complete = recorder.invoke, recorder.complete

        def operation(op: int) -> None:
            t = time.monotonic_ns()
            invoke("produce", op, t, topic="load", partition=op & 7, value=op, acks=1)
            complete("produce", op, "ok", t, time.monotonic_ns(), offset=op)

        # The writer must have caught up before the clock stops: its work is part of the price.
        return _cpu_us(operation, operations, recorder.flush)


def _bare(operations: int) -> float:
    def operation(_op: int) -> None:
        time.monotonic_ns()
        time.monotonic_ns()

    return _cpu_us(operation, operations, lambda: None)


def _cpu_us(operation: Callable[[int], None], count: int, finish: Callable[[], object]) -> float:
    start = time.process_time()
    for op in range(count):
        operation(op)
    finish()
    return (time.process_time() - start) / count * 1e6


if __name__ == "__main__":
    main()
