"""Kafka's defaults, Kafka's refusals (reference sheet, section 1)."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from nodes import config as config_module
from nodes.config import ACCEPTED_AND_UNUSED, BrokerConfig, ConfigError
from nodes.listeners import normalised
from nodes.properties import format_properties, parse_properties

BASE = {"broker.id": "1", "zookeeper.connect": "127.0.0.1:2181/kafka"}
THREE = {
    **BASE,
    "listeners": "controller://127.0.0.1:1,REPLICATION://127.0.0.1:2,Client://127.0.0.1:3",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT",
    "inter.broker.listener.name": "replication",
}


def make(**changes: str) -> BrokerConfig:
    return BrokerConfig.from_properties({**THREE, **changes})


def test_defaults_are_kafkas() -> None:
    config = BrokerConfig.from_properties(BASE)
    assert [str(e) for e in config.listeners] == ["PLAINTEXT://:9092"]
    assert config.advertised_listeners == config.listeners
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert (config.num_network_threads, config.num_io_threads) == (3, 8)
    assert config.queued_max_requests == 500
    assert config.zookeeper_connection_timeout_ms == 18000
    assert config.log_retention_ms == 7 * 24 * 3600 * 1000
    assert config.plane_mode == "single"
    assert config.controller_listener_name == "PLAINTEXT"


def test_every_config_is_read_by_somebody_or_said_to_change_nothing() -> None:
    """Off an object that is called a config, or for what derives from it."""
    root = Path(config_module.__file__).parent
    read = set(re.findall(r"""values\[["'](\w+)["']\]""", (root / "config.py").read_text()))
    for path in root.rglob("*.py"):
        if path.name != "config.py" or path.parent != root:
            read |= set(re.findall(r"config\.(\w+)", path.read_text()))
    fields = dataclasses.fields(BrokerConfig)
    unread = {f.metadata["key"].name for f in fields if f.metadata and f.name not in read}
    assert unread == ACCEPTED_AND_UNUSED


def test_dual_plane_follows_from_the_control_listener_in_any_case() -> None:
    config = make(**{"control.plane.listener.name": "controller"})
    assert config.plane_mode == "dual"
    assert config.control_plane_endpoint is not None
    assert config.control_plane_endpoint.port == 1
    assert [e.name for e in config.data_plane_endpoints] == ["REPLICATION", "CLIENT"]
    assert config.controller_listener_name == "CONTROLLER"


def test_a_pool_that_holds_one_request_will_do() -> None:
    sizes = {"queued.max.request.bytes": "1048576", "socket.request.max.bytes": "1048576"}
    assert make(**sizes).queued_max_request_bytes == 1_048_576
    with pytest.raises(ConfigError, match=r"queued\.max\.request\.bytes"):
        make(**{**sizes, "queued.max.request.bytes": "1048575"})


@pytest.mark.parametrize("bound", ["replica.socket.timeout.ms", "replica.lag.time.max.ms"])
def test_a_followers_fetch_may_not_wait_longer_than_it_is_given(bound: str) -> None:
    wait = {"replica.fetch.wait.max.ms": "700"}
    make(**wait, **{bound: "700"})
    with pytest.raises(ConfigError, match=r"replica\.fetch\.wait\.max\.ms"):
        make(**wait, **{bound: "699"})


HOUR_MS = 3_600_000
FOREVER = 2**63 - 1


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        # What KafkaConfig derives from other configs where it is not said itself.
        ({}, "zookeeper_connection_timeout_ms", 18_000),
        ({"zookeeper.session.timeout.ms": "7"}, "zookeeper_connection_timeout_ms", 7),
        ({"zookeeper.connection.timeout.ms": "9"}, "zookeeper_connection_timeout_ms", 9),
        (
            {"zookeeper.connection.timeout.ms": "9", "zookeeper.session.timeout.ms": "7"},
            "zookeeper_connection_timeout_ms", 9,
        ),
        ({}, "log_dirs", ("/tmp/kafka-logs",)),
        ({"log.dir": "/a"}, "log_dirs", ("/a",)),
        ({"log.dir": "/a, /b"}, "log_dirs", ("/a", "/b")),
        ({"log.dir": "/a", "log.dirs": "/c,/d"}, "log_dirs", ("/c", "/d")),
        ({}, "log_retention_ms", 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, "log_retention_ms", 2 * HOUR_MS),
        ({"log.retention.hours": "-1"}, "log_retention_ms", -1),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, "log_retention_ms", 300_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "-1"}, "log_retention_ms", -1),
        ({"log.retention.minutes": "5", "log.retention.ms": "7"}, "log_retention_ms", 7),
        ({"log.retention.minutes": "5", "log.retention.ms": "-1"}, "log_retention_ms", -1),
        ({}, "log_roll_ms", 168 * HOUR_MS),
        ({"log.roll.hours": "2"}, "log_roll_ms", 2 * HOUR_MS),
        ({}, "log_roll_jitter_ms", 0),
        ({"log.roll.jitter.hours": "2"}, "log_roll_jitter_ms", 2 * HOUR_MS),
        ({"log.roll.jitter.hours": "2", "log.roll.jitter.ms": "7"}, "log_roll_jitter_ms", 7),
        ({"log.roll.hours": "2", "log.roll.ms": "7"}, "log_roll_ms", 7),
        ({}, "log_flush_interval_ms", FOREVER),
        ({"log.flush.scheduler.interval.ms": "7"}, "log_flush_interval_ms", 7),
        (
            {"log.flush.scheduler.interval.ms": "7", "log.flush.interval.ms": "5"},
            "log_flush_interval_ms", 5,
        ),
    ],
)  # fmt: skip
def test_what_follows_from_what(given: dict[str, str], attribute: str, value: object) -> None:
    assert getattr(make(**given), attribute) == value


