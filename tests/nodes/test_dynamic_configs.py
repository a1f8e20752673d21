"""Configs of a broker that change while it runs: what counts (Kafka's DynamicBrokerConfig)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from nodes.api.config_entries import DYNAMIC_LOG_CONFIGS
from nodes.config import BrokerConfig, ConfigError
from nodes.dynamic_configs import DynamicConfigs, current, overridden


def config(**given: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {"broker.id": "1", "zookeeper.connect": "zoo:1"}
        | {name.replace("_", "."): value for name, value in given.items()}
    )


Entities = Mapping[str, Mapping[str, str]]


def now(of: BrokerConfig, entities: Entities) -> BrokerConfig:
    return current(of, lambda name: entities.get(name, {}), DYNAMIC_LOG_CONFIGS)


def test_what_a_broker_tells_of_itself_is_what_it_has_taken_in() -> None:
    entities: dict[tuple[str, str], dict[str, str]] = {("brokers", "1"): {"a": "1"}}
    dynamic = DynamicConfigs(1, lambda *entity: entities.get(entity, {}))
    assert (dynamic.of("1"), dynamic.of("<default>"), dynamic.of("2")) == ({"a": "1"}, {}, {})
    entities |= {("brokers", "1"): {"a": "2"}, ("brokers", "<default>"): {"b": "3"}}
    assert (dynamic.of("1"), dynamic.of("<default>")) == ({"a": "1"}, {})
    dynamic.take_in()
    assert (dynamic.of("1"), dynamic.of("<default>")) == ({"a": "2"}, {"b": "3"})


@pytest.mark.parametrize(
    ("of_file", "of_all", "of_own", "retention_ms"),
    [
        ({}, {}, {}, 604_800_000),
        ({"log_retention_ms": "5"}, {}, {}, 5),
        ({"log_retention_hours": "1"}, {}, {}, 3_600_000),
        ({"log_retention_ms": "5"}, {"log.retention.ms": "6"}, {}, 6),
        ({"log_retention_hours": "1"}, {"log.retention.ms": "6"}, {}, 6),
        ({}, {}, {"log.retention.ms": "7"}, 7),
        ({"log_retention_ms": "5"}, {"log.retention.ms": "6"}, {"log.retention.ms": "7"}, 7),
    ],
)
def test_the_nearer_counts(
    of_file: dict[str, str], of_all: dict[str, str], of_own: dict[str, str], retention_ms: int
) -> None:
    of = config(**of_file)
    found = now(of, {"<default>": of_all, "1": of_own, "2": {"log.retention.ms": "9"}})
    assert found.log_retention_ms == retention_ms
    assert found == of.replace(log_retention_ms=retention_ms), "and nothing else has changed"
    assert found.given == of.given


@pytest.mark.parametrize(
    "written",
    [
        {"log.retention.ms": "x"},
        {"log.retention.ms": "0"},
        {"min.insync.replicas": "0"},
        {"control.plane.listener.name": "CONTROLLER"},
        {"num.io.threads": "1"},
        {"not.known": "1"},
    ],
)
def test_nonsense_in_zookeeper_counts_for_nothing(
    written: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """What stands beside it does."""
    with caplog.at_level(logging.ERROR):
        found = now(config(), {"1": {**written, "message.max.bytes": "77"}})
    assert found == config().replace(message_max_bytes=77)
    is_said = written.keys() <= DYNAMIC_LOG_CONFIGS
    assert [next(iter(written)) in r.getMessage() for r in caplog.records] == [True] * is_said


def test_what_is_refused_names_the_config() -> None:
    with pytest.raises(ConfigError, match=r"config 'message\.max\.bytes'"):
        overridden(config(), {"log.retention.ms": "1", "message.max.bytes": "-1"})


def test_real_ports_stay() -> None:
    """They are not what was given."""
    of = config(listeners="PLAINTEXT://h:0")
    bound = of.replace(listeners=tuple(e.with_port(7) for e in of.listeners))
    assert overridden(bound, {"log.retention.ms": "1"}).listeners[0].port == 7
