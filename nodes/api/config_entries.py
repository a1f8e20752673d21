"""The entries that DescribeConfigs and CreateTopics list: values, and where each comes from.

A topic config that the topic itself does not set has the value of a broker config with another name
(its *synonym*, Kafka's LogConfig.TopicConfigSynonyms), or Kafka's own default where this broker has
no such config.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from nodes.config import BrokerConfig

_LONG_MAX: Final = str(2**63 - 1)


class Source(IntEnum):
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class ValueType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Entry(NamedTuple):
    """One config as a client sees it; `synonyms` are (name, value, source), nearest first."""

    name: str
    value: str | None
    source: Source
    value_type: ValueType
    read_only: bool
    synonyms: tuple[tuple[str, str | None, Source], ...]


class _TopicConfig(NamedTuple):
    value_type: ValueType
    broker_name: str | None
    default: str
    """Used where this broker has no config of that name."""


_B, _S, _I, _L, _D, _LIST = (
    ValueType.BOOLEAN,
    ValueType.STRING,
    ValueType.INT,
    ValueType.LONG,
    ValueType.DOUBLE,
    ValueType.LIST,
)

_KINDS: Final = {
    key.name: ValueType[key.kind]
    for spec in dataclasses.fields(BrokerConfig)
    if (key := spec.metadata.get("key")) is not None
}

_TOPIC_CONFIGS: Final[Mapping[str, _TopicConfig]] = {
    "cleanup.policy": _TopicConfig(_LIST, "log.cleanup.policy", "delete"),
    "compression.gzip.level": _TopicConfig(_I, "compression.gzip.level", "-1"),
    "compression.lz4.level": _TopicConfig(_I, "compression.lz4.level", "9"),
    "compression.type": _TopicConfig(_S, "compression.type", "producer"),
    "compression.zstd.level": _TopicConfig(_I, "compression.zstd.level", "3"),
    "delete.retention.ms": _TopicConfig(_L, "log.cleaner.delete.retention.ms", "86400000"),
    "file.delete.delay.ms": _TopicConfig(_L, "log.segment.delete.delay.ms", "60000"),
    "flush.messages": _TopicConfig(_L, "log.flush.interval.messages", _LONG_MAX),
    "flush.ms": _TopicConfig(_L, "log.flush.interval.ms", _LONG_MAX),
    "follower.replication.throttled.replicas": _TopicConfig(_LIST, None, ""),
    "index.interval.bytes": _TopicConfig(_I, "log.index.interval.bytes", "4096"),
    "leader.replication.throttled.replicas": _TopicConfig(_LIST, None, ""),
    "max.compaction.lag.ms": _TopicConfig(_L, "log.cleaner.max.compaction.lag.ms", _LONG_MAX),
    "max.message.bytes": _TopicConfig(_I, "message.max.bytes", "1048588"),
    "message.timestamp.after.max.ms": _TopicConfig(
        _L, "log.message.timestamp.after.max.ms", _LONG_MAX
    ),
    "message.timestamp.before.max.ms": _TopicConfig(
        _L, "log.message.timestamp.before.max.ms", _LONG_MAX
    ),
    "message.timestamp.difference.max.ms": _TopicConfig(
        _L, "log.message.timestamp.difference.max.ms", _LONG_MAX
    ),
    "message.timestamp.type": _TopicConfig(_S, "log.message.timestamp.type", "CreateTime"),
    "min.cleanable.dirty.ratio": _TopicConfig(_D, "log.cleaner.min.cleanable.ratio", "0.5"),
    "min.compaction.lag.ms": _TopicConfig(_L, "log.cleaner.min.compaction.lag.ms", "0"),
    "min.insync.replicas": _TopicConfig(_I, "min.insync.replicas", "1"),
    "preallocate": _TopicConfig(_B, "log.preallocate", "false"),
    "retention.bytes": _TopicConfig(_L, "log.retention.bytes", "-1"),
    "retention.ms": _TopicConfig(_L, "log.retention.ms", "604800000"),
    "segment.bytes": _TopicConfig(_I, "log.segment.bytes", "1073741824"),
    "segment.index.bytes": _TopicConfig(_I, "log.index.size.max.bytes", "10485760"),
    "segment.jitter.ms": _TopicConfig(_L, "log.roll.jitter.ms", "0"),
    "segment.ms": _TopicConfig(_L, "log.roll.ms", "604800000"),
    "unclean.leader.election.enable": _TopicConfig(_B, "unclean.leader.election.enable", "false"),
}


DYNAMIC_LOG_CONFIGS: Final = frozenset(
    known.broker_name for known in _TOPIC_CONFIGS.values() if known.broker_name is not None
)
"""Configs of a broker that are defaults of its topics: they may change while it runs (Kafka's
DynamicLogConfig)."""

_LISTS: Final = frozenset(
    name
    for topic_name, known in _TOPIC_CONFIGS.items()
    if known.value_type is ValueType.LIST
    for name in (topic_name, known.broker_name)
)


def topic_entries(broker: Mapping[str, Entry], overrides: Mapping[str, str]) -> Iterator[Entry]:
    """Every topic config of a topic with these overrides; `broker`: of `broker_entries`."""
    for name, topic_config in _TOPIC_CONFIGS.items():
        synonyms: list[tuple[str, str | None, Source]] = []
        if name in overrides:
            synonyms.append((name, overrides[name], Source.TOPIC))
        entry = broker.get(topic_config.broker_name or "")
        if entry is not None:
            synonyms += entry.synonyms
        elif topic_config.broker_name is not None:
            synonyms.append((topic_config.broker_name, topic_config.default, Source.DEFAULT))
        _, value, source = synonyms[0] if synonyms else ("", topic_config.default, Source.DEFAULT)
        yield Entry(name, value, source, topic_config.value_type, False, tuple(synonyms))
    for name in overrides.keys() - _TOPIC_CONFIGS.keys():
        value = overrides[name]
        yield Entry(name, value, Source.TOPIC, _S, False, ((name, value, Source.TOPIC),))


def is_list(name: str) -> bool:
    """Whether a topic's or a broker's config is a list, which may be grown and shrunk item by
    item."""
    return name in _LISTS


def default_of(name: str) -> str | None:
    """Kafka's own default of a topic config, or of the broker's that stands for it."""
    for topic_name, known in _TOPIC_CONFIGS.items():
        if name in (topic_name, known.broker_name):
            return known.default
    return None


def dynamic_entries(configs: Mapping[str, str], source: Source) -> Iterator[Entry]:
    """Broker configs that were set while it runs. What no file can have is a LONG (throttles); what
    only a file can set, and somebody wrote into ZooKeeper, has no effect and is not told."""
    for name, value in configs.items():
        kind = _KINDS.get(name, _L)
        if name in DYNAMIC_LOG_CONFIGS or name not in _KINDS:
            yield Entry(name, value, source, kind, False, ((name, value, source),))


def broker_entries(
    config: BrokerConfig, of_all: Mapping[str, str], of_own: Mapping[str, str]
) -> dict[str, Entry]:
    """Every config of this broker by name: as it was started with, and over that what was set for
    all brokers and for this one while they run.

    A text is shown as it was given, in its own case: the name of the control plane's listener, too.
    """
    entries = {entry.name: entry for entry in _static_entries(config)}
    nearer = (
        *dynamic_entries(of_all, Source.DYNAMIC_DEFAULT_BROKER),
        *dynamic_entries(of_own, Source.DYNAMIC_BROKER),
    )
    for entry in nearer:
        farther = entries.get(entry.name)
        below = () if farther is None else farther.synonyms
        entries[entry.name] = entry._replace(synonyms=entry.synonyms + below)
    return entries


def _static_entries(config: BrokerConfig) -> Iterator[Entry]:
    for spec in dataclasses.fields(config):
        key = spec.metadata.get("key")
        if key is None:
            continue
        raw = getattr(config, spec.name)
        given = config.given.get(key.name)
        value = given if given is not None and key.kind == ValueType.STRING.name else _text(raw)
        is_default = given is None and raw == spec.default
        source = Source.DEFAULT if is_default else Source.STATIC_BROKER
        synonyms = ((key.name, value, source),)
        fixed = key.name not in DYNAMIC_LOG_CONFIGS
        yield Entry(key.name, value, source, ValueType[key.kind], fixed, synonyms)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(_text(item) or "" for item in value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    return str(value)
