"""One ZooKeeper and one broker in processes of their own, for the length of a ``with``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from harness.runtime.ports import PortAllocator
from nodes.properties import format_properties
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.client import Connection
from nodes.wire.codec import build, encode_request
from nodes.wire.records import build_batch

TOPIC = "load"
FIRST_ERROR_AT = 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4
"""In an answer to `produce_frame`: size, correlation id, topics, name, partitions, index; error."""
_JARS = Path(pyspark.__file__).parent / "jars"
_PRODUCE_VERSION = 7
_PATIENCE_S = 60.0
_ports = PortAllocator("127.0.0.1")
_KAFKA_MACHINE = ("-Xms1g", "-Xmx1g", "-XX:+ExitOnOutOfMemoryError")  # as in Kafka's own scripts
_KAFKA_LOGGING = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@dataclass(frozen=True)
class OneBroker:
    """Where the broker listens; `control_port` equals `inter_broker_port` in single plane mode."""

    client_port: int
    inter_broker_port: int
    control_port: int
    broker_epoch: int
    pid: int
    folder: Path
    """All that the two processes write; the logs in `log_dirs`."""

    @property
    def log_dirs(self) -> Path:
        return self.folder / "logs"

    def cpu_s(self) -> float:
        """CPU that the broker's process has used, in the kernel too: hardly moved by noise."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """One that nobody else's connection can be given, and no other harness's node."""
    return _ports.allocate()


@contextmanager
def one_broker(
    *,
    dual: bool,
    partitions: int,
    overrides: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    kafka: Path | None = None,
    trace: str = "",
) -> Iterator[OneBroker]:
    """A broker with a topic of `partitions` partitions, ready for load.

    `environment` is added to the broker's. `kafka`: a folder with the jars of an Apache Kafka in
    ZooKeeper mode, which is then what runs, with the same configs and its own heap and compiler.
    `trace`: a file in the broker's folder for its trace.
    """
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="biplane-bench-") as scratch:
        folder = Path(scratch)
        try:
            zk_port = free_port()
            processes.append(_start_zookeeper(folder, zk_port))
            _wait(lambda: b"Mode" in _srvr(zk_port), "ZooKeeper", processes[-1], folder / "zk.log")
            settings = dict(overrides or {})
            if trace:
                settings["biplane.trace.path"] = str(folder / trace)
            command = [sys.executable, "-m", "nodes"] if kafka is None else _kafka(folder, kafka)
            ports = _start_broker(
                folder, zk_port, dual, settings, command, environment or {}, processes
            )
            with Connection("127.0.0.1", ports["CLIENT"], "bench", 10.0) as client:
                create_topic(client, partitions)
            yield OneBroker(
                ports["CLIENT"],
                ports["REPLICATION"],
                ports["CONTROLLER" if dual else "REPLICATION"],
                -1,
                processes[-1].pid,
                folder,
            )
        finally:
            for process in reversed(processes):
                process.terminate()
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def produce_frame(
    *partitions: int, value_bytes: int = 1024, acks: int = 1, topic: str = TOPIC
) -> bytes:
    """A complete Produce request of one record for each partition."""
    batch = build_batch([(None, b"x" * value_bytes, 1)])
    rows = [{"index": partition, "records": batch} for partition in partitions]
    entity = build(
        request_class(ApiKey.PRODUCE, _PRODUCE_VERSION),
        acks=acks,
        timeout=30000,
        topic_data=[{"name": topic, "partition_data": rows}],
    )
    return encode_request(entity, 1, "bench")


def _start_zookeeper(folder: Path, port: int) -> subprocess.Popen[bytes]:
    settings = {
        "dataDir": str(folder / "zookeeper"),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
        "tickTime": "500",
        "minSessionTimeout": "1000",
        "4lw.commands.whitelist": "srvr",
    }
    (folder / "zk.properties").write_text(format_properties(settings))
    flags = ("-Xms64m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    command = ["java", *flags, "-cp", f"{_JARS}/*", main, str(folder / "zk.properties")]
    with (folder / "zk.log").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def _kafka(folder: Path, libs: Path) -> list[str]:
    (folder / "log4j.properties").write_text(_KAFKA_LOGGING)
    logging = f"-Dlog4j.configuration=file:{folder}/log4j.properties"
    return ["java", *_KAFKA_MACHINE, logging, "-cp", f"{libs}/*", "kafka.Kafka"]


def _start_broker(
    folder: Path,
    zk_port: int,
    dual: bool,
    overrides: Mapping[str, str],
    command: list[str],
    environment: Mapping[str, str],
    processes: list[subprocess.Popen[bytes]],
) -> dict[str, int]:
    names = ["CLIENT", "REPLICATION", *(["CONTROLLER"] if dual else [])]
    ports = {name: free_port() for name in names}
    settings = {
        "broker.id": "1",
        "zookeeper.connect": f"127.0.0.1:{zk_port}",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "inter.broker.listener.name": "REPLICATION",
        "log.dirs": str(folder / "logs"),
        "log.segment.bytes": "268435456",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "auto.create.topics.enable": "false",
        **({"control.plane.listener.name": "CONTROLLER"} if dual else {}),
        **overrides,
    }
    (folder / "server.properties").write_text(format_properties(settings))
    output = folder / "broker.log"
    with output.open("wb") as sink:
        processes.append(
            subprocess.Popen(
                [*command, str(folder / "server.properties")],
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )
        )
    started = b" started (kafka.server.KafkaServer)"
    _wait(lambda: started in output.read_bytes(), "the broker", processes[-1], output)
    return ports


def create_topic(client: Connection, partitions: int, name: str = TOPIC) -> None:
    """Returns once it is there."""
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    entity = build(
        request_class(ApiKey.CREATE_TOPICS, 5), topics=[topic], timeout=10000, validate_only=False
    )

    def created() -> bool:
        code: Any = client.request(entity).topics[0].error_code
        return int(code.value) in (0, 36)

    _wait(created, "the topic")


def _srvr(port: int) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as sock:
            sock.sendall(b"srvr")
            return sock.recv(4096)
    except OSError:
        return b""


def _wait(
    condition: Callable[[], bool],
    what: str,
    process: subprocess.Popen[bytes] | None = None,
    output: Path | None = None,
) -> None:
    """Raises `TimeoutError`, with the last that was written to `output`; at once where `process`
    has ended."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        ended = None if process is None else process.poll()
        if ended is not None or time.monotonic() > deadline:
            why = f"within {_PATIENCE_S} s" if ended is None else f"and ended with {ended}"
            said = "" if output is None else output.read_bytes()[-2000:].decode(errors="replace")
            raise TimeoutError(f"{what} did not become ready {why}\n{said}")
        time.sleep(0.05)
