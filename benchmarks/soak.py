"""``python -m benchmarks.soak --minutes N``: does a broker under hostile clients hold on to things?

One real broker process with ZooKeeper, ordinary clients (a librdkafka producer and a group's
consumer) and every hostile one of `benchmarks.soak_clients` at once: fetchers that never read,
groups that nobody joins, heartbeats without end, deadlines weeks away, random bytes, half frames,
impossible lengths, connections that come and go, names that would be paths.

At the end a table of samples and a verdict. Exit code 1 unless

- memory at the end is within 1.3 times of that after two minutes (a third of a shorter run);
- once everybody has gone no socket, no other descriptor and no waiting operation is left;
- no file was made or opened outside ``log.dirs``;
- every role did what it is there for, and the ordinary clients read all that was acknowledged;
- with ``--client-limit-mib``: all clients together never cost the broker more than that.
"""

from __future__ import annotations

import argparse
import json
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.one_broker import FIRST_ERROR_AT, OneBroker, free_port, one_broker, produce_frame
from benchmarks.soak_clients import (
    BULK_PARTITION,
    FETCH_BYTES,
    ROLES,
    Role,
    Target,
    hostile_clients,
    receive,
)
from benchmarks.soak_ordinary import Traffic, ordinary_clients
from benchmarks.soak_samples import (
    Sample,
    Soaked,
    client_cost_bytes,
    judge,
    read_sample,
    stray_files,
    table,
)
from harness import interrupts

OVERRIDES: Final = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    # What Kafka checks every ten minutes is to happen many times in a short run.
    "offsets.retention.check.interval.ms": "5000",
    "group.initial.rebalance.delay.ms": "100",
}
_BULK_RECORD_BYTES: Final = 900_000
_SETTLE_S: Final = 60.0
_REFERENCE_S: Final = 120.0


def main() -> int:
    interrupts.install()  # whoever ends it ends the brokers, too
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--fetchers", type=int, default=20, help="how many never read")
    options.add_argument(
        "--roles", default="", metavar="ROLE,...", help=f"of {', '.join(ROLES)}; default: all"
    )
    options.add_argument("--every", type=float, default=None, help="seconds between samples")
    options.add_argument("--client-limit-mib", type=float, default=None)
    options.add_argument("--dual", action="store_true", help="with a control plane of its own")
    options.add_argument("--json", type=Path, default=None, help="where to put all samples")
    chosen = options.parse_args()
    roles = [role for role in chosen.roles.split(",") if role]
    if not set(roles) <= set(ROLES):
        options.error(f"--roles: {chosen.roles!r}; there are {', '.join(ROLES)}")
    seconds = chosen.minutes * 60
    every_s = chosen.every or min(15.0, max(0.5, seconds / 16))
    soaked = soak(seconds, every_s, chosen.fetchers, roles, dual=chosen.dual)
    print(table(soaked))
    print("; ".join(f"{role} {count}" for role, count in sorted(soaked.attempts.items())))
    cost = client_cost_bytes(soaked) / 2**20
    print(f"all clients together, {chosen.fetchers} that never read among them: {cost:.0f} MiB")
    wrong = judge(soaked, chosen.client_limit_mib)
    for problem in wrong:
        print(f"LEAK: {problem}")
    print("the broker leaks" if wrong else "nothing leaks")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(asdict(soaked), default=sorted))
    return 1 if wrong else 0


def soak(
    seconds: float,
    every_s: float,
    fetchers: int,
    role_names: Collection[str] = (),
    *,
    dual: bool = False,
) -> Soaked:
    """Runs it all; takes some seconds longer than `seconds`."""
    marker = f"soak{secrets.token_hex(6)}"
    metrics_port = free_port()
    overrides = {**OVERRIDES, "biplane.metrics.port": str(metrics_port)}
    with one_broker(dual=dual, partitions=3, overrides=overrides) as broker:
        _fill(broker)
        start_s = time.monotonic()
        with ExitStack() as stack:
            traffic = Traffic()

            def sample() -> Sample:
                acknowledged = traffic.acknowledged.copy()
                produced, consumed = len(acknowledged), len(acknowledged & traffic.read.copy())
                return read_sample(
                    broker.pid, broker.log_dirs, metrics_port, start_s, produced, consumed
                )

            calm = sample()
            target = Target(port=broker.client_port, marker=marker)
            # The ordinary clients come last, and so leave first: once they have read everything.
            roles = stack.enter_context(hostile_clients(target, fetchers, role_names))
            traffic = stack.enter_context(ordinary_clients(broker.client_port, f"{marker}-topic"))
            _await(lambda: bool(traffic.read) and all(_attempts(roles).values()))
            start_s = time.monotonic()
            loaded = _watch(sample, seconds, every_s)
        after = _settled(sample, calm)
        return Soaked(
            calm=calm,
            loaded=loaded,
            after=after,
            reference_s=min(_REFERENCE_S, seconds / 3),
            stray_files=stray_files(broker.folder, broker.log_dirs, _around(broker.folder), marker),
            attempts=_attempts(roles),
        )


def _fill(broker: OneBroker) -> None:
    """Gives the bulk partition more than one fetch may take."""
    frame = produce_frame(BULK_PARTITION, value_bytes=_BULK_RECORD_BYTES)
    with socket.create_connection(("127.0.0.1", broker.client_port), _SETTLE_S) as sock:
        for _ in range(FETCH_BYTES // _BULK_RECORD_BYTES + 2):
            sock.sendall(frame)
            answer = receive(sock, int.from_bytes(receive(sock, 4), "big"))
            if answer[FIRST_ERROR_AT - 4 : FIRST_ERROR_AT - 2] != b"\0\0":
                raise ConnectionError("the bulk could not be written")


def _watch(sample: Callable[[], Sample], seconds: float, every_s: float) -> list[Sample]:
    end_s = time.monotonic() + seconds
    samples = []
    while (now_s := time.monotonic()) < end_s:
        time.sleep(min(every_s, end_s - now_s))
        samples.append(sample())
    return samples


def _await(condition: Callable[[], bool]) -> None:
    """Until everybody is at work; who does not get to it is named in the verdict."""
    deadline_s = time.monotonic() + _SETTLE_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.1)


def _settled(sample: Callable[[], Sample], calm: Sample) -> Sample:
    """How it is once everybody has gone; it may take the broker a little to notice."""
    deadline_s = time.monotonic() + _SETTLE_S
    while True:
        after = sample()
        is_calm = (
            after.descriptors.sockets <= calm.descriptors.sockets
            and after.descriptors.others <= calm.descriptors.others
            and not after.waiting
        )
        if is_calm or time.monotonic() > deadline_s:
            return after
        time.sleep(0.5)


def _around(folder: Path) -> list[Path]:
    """Where a name that climbs out of ``log.dirs`` would end up."""
    return [folder, folder.parent, Path(tempfile.gettempdir()), Path.cwd(), Path("/")]


def _attempts(roles: dict[str, Role]) -> dict[str, int]:
    return {name: role.attempts for name, role in roles.items()}


if __name__ == "__main__":
    sys.exit(main())