def test_priority_is_a_mode_of_one_plane() -> None:
    assert make(**{"biplane.plane.mode": "priority"}).plane_mode == "priority"


def test_unknown_configs_are_kept_aside() -> None:
    assert make(**{"no.such.config": "1"}).unknown == ("no.such.config",)


def test_hosts_and_ports_of_old_configs_still_make_listeners() -> None:
    config = BrokerConfig.from_properties(
        {**BASE, "host.name": "h", "port": "7", "advertised.host.name": "a"}
    )
    assert str(config.listeners[0]) == "PLAINTEXT://h:7"
    assert str(config.advertised_listeners[0]) == "PLAINTEXT://a:7"


def test_one_port_may_serve_both_address_families() -> None:
    make(
        listeners="REPLICATION://127.0.0.1:5,CLIENT://[::1]:5",
        **{"advertised.listeners": "REPLICATION://127.0.0.1:5"},
    )


@pytest.mark.parametrize(
    ("changes", "config", "says"),
    [
        ({"listeners": "nonsense"}, "listeners", "NAME://host:port"),
        ({"listeners": "://h:1"}, "listeners", "blank"),
        ({"listeners": "OTHER://h:1"}, "listeners", "CONTROLLER, REPLICATION, CLIENT"),
        ({"listeners": "REPLICATION://h:1,REPLICATION://h:2"}, "listeners", "different name"),
        ({"listeners": "REPLICATION://h:1,CLIENT://g:1"}, "listeners", "port 1"),
        ({"listeners": "REPLICATION://h:70000"}, "listeners", "0 to 65535"),
        ({"listener.security.protocol.map": "A:TELNET"}, "listener.security.protocol.map", "SSL"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "inter.broker.listener.name", "one of"),
        ({"inter.broker.listener.name": "NONE"}, "inter.broker.listener.name", "CLIENT"),
        ({"advertised.listeners": "CLIENT://h:1"}, "inter.broker.listener.name", "CLIENT"),
        (
            {"advertised.listeners": "REPLICATION://0.0.0.0:1"},
            "advertised.listeners",
            "nonroutable",
        ),
        ({"control.plane.listener.name": "OTHER"}, "control.plane.listener.name", "CONTROLLER"),
        (
            {"control.plane.listener.name": "replication"},
            "control.plane.listener.name",
            "inter-broker",
        ),
        (
            {
                "control.plane.listener.name": "CONTROLLER",
                "advertised.listeners": "REPLICATION://h:1",
            },
            "control.plane.listener.name",
            "REPLICATION",
        ),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes", "at least 104857600"),
        ({"replica.fetch.wait.max.ms": "30001"}, "replica.fetch.wait.max.ms", "0 to 30000"),
        ({"num.io.threads": "0"}, "num.io.threads", "1 to"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip", "1 to 2147483647"),
        ({"log.retention.ms": "0"}, "log.retention.ms", "-1 (all)"),
        ({"log.retention.minutes": "0"}, "log.retention.ms", "-1 (all)"),
        ({"log.retention.hours": "0"}, "log.retention.ms", "-1 (all)"),
        ({"log.dirs": ""}, "log.dirs", "at least one"),
        ({"log.dirs": " , "}, "log.dirs", "at least one"),
        ({"log.dir": ""}, "log.dirs", "at least one"),
        ({"num.io.threads": "many"}, "num.io.threads", "not an integer"),
        ({"delete.topic.enable": "maybe"}, "delete.topic.enable", "true, false"),
        ({"biplane.plane.mode": "triple"}, "biplane.plane.mode", "priority"),
        (
            {"biplane.plane.mode": "priority", "control.plane.listener.name": "CONTROLLER"},
            "biplane.plane.mode",
            "one of the two",
        ),
        ({"broker.id": "-1"}, "broker.id", "required"),
        ({"zookeeper.connect": ""}, "zookeeper.connect", "required"),
        ({"process.roles": "broker"}, "process.roles", "ZooKeeper"),
        ({"controller.listener.names": "CLIENT"}, "controller.listener.names", "ZooKeeper"),
        ({"connections.max.idle.ms": "100"}, "connections.max.idle.ms", "at least 101"),
        (
            {
                "connections.max.idle.ms": "200",
                "connection.failed.authentication.delay.ms": "200",
            },
            "connections.max.idle.ms",
            "at least 201",
        ),
    ],
)
def test_refusals_name_the_config_and_what_is_allowed(
    changes: dict[str, str], config: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make(**changes)
    assert refused.value.config == config
    assert says in str(refused.value)


def test_a_file_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(format_properties({**THREE, "num.io.threads": "-3"}))
    with pytest.raises(ConfigError, match=str(path)):
        BrokerConfig.load(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        BrokerConfig.load(tmp_path / "absent")
    path.write_text("log.dirs=c:\\users")
    with pytest.raises(ConfigError, match="cannot be read: malformed"):
        BrokerConfig.load(path)


def test_properties_as_java_reads_them() -> None:
    text = "# c\n! c\n a = 1 \nb:2\nc 3\nd=x\\\n   y\ne=\\u0041\\t\nf\\=g=h\nempty=\na=last\\\\\n"
    assert parse_properties(text) == {
        "a": "last\\",
        "b": "2",
        "c": "3",
        "d": "xy",
        "e": "A",
        "f=g": "h",
        "empty": "",
    }
    values = {"path": "c:\\x", "line": "a\nb"}
    assert parse_properties(format_properties(values)) == values


def test_levels_of_loggers_are_named_as_in_log4j() -> None:
    made = make(**{"biplane.log.levels": "state.change.logger:TRACE, kafka.network:WARN"})
    assert made.biplane_log_levels == ("state.change.logger:TRACE", "kafka.network:WARN")
    for wrong in ("TRACE", "a:LOUD", ":INFO"):
        with pytest.raises(ConfigError, match=r"biplane\.log\.levels"):
            make(**{"biplane.log.levels": wrong})


def test_metrics_are_served_by_default_at_a_port_of_their_own() -> None:
    assert make().biplane_metrics_port == 0
    assert make(**{"biplane.metrics.port": "-1"}).biplane_metrics_port == -1


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [
        ("", False), (" ", False), ("\t", False), ("\x01", False), (" \x00\n ", False),
        ("\u2003", True),  # no blank to Java's trim
        (" a ", True), ("x", True),
    ],
)  # fmt: skip
def test_blank_is_what_java_trims(name: str, is_taken: bool) -> None:
    """ListenerName.normalised: refused when nothing but blanks; else as it is, in capitals."""
    if is_taken:
        assert normalised("listeners", name) == name.upper()
        return
    with pytest.raises(ConfigError, match="blank listener name") as refused:
        normalised("control.plane.listener.name", name)
    assert refused.value.config == "control.plane.listener.name"


def test_a_name_of_a_control_character_is_blank() -> None:
    """In the middle of a list, where no comma's blanks are left out."""
    with pytest.raises(ConfigError, match="blank listener name"):
        make(listeners="REPLICATION://127.0.0.1:2,\x01://127.0.0.1:1,CLIENT://127.0.0.1:3")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("true", "TRUE", "True", "tRuE", " true ")),
        *((text, False) for text in ("false", "FALSE", "False")),
        *((text, None) for text in ("", "yes", "no", "1", "0", "t", "truee")),
    ],
)
def test_booleans_are_read_as_java_reads_them(text: str, value: bool | None) -> None:
    """ConfigDef.parseType: in any case, and nothing else."""
    given = {"auto.create.topics.enable": text}
    if value is not None:
        assert make(**given).auto_create_topics_enable is value
        return
    with pytest.raises(ConfigError) as refused:
        make(**given)
    assert str(refused.value) == (
        f"config 'auto.create.topics.enable': {text!r} is not a boolean; allowed: true, false"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("+7", 7), ("007", 7), (" 7 ", 7), ("2147483647", 2**31 - 1),
        *((text, None) for text in ("", "7.0", "1_000", "0x7", "7 7", "1e3", "seven", "--7")),
    ],
)  # fmt: skip
def test_numbers_are_read_as_java_reads_them(text: str, value: int | None) -> None:
    if value is not None:
        assert make(**{"num.io.threads": text}).num_io_threads == value
        return
    with pytest.raises(ConfigError) as refused:
        make(**{"num.io.threads": text})
    assert str(refused.value) == (
        f"config 'num.io.threads': {text!r} is not an integer; allowed: 1 to 2147483647"
    )


