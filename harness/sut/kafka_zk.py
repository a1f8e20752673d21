"""Apache Kafka 3.9 in ZooKeeper mode, the last line that has it, from Maven Central's jars.

With and without ``control.plane.listener.name``. The jars are looked for in
``$BIPLANE_KAFKA_LIBS``, else in ``.biplane/kafka-3.9.2/libs``, where `prepare` puts them with Maven
(56 MB).

Brokers write no trace: what a run of this system proves, it proves from the clients' operations,
from ZooKeeper and from the final logs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from faults.protocol import Capability
from harness.runtime.paths import home
from harness.runtime.protocol import ProcessSpec, Ready, Role, SetupError
from harness.sut.broker_properties import broker_properties, render
from harness.sut.protocol import ClockTie, NodeLayout, Planes, Ports, SupportLayout

VERSION: Final = "3.9.2"
_FETCH_TIMEOUT_S: Final = 900
_POM: Final = f"""<project><modelVersion>4.0.0</modelVersion>
  <groupId>biplane</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId>
      <version>1.7.36</version></dependency>
  </dependencies></project>
"""
_LOG4J: Final = """log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d{ISO8601}] %p [%t] %m (%c)%n
"""
# C1 only: a cold start of three brokers takes 5.7 s instead of 8.1 s on two cores.
_JVM: Final = ("-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class KafkaZk:
    """See the module and `harness.sut.protocol.SystemUnderTest`."""

    name: Final = "kafka-zk"
    capabilities: Final = frozenset(
        {
            Capability.CONTROLLED_STOP,
            Capability.LINKS,
            Capability.ZOOKEEPER,
            Capability.CONTROL_REQUESTS,
            Capability.LOG_FILES,
            Capability.ELECT_LEADERS,
        }
    )
    plane_modes: Final = frozenset({Planes.SINGLE, Planes.DUAL})

    def prepare(self) -> None:
        if not _has_kafka(libs_dir()):
            _fetch(libs_dir())

    def version(self) -> str:
        return VERSION

    def support_specs(
        self, layout: SupportLayout, ports: Ports
    ) -> tuple[Sequence[ProcessSpec], Mapping[str, str]]:
        return (), {}

    def node_spec(
        self, layout: NodeLayout, planes: Planes, overrides: Mapping[str, str]
    ) -> ProcessSpec:
        config = broker_properties(layout, planes)
        config["log.cleaner.dedupe.buffer.size"] = "2097152"
        return ProcessSpec(
            name=layout.name,
            role=Role.NODE,
            argv=(
                layout.programs.java,
                *_JVM,
                f"-Dkafka.logs.dir={layout.dir}",
                f"-Dlog4j.configuration=file:{layout.dir}/log4j.properties",
                *("-cp", f"{libs_dir()}/*"),
                "kafka.Kafka",
                str(layout.dir / "server.properties"),
            ),
            workdir=layout.dir,
            files={"server.properties": render(config, overrides), "log4j.properties": _LOG4J},
            ports={link.value: address.port for link, address in layout.bind.items()},
            ready=Ready(pattern=r"started \(kafka\.server\.KafkaServer\)", timeout_s=60.0),
            mounts=(libs_dir(),),
        )

    def log_dir(self, layout: NodeLayout) -> Path:
        return layout.dir / "data"

    def evidence(self, layout: NodeLayout, clock: ClockTie) -> Iterator[Mapping[str, Any]]:
        return iter(())


def libs_dir() -> Path:
    configured = os.environ.get("BIPLANE_KAFKA_LIBS")
    return Path(configured) if configured else home() / f"kafka-{VERSION}" / "libs"


def _has_kafka(libs: Path) -> bool:
    return (libs / f"kafka_2.13-{VERSION}.jar").is_file()


def _fetch(libs: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError(
            f"Apache Kafka {VERSION} is not in {libs} and there is no Maven to fetch it; "
            "install it: apt-get install -y maven"
        )
    libs.parent.mkdir(parents=True, exist_ok=True)
    pom = libs.parent / "pom.xml"
    pom.write_text(_POM)
    command = [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"fetching Kafka took too long; run: {' '.join(command)}") from None
    if done.returncode != 0 or not _has_kafka(libs):
        raise SetupError(f"fetching Kafka failed; see the reason with: {' '.join(command)}")
