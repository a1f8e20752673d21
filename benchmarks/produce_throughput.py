"""``python -m benchmarks.produce_throughput``: produce requests per second of one broker.

64 connections, one request in flight each, 1 KiB, acks=1, the whole path with its log; the load
runs in a process of its own on the same machine. Single and dual plane take turns, so that a noisy
machine harms both alike; trust the ratio more than the figures.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.load import LoadSpec
from benchmarks.one_broker import one_broker, produce_frame


def measure(port: int, *, connections: int, in_flight: int, seconds: float, parts: int) -> Any:
    spec = LoadSpec(
        port=port,
        connections=connections,
        in_flight=in_flight,
        seconds=seconds,
        frames_hex=[produce_frame(partition).hex() for partition in range(parts)],
    )
    command = [sys.executable, "-m", "benchmarks.load", spec.argument()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--in-flight", type=int, default=1)
    options.add_argument("--seconds", type=float, default=2.5)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--partitions", type=int, default=8)
    options.add_argument("--override", action="append", default=[], metavar="CONFIG=VALUE")
    chosen = options.parse_args()
    overrides = dict(entry.split("=", 1) for entry in chosen.override)
    rates: dict[str, list[float]] = {"single": [], "dual": []}
    with (
        one_broker(dual=False, partitions=chosen.partitions, overrides=overrides) as single,
        one_broker(dual=True, partitions=chosen.partitions, overrides=overrides) as dual,
    ):
        for _ in range(chosen.rounds):
            for name, broker in (("single", single), ("dual", dual)):
                result = measure(
                    broker.client_port,
                    connections=chosen.connections,
                    in_flight=chosen.in_flight,
                    seconds=chosen.seconds,
                    parts=chosen.partitions,
                )
                rates[name].append(result["per_second"])
                print(
                    f"{name:6} {result['per_second']:9,.0f} requests/s   "
                    f"p50 {result['p50_ms']:.2f} ms   p99 {result['p99_ms']:.2f} ms   "
                    f"errors {result['errors']}"
                )
    single_rate, dual_rate = (statistics.median(rates[name]) for name in ("single", "dual"))
    print(f"dual / single: {dual_rate / single_rate:.2f}")


if __name__ == "__main__":
    main()