@pytest.mark.parametrize("text", ["0.2_5", "", "x", "1.01", "-0.1", "nan"])
def test_shares_are_parts_of_one(text: str) -> None:
    name = "log.cleaner.min.cleanable.ratio"
    with pytest.raises(ConfigError) as refused:
        make(**{name: text})
    assert str(refused.value) == f"config '{name}': {text!r} is no part of 1; allowed: 0 to 1"
    assert make(**{name: "0.25"}).log_cleaner_min_cleanable_ratio == 0.25


def test_unknown_names_are_told_as_they_came() -> None:
    given = {"zzz": "1", "num.io.threads": "2", "no.such.config": "1", "aaa": ""}
    assert make(**given).unknown == ("zzz", "no.such.config", "aaa")


@pytest.mark.parametrize("roles", ["broker", "controller", "broker,controller", ""])
def test_kraft_is_another_broker(roles: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(**{"process.roles": roles})
    assert str(refused.value) == (
        "config 'process.roles': this broker runs with ZooKeeper only; allowed: leave it unset"
    )


@pytest.mark.parametrize("names", ["", " ", ",", ",,"])
def test_who_names_no_controllers_listener_is_welcome(names: str) -> None:
    """Which KRaft calls by a name so like ``control.plane.listener.name``."""
    assert make(**{"controller.listener.names": names}).control_plane_listener_name is None


@pytest.mark.parametrize(("idle", "delay"), [("101", "100"), ("-1", "100"), ("1", "0")])
def test_connections_may_idle_longer_than_who_was_refused_waits(idle: str, delay: str) -> None:
    given = {"connections.max.idle.ms": idle, "connection.failed.authentication.delay.ms": delay}
    assert make(**given).connections_max_idle_ms == int(idle)


def test_advertised_ports_may_repeat() -> None:
    """Behind a proxy, or several names of one address (KafkaConfig: requireDistinctPorts is for
    what is bound)."""
    made = make(
        **{"advertised.listeners": "CONTROLLER://a:9,REPLICATION://b:9,CLIENT://b:9"},
    )
    assert [each.port for each in made.advertised_listeners] == [9, 9, 9]
    with pytest.raises(ConfigError):
        make(listeners="CONTROLLER://a:9,REPLICATION://b:9,CLIENT://b:8")


MAP = "listener.security.protocol.map"
NAMES = "names in listener.security.protocol.map: CONTROLLER, REPLICATION, CLIENT"
CONTROL = "control.plane.listener.name"
INTER = "inter.broker.listener.name"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({MAP: "A:TELNET"},
         f"config '{MAP}': unknown security protocol 'TELNET'; allowed: PLAINTEXT, SSL, "
         "SASL_PLAINTEXT, SASL_SSL"),
        ({MAP: "A"}, f"config '{MAP}': entry 'A' is not NAME:PROTOCOL"),
        ({MAP: ":SSL"}, f"config '{MAP}': blank listener name; allowed: the name of a listener"),
        ({"listeners": "nonsense"},
         "config 'listeners': cannot parse listener 'nonsense'; allowed: NAME://host:port"),
        ({"listeners": ""},
         "config 'listeners': at least one listener is required; allowed: NAME://host:port"),
        ({"listeners": "CLIENT://h:65536"},
         "config 'listeners': port 65536 in 'CLIENT://h:65536' is out of range; allowed: 0 to "
         "65535"),
        ({"listeners": "X://h:1"},
         f"config 'listeners': no security protocol is defined for listener X; allowed: {NAMES}"),
        ({"listeners": "CLIENT://h:1,CLIENT://h:2"},
         "config 'listeners': each listener must have a different name, got ['CLIENT', 'CLIENT']"),
        ({"listeners": "CLIENT://h:1,REPLICATION://g:1"},
         "config 'listeners': port 1 is used by CLIENT://h:1, REPLICATION://g:1; allowed: "
         "different ports, or exactly one IPv4 and one IPv6 address on one port"),
        ({"advertised.listeners": "REPLICATION://h:1,CONTROLLER://h:2",
          "listeners": "REPLICATION://h:1"},
         "config 'advertised.listeners': not among the listeners: CONTROLLER; allowed: a subset of "
         "REPLICATION"),
        ({"advertised.listeners": "CLIENT://h:1"},
         f"config '{INTER}': REPLICATION is not an advertised listener; allowed: CLIENT"),
        ({"advertised.listeners": "REPLICATION://0.0.0.0:1"},
         "config 'advertised.listeners': REPLICATION://0.0.0.0:1 uses the nonroutable address "
         "0.0.0.0; allowed: a routable address"),
        ({CONTROL: "X"},
         f"config '{CONTROL}': no security protocol is defined for listener X; allowed: {NAMES}"),
        ({CONTROL: "controller", "advertised.listeners": "CLIENT://h:1,REPLICATION://h:2"},
         f"config '{CONTROL}': CONTROLLER is not an advertised listener; allowed: CLIENT, "
         "REPLICATION"),
        ({CONTROL: "replication"},
         f"config '{CONTROL}': REPLICATION is the inter-broker listener as well; allowed: a "
         f"listener other than {INTER}"),
        ({MAP: "CONTROLLER:SSL,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT"},
         "config 'listeners': CONTROLLER://127.0.0.1:1 uses SSL, which this broker does not speak; "
         "allowed: PLAINTEXT"),
        ({INTER: "X"},
         f"config '{INTER}': no security protocol is defined for X; allowed: CONTROLLER, "
         "REPLICATION, CLIENT"),
        ({"security.inter.broker.protocol": "SSL"},
         f"config '{INTER}': security.inter.broker.protocol is set as well; allowed: set one of "
         "the two"),
        ({"broker.id": "-1"},
         "config 'broker.id': an id is required; allowed: 0 to 2147483647"),
        ({"broker.id": "1001"},
         "config 'broker.id': 1001 is among the ids that ZooKeeper gives out; allowed: 0 to 1000 "
         "(reserved.broker.max.id), or set broker.id.generation.enable=false"),
        ({"zookeeper.connect": ""},
         "config 'zookeeper.connect': is required; allowed: host:port[,host:port...][/chroot]"),
        ({"queued.max.request.bytes": "5"},
         "config 'queued.max.request.bytes': 5 is smaller than socket.request.max.bytes; allowed: "
         "at most 0 (off), or at least 104857600"),
        ({"replica.fetch.wait.max.ms": "700", "replica.lag.time.max.ms": "600"},
         "config 'replica.fetch.wait.max.ms': 700 is larger than replica.lag.time.max.ms; allowed: "
         "0 to 600"),
        ({"biplane.plane.mode": "priority", CONTROL: "CONTROLLER"},
         f"config 'biplane.plane.mode': priority is an alternative to {CONTROL}; allowed: set one "
         "of the two"),
        ({"biplane.plane.mode": "dual"},
         "config 'biplane.plane.mode': unknown value 'dual'; allowed: priority"),
        ({"log.cleanup.policy": "keep"},
         "config 'log.cleanup.policy': unknown policy in 'keep'; allowed: delete, compact"),
        ({"biplane.log.levels": "a:LOUD"},
         "config 'biplane.log.levels': cannot read 'a:LOUD'; allowed: logger:LEVEL[,...] with "
         "TRACE, DEBUG, INFO, WARN or ERROR"),
        ({"num.io.threads": "0"},
         "config 'num.io.threads': 0 is out of range; allowed: 1 to 2147483647"),
    ],
)  # fmt: skip
def test_what_a_refusal_says(given: dict[str, str], text: str) -> None:
    """Which config, what is wrong with it, and what would do: all that an operator has to go by."""
    with pytest.raises(ConfigError) as refused:
        make(**given)
    assert str(refused.value) == text
    assert str(refused.value.in_file("f")) == f"f: {text}"


@pytest.mark.parametrize("content", [None, b"broker.id=\xff", b"broker.id=\\u12"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    """One that is not there, is no text, or has half an escape."""
    file = tmp_path / "server.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(file)
    assert str(refused.value).startswith(f"{file}: config 'server.properties': cannot be read: ")


@pytest.mark.parametrize(
    "given",
    [{"reserved.broker.max.id": "1001"}, {"broker.id.generation.enable": "false"}],
)
def test_ids_that_zookeeper_gives_out_may_be_lower_or_none(given: dict[str, str]) -> None:
    properties = {**BASE, "broker.id": "1001", **given}
    assert BrokerConfig.from_properties(properties).broker_id == 1001
