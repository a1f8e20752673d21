"""A broker's logs: opened as its configuration says, and kept by threads of their own.

Which of the broker's configs is the default of which topic config, who hears of what happens to
logs and their directories, and what is done to logs how often. What a log is, is in `nodes.log`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from nodes.config import BrokerConfig
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.log.manager import LogManager, OnFailure, OnStartMoved
from nodes.log.upkeep import KeptLog
from nodes.metrics import Metrics
from nodes.replication.ticker import Ticker
from nodes.trace import Trace

_LONGEST_WAIT_MS: Final = 10**12
"""Never, in a number that a wait can take."""
_BEAN: Final = "kafka.log:type=LogManager,name="
_PLAIN: Final = re.compile(r"[\w\-%. \t]*", re.ASCII)
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "*": r"\*", "?": r"\?", "\n": r"\n"})


def open_logs(
    config: BrokerConfig,
    trace: Trace,
    metrics: Metrics,
    overrides_of: Callable[[str], Mapping[str, str]],
    *,
    cluster_id: str,
    on_failure: OnFailure,
    verify_tail: bool,
) -> LogManager:
    """Every log on disk. `overrides_of` gives a topic's own configs. Raises LogDirError, OSError,
    and what `overrides_of` raises."""
    defaults = log_defaults(config)
    logs = LogManager(
        config.log_dirs,
        defaults,
        now_ms=_wall_ms,
        broker_id=config.broker_id,
        verify_tail=verify_tail,
        on_failure=on_failure,
        on_start_moved=start_tracer(trace),
        draw_below=random.Random().randrange,
    )
    of_topic: dict[str, LogConfig] = {}

    def config_of(tp: TopicPartition) -> LogConfig:
        if tp.topic not in of_topic:
            of_topic[tp.topic] = LogConfig.from_overrides(defaults, overrides_of(tp.topic))
        return of_topic[tp.topic]

    logs.load(config_of)
    logs.claim_cluster(cluster_id)
    _register_gauges(metrics, logs)
    return logs


def log_defaults(config: BrokerConfig) -> LogConfig:
    """A broker's `log.*` configs as the settings of topics that override nothing."""
    return LogConfig(
        segment_bytes=config.log_segment_bytes,
        segment_ms=config.log_roll_ms,
        segment_jitter_ms=config.log_roll_jitter_ms,
        retention_bytes=config.log_retention_bytes,
        retention_ms=config.log_retention_ms,
        max_message_bytes=config.message_max_bytes,
        message_timestamp_type=config.log_message_timestamp_type,
        message_timestamp_before_max_ms=config.log_message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=config.log_message_timestamp_after_max_ms,
        message_timestamp_difference_max_ms=config.log_message_timestamp_difference_max_ms,
        min_insync_replicas=config.min_insync_replicas,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
        cleanup_policy=",".join(config.log_cleanup_policy),
        index_interval_bytes=config.log_index_interval_bytes,
        segment_index_bytes=config.log_index_size_max_bytes,
        flush_messages=config.log_flush_interval_messages,
        flush_ms=config.log_flush_interval_ms,
        delete_retention_ms=config.log_cleaner_delete_retention_ms,
        min_cleanable_dirty_ratio=config.log_cleaner_min_cleanable_ratio,
        min_compaction_lag_ms=config.log_cleaner_min_compaction_lag_ms,
        max_compaction_lag_ms=config.log_cleaner_max_compaction_lag_ms,
        file_delete_delay_ms=config.log_segment_delete_delay_ms,
        compression_type=config.compression_type,
        compression_gzip_level=config.compression_gzip_level,
        compression_zstd_level=config.compression_zstd_level,
        preallocate=config.log_preallocate,
    )


def start_tracer(trace: Trace) -> OnStartMoved:
    """Traces what a log loses at its start. Who reads histories tells it from a follower's cut by
    its reason."""

    def moved(of: KeptLog, from_offset: int, reason: str) -> None:
        trace.event(
            "truncation",
            topic=of.tp.topic,
            partition=of.tp.partition,
            leader_epoch=-1 if of.latest_epoch is None else of.latest_epoch,
            from_offset=of.log_start_offset,
            to_offset=from_offset,
            reason=f"log start: {reason}",
        )

    return moved


def _register_gauges(metrics: Metrics, logs: LogManager) -> None:
    metrics.gauge(_BEAN + "OfflineLogDirectoryCount", lambda: len(logs.failed_log_dirs))
    for directory in logs.log_dirs:
        name = f"LogDirectoryOffline,logDirectory={mbean_value(str(directory.absolute()))}"
        metrics.gauge(_BEAN + name, _is_offline(logs, directory))


def _is_offline(logs: LogManager, directory: Path) -> Callable[[], float]:
    return lambda: float(directory in logs.failed_log_dirs)


def mbean_value(text: str) -> str:
    """A key property's value in an MBean's name, quoted where it must be (Kafka's
    Sanitizer.jmxSanitize, ObjectName.quote)."""
    return text if _PLAIN.fullmatch(text) else f'"{text.translate(_ESCAPED)}"'


def upkeep(
    config: BrokerConfig,
    logs: LogManager,
    high_watermark_of: Callable[[TopicPartition], int | None],
    *,
    lets_go: bool = True,
) -> Iterator[tuple[str, Ticker]]:
    """The threads that keep the logs, by name, not started (LogManager.startup: what it does itself
    begins after log.initial.task.delay.ms). ``lets_go``: of what is beyond its
    retention (else: a planted bug)."""
    never = _LONGEST_WAIT_MS
    first_ms = config.log_initial_task_delay_ms
    cleaner_ms = config.log_cleaner_backoff_ms if config.log_cleaner_enable else never
    expiration_ms = config.producer_id_expiration_check_interval_ms
    tasks: tuple[tuple[str, int, int | None, Callable[[], object]], ...] = (
        (
            "kafka-log-retention",
            config.log_retention_check_interval_ms,
            first_ms,
            lambda: logs.cleanup(high_watermark_of if lets_go else lambda _tp: None),
        ),
        (
            "kafka-recovery-point-checkpoint",
            config.log_flush_offset_checkpoint_interval_ms,
            first_ms,
            logs.checkpoint_recovery_points,
        ),
        (
            "kafka-log-start-offset-checkpoint",
            config.log_flush_start_offset_checkpoint_interval_ms,
            first_ms,
            logs.checkpoint_log_starts,
        ),
        (
            "kafka-log-flusher",
            config.log_flush_scheduler_interval_ms,
            first_ms,
            logs.flush_dirty_logs,
        ),
        (
            "PeriodicProducerExpirationCheck",
            expiration_ms,
            None,
            lambda: logs.expire_producers(config.producer_id_expiration_ms),
        ),
        (
            "kafka-log-cleaner-thread-0",
            cleaner_ms,
            None,
            lambda: logs.clean_logs(high_watermark_of),
        ),
    )
    for name, interval_ms, first, task in tasks:
        yield name, Ticker(name, min(interval_ms, never), task, first)  # type: ignore[arg-type]


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
