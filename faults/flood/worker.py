"""One flood worker process: ``python -m faults.flood.worker SPEC.json``.

Protocol with its parent, on standard streams:

    worker: ready      every connection is dialled and served (and the topic takes records)
    parent: go         the flood begins
    worker: {...}      its totals, as JSON, when it is over

It ends on SIGTERM, when its standard input closes (its parent ended, however), after
``duration_ms`` or ``max_requests``, and when the word to begin does not come. Stats rows (kind
``flood``) are appended to its live file every ``interval_ms``, each with one write.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Final

import orjson

from faults.flood.engine import Counters, Engine
from faults.flood.priority import step_back
from faults.flood.requests import templates
from faults.flood.spec import FloodSpec

_TICK_S: Final = 0.05
_DIAL_LIMIT_S: Final = 60.0
_WARM_LIMIT_S: Final = 15.0
_DRAIN_S: Final = 2.0


class _Parent:
    """What the parent says. ``over`` once it has gone or asked us to end."""

    def __init__(self) -> None:
        self.over = False
        self.begun = False
        self._said = b""
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN | select.POLLHUP)
        signal.signal(signal.SIGTERM, self._terminated)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _terminated(self, _signal: int, _frame: object) -> None:
        self.over = True

    def listen(self, timeout_s: float = 0.0) -> None:
        if self.over or not self._poll.poll(timeout_s * 1000):
            return
        data = os.read(0, 64)
        if not data:
            self.over = True
        self._said += data
        self.begun = b"go\n" in self._said


class _Stats:
    """Appends the interval's counters as a row; keeps the totals."""

    def __init__(self, spec: FloodSpec) -> None:
        self._spec = spec
        self._fd = os.open(spec.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._since = time.monotonic_ns()
        self.total = Counters()
        self.peak_connections = 0

    def start(self, engine: Engine) -> None:
        engine.counters = Counters()
        self._since = time.monotonic_ns()

    def due(self) -> bool:
        return time.monotonic_ns() - self._since >= self._spec.interval_ms * 1_000_000

    def write(self, engine: Engine) -> None:
        now, reached = time.monotonic_ns(), engine.counters
        engine.counters = Counters()
        row = {
            "f": "flood",
            "t": now,
            "process": self._spec.process,
            "node": self._spec.node,
            "id": self._spec.id,
            "interval_ns": now - self._since,
            "connections": engine.open,
            **dataclasses.asdict(reached),
        }
        os.write(self._fd, orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        self._since = now
        self.total.add(reached)
        self.peak_connections = max(self.peak_connections, engine.open)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _make_ready(engine: Engine, spec: FloodSpec, parent: _Parent) -> str | None:
    """Dial everything, then see the first request succeed; the reason when that fails."""
    deadline = time.monotonic() + _DIAL_LIMIT_S
    while engine.open < spec.connections and not parent.over:
        engine.step(_TICK_S)
        parent.listen()
        if time.monotonic() > deadline:
            return f"{engine.open} of {spec.connections} connections after {_DIAL_LIMIT_S} s"
    if spec.mode != "request":
        return None
    # One request on a connection of its own until the broker takes it: a topic that was just made
    # is known in ZooKeeper before it is known to the broker.
    warm = Engine((spec.host, spec.port), templates(spec)[:1], 1)
    deadline = time.monotonic() + _WARM_LIMIT_S
    refused = ""
    try:
        while not parent.over:
            warm.requests_left = 1
            warm.counters = Counters()
            warm.begin()
            while warm.counters.completed + warm.counters.errors == 0 and not parent.over:
                warm.step(_TICK_S)
                parent.listen()
                if time.monotonic() > deadline:
                    return refused or "no answer to the first request"
            if not warm.counters.errors:
                return None
            refused = "the first request is answered with an error"
            parent.listen(_TICK_S)
    finally:
        warm.close()
    return None


def _flood(engine: Engine, spec: FloodSpec, parent: _Parent, stats: _Stats) -> None:
    gc.collect()
    gc.freeze()
    stats.start(engine)
    engine.requests_left = spec.max_requests
    if spec.mode == "storm":
        engine.begin_storm()
    elif spec.mode == "request":
        engine.begin()
    end = time.monotonic_ns() + spec.duration_ms * 1_000_000
    while not parent.over and time.monotonic_ns() < end:
        engine.step(_TICK_S)
        if stats.due():
            stats.write(engine)
            parent.listen()
            if engine.requests_left <= 0 and not engine.in_flight:
                break
    engine.end()
    deadline = time.monotonic() + _DRAIN_S
    while engine.in_flight and time.monotonic() < deadline:
        engine.step(_TICK_S)
    stats.write(engine)


def main(argv: list[str]) -> int:
    spec = FloodSpec.load(Path(argv[1]))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    parent = _Parent()
    stats = _Stats(spec)
    engine = Engine(
        (spec.host, spec.port), templates(spec), spec.connections, storm=spec.mode == "storm"
    )
    try:
        failure = _make_ready(engine, spec, parent)
        if failure is not None:
            print(f"flood {spec.id} on node {spec.node}: {failure}", file=sys.stderr)
            return 1
        step_back()
        _say("ready")
        deadline = time.monotonic() + spec.start_wait_ms / 1000
        while not parent.begun and not parent.over and time.monotonic() < deadline:
            engine.step(0.001)  # connections that idle too long are closed by brokers: dial anew
            parent.listen(_TICK_S)
        if parent.begun and not parent.over:
            _flood(engine, spec, parent, stats)
    finally:
        engine.close()
    totals = dataclasses.asdict(stats.total) | {"connections": stats.peak_connections}
    try:
        _say(json.dumps(totals))
    except BrokenPipeError:
        os._exit(0)  # nobody listens any more
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
