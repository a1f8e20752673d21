"""``python -m benchmarks.control_latency``: a control request's round trip, idle and under load.

A valid no-op UpdateMetadata (no topics, this broker alive) is sent on a clock, 40 a second, to the
listener that a controller would use, and counted from its planned time, so that a late answer
cannot flatter the next. They take turns on 16 connections, so that one that waits for half a second
does not hold up the others either. States of the data plane:

    idle         nothing else
    load         64 connections, one partition x 1 KiB, acks=1, one request in flight each
    flood-1k     640 connections (above queued.max.requests), 20 partitions x 1 KiB, acks=1
    flood-10k    the same x 10 KiB: what makes Apache Kafka's single plane wait longest
    fetch        640 connections read 20 partitions from their start, up to 64 KiB of each
    fetch-large  64 connections, the same, up to 1 MiB of each
    metadata     640 connections, all topics
    connections  64 connections at a time, each for one request

Single and dual plane take turns in each state, round by round; the ratios are what to trust. The
floods step back as those of the harness do, and the prober has the priority that it has there.

Beside each row: how much of it passed inside the broker, from the request read whole to its answer
sent (by its own trace), and in which stage. The rest is the wire, the prober, and the wait of a
network thread for a core and for the interpreter before it reads. On a machine that others use,
too, that rest grows: whoever holds the interpreter may be put off its core, priorities or not.
"""

from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import orjson

from benchmarks.canary import canary
from benchmarks.load import LoadSpec, result, running
from benchmarks.one_broker import (
    FIRST_ERROR_AT,
    OneBroker,
    create_topic,
    one_broker,
    produce_frame,
)
from harness import interrupts
from harness.workload.priority import prefer_this_thread
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.client import Connection
from nodes.wire.codec import build, decode_response, encode_request

_CONNECTIONS: Final = 16
_INTERVAL_NS: Final = 25_000_000
_PARTITIONS: Final = 20
_ALL: Final = tuple(range(_PARTITIONS))
_TRACE: Final = "trace.jsonl"
_STORED: Final = "stored"
"""The topic to fetch from; nothing else is written to it, so that nothing of it is removed."""


def _request(api: ApiKey, version: int, **fields: Any) -> bytes:
    return encode_request(build(request_class(api, version), **fields), 1, "bench")


def _fetch(partition_bytes: int) -> bytes:
    rows = [
        {"partition": p, "fetch_offset": 0, "partition_max_bytes": partition_bytes} for p in _ALL
    ]
    return _request(
        ApiKey.FETCH,
        4,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=partition_bytes * _PARTITIONS,
        topics=[{"topic": _STORED, "partitions": rows}],
    )


@dataclass(frozen=True, slots=True)
class State:
    """What the data plane is busy with."""

    connections: int = 0
    frames: Sequence[bytes] = ()
    steps_back: bool = True
    """As the harness's floods do."""
    error_at: int = 0
    redial: bool = False


STATES: Final[dict[str, State]] = {
    "idle": State(),
    "load": State(
        64,
        [produce_frame(partition) for partition in _ALL],
        steps_back=False,
        error_at=FIRST_ERROR_AT,
    ),
    "flood-1k": State(640, [produce_frame(*_ALL)], error_at=FIRST_ERROR_AT),
    "flood-10k": State(640, [produce_frame(*_ALL, value_bytes=10 * 1024)], error_at=FIRST_ERROR_AT),
    "fetch": State(640, [_fetch(64 << 10)]),
    "fetch-large": State(64, [_fetch(1 << 20)]),
    "metadata": State(
        640, [_request(ApiKey.METADATA, 4, topics=None, allow_auto_topic_creation=False)]
    ),
    "connections": State(
        64, [_request(ApiKey.METADATA, 4, topics=[], allow_auto_topic_creation=False)], redial=True
    ),
}
_SMALL_LOGS: Final = {
    "log.segment.bytes": str(8 << 20),
    "log.retention.bytes": str(16 << 20),
    "log.retention.ms": "-1",  # the records are as old as time
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "0",
}
"""So that floods of some hundred MB a second do not fill the disk."""


def probes(broker: OneBroker, seconds: float) -> list[int]:
    """Round trips in nanoseconds from each probe's planned time."""
    found: list[int] = []
    problems: list[Exception] = []
    start_ns = time.monotonic_ns() + 50_000_000
    end_ns = start_ns + int(seconds * 1e9)

    def run(index: int) -> None:
        prefer_this_thread()
        planned = range(start_ns + index * _INTERVAL_NS, end_ns, _CONNECTIONS * _INTERVAL_NS)
        try:
            _probe(broker, planned, found)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return found


def _probe(broker: OneBroker, planned: Iterable[int], found: list[int]) -> None:
    endpoint = {
        "port": broker.inter_broker_port,
        "host": "127.0.0.1",
        "listener": "REPLICATION",
        "security_protocol": 0,
    }
    client_endpoint = {**endpoint, "port": broker.client_port, "listener": "CLIENT"}
    entity: Any = build(
        request_class(ApiKey.UPDATE_METADATA, 8),
        controller_id=1,
        controller_epoch=1,
        broker_epoch=-1,
        topic_states=[],
        live_brokers=[{"id_": 1, "endpoints": [endpoint, client_endpoint], "rack": None}],
    )
    with Connection("127.0.0.1", broker.control_port, "bench", 30.0) as connection:
        for planned_ns in planned:
            wait_ns = planned_ns - time.monotonic_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / 1e9)
            connection.request(entity)
            found.append(time.monotonic_ns() - planned_ns)


