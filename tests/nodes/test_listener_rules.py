"""Listener configurations: what Kafka 3.9 refuses is refused, what it accepts is accepted.

Held against Kafka's rules written out a second time (`listener_rules`), and both against Kafka's
own class, run from its jar where it is there. `DIFFERENCES` is all that differs, with its reason.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.runtime.protocol import SetupError
from harness.sut.kafka_jars import ZOOKEEPER_LINE, libs_dir
from nodes.config import BrokerConfig, ConfigError
from nodes.core.brokers import EndPoint
from nodes.listeners import Endpoint, parse_listeners, split_list
from nodes.properties import trim
from tests.nodes.listener_rules import (
    Properties,
    Refused,
    Row,
    Ruling,
    draw_properties,
    modern,
    ruling,
)

ORACLE = Path(__file__).parent / "KafkaConfigOracle.java"
JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
BASE = {"broker.id": "1", "zookeeper.connect": "127.0.0.1:1"}
CONFIGURATIONS = 1500
SEED = int(os.environ.get("BIPLANE_ORACLE_SEED", "291"))

THREE_MAP = "CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT"
THREE = {
    "listeners": "CONTROLLER://h:1,REPLICATION://h:2,CLIENT://h:3",
    "listener.security.protocol.map": THREE_MAP,
    "inter.broker.listener.name": "REPLICATION",
}


@dataclass(frozen=True)
class Difference:
    """Where this broker refuses what Kafka accepts."""

    reason: str
    config: str
    """Which our refusal names."""
    applies: Callable[[Ruling], bool]


def unbindable(rows: Iterable[Row]) -> bool:
    return any(not 0 <= port <= 65535 for _, _, _, port in rows)


DIFFERENCES = {
    "a protocol that is not spoken": Difference(
        "this broker has no TLS and no SASL: better refused at start than misread on the wire",
        "listeners",
        lambda kafka: any(protocol != "PLAINTEXT" for _, protocol, _, _ in kafka.listeners),
    ),
    "an advertised port that there is not": Difference(
        "Kafka checks no range and registers it in ZooKeeper; no client could connect to it",
        "advertised.listeners",
        lambda kafka: unbindable(kafka.advertised),
    ),
}
"""And one more, which is no refusal: the case trap. A control-plane name that is not upper-cased
passes Kafka's checks, and its listener then belongs to both planes (`test_as_kafka_itself`)."""

KNOWN = [
    THREE,
    {},
    {**THREE, "control.plane.listener.name": "CONTROLLER"},
    {**THREE, "control.plane.listener.name": "controller"},
    {**THREE, "control.plane.listener.name": ""},
    {**THREE, "control.plane.listener.name": " \t"},
    {**THREE, "controller.listener.names": "CONTROLLER"},
    {**THREE, "controller.listener.names": ","},
    {**THREE, "advertised.listeners": ""},
    {**THREE, "inter.broker.listener.name": ""},
    {**THREE, "inter.broker.listener.name": "replication"},
    {**THREE, "listeners": THREE["listeners"] + "x"},
    {**THREE, "listeners": THREE["listeners"] + " "},
    {**THREE, "listeners": "CLIENT ://h:1,REPLICATION://h:2"},
    {**THREE, "listeners": "CLIENT://127.0.0.1:1,REPLICATION://[::1]:1"},
    {**THREE, "listeners": "REPLICATION://127.0.0.1:1,REPLICATION://[::1]:1"},
    {**THREE, "listeners": "CONTROLLER://127.0.0.2:1,CLIENT://127.0.0.1:1,REPLICATION://[::1]:1"},
    {**THREE, "listener.security.protocol.map": "CONTROLLER:SSL,REPLICATION:SSL,CLIENT:SSL"},
    {**THREE, "advertised.listeners": "REPLICATION://h:70000"},
    {**THREE, "listeners": "CLIENT://127.0.0.1:1,REPLICATION://127.0.0.2:1"},
    {**THREE, "listeners": "CLIENT://:1,REPLICATION://[::1]:1"},
    {**THREE, "listener.security.protocol.map": THREE_MAP + ",X:Y:PLAINTEXT"},
    {**THREE, "listener.security.protocol.map": f"CLIENT:TELNET,{THREE_MAP}"},
    {**THREE, "listener.security.protocol.map": f"{THREE_MAP},CLIENT:TELNET"},
    {**THREE, "listener.security.protocol.map": f"client:TELNET,{THREE_MAP}"},
    {**THREE, "listener.security.protocol.map": f"client:PLAINTEXT,{THREE_MAP}"},
    {**THREE, "listener.security.protocol.map": ""},
    {**THREE, "listener.security.protocol.map": THREE_MAP + ", ,"},
    {**THREE, "listener.security.protocol.map": THREE_MAP.replace(",", ",,", 1)},
    {**THREE, "listener.security.protocol.map": "," + THREE_MAP},
    {"listeners": ""},
    {"security.inter.broker.protocol": "PLAINTEXT"},
    {"security.inter.broker.protocol": "plaintext"},
    {"security.inter.broker.protocol": ""},
    {"host.name": "h", "port": "7", "advertised.host.name": "a"},
    {"port": "65536"},
    {"advertised.port": "0"},
]  # fmt: skip


