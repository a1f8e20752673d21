"""``python -m benchmarks.control_latency``: a control request's round trip, idle and under load.

A valid no-op UpdateMetadata (no topics, this broker alive) is sent on a clock, 50 a second, to the
listener that a controller would use, and counted from its planned time, so that a late answer
cannot flatter the next. Meanwhile `--connections` produce as fast as they are answered. Single and
dual plane take turns; the ratio is what to trust.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any

from benchmarks.load import LoadSpec
from benchmarks.one_broker import OneBroker, one_broker, produce_frame
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.client import Connection
from nodes.wire.codec import build

_INTERVAL_NS = 20_000_000


def probes(broker: OneBroker, seconds: float) -> list[int]:
    """Round trips in nanoseconds from each probe's planned time, sorted."""
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
    found = []
    with Connection("127.0.0.1", broker.control_port, "bench", 30.0) as connection:
        connection.request(entity)
        planned_ns = time.monotonic_ns()
        end_ns = planned_ns + int(seconds * 1e9)
        while planned_ns < end_ns:
            wait_ns = planned_ns - time.monotonic_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / 1e9)
            connection.request(entity)
            found.append(time.monotonic_ns() - planned_ns)
            planned_ns += _INTERVAL_NS
    return sorted(found)


def measure(broker: OneBroker, connections: int, seconds: float) -> tuple[list[int], list[int]]:
    idle = probes(broker, seconds)
    spec = LoadSpec(
        port=broker.client_port,
        connections=connections,
        seconds=seconds + 1.0,
        frames_hex=[produce_frame(partition).hex() for partition in range(8)],
    )
    command = [sys.executable, "-m", "benchmarks.load", spec.argument()]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as load:
        time.sleep(0.8)
        loaded = probes(broker, seconds)
        load.wait(60)
    return idle, loaded


def quantile_ms(values: list[int], q: float) -> float:
    return values[min(len(values) - 1, int(q * len(values)))] / 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--seconds", type=float, default=2.5)
    chosen = options.parse_args()
    p99 = {}
    for name, dual in (("single", False), ("dual", True)):
        with one_broker(dual=dual, partitions=8) as broker:
            for state, values in zip(
                ("idle", "loaded"),
                measure(broker, chosen.connections, chosen.seconds),
                strict=True,
            ):
                p99[name, state] = quantile_ms(values, 0.99)
                print(
                    f"{name:6} {state:6} p50 {quantile_ms(values, 0.5):7.2f} ms   "
                    f"p99 {quantile_ms(values, 0.99):7.2f} ms   max {values[-1] / 1e6:7.2f} ms"
                )
    print(f"single / dual, loaded p99: {p99['single', 'loaded'] / p99['dual', 'loaded']:.1f}")
    print(f"dual, loaded / idle p99: {p99['dual', 'loaded'] / p99['dual', 'idle']:.1f}")


if __name__ == "__main__":
    main()