def fill(broker: OneBroker) -> None:
    """Something to fetch: 2 MiB in each partition."""
    with Connection("127.0.0.1", broker.client_port, "bench", 30.0) as client:
        create_topic(client, _PARTITIONS, _STORED)
    frame = produce_frame(*_ALL, value_bytes=64 * 1024, topic=_STORED)
    with socket.create_connection(("127.0.0.1", broker.client_port), 30) as sock:
        for _ in range(32):
            sock.sendall(frame)
            with sock.makefile("rb") as answers:
                answer = answers.read(int.from_bytes(answers.read(4), "big"))
            _, entity = decode_response(ApiKey.PRODUCE, 7, answer)
            if any(row.error_code for row in entity.responses[0].partition_responses):
                raise RuntimeError("what is to be fetched was refused")


def measure(broker: OneBroker, state: str, seconds: float) -> tuple[list[int], str]:
    """The probes' round trips in one state, and what its load took out of the broker."""
    busy = STATES[state]
    if not busy.connections:
        return probes(broker, seconds), ""
    spec = LoadSpec(
        port=broker.client_port,
        connections=busy.connections,
        seconds=seconds + 0.3,
        frames_hex=[frame.hex() for frame in busy.frames],
        step_back=busy.steps_back,
        error_at=busy.error_at,
        redial=busy.redial,
    )
    with running(spec) as load:
        time.sleep(spec.warmup_seconds)
        found = probes(broker, seconds)
        said = result(load)
        took = f"{said['per_second']:8,.0f}/s {said['bytes_per_second'] / 1e6:7,.0f} MB/s"
        return found, took


_STAGES: Final = (
    ("queue", "receive_t", "dequeue_t"),
    ("handler", "dequeue_t", "handled_t"),
    ("answer", "handled_t", "t"),
)


def inside(broker: OneBroker, since_ns: int) -> str:
    """What the broker says of the probes that it has answered since then."""
    rows = [
        row
        for row in map(orjson.loads, (broker.folder / _TRACE).read_bytes().splitlines())
        if row["f"] == "control_request"
        and row["receive_t"] >= since_ns
        and row["client_id"] == "bench"
    ]
    if not rows:
        return ""
    p99 = {
        name: quantile_ms([row[end] - row[start] for row in rows], 0.99)
        for name, start, end in (*_STAGES, ("in all", "receive_t", "t"))
    }
    total = p99.pop("in all")
    return (
        f"in the broker p99 {total:6.2f} ms ({', '.join(f'{n} {v:.2f}' for n, v in p99.items())})"
    )


def quantile_ms(values: list[int], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] / 1e6


def main() -> None:
    interrupts.install()  # whoever ends it ends the brokers, too
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--states", default=",".join(STATES))
    options.add_argument("--planes", default="single,dual")
    options.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a config"
    )
    chosen = options.parse_args()
    states = chosen.states.split(",")
    planes = chosen.planes.split(",")
    configs = {name: value for name, _, value in (each.partition("=") for each in chosen.set)}
    found: dict[tuple[str, str], list[int]] = {}
    with ExitStack() as stack:
        brokers = {
            name: stack.enter_context(
                one_broker(
                    dual=name == "dual",
                    partitions=_PARTITIONS,
                    overrides=_SMALL_LOGS | configs,
                    trace=_TRACE,
                )
            )
            for name in planes
        }
        for broker in brokers.values():
            fill(broker)
        for _ in range(chosen.rounds):
            for state in states:
                for name, broker in brokers.items():
                    since_ns = time.monotonic_ns()
                    with canary() as machine:
                        values, took = measure(broker, state, chosen.seconds)
                    found.setdefault((name, state), []).extend(values)
                    print(
                        f"{name:6} {state:11} {_row(values)}   {inside(broker, since_ns)}   "
                        f"load {took}   {machine}",
                        flush=True,
                    )
    print("all rounds:")
    for (name, state), values in found.items():
        print(f"{name:6} {state:9} {_row(values)}")
    for state in states if len(planes) == 2 else ():
        p50, p99 = (
            quantile_ms(found["single", state], q) / quantile_ms(found["dual", state], q)
            for q in (0.5, 0.99)
        )
        print(f"{state:9} single / dual: p50 {p50:6.1f}   p99 {p99:6.1f}")
    for state in states:
        if "idle" in states and state != "idle" and "dual" in planes:
            over = quantile_ms(found["dual", state], 0.99) / quantile_ms(
                found["dual", "idle"], 0.99
            )
            print(f"{state:9} dual p99 / idle dual p99: {over:.1f}")


def _row(values: list[int]) -> str:
    p50, p99 = quantile_ms(values, 0.5), quantile_ms(values, 0.99)
    return f"p50 {p50:7.2f} ms   p99 {p99:7.2f} ms   max {max(values) / 1e6:7.2f} ms"


if __name__ == "__main__":
    main()