def ours(properties: Mapping[str, str]) -> BrokerConfig:
    return BrokerConfig.from_properties({**BASE, **properties})


def as_ruling(config: BrokerConfig) -> Ruling:
    def rows(endpoints: Iterable[Any]) -> list[Row]:
        return [(e.name, e.security_protocol, e.host, e.port) for e in endpoints]

    return Ruling(
        rows(config.listeners),
        rows(config.advertised_listeners),
        config.inter_broker_listener_name,
        config.control_plane_listener_name,
    )


def judged(properties: Properties, kafka: Ruling | None) -> str:
    """Holds us against what Kafka makes of the configuration (None: it refuses). Says how it came
    out: refused, accepted, or the name of a difference."""
    if kafka is None:
        with pytest.raises(ConfigError):
            ours(properties)
        return "refused"
    named = [name for name, each in DIFFERENCES.items() if each.applies(kafka)]
    if not named:
        assert as_ruling(ours(properties)) == kafka
        return "accepted"
    with pytest.raises(ConfigError) as refusal:
        ours(properties)
    assert refusal.value.config in {DIFFERENCES[name].config for name in named}
    return named[0]


def by_the_rules(properties: Properties) -> Ruling | None:
    try:
        return ruling(modern(properties))
    except Refused:
        return None


@st.composite
def configurations(draw: st.DrawFn) -> Properties:
    return draw_properties(lambda options: draw(st.sampled_from(options)))


@pytest.mark.slow
@settings(max_examples=500)
@given(properties=configurations())
def test_as_the_rules_say(properties: Properties) -> None:
    judged(properties, by_the_rules(properties))


@pytest.mark.parametrize("properties", KNOWN)
def test_known_configurations(properties: Properties) -> None:
    judged(properties, by_the_rules(properties))


def test_every_outcome_is_drawn() -> None:
    """Or the properties above would say little: every difference, and each verdict often."""
    rng = random.Random(SEED)
    drawn = KNOWN + [draw_properties(rng.choice) for _ in range(CONFIGURATIONS)]
    outcomes = Counter(judged(properties, by_the_rules(properties)) for properties in drawn)
    assert set(outcomes) == {"accepted", "refused", *DIFFERENCES}
    assert min(outcomes["accepted"], outcomes["refused"]) > CONFIGURATIONS / 5, outcomes


# ---- Kafka itself --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka_says() -> Callable[[list[Properties]], list[dict[str, Any]]]:
    """Asks KafkaConfig of Kafka 3.9, all at once in one JVM."""
    try:
        libs = libs_dir(ZOOKEEPER_LINE)
    except SetupError as lacking:
        pytest.skip(str(lacking))
    if shutil.which("java") is None:
        pytest.skip("no java")

    def ask(configurations: list[Properties]) -> list[dict[str, Any]]:
        lines = [json.dumps({**BASE, **properties}) + "\n" for properties in configurations]
        done = subprocess.run(
            [*JAVA, "-cp", f"{libs}/*", str(ORACLE)],
            input="".join(lines),
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.split("\n") if line]
        assert len(answers) == len(lines), done.stderr
        return answers

    return ask


