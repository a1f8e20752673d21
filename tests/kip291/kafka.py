"""Apache Kafka 3.9 itself, for the tests that look from outside only; where its jars are."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from pathlib import Path

import pytest

from benchmarks.one_broker import free_port
from harness.runtime.protocol import SetupError
from harness.sut.kafka_jars import ZOOKEEPER_LINE, libs_dir
from tests.kip291.parts import MAP, Client

_JVM = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_READY = "started (kafka.server.KafkaServer)"
_LOG4J = (
    "log4j.rootLogger=INFO, out\n"
    "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
    "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
    "log4j.appender.out.layout.ConversionPattern=[%d{ISO8601}] %p [%t] %m (%c)%n\n"
)


def jars() -> Path:
    """Skips the test, and says why, where Kafka is not on this machine."""
    try:
        return libs_dir(ZOOKEEPER_LINE)
    except SetupError as error:
        pytest.skip(str(error))


def run_to_its_end(folder: Path, properties: dict[str, str]) -> tuple[int, str]:
    """Starts a broker that is expected to refuse: its exit code and all it said."""
    command = _command(folder, properties)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False
    )
    return done.returncode, done.stdout.decode()


def _command(folder: Path, properties: dict[str, str], *options: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j.properties").write_text(_LOG4J)
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    (folder / "server.properties").write_text(text)
    return [
        "java",
        *_JVM,
        *options,
        f"-Dkafka.logs.dir={folder}",
        f"-Dlog4j.configuration=file:{folder}/log4j.properties",
        "-cp",
        f"{jars()}/*",
        "kafka.Kafka",
        str(folder / "server.properties"),
    ]


class KafkaBroker:
    """One broker of Apache Kafka with dual planes. `ports` by listener name."""

    name = "kafka"

    def __init__(self, zookeeper: str, folder: Path) -> None:
        jars()
        self.folder = folder
        self.id = 1
        self._jmx_port = free_port()
        self.ports = {name: free_port() for name in ("CONTROLLER", "REPLICATION", "CLIENT")}
        properties = {
            "broker.id": "1",
            "zookeeper.connect": zookeeper,
            "listeners": ",".join(f"{n}://127.0.0.1:{p}" for n, p in self.ports.items()),
            "listener.security.protocol.map": MAP,
            "inter.broker.listener.name": "REPLICATION",
            "control.plane.listener.name": "CONTROLLER",
            "log.dirs": str(folder / "data"),
            "num.network.threads": "1",
            "num.io.threads": "2",
            "auto.leader.rebalance.enable": "false",
            "controlled.shutdown.enable": "false",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "zookeeper.session.timeout.ms": "30000",
        }
        jmx = "-Dcom.sun.management.jmxremote"
        command = _command(
            folder,
            properties,
            f"{jmx}.port={self._jmx_port}",
            f"{jmx}.rmi.port={self._jmx_port}",
            f"{jmx}.host=127.0.0.1",
            "-Djava.rmi.server.hostname=127.0.0.1",
            f"{jmx}.authenticate=false",
            f"{jmx}.ssl=false",
        )
        self._output = folder / "out.log"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 180
        while _READY not in self._output.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(self._output.read_text(errors="replace")[-3000:])
            time.sleep(0.05)

    def client(self, client_id: str = "client", port: str = "CLIENT") -> Client:
        return Client(self.ports[port], client_id)

    def threads(self) -> list[str]:
        """Names of all threads, from a thread dump."""
        before = len(self._output.read_bytes())
        self._process.send_signal(signal.SIGQUIT)
        deadline = time.monotonic() + 60
        while True:
            dump = self._output.read_bytes()[before:].decode(errors="replace")
            if "JNI global refs" in dump:
                return [line.split('"')[1] for line in dump.splitlines() if line.startswith('"')]
            assert time.monotonic() < deadline, "no thread dump"
            time.sleep(0.05)

    def mbeans(self, pattern: str) -> dict[str, dict[str, float]]:
        """MBean -> attribute -> value, read over JMX (by a JVM, which takes a second or two)."""
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self._jmx_port}/jmxrmi"
        program = Path(__file__).with_name("Mbeans.java")
        done = subprocess.run(
            ["java", *_JVM, str(program), url, pattern],
            capture_output=True,
            timeout=120,
            check=False,
        )
        found: dict[str, dict[str, float]] = {}
        for line in done.stdout.decode().splitlines():
            mbean, attribute, value = line.split("\t")
            with contextlib.suppress(ValueError):  # an attribute that is no number
                found.setdefault(mbean, {})[attribute] = float(value)
        assert found, done.stderr.decode()[-2000:]
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
