"""A broker's configuration: Kafka's names, Kafka's defaults, Kafka's refusals.

`BrokerConfig` is frozen and validated once, when it is made; nothing re-reads it. A config's
attribute is its name with dots as underscores (``num.io.threads`` -> ``num_io_threads``), so that a
reader of Kafka's documentation finds everything. What Kafka does not have carries the prefix
``biplane.`` and is listed last. Unknown configs are kept aside and warned about, as in Kafka.

Listener rules live in `nodes.listeners`, the file format in `nodes.properties`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from nodes.listeners import (
    SECURITY_PROTOCOLS,
    ConfigError,
    Endpoint,
    check_advertised,
    check_control_plane,
    check_served,
    check_unique,
    normalised,
    parse_listeners,
    parse_protocol_map,
    split_list,
)
from nodes.properties import java_number, parse_properties, trim

__all__ = ["ACCEPTED_AND_UNUSED", "CONFIGS", "BrokerConfig", "ConfigError", "Endpoint", "PlaneMode"]

PlaneMode = Literal["single", "dual", "priority"]

LOG_LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,
    "DEBUG": 10,
    "INFO": 20,
    "WARN": 30,
    "ERROR": 40,
}
"""log4j's names of levels, as Python's numbers."""
_SHORT_MAX: Final = 2**15 - 1
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Key:
    """How one config is read: its name, a parser that raises ConfigError, and its type as Kafka's
    ConfigDef names it."""

    name: str
    parse: Callable[[str, str], Any]
    kind: str


def _key(name: str, default: Any, parse: Callable[[str, str], Any], kind: str) -> Any:
    return field(default=default, metadata={"key": _Key(name, parse, kind)})


def _number(name: str, value: str, low: int, high: int, but: int | None = None) -> int:
    allowed = f"{low} to {high}"
    try:
        number = int(java_number(value))
    except ValueError:
        raise ConfigError(name, f"{value!r} is not an integer", allowed) from None
    if not low <= number <= high or number == but:
        raise ConfigError(name, f"{number} is out of range", allowed)
    return number


def _int(
    name: str, default: int | None, low: int = 0, high: int = _INT_MAX, kind: str = "INT"
) -> Any:
    return _key(name, default, lambda config, value: _number(config, value, low, high), kind)


def _short(name: str, default: int, low: int = 0) -> Any:
    return _int(name, default, low, _SHORT_MAX, "SHORT")


def _long(name: str, default: int | None, low: int = 0) -> Any:
    return _int(name, default, low, _LONG_MAX, "LONG")


def _share(name: str, default: float) -> Any:
    def parse(config: str, value: str) -> float:
        try:
            share = float(java_number(value))
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise ConfigError(config, f"{value!r} is no part of 1", "0 to 1")
        return share

    return _key(name, default, parse, "DOUBLE")


def _string(name: str, default: str | None) -> Any:
    return _key(name, default, lambda _config, value: value, "STRING")


def _list(name: str, default: tuple[str, ...], kind: str = "LIST") -> Any:
    return _key(name, default, lambda _config, value: tuple(split_list(value)), kind)


def _bool(name: str, default: bool) -> Any:
    def parse(config: str, value: str) -> bool:
        if value.lower() not in ("true", "false"):
            raise ConfigError(config, f"{value!r} is not a boolean", "true, false")
        return value.lower() == "true"

    return _key(name, default, parse, "BOOLEAN")


def _one_of(name: str, default: str | None, *allowed: str) -> Any:
    def parse(config: str, value: str) -> str:
        if value not in allowed:
            raise ConfigError(config, f"unknown value {value!r}", ", ".join(allowed))
        return value

    return _key(name, default, parse, "STRING")


def _policies(name: str, default: tuple[str, ...]) -> Any:
    def parse(config: str, value: str) -> tuple[str, ...]:
        policies = tuple(split_list(value))
        if not policies or not set(policies) <= {"delete", "compact"}:
            raise ConfigError(config, f"unknown policy in {value!r}", "delete, compact")
        return policies

    return _key(name, default, parse, "LIST")


def _levels(name: str, default: tuple[str, ...]) -> Any:
    allowed = "logger:LEVEL[,...] with TRACE, DEBUG, INFO, WARN or ERROR"

    def parse(config: str, value: str) -> tuple[str, ...]:
        pairs = tuple(split_list(value))
        for pair in pairs:
            logger, _, level = pair.rpartition(":")
            if not logger or level not in LOG_LEVELS:
                raise ConfigError(config, f"cannot read {pair!r}", allowed)
        return pairs

    return _key(name, default, parse, "LIST")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Everything a broker was told. Times and sizes are in the units that their names end in.

    `listeners`, `advertised_listeners`, `inter_broker_listener_name` and
    `control_plane_listener_name` hold resolved, upper-cased values.
    """

    # ---- identity and ZooKeeper ------------------------------------------------------------------
    broker_id: int = _int("broker.id", -1, -1)
    broker_id_generation_enable: bool = _bool("broker.id.generation.enable", True)
    reserved_broker_max_id: int = _int("reserved.broker.max.id", 1000)
    broker_rack: str | None = _string("broker.rack", None)
    zookeeper_connect: str = _string("zookeeper.connect", "")
    zookeeper_session_timeout_ms: int = _int("zookeeper.session.timeout.ms", 18000, 1)
    zookeeper_connection_timeout_ms: int = _int("zookeeper.connection.timeout.ms", None, 1)
    zookeeper_max_in_flight_requests: int = _int("zookeeper.max.in.flight.requests", 10, 1)

    # ---- listeners -------------------------------------------------------------------------------
    listeners: tuple[Endpoint, ...] = _string("listeners", None)
    advertised_listeners: tuple[Endpoint, ...] = _string("advertised.listeners", None)
    listener_security_protocol_map: Mapping[str, str] = _string(
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    )
    inter_broker_listener_name: str = _string("inter.broker.listener.name", None)
    security_inter_broker_protocol: str | None = _one_of(
        "security.inter.broker.protocol", None, *SECURITY_PROTOCOLS
    )
    control_plane_listener_name: str | None = _string("control.plane.listener.name", None)
    host_name: str = _string("host.name", "")
    port: int = _int("port", 9092, -_INT_MAX - 1)
    advertised_host_name: str | None = _string("advertised.host.name", None)
    advertised_port: int | None = _int("advertised.port", None, -_INT_MAX - 1)

    # ---- socket server ---------------------------------------------------------------------------
    num_network_threads: int = _int("num.network.threads", 3, 1)
    num_io_threads: int = _int("num.io.threads", 8, 1)
    queued_max_requests: int = _int("queued.max.requests", 500, 1)
    queued_max_request_bytes: int = _long("queued.max.request.bytes", -1, -1)
    socket_request_max_bytes: int = _int("socket.request.max.bytes", 104857600, 1)
    socket_listen_backlog_size: int = _int("socket.listen.backlog.size", 50, 1)
    socket_send_buffer_bytes: int = _int("socket.send.buffer.bytes", 102400, -1)
    socket_receive_buffer_bytes: int = _int("socket.receive.buffer.bytes", 102400, -1)
    max_connections: int = _int("max.connections", _INT_MAX)
    max_connections_per_ip: int = _int("max.connections.per.ip", _INT_MAX)
    connections_max_idle_ms: int = _long("connections.max.idle.ms", 600000, -1)
    connections_max_reauth_ms: int = _long("connections.max.reauth.ms", 0)
    connection_failed_authentication_delay_ms: int = _int(
        "connection.failed.authentication.delay.ms", 100
    )
    request_timeout_ms: int = _int("request.timeout.ms", 30000, 1)
    controller_socket_timeout_ms: int = _int("controller.socket.timeout.ms", 30000, 1)

    # ---- replication -----------------------------------------------------------------------------
    replica_lag_time_max_ms: int = _long("replica.lag.time.max.ms", 30000)
    replica_socket_timeout_ms: int = _int("replica.socket.timeout.ms", 30000, 1)
    replica_socket_receive_buffer_bytes: int = _int("replica.socket.receive.buffer.bytes", 65536)
    replica_fetch_wait_max_ms: int = _int("replica.fetch.wait.max.ms", 500)
    replica_fetch_min_bytes: int = _int("replica.fetch.min.bytes", 1)
    replica_fetch_max_bytes: int = _int("replica.fetch.max.bytes", 1048576)
    replica_fetch_response_max_bytes: int = _int("replica.fetch.response.max.bytes", 10485760)
    replica_fetch_backoff_ms: int = _int("replica.fetch.backoff.ms", 1000)
    num_replica_fetchers: int = _int("num.replica.fetchers", 1, 1)
    replica_high_watermark_checkpoint_interval_ms: int = _long(
        "replica.high.watermark.checkpoint.interval.ms", 5000, 1
    )
    min_insync_replicas: int = _int("min.insync.replicas", 1, 1)
    unclean_leader_election_enable: bool = _bool("unclean.leader.election.enable", False)
    fetch_max_bytes: int = _int("fetch.max.bytes", 57671680, 1024)

    # ---- controller and administration -----------------------------------------------------------
    default_replication_factor: int = _int("default.replication.factor", 1, 1)
    num_partitions: int = _int("num.partitions", 1, 1)
    auto_create_topics_enable: bool = _bool("auto.create.topics.enable", True)
    delete_topic_enable: bool = _bool("delete.topic.enable", True)
    controlled_shutdown_enable: bool = _bool("controlled.shutdown.enable", True)
    controlled_shutdown_max_retries: int = _int("controlled.shutdown.max.retries", 3)
    controlled_shutdown_retry_backoff_ms: int = _long("controlled.shutdown.retry.backoff.ms", 5000)
    auto_leader_rebalance_enable: bool = _bool("auto.leader.rebalance.enable", True)
    leader_imbalance_per_broker_percentage: int = _int("leader.imbalance.per.broker.percentage", 10)
    leader_imbalance_check_interval_seconds: int = _long(
        "leader.imbalance.check.interval.seconds", 300, 1
    )

    # ---- logs: the defaults of topics without configs of their own -------------------------------
    log_dirs: tuple[str, ...] = _list("log.dirs", (), "STRING")
    log_dir: str = _string("log.dir", "/tmp/kafka-logs")
    log_segment_bytes: int = _int("log.segment.bytes", 1073741824, 14)
    log_retention_bytes: int = _long("log.retention.bytes", -1, -1)
    log_retention_ms: int = _long("log.retention.ms", 604800000, -1)
    log_retention_minutes: int | None = _int("log.retention.minutes", None, -1)
    log_retention_hours: int = _int("log.retention.hours", 168, -1)
    log_retention_check_interval_ms: int = _long("log.retention.check.interval.ms", 300000, 1)
    log_initial_task_delay_ms: int = _long("log.initial.task.delay.ms", 30000)
    log_segment_delete_delay_ms: int = _long("log.segment.delete.delay.ms", 60000)
    log_roll_ms: int = _long("log.roll.ms", 604800000, 1)
    log_roll_hours: int = _int("log.roll.hours", 168, 1)
    log_roll_jitter_ms: int = _long("log.roll.jitter.ms", 0)
    log_roll_jitter_hours: int = _int("log.roll.jitter.hours", 0)
    log_cleanup_policy: tuple[str, ...] = _policies("log.cleanup.policy", ("delete",))
    log_message_timestamp_type: str = _one_of(
        "log.message.timestamp.type", "CreateTime", "CreateTime", "LogAppendTime"
    )
    log_message_timestamp_before_max_ms: int = _long(
        "log.message.timestamp.before.max.ms", _LONG_MAX
    )
    log_message_timestamp_after_max_ms: int = _long("log.message.timestamp.after.max.ms", _LONG_MAX)
    log_message_timestamp_difference_max_ms: int = _long(
        "log.message.timestamp.difference.max.ms", _LONG_MAX
    )
    log_index_interval_bytes: int = _int("log.index.interval.bytes", 4096)
    log_index_size_max_bytes: int = _int("log.index.size.max.bytes", 10485760, 4)
    log_preallocate: bool = _bool("log.preallocate", False)
    log_cleaner_enable: bool = _bool("log.cleaner.enable", True)
    log_cleaner_backoff_ms: int = _long("log.cleaner.backoff.ms", 15000)
    log_cleaner_delete_retention_ms: int = _long("log.cleaner.delete.retention.ms", 86400000)
    log_cleaner_min_compaction_lag_ms: int = _long("log.cleaner.min.compaction.lag.ms", 0)
    log_cleaner_max_compaction_lag_ms: int = _long(
        "log.cleaner.max.compaction.lag.ms", _LONG_MAX, 1
    )
    log_cleaner_min_cleanable_ratio: float = _share("log.cleaner.min.cleanable.ratio", 0.5)
    log_cleaner_dedupe_buffer_size: int = _long("log.cleaner.dedupe.buffer.size", 134217728)
    log_flush_interval_messages: int = _long("log.flush.interval.messages", _LONG_MAX, 1)
    log_flush_interval_ms: int = _long("log.flush.interval.ms", _LONG_MAX)
    log_flush_scheduler_interval_ms: int = _long("log.flush.scheduler.interval.ms", _LONG_MAX, 1)
    log_flush_start_offset_checkpoint_interval_ms: int = _int(
        "log.flush.start.offset.checkpoint.interval.ms", 60000, 1
    )
    log_flush_offset_checkpoint_interval_ms: int = _int(
        "log.flush.offset.checkpoint.interval.ms", 60000, 1
    )
    message_max_bytes: int = _int("message.max.bytes", 1048588)
    compression_type: str = _one_of(
        "compression.type",
        "producer",
        *("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    )
    compression_gzip_level: int = _key(
        "compression.gzip.level", -1, lambda config, value: _number(config, value, -1, 9, 0), "INT"
    )
    compression_lz4_level: int = _int("compression.lz4.level", 9, 1, 17)
    compression_zstd_level: int = _int("compression.zstd.level", 3, -131072, 22)
    producer_id_expiration_ms: int = _int("producer.id.expiration.ms", 86400000, 1)
    producer_id_expiration_check_interval_ms: int = _int(
        "producer.id.expiration.check.interval.ms", 600000, 1
    )

    # ---- groups ----------------------------------------------------------------------------------
    offsets_topic_num_partitions: int = _int("offsets.topic.num.partitions", 50, 1)
    offsets_topic_replication_factor: int = _short("offsets.topic.replication.factor", 3, 1)
    offsets_topic_segment_bytes: int = _int("offsets.topic.segment.bytes", 104857600, 1)
    offsets_retention_minutes: int = _int("offsets.retention.minutes", 10080, 1)
    offsets_retention_check_interval_ms: int = _long(
        "offsets.retention.check.interval.ms", 600000, 1
    )
    offsets_commit_timeout_ms: int = _int("offsets.commit.timeout.ms", 5000, 1)
    offset_metadata_max_bytes: int = _int("offset.metadata.max.bytes", 4096)
    group_min_session_timeout_ms: int = _int("group.min.session.timeout.ms", 6000)
    group_max_session_timeout_ms: int = _int("group.max.session.timeout.ms", 1800000)
    group_initial_rebalance_delay_ms: int = _int("group.initial.rebalance.delay.ms", 3000)
    group_max_size: int = _int("group.max.size", _INT_MAX, 1)

    # ---- biplane's own ---------------------------------------------------------------------------
    biplane_plane_mode: str | None = _one_of("biplane.plane.mode", None, "priority")
    biplane_trace_path: str | None = _string("biplane.trace.path", None)
    biplane_mutants: tuple[str, ...] = _list("biplane.mutants", ())
    biplane_metrics_port: int = _int("biplane.metrics.port", 0, -1, 65535)
    biplane_log_levels: tuple[str, ...] = _levels("biplane.log.levels", ())
    biplane_metrics_host: str = _string("biplane.metrics.host", "127.0.0.1")
    biplane_control_priority: bool = _bool("biplane.control.priority", True)
    biplane_data_home_core: bool = _bool("biplane.data.home.core", True)

    given: Mapping[str, str] = field(default_factory=dict, compare=False)
    """What was given, as it was written."""
    unknown: tuple[str, ...] = ()
    """Names given that no broker of this kind knows."""

    # ---- making one ------------------------------------------------------------------------------
    @classmethod
    def load(cls, path: str | Path) -> BrokerConfig:
        """Reads a properties file. Raises ConfigError, which names the file."""
        try:
            properties = parse_properties(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise ConfigError(
                "server.properties", f"cannot be read: {problem}", file=str(path)
            ) from None
        try:
            return cls.from_properties(properties)
        except ConfigError as error:
            raise error.in_file(str(path)) from None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Parses and validates. Empty values of numbers are refused; absent ones get defaults."""
        values: dict[str, Any] = {}
        for spec in dataclasses.fields(cls):
            key: _Key | None = spec.metadata.get("key")
            if key is None:
                continue
            if key.name in properties:
                values[spec.name] = key.parse(key.name, trim(properties[key.name]))
            else:
                values[spec.name] = spec.default
        values["given"] = {name: trim(text) for name, text in properties.items()}
        values["unknown"] = tuple(name for name in properties if name not in CONFIGS)
        _resolve(values, properties)
        return cls(**values)

    # ---- what follows from it --------------------------------------------------------------------
    @property
    def plane_mode(self) -> PlaneMode:
        if self.control_plane_listener_name is not None:
            return "dual"
        return "priority" if self.biplane_plane_mode == "priority" else "single"

    @property
    def control_plane_endpoint(self) -> Endpoint | None:
        name = self.control_plane_listener_name
        return next((e for e in self.listeners if e.name == name), None)

    @property
    def data_plane_endpoints(self) -> tuple[Endpoint, ...]:
        name = self.control_plane_listener_name
        return tuple(e for e in self.listeners if e.name != name)

    @property
    def controller_listener_name(self) -> str:
        """Where a controller reaches brokers: its control listener, else the inter-broker one."""
        return self.control_plane_listener_name or self.inter_broker_listener_name

    def replace(self, **changes: Any) -> BrokerConfig:
        """A copy with resolved values changed (advertised ports once bound, for example)."""
        return dataclasses.replace(self, **changes)


CONFIGS: Final = frozenset(
    spec.metadata["key"].name for spec in dataclasses.fields(BrokerConfig) if "key" in spec.metadata
)
"""Every name that a broker of this kind knows."""

ACCEPTED_AND_UNUSED: Final = frozenset(
    {
        "compression.lz4.level",
        "connections.max.reauth.ms",
        "log.cleaner.dedupe.buffer.size",
        "replica.socket.receive.buffer.bytes",
    }
)
"""Of those: what Kafka has and what changes nothing here. There is no SASL, lz4 is made in one way,
keys of a dirty part are held in memory all at once, and a follower's connection keeps the system's
buffer."""


def _resolve(values: dict[str, Any], given: Mapping[str, str]) -> None:
    """Fills what derives from other configs and applies the validation rules, in place."""
    _resolve_listeners(values)
    if values["broker_id"] < 0:
        raise ConfigError("broker.id", "an id is required", f"0 to {_INT_MAX}")
    highest = values["reserved_broker_max_id"]
    if values["broker_id_generation_enable"] and values["broker_id"] > highest:
        raise ConfigError(
            "broker.id",
            f"{values['broker_id']} is among the ids that ZooKeeper gives out",
            f"0 to {highest} (reserved.broker.max.id), or set broker.id.generation.enable=false",
        )
    if not values["zookeeper_connect"]:
        raise ConfigError("zookeeper.connect", "is required", "host:port[,host:port...][/chroot]")
    if "process.roles" in given:
        raise ConfigError("process.roles", "this broker runs with ZooKeeper only", "leave it unset")
    if trim(given.get("controller.listener.names", "")).strip(","):
        raise ConfigError(
            "controller.listener.names",
            "is KRaft's, and this broker runs with ZooKeeper only",
            "leave it unset; a control plane is named by control.plane.listener.name",
        )
    if values["zookeeper_connection_timeout_ms"] is None:
        values["zookeeper_connection_timeout_ms"] = values["zookeeper_session_timeout_ms"]
    if "log.dirs" not in given:
        values["log_dirs"] = tuple(split_list(values["log_dir"]))
    if not values["log_dirs"]:
        raise ConfigError("log.dirs", "at least one directory is required", "paths")
    if "log.retention.ms" not in given:
        minutes = values["log_retention_minutes"]
        if minutes is None:
            hours = values["log_retention_hours"]
            minutes = hours if hours < 0 else hours * 60
        values["log_retention_ms"] = minutes if minutes < 0 else minutes * 60_000
    if not values["log_retention_ms"]:
        raise ConfigError("log.retention.ms", "0 keeps nothing", f"-1 (all), or 1 to {_LONG_MAX}")
    if not values["max_connections_per_ip"]:
        raise ConfigError("max.connections.per.ip", "0 lets nobody in", f"1 to {_INT_MAX}")
    if "log.roll.ms" not in given:
        values["log_roll_ms"] = values["log_roll_hours"] * 3_600_000
    if "log.roll.jitter.ms" not in given:
        values["log_roll_jitter_ms"] = values["log_roll_jitter_hours"] * 3_600_000
    if "log.flush.interval.ms" not in given:
        values["log_flush_interval_ms"] = values["log_flush_scheduler_interval_ms"]
    pool, frame = values["queued_max_request_bytes"], values["socket_request_max_bytes"]
    if 0 < pool < frame:
        raise ConfigError(
            "queued.max.request.bytes",
            f"{pool} is smaller than socket.request.max.bytes",
            f"at most 0 (off), or at least {frame}",
        )
    delay_ms, idle_ms = (
        values["connection_failed_authentication_delay_ms"],
        values["connections_max_idle_ms"],
    )
    if 0 <= idle_ms <= delay_ms:
        raise ConfigError(
            "connections.max.idle.ms",
            f"{idle_ms} is not larger than connection.failed.authentication.delay.ms",
            f"-1 (never), or at least {delay_ms + 1}",
        )
    wait_ms = values["replica_fetch_wait_max_ms"]
    for bound in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        limit_ms = values[bound.replace(".", "_")]
        if wait_ms > limit_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms", f"{wait_ms} is larger than {bound}", f"0 to {limit_ms}"
            )
    if values["biplane_plane_mode"] and values["control_plane_listener_name"]:
        raise ConfigError(
            "biplane.plane.mode",
            "priority is an alternative to control.plane.listener.name",
            "set one of the two",
        )


def _resolve_listeners(values: dict[str, Any]) -> None:
    protocols = parse_protocol_map(values["listener_security_protocol_map"])
    values["listener_security_protocol_map"] = protocols
    # Kafka up to 2.8 derived both from host and port configs; KIP-291's chart still shows it.
    raw = values["listeners"]
    if raw is None:
        raw = f"PLAINTEXT://{values['host_name']}:{values['port']}"
    raw_advertised = values["advertised_listeners"]
    host, port = values["advertised_host_name"], values["advertised_port"]
    if raw_advertised is None and (host is not None or port is not None):
        host = values["host_name"] if host is None else host
        raw_advertised = f"PLAINTEXT://{host}:{values['port'] if port is None else port}"
    listeners = parse_listeners("listeners", raw, protocols)
    check_unique("listeners", listeners, ports=True)
    check_served(listeners)
    advertised = listeners
    if raw_advertised is not None:
        advertised = parse_listeners("advertised.listeners", raw_advertised, protocols)
    inter_broker = _inter_broker_name(values, protocols)
    check_advertised(advertised, listeners, inter_broker)
    control = values["control_plane_listener_name"]
    if control is not None:
        control = check_control_plane(control, advertised, protocols, inter_broker)
    values["control_plane_listener_name"] = control
    values["inter_broker_listener_name"] = inter_broker
    values["listeners"], values["advertised_listeners"] = listeners, advertised


def _inter_broker_name(values: Mapping[str, Any], protocols: Mapping[str, str]) -> str:
    """Rule 4."""
    config = "inter.broker.listener.name"
    name, protocol = values["inter_broker_listener_name"], values["security_inter_broker_protocol"]
    if name is None:
        return protocol or "PLAINTEXT"
    if protocol is not None:
        raise ConfigError(
            config, "security.inter.broker.protocol is set as well", "set one of the two"
        )
    resolved = normalised(config, name)
    if resolved not in protocols:
        raise ConfigError(
            config, f"no security protocol is defined for {resolved}", ", ".join(protocols)
        )
    return resolved