@pytest.mark.slow
def test_as_kafka_itself(
    kafka_says: Callable[[list[Properties]], list[dict[str, Any]]],
) -> None:
    rng = random.Random(SEED)
    drawn: list[Properties] = []
    while len(drawn) < CONFIGURATIONS:
        properties = draw_properties(rng.choice)
        try:
            modern(properties)
        except Refused:
            continue  # what no Kafka can be asked any more
        drawn.append(properties)
    drawn += KNOWN
    outcomes: Counter[str] = Counter()
    for properties, said in zip(
        drawn, kafka_says([modern(properties) for properties in drawn]), strict=True
    ):
        kafka = None
        if "refused" not in said:
            kafka = from_kafka(said)
        where = f"{properties} Kafka: {said}"
        assert by_the_rules(properties) == kafka, where
        try:
            outcomes[judged(properties, kafka)] += 1
        except (AssertionError, ConfigError, pytest.fail.Exception) as different:
            raise AssertionError(f"{where} ours: {different!r}") from different
        if kafka is not None and kafka.control_plane is not None:
            outcomes[planes(properties, said)] += 1
    assert set(outcomes) == {"accepted", "refused", *DIFFERENCES, "case trap", "same planes"}


def from_kafka(said: Mapping[str, Any]) -> Ruling:
    def rows(name: str) -> list[Row]:
        return [(row[0], row[1], row[2], row[3]) for row in said[name]]

    control = said["control_plane"]
    return Ruling(
        rows("listeners"),
        rows("advertised"),
        said["inter_broker"],
        control[0][0] if control else None,
    )


def planes(properties: Properties, said: Mapping[str, Any]) -> str:
    """Which listeners are of the data plane. Kafka compares the control-plane listener's name as it
    was given with upper-cased ones there, and has it in both planes; we never have."""
    try:
        config = ours(properties)
    except ConfigError:
        return "same planes"  # judged before
    data = [row[0] for row in said["data_plane"]]
    name = config.control_plane_listener_name
    assert config.control_plane_endpoint is not None
    assert config.control_plane_endpoint.name == name
    own = [endpoint.name for endpoint in config.data_plane_endpoints]
    assert name not in own
    if trim(properties["control.plane.listener.name"]) == name:
        assert own == data
        return "same planes"
    assert sorted([*own, str(name)]) == sorted(data)
    return "case trap"


SPELLINGS = [("CLIENT:PLAINTEXT", "client:SSL"), ("CLIENT:SSL", "client:PLAINTEXT")]


def spelled_twice(first: str, second: str) -> Properties:
    of_others = THREE_MAP.removesuffix(",CLIENT:PLAINTEXT")
    return {**THREE, "listener.security.protocol.map": f"{of_others},{first},{second}"}


@pytest.mark.parametrize("entries", SPELLINGS)
def test_a_name_with_two_protocols_is_refused(entries: tuple[str, str]) -> None:
    """In two spellings, that is, and whichever comes last."""
    for properties in (spelled_twice(*entries), spelled_twice(*reversed(entries))):
        with pytest.raises(ConfigError, match=r"CLIENT is \w+ and \w+"):
            ours(properties)


@pytest.mark.slow
def test_of_two_spellings_kafka_takes_what_its_table_comes_to_last(
    kafka_says: Callable[[list[Properties]], list[dict[str, Any]]],
) -> None:
    """Why it is refused here: the order of the entries does not matter to Kafka."""
    asked = [spelled_twice(*order) for each in SPELLINGS for order in (each, each[::-1])]
    taken = [from_kafka(said).listeners[2][1] for said in kafka_says(asked)]
    assert taken == ["PLAINTEXT", "PLAINTEXT", "SSL", "SSL"]


def test_lists() -> None:
    assert split_list(" a ,\tb,,c , ") == ["a", "b", "c"]
    assert split_list("\u00a0a,b\u00a0") == ["\u00a0a", "b\u00a0"]
    assert split_list(" , ") == []


@pytest.mark.parametrize("host", ["", "h", "127.0.0.1", "::1", "fe80::1%eth0", "a-b.c_d"])
@pytest.mark.parametrize("port", [0, 1, 65535])
def test_a_listener_reads_as_it_is_printed(host: str, port: int) -> None:
    """In logs and refusals, and in ZooKeeper: an address of version six stands in brackets."""
    made = Endpoint("A", "PLAINTEXT", host, port)
    assert parse_listeners("listeners", str(made), {"A": "PLAINTEXT"}) == (made,)
    assert str(made) == EndPoint("A", "PLAINTEXT", host, port).connection_string
    assert ("[" in str(made)) == (":" in host)
