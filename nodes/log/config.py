"""Settings of a log, by Kafka's topic configs (dots become underscores in field names).

A broker's defaults come from its `log.*` properties; a topic overrides them with text values from
ZooKeeper. Every text is checked here, once, with an error that names the config and what it allows.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from nodes.properties import java_number

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
    compression_gzip_level: int = -1
    compression_zstd_level: int = 3
    preallocate: bool = False
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
    segment_jitter_ms: int = 0
    message_timestamp_before_max_ms: int = (1 << 63) - 1
    message_timestamp_after_max_ms: int = (1 << 63) - 1
    message_timestamp_difference_max_ms: int = (1 << 63) - 1

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """How long a segment may be active: what is to be compacted in time must not be in one."""
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def compression_level(self) -> int:
        """That of `compression_type`, where its codec has levels."""
        is_gzip = self.compression_type == "gzip"
        return self.compression_gzip_level if is_gzip else self.compression_zstd_level

    @property
    def time_bounds_ms(self) -> tuple[int, int] | None:
        """How far a record's time may lie (behind, ahead of) the clock; None: as far as it likes.
        The older ``difference`` counts where the newer name sets nothing (KIP-937)."""
        if self.is_log_append_time:
            return None
        before, after = self.message_timestamp_before_max_ms, self.message_timestamp_after_max_ms
        either = self.message_timestamp_difference_max_ms
        bounds = (either if before == _LONG else before, either if after == _LONG else after)
        return None if bounds == (_LONG, _LONG) else bounds

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
            rule = _RULES.get(name)
            if rule is None:
                raise LogConfigError(f"unknown topic config {name!r}; known: {', '.join(_RULES)}")
            value = _parse(name, str(text), rule)
            if name not in ACCEPTED_AND_UNUSED:
                values[name.replace(".", "_")] = value
        config = dataclasses.replace(defaults, **values)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise LogConfigError(
                f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) is greater than "
                f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
            )
        return config


#: Topic configs that Kafka has, that change nothing here, and that clients may set all the same:
#: throttles do not exist, no client is served that would need an older format, and lz4 is made in
#: one way.
ACCEPTED_AND_UNUSED: Final = frozenset(
    {
        "compression.lz4.level",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
        "message.format.version",
    }
)

#: What each config allows: a range of integers (and one that it lacks), a set of words, a pattern,
#: bool, or a part of 1 (float).
_Rule = tuple[int, ...] | frozenset[str] | re.Pattern[str] | type[bool] | type[float]
_THROTTLED: Final = re.compile(r"\*|([0-9]+:[0-9]+(, *[0-9]+:[0-9]+)*)?")
_RELEASE: Final = re.compile(r"[0-3]\.[0-9]{1,2}(\.[0-9])?(-IV[0-9]{1,2})?")
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
    "compression.gzip.level": (-1, 9, 0),
    "compression.lz4.level": (1, 17),
    "compression.zstd.level": (-131072, 22),
    "preallocate": bool,
    "delete.retention.ms": (0, _LONG),
    "min.cleanable.dirty.ratio": float,
    "min.compaction.lag.ms": (0, _LONG),
    "max.compaction.lag.ms": (1, _LONG),
    "segment.jitter.ms": (0, _LONG),
    "message.timestamp.before.max.ms": (0, _LONG),
    "message.timestamp.after.max.ms": (0, _LONG),
    "message.timestamp.difference.max.ms": (0, _LONG),
    "message.downconversion.enable": bool,
    "message.format.version": _RELEASE,
    "leader.replication.throttled.replicas": _THROTTLED,
    "follower.replication.throttled.replicas": _THROTTLED,
}


def _parse(name: str, text: str, rule: _Rule) -> Any:
    if rule is bool:
        if text.strip().lower() not in ("true", "false"):
            raise LogConfigError(f"{name}={text!r}: allowed are true and false")
        return text.strip().lower() == "true"
    if rule is float:
        try:
            share = float(java_number(text))
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
    if isinstance(rule, re.Pattern):
        if rule.fullmatch(text) is None:
            raise LogConfigError(f"{name}={text!r}: allowed is {rule.pattern}")
        return text
    assert isinstance(rule, tuple)
    low, high, *none = rule
    try:
        number = int(java_number(text))
    except ValueError:
        number = low - 1
    if not low <= number <= high or number in none:
        but = "".join(f" without {number}" for number in none)
        raise LogConfigError(f"{name}={text!r}: allowed are integers from {low} to {high}{but}")
    return number
