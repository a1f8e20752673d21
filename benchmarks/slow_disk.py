"""``python -m benchmarks.slow_disk``: produce requests per second while each write stalls.

The stall is in the write system call (`benchmarks.slow_writes`), of 0, 2, 5 and 10 ms, at 1, 4 and
8 request handlers; 64 connections, one request in flight each, 1 KiB, acks=1, spread over 64
partitions. Apache Kafka, where its jars are (``make kafka``), has the very same stalls beside it:
both brokers of one number of handlers run at once and take turns, stall by stall, round by round.
Trust the ratios. At a stall both can do at most handlers / stall requests a second ("the bound").

A broker whose threads wait for one another beyond what Kafka's do falls behind here: a flood's harm
to one plane would then be the scheduler's, not the disk's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.canary import canary
from benchmarks.load import LoadSpec, result, running
from benchmarks.one_broker import FIRST_ERROR_AT, OneBroker, one_broker, produce_frame
from benchmarks.slow_writes import NoCompiler, SlowWrites
from harness import interrupts
from harness.runtime.protocol import SetupError
from harness.sut.kafka_jars import ZOOKEEPER_LINE, libs_dir

_PARTITIONS: Final = 64
_CONNECTIONS: Final = 64
OURS: Final = "dualplane"
KAFKA: Final = "kafka"


@dataclass(frozen=True, slots=True)
class Slow:
    """A broker and what its writes take."""

    broker: OneBroker
    writes: SlowWrites


@dataclass(slots=True)
class Figures:
    """Of one broker at one stall and number of handlers, round by round."""

    rates: list[float] = field(default_factory=list)
    p99s_ms: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    """For each request."""


@contextmanager
def slow_broker(handlers: int, kafka: Path | None) -> Iterator[Slow]:
    """Single plane, two network threads, `handlers` request handlers."""
    with tempfile.TemporaryDirectory(prefix="biplane-slow-") as scratch:
        folder = Path(scratch).resolve()
        logs = folder / "logs"
        logs.mkdir()
        writes = SlowWrites(folder, logs)
        try:
            with one_broker(
                dual=False,
                partitions=_PARTITIONS,
                overrides={"num.io.threads": str(handlers), "log.dirs": str(logs)},
                environment=writes.environment,
                kafka=kafka,
            ) as broker:
                yield Slow(broker, writes)
        finally:
            writes.close()


def measure(slow: Slow, stall_ms: float, seconds: float, found: Figures) -> None:
    spec = LoadSpec(
        port=slow.broker.client_port,
        connections=_CONNECTIONS,
        seconds=seconds,
        frames_hex=[produce_frame(partition).hex() for partition in range(_PARTITIONS)],
        error_at=FIRST_ERROR_AT,
    )
    slow.writes.stall(stall_ms)
    try:
        with running(spec) as load:
            time.sleep(spec.warmup_seconds)
            start, before = time.monotonic(), slow.writes.count
            time.sleep(seconds * 0.9)
            writes_per_s = (slow.writes.count - before) / (time.monotonic() - start)
            said = result(load)
    finally:
        slow.writes.stall(0)
    if said["errors"]:
        raise RuntimeError(f"{said['errors']} produce requests were refused")
    found.rates.append(said["per_second"])
    found.p99s_ms.append(said["p99_ms"] or 0.0)
    found.writes.append(writes_per_s / said["per_second"])


def row(name: str, handlers: int, stall_ms: float, figures: Figures) -> str:
    rate = statistics.median(figures.rates)
    bound = f"{rate / (handlers * 1000 / stall_ms):4.0%}" if stall_ms else "   -"
    return (
        f"{handlers:3} handlers  {stall_ms:4.0f} ms  {name:9} {rate:8,.0f}/s  "
        f"of the bound {bound}  p99 {statistics.median(figures.p99s_ms):7.1f} ms  "
        f"writes a request {statistics.median(figures.writes):4.2f}"
    )


def ratio(ours: Figures, kafka: Figures) -> float:
    """The median of the rounds' ratios: both sides of each saw the same machine."""
    pairs = zip(ours.rates, kafka.rates, strict=True)
    return statistics.median(a / b for a, b in pairs)


def jars() -> Path | None:
    try:
        return libs_dir(ZOOKEEPER_LINE)
    except SetupError as lack:
        print(f"without Apache Kafka beside it: {lack}")
        return None


def main() -> int:
    interrupts.install()  # whoever ends it ends the brokers, too
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--handlers", default="1,4,8")
    options.add_argument("--stalls-ms", default="0,2,5,10")
    options.add_argument("--seconds", type=float, default=1.5)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--warm-up", type=float, default=6.0, help="seconds, for Kafka's compiler")
    options.add_argument("--without-kafka", action="store_true")
    chosen = options.parse_args()
    stalls = [float(text) for text in chosen.stalls_ms.split(",")]
    libs = None if chosen.without_kafka else jars()
    kinds: dict[str, Path | None] = {OURS: None} | ({KAFKA: libs} if libs else {})
    lines: list[str] = []
    try:
        for handlers in [int(text) for text in chosen.handlers.split(",")]:
            lines += compare(kinds, handlers, stalls, chosen)
    except NoCompiler as lack:
        print(f"slow_disk: {lack}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def compare(
    kinds: dict[str, Path | None], handlers: int, stalls: list[float], chosen: argparse.Namespace
) -> list[str]:
    found = {(name, stall_ms): Figures() for name in kinds for stall_ms in stalls}
    with ExitStack() as stack:
        brokers = {
            name: stack.enter_context(slow_broker(handlers, kafka)) for name, kafka in kinds.items()
        }
        for slow in brokers.values():
            measure(slow, 0, chosen.warm_up, Figures())
        for _ in range(chosen.rounds):
            for stall_ms in stalls:
                for name, slow in brokers.items():
                    figures = found[name, stall_ms]
                    with canary() as machine:
                        measure(slow, stall_ms, chosen.seconds, figures)
                    print(
                        f"{handlers} handlers, {stall_ms:g} ms: {name:9} "
                        f"{figures.rates[-1]:8,.0f}/s   {machine}",
                        flush=True,
                    )
    lines = []
    for stall_ms in stalls:
        lines += [row(name, handlers, stall_ms, found[name, stall_ms]) for name in kinds]
        if KAFKA in kinds:
            times = ratio(found[OURS, stall_ms], found[KAFKA, stall_ms])
            lines.append(f"{handlers:3} handlers  {stall_ms:4.0f} ms  to Kafka: {times:.2f}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
