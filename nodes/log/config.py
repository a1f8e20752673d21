"""Settings of a log, by Kafka's topic configs (dots become underscores in field names).

A broker's defaults come from its `log.*` properties; a topic overrides them with text values from
ZooKeeper. Every text is checked here, once, with an error that names the config and what it allows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"


class LogConfigError(ValueError):
    """A topic config with an unknown name or a value that is not allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Kafka's defaults. Sizes in bytes, times in milliseconds; -1 retention means unlimited."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * 3600 * 1000
    max_message_bytes: int = 1048588
    message_timestamp_type: str = CREATE_TIME
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    cleanup_policy: str = "delete"
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    flush_messages: int = (1 << 63) - 1
    flush_ms: int = (1 << 63) - 1
    file_delete_delay_ms: int = 60000
    compression_type: str = "producer"
    preallocate: bool = False
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == LOG_APPEND_TIME

    @classmethod
    def from_overrides(cls, defaults: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
        """`defaults` with a topic's configs (Kafka's dotted names, text values) laid over them.

        Raises `LogConfigError` naming the config and what it allows.
        """
        values: dict[str, Any] = {}
        for name, text in overrides.items():
            if name in ACCEPTED_AND_UNUSED:
                continue
            rule = _RULES.get(name)
            if rule is None:
                raise LogConfigError(f"unknown topic config {name!r}; known: {', '.join(_RULES)}")
            values[name.replace(".", "_")] = _parse(name, str(text), rule)
        return dataclasses.replace(defaults, **values)


#: Topic configs that Kafka has, that change nothing here, and that clients may set all the same.
ACCEPTED_AND_UNUSED: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "max.compaction.lag.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "min.compaction.lag.ms",
        "segment.jitter.ms",
    }
)

#: What each config allows: a range of integers, a set of words, bool, or a part of 1 (float).
_Rule = tuple[int, int] | frozenset[str] | type[bool] | type[float]
_LONG: Final = (1 << 63) - 1
_INT: Final = (1 << 31) - 1
_RULES: Final[Mapping[str, _Rule]] = {
    "segment.bytes": (14, _INT),
    "segment.ms": (1, _LONG),
    "retention.bytes": (-1, _LONG),
    "retention.ms": (-1, _LONG),
    "max.message.bytes": (0, _INT),
    "message.timestamp.type": frozenset({CREATE_TIME, LOG_APPEND_TIME}),
    "min.insync.replicas": (1, _INT),
    "unclean.leader.election.enable": bool,
    "cleanup.policy": frozenset({"delete", "compact", "compact,delete", "delete,compact"}),
    "index.interval.bytes": (0, _INT),
    "segment.index.bytes": (4, _INT),
    "flush.messages": (1, _LONG),
    "flush.ms": (0, _LONG),
    "file.delete.delay.ms": (0, _LONG),
    "compression.type": frozenset({"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"}),
    "preallocate": bool,
    "delete.retention.ms": (0, _LONG),
    "min.cleanable.dirty.ratio": float,
}


def _parse(name: str, text: str, rule: _Rule) -> Any:
    if rule is bool:
        if text.strip().lower() not in ("true", "false"):
            raise LogConfigError(f"{name}={text!r}: allowed are true and false")
        return text.strip().lower() == "true"
    if rule is float:
        try:
            share = float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise LogConfigError(f"{name}={text!r}: allowed are numbers from 0 to 1")
        return share
    if isinstance(rule, frozenset):
        word = text.replace(" ", "")
        if word not in rule:
            raise LogConfigError(f"{name}={text!r}: allowed are {', '.join(sorted(rule))}")
        return word
    assert isinstance(rule, tuple)
    low, high = rule
    try:
        number = int(text)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise LogConfigError(f"{name}={text!r}: allowed are integers from {low} to {high}")
    return number
