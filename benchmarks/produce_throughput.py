"""``python -m benchmarks.produce_throughput``: produce requests per second of one broker.

64 connections, one request in flight each, 1 KiB, acks=1, the whole path with its log; the load
runs in a process of its own on the same machine. The arms take turns, so that a noisy machine harms
all alike: single and dual plane, one network and one handler thread instead of two and four, and a
single plane whose threads go wherever the kernel puts them instead of keeping to one core while
they are busy (``nodes/network/home_core.py``). Trust the ratios, and the broker's CPU per request,
more than the rates; the canary says how much of its cores the machine gave. Beside Apache Kafka,
and with a slow disk: ``benchmarks.slow_disk``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.canary import canary
from benchmarks.load import LoadSpec, result, running
from benchmarks.one_broker import FIRST_ERROR_AT, OneBroker, one_broker, produce_frame
from harness import interrupts

ONE_THREAD_EACH: Final = {"num.network.threads": "1", "num.io.threads": "1"}


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A broker to measure."""

    dual: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)


ARMS: Final = {
    "single": Arm(),
    "dual": Arm(dual=True),
    "dual-1-1": Arm(dual=True, overrides=ONE_THREAD_EACH),
    "no-home": Arm(overrides={"biplane.data.home.core": "false"}),
}


@dataclass
class Figures:
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def measure(broker: OneBroker, spec: LoadSpec) -> tuple[Any, float]:
    """What the load says, and the broker's CPU microseconds per request."""
    with running(spec) as load:
        time.sleep(spec.warmup_seconds)
        start, before = time.monotonic(), broker.cpu_s()
        time.sleep(spec.seconds * 0.9)
        spent, elapsed = broker.cpu_s() - before, time.monotonic() - start
        said = result(load)
    return said, spent / elapsed / said["per_second"] * 1e6


def main() -> None:
    interrupts.install()  # whoever ends it ends the brokers, too
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--in-flight", type=int, default=1)
    options.add_argument("--seconds", type=float, default=1.5)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--partitions", type=int, default=8)
    options.add_argument("--override", action="append", default=[], metavar="CONFIG=VALUE")
    chosen = options.parse_args()
    overrides = dict(entry.split("=", 1) for entry in chosen.override)
    found = {name: Figures() for name in ARMS}
    with ExitStack() as stack:
        brokers = {
            name: stack.enter_context(
                one_broker(
                    dual=arm.dual,
                    partitions=chosen.partitions,
                    overrides={**arm.overrides, **overrides},
                )
            )
            for name, arm in ARMS.items()
        }
        for _ in range(chosen.rounds):
            for name, broker in brokers.items():
                spec = LoadSpec(
                    port=broker.client_port,
                    connections=chosen.connections,
                    in_flight=chosen.in_flight,
                    seconds=chosen.seconds,
                    frames_hex=[produce_frame(i).hex() for i in range(chosen.partitions)],
                    error_at=FIRST_ERROR_AT,
                )
                with canary() as machine:
                    said, cpu_us = measure(broker, spec)
                found[name].rates.append(said["per_second"])
                found[name].cpu_us.append(cpu_us)
                print(
                    f"{name:9} {said['per_second']:8,.0f} requests/s   broker {cpu_us:5.1f} us CPU "
                    f"each   p50 {said['p50_ms']:5.2f} p99 {said['p99_ms']:5.2f} ms   "
                    f"errors {said['errors']}   {machine}",
                    flush=True,
                )
    base = found["single"]
    for name, figures in found.items():
        print(
            f"{name:9} median {statistics.median(figures.rates):8,.0f} requests/s, best "
            f"{max(figures.rates):8,.0f}; broker {statistics.median(figures.cpu_us):5.1f} us each; "
            f"to single, round by round: rate {ratio(figures.rates, base.rates):.2f}, "
            f"CPU {ratio(figures.cpu_us, base.cpu_us):.2f}"
        )


def ratio(values: list[float], to: list[float]) -> float:
    """The median of the rounds' ratios: both sides of each saw the same machine."""
    return statistics.median(a / b for a, b in zip(values, to, strict=True))


if __name__ == "__main__":
    main()
