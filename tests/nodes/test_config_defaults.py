"""What a config is when nobody sets it: as in Apache Kafka 3.9, whose own class is asked where its
jars are; the ones that KIP-291 is about are written down here as well."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.runtime.protocol import SetupError
from harness.sut.kafka_jars import ZOOKEEPER_LINE, libs_dir
from nodes.config import BrokerConfig

PROGRAM = Path(__file__).with_name("KafkaDefaults.java")
KNOWN = {
    "control.plane.listener.name": None,
    "inter.broker.listener.name": None,
    "num.network.threads": 3,
    "num.io.threads": 8,
    "queued.max.requests": 500,
    "queued.max.request.bytes": -1,
    "socket.request.max.bytes": 104_857_600,
    "socket.listen.backlog.size": 50,
    "max.connections": 2_147_483_647,
    "max.connections.per.ip": 2_147_483_647,
    "connections.max.idle.ms": 600_000,
    "request.timeout.ms": 30_000,
    "controller.socket.timeout.ms": 30_000,
    "zookeeper.session.timeout.ms": 18_000,
    "replica.lag.time.max.ms": 30_000,
    "replica.fetch.wait.max.ms": 500,
    "controlled.shutdown.max.retries": 3,
    "controlled.shutdown.retry.backoff.ms": 5_000,
}
OF_OLD = {"host.name", "port", "advertised.host.name", "advertised.port"}
"""Gone from Kafka 3; KIP-291's chart has them."""
WRITTEN_OTHERWISE = {
    "zookeeper.connect": "",
    "listeners": None,  # what follows from the two above is Kafka's default
    "log.dirs": (),
    "security.inter.broker.protocol": None,  # so that one can tell whether both are set
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "log.retention.ms": 7 * 24 * 3_600_000,  # Kafka derives it, too
    "log.roll.ms": 7 * 24 * 3_600_000,
    "log.flush.interval.ms": 2**63 - 1,
}


def defaults() -> dict[str, Any]:
    return {
        spec.metadata["key"].name: spec.default
        for spec in dataclasses.fields(BrokerConfig)
        if "key" in spec.metadata
    }


@pytest.mark.parametrize("name", KNOWN)
def test_what_the_kip_is_about(name: str) -> None:
    assert defaults()[name] == KNOWN[name]


def test_every_default_is_kafkas() -> None:
    if shutil.which("java") is None:
        pytest.skip("needs java")
    try:
        libs = libs_dir(ZOOKEEPER_LINE)
    except SetupError as lack:
        pytest.skip(str(lack))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(PROGRAM)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    kafkas = dict(line.split("\t", 1) for line in said.splitlines())
    own = {n: v for n, v in defaults().items() if not n.startswith("biplane.")}
    assert own.keys() - kafkas.keys() == OF_OLD
    different = {
        name: value
        for name, value in own.items()
        if name not in OF_OLD and _as_java_prints(value) != kafkas[name]
    }
    assert different == WRITTEN_OTHERWISE


def _as_java_prints(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value)
