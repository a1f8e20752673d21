"""What a config is when nobody sets it, and what it may be: as in Apache Kafka 3.9. What its own
class says of the configs that there are here is kept in ``kafka_configs.tsv``; where Kafka's jars
are it is asked again. The defaults that KIP-291 is about are written down here as well."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.runtime.protocol import SetupError
from harness.sut.kafka_jars import ZOOKEEPER_LINE, libs_dir
from nodes.config import BrokerConfig, ConfigError

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
    "log.roll.jitter.ms": 0,
    "log.flush.interval.ms": 2**63 - 1,
}


BIPLANES = {
    "biplane.plane.mode": None,
    "biplane.trace.path": None,
    "biplane.mutants": (),
    "biplane.metrics.port": 0,  # any
    "biplane.log.levels": (),
    "biplane.metrics.host": "127.0.0.1",  # for this machine only
    "biplane.control.priority": True,
    "biplane.data.home.core": True,
}
LEAST_HERE = {
    -1: (
        "broker.id", "connections.max.idle.ms", "log.retention.bytes", "log.retention.hours",
        "log.retention.minutes", "log.retention.ms", "queued.max.request.bytes",
        "socket.receive.buffer.bytes", "socket.send.buffer.bytes",
    ),
    0: (
        "connections.max.reauth.ms", "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms", "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms", "group.min.session.timeout.ms",
        "leader.imbalance.per.broker.percentage", "log.cleaner.dedupe.buffer.size",
        "log.flush.interval.ms", "log.roll.jitter.ms", "offset.metadata.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.wait.max.ms", "replica.lag.time.max.ms",
        "replica.socket.receive.buffer.bytes",
    ),
    1: (
        "controller.socket.timeout.ms", "default.replication.factor",
        "log.flush.offset.checkpoint.interval.ms", "log.flush.scheduler.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms", "log.roll.ms", "num.replica.fetchers",
        "replica.high.watermark.checkpoint.interval.ms", "replica.socket.timeout.ms",
        "request.timeout.ms", "zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms",
    ),
}  # fmt: skip
"""Where Kafka takes any number at all and fails later (or turns without a pause), the least that
makes sense is asked for at once."""
RECORDED = PROGRAM.with_name("kafka_configs.tsv")
_INTEGERS = {"INT": 2**31 - 1, "LONG": 2**63 - 1, "SHORT": 2**15 - 1}


def recorded() -> dict[str, list[str]]:
    """Name -> default, type, allowed; as Kafka prints them."""
    rows = (line.split("\t") for line in RECORDED.read_text().splitlines())
    return {name: rest for name, *rest in rows}


def keys() -> dict[str, tuple[Any, Any]]:
    """Name -> its default here, and how a text is parsed."""
    found = (spec for spec in dataclasses.fields(BrokerConfig) if "key" in spec.metadata)
    return {spec.metadata["key"].name: (spec.default, spec.metadata["key"]) for spec in found}


def defaults() -> dict[str, Any]:
    return {name: default for name, (default, _) in keys().items()}


@pytest.mark.parametrize("name", KNOWN)
def test_what_the_kip_is_about(name: str) -> None:
    assert defaults()[name] == KNOWN[name]


def test_every_default_is_kafkas() -> None:
    kafkas = recorded()
    own = {n: v for n, v in defaults().items() if not n.startswith("biplane.")}
    assert own.keys() - kafkas.keys() == OF_OLD
    different = {
        name: value
        for name, value in own.items()
        if name not in OF_OLD and _as_java_prints(value) != kafkas[name][0]
    }
    assert different == WRITTEN_OTHERWISE


def test_what_kafka_does_not_have() -> None:
    """With the defaults that the documents name."""
    own = {n: v for n, v in defaults().items() if n.startswith("biplane.")}
    assert own == BIPLANES
    assert {name: defaults()[name] for name in OF_OLD} == {
        "host.name": "",
        "port": 9092,
        "advertised.host.name": None,
        "advertised.port": None,
    }


def test_kafka_still_says_what_is_recorded() -> None:
    if shutil.which("java") is None:
        pytest.skip("needs java")
    try:
        libs = libs_dir(ZOOKEEPER_LINE)
    except SetupError as lack:
        pytest.skip(str(lack))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(PROGRAM)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    kafkas = {name: rest for name, *rest in (line.split("\t") for line in said.splitlines())}
    assert recorded() == {name: kafkas[name] for name in recorded()}


def test_every_type_is_kafkas() -> None:
    """What DescribeConfigs says from version 3 on; a client that alters a config asks for it."""
    kinds = {name: key.kind for name, (_, key) in keys().items()}
    assert {name: kinds[name] for name in recorded()} == {
        n: row[1] for n, row in recorded().items()
    }
    assert {n: kind for n, kind in kinds.items() if n not in recorded()} == {
        **dict.fromkeys(OF_OLD, "STRING"),
        **dict.fromkeys(("port", "advertised.port", "biplane.metrics.port"), "INT"),
        **dict.fromkeys(("biplane.control.priority", "biplane.data.home.core"), "BOOLEAN"),
        **dict.fromkeys(("biplane.mutants", "biplane.log.levels"), "LIST"),
        **dict.fromkeys(
            ("biplane.plane.mode", "biplane.trace.path", "biplane.metrics.host"), "STRING"
        ),
    }


def _is_taken(parse: Any, name: str, text: str) -> bool:
    try:
        parse(name, text)
    except ConfigError:
        return False
    return True


def test_numbers_have_kafkas_bounds() -> None:
    """One less than the least is refused, the least is taken; and so at the other end."""
    least_here = {name: least for least, names in LEAST_HERE.items() for name in names}
    wrong = {}
    for name, (_, kind, allowed) in recorded().items():
        if kind not in _INTEGERS:
            continue
        bounds = re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(\d+))?\](?: or -1)?", allowed)
        assert bounds or allowed == "null", (name, allowed)
        least = least_here[name] if name in least_here else int(bounds[1])  # type: ignore[index]
        most = int(bounds[2]) if bounds and bounds[2] else _INTEGERS[kind]
        parse = keys()[name][1].parse
        found = [_is_taken(parse, name, str(n)) for n in (least - 1, least, most, most + 1)]
        if found != [False, True, True, False]:
            wrong[name] = found
    assert wrong == {}


def test_words_are_kafkas() -> None:
    """Of configs with a list of what is allowed: that and nothing else."""
    for name, (_, _, allowed) in recorded().items():
        words = re.fullmatch(r"\[([A-Za-z_]+(?:, [A-Za-z_]+)*)\]", allowed)
        if words is not None:
            parse = keys()[name][1].parse
            taken = [
                word for word in (*words[1].split(", "), "other") if _is_taken(parse, name, word)
            ]
            assert taken == words[1].split(", "), name
    level = keys()["compression.gzip.level"][1].parse
    numbers = [n for n in range(-2, 11) if _is_taken(level, "compression.gzip.level", str(n))]
    assert numbers == [-1, *range(1, 10)]
    share = keys()["log.cleaner.min.cleanable.ratio"][1].parse
    name = "log.cleaner.min.cleanable.ratio"
    taken = [text for text in ("-0.1", "0", "1", "1.1", "x") if _is_taken(share, name, text)]
    assert taken == ["0", "1"]


def _as_java_prints(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value)
