"""How a broker is put together: which config ends where, and in which order parts begin and end
(KafkaServer.startup and shutdown, KafkaConfig.extractLogConfigMap)."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodes import broker, logs
from nodes.broker import KafkaServer
from nodes.config import BrokerConfig, Endpoint
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.logs import log_defaults
from nodes.trace import Trace
from nodes.wire.apis import SUPPORTED


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {
            "broker.id": "1",
            "zookeeper.connect": "zoo:1",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
    )


OF_TOPICS = {
    "log.segment.bytes": ("1001", "segment_bytes", 1001),
    "log.roll.ms": ("1002", "segment_ms", 1002),
    "log.roll.jitter.ms": ("1013", "segment_jitter_ms", 1013),
    "log.message.timestamp.before.max.ms": ("1014", "message_timestamp_before_max_ms", 1014),
    "log.message.timestamp.after.max.ms": ("1015", "message_timestamp_after_max_ms", 1015),
    "log.message.timestamp.difference.max.ms": (
        *("1016", "message_timestamp_difference_max_ms", 1016),
    ),
    "log.cleaner.min.compaction.lag.ms": ("1017", "min_compaction_lag_ms", 1017),
    "log.cleaner.max.compaction.lag.ms": ("1018", "max_compaction_lag_ms", 1018),
    "log.retention.bytes": ("1003", "retention_bytes", 1003),
    "log.retention.ms": ("1004", "retention_ms", 1004),
    "message.max.bytes": ("1005", "max_message_bytes", 1005),
    "log.message.timestamp.type": ("LogAppendTime", "message_timestamp_type", "LogAppendTime"),
    "min.insync.replicas": ("6", "min_insync_replicas", 6),
    "unclean.leader.election.enable": ("true", "unclean_leader_election_enable", True),
    "log.cleanup.policy": ("compact,delete", "cleanup_policy", "compact,delete"),
    "log.index.interval.bytes": ("1007", "index_interval_bytes", 1007),
    "log.index.size.max.bytes": ("1008", "segment_index_bytes", 1008),
    "log.flush.interval.messages": ("1009", "flush_messages", 1009),
    "log.flush.interval.ms": ("1010", "flush_ms", 1010),
    "log.cleaner.delete.retention.ms": ("1011", "delete_retention_ms", 1011),
    "log.cleaner.min.cleanable.ratio": ("0.25", "min_cleanable_dirty_ratio", 0.25),
    "log.segment.delete.delay.ms": ("1012", "file_delete_delay_ms", 1012),
    "compression.type": ("lz4", "compression_type", "lz4"),
    "compression.gzip.level": ("7", "compression_gzip_level", 7),
    "compression.zstd.level": ("-9", "compression_zstd_level", -9),
    "log.preallocate": ("true", "preallocate", True),
}
"""A broker's config: a value, and the topics' config whose default it is (Kafka's documentation,
"Topic configs": Server Default Property)."""


@pytest.mark.parametrize("name", OF_TOPICS)
def test_a_brokers_config_is_its_topics_default(name: str) -> None:
    """Of that config, and of no other."""
    value, field, expected = OF_TOPICS[name]
    plain, made = log_defaults(config()), log_defaults(config(**{name: value}))
    assert getattr(made, field) == expected
    assert made == dataclasses.replace(plain, **{field: expected})


def test_every_topic_config_has_a_default_from_the_broker() -> None:
    fields = {field for _, field, _ in OF_TOPICS.values()}
    assert fields == {f.name for f in dataclasses.fields(LogConfig)}


# ---- endpoints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("planes", [{}, {"control_plane_listener_name": "B"}])
def test_what_is_advertised_is_what_was_said_or_else_what_was_bound(planes: dict[str, str]) -> None:
    """Port 0 becomes the bound one, no host the machine's name; what was said stays, whichever
    plane it is of: a controller may reach brokers by other addresses as well (KIP-291)."""
    made = config(
        listeners="A://:0,B://:0,C://127.0.0.1:0",
        advertised_listeners="A://:0,B://b:7,C://127.0.0.1:0",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
        inter_broker_listener_name="A",
        broker_rack="r",
        **planes,
    )
    bound = {e.name: e.with_port(100 + i) for i, e in enumerate(made.listeners)}
    found = broker._bound(made, bound)
    assert [e.port for e in found.listeners] == [100, 101, 102]
    here = socket.getfqdn()
    registered = broker._broker(found)
    assert [(e.listener, e.host, e.port) for e in registered.endpoints] == [
        ("A", here, 100),
        ("B", "b", 7),
        ("C", "127.0.0.1", 102),
    ]
    assert (registered.id, registered.rack) == (1, "r")
    assert isinstance(found.listeners[0], Endpoint)


# ---- ZooKeeper -----------------------------------------------------------------------------------


def test_every_advertised_listener_is_registered() -> None:
    """The control listener among them, which controllers look for (KIP-291), in the order of the
    configuration."""
    given = config(
        listeners="CONTROL://:1,PLAINTEXT://:2,CLIENT://:3,HIDDEN://:4",
        advertised_listeners="CLIENT://c:30,CONTROL://a:10,PLAINTEXT://b:20",
        listener_security_protocol_map=(
            "CONTROL:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT,HIDDEN:PLAINTEXT"
        ),
        control_plane_listener_name="CONTROL",
    )
    registered = broker._broker(given)
    assert registered.id == 1
    assert [e.connection_string for e in registered.endpoints] == [
        *("CLIENT://c:30", "CONTROL://a:10", "PLAINTEXT://b:20"),
    ]


def test_zookeeper_is_dialled_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Client:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append((args, kwargs))

        def start(self) -> None:
            pass

        def close(self) -> None:
            made.append("closed")

    monkeypatch.setattr(broker, "KafkaZkClient", Client)
    given = config(
        zookeeper_session_timeout_ms="7001",
        zookeeper_connection_timeout_ms="7002",
        zookeeper_max_in_flight_requests="73",
    )
    server = KafkaServer(given)
    server._connect(given, checks_controller_znode=True)
    ((args, kwargs),) = made
    assert args == ("zoo:1", 7001)
    assert kwargs == {
        "connection_timeout_ms": 7002,
        "max_in_flight_requests": 73,
        "checks_controller_znode": True,
    }
    server.shutdown()
    assert made[-1] == "closed"


# ---- what is done on a clock ---------------------------------------------------------------------


@pytest.fixture
def tickers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    made: dict[str, tuple[float, Callable[[], None], float | None]] = {}

    def ticker(
        name: str, interval_ms: float, task: Callable[[], None], first_ms: float | None = None
    ) -> Any:
        made[name] = (interval_ms, task, first_ms)
        return SimpleNamespace(start=lambda: None, stop=lambda: made.pop(name))

    monkeypatch.setattr(logs, "Ticker", ticker)
    return made


def parts(done: list[str]) -> tuple[Any, Any]:
    def part(name: str, *methods: str) -> Any:
        calls = {m: lambda *_, m=m: done.append(f"{name}.{m}") for m in methods}
        return SimpleNamespace(**calls)

    replicas = part("replicas", "startup", "shutdown", "high_watermark_of")
    logs = part(
        "logs", "cleanup", "checkpoint_recovery_points", "checkpoint_log_starts", "clean_logs",
        "flush_dirty_logs", "expire_producers",
    )  # fmt: skip
    return replicas, logs


def test_tasks_run_at_their_own_intervals(tickers: dict[str, Any]) -> None:
    given = config(
        log_initial_task_delay_ms="1000",
        log_retention_check_interval_ms="1001",
        log_flush_offset_checkpoint_interval_ms="1002",
        log_flush_start_offset_checkpoint_interval_ms="1003",
        log_cleaner_backoff_ms="1004",
        log_flush_scheduler_interval_ms="1005",
        producer_id_expiration_check_interval_ms="1006",
    )
    done: list[str] = []
    server = KafkaServer(given)
    server._start_replication(*cast(Any, parts(done)))
    assert done == ["replicas.startup"]
    done.clear()
    ran = {}
    for name, (interval_ms, task, first_ms) in list(tickers.items()):
        task()
        ran[name] = (first_ms, interval_ms, done.pop())
    assert ran == {
        "kafka-log-retention": (1000, 1001, "logs.cleanup"),
        "kafka-recovery-point-checkpoint": (1000, 1002, "logs.checkpoint_recovery_points"),
        "kafka-log-start-offset-checkpoint": (1000, 1003, "logs.checkpoint_log_starts"),
        "kafka-log-cleaner-thread-0": (None, 1004, "logs.clean_logs"),
        "kafka-log-flusher": (1000, 1005, "logs.flush_dirty_logs"),
        "PeriodicProducerExpirationCheck": (None, 1006, "logs.expire_producers"),
    }
    server.shutdown()
    assert tickers == {}
    assert done == ["replicas.shutdown"]


def test_a_cleaner_that_is_switched_off_never_runs(tickers: dict[str, Any]) -> None:
    """``log.cleaner.enable=false``; and an interval of Long.MaxValue, which is Kafka's default of
    the flusher, is one that can be waited for."""
    server = KafkaServer(config(log_cleaner_enable="false"))
    server._start_replication(*cast(Any, parts([])))
    years_ms = 10**12
    for name in ("kafka-log-cleaner-thread-0", "kafka-log-flusher"):
        assert tickers[name][0] == years_ms
    assert tickers["kafka-log-retention"][0] == 300_000
    server.shutdown()


# ---- configs that change -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "asked"), [("true", ["t"]), ("TRUE", ["t"]), ("false", []), (None, [])]
)
def test_a_topic_that_may_elect_uncleanly_now_is_told_to_the_controller(
    value: str | None, asked: list[str]
) -> None:
    """TopicConfigHandler: only then, and whatever else changed, the replicas hear of it."""
    elected: list[str] = []
    updated: list[Any] = []
    replicas: Any = SimpleNamespace(update_topic_config=lambda *change: updated.append(change))
    controller: Any = SimpleNamespace(enable_topic_unclean_leader_election=elected.append)
    configs = {} if value is None else {"unclean.leader.election.enable": value}
    of_brokers: list[bool] = []
    changed = partial(broker._reconfigure, replicas, controller, lambda: of_brokers.append(True))
    changed("topics", "t", configs)
    assert (elected, updated, of_brokers) == (asked, [("t", configs)], [])
    changed("brokers", "1", configs)
    assert (len(updated), of_brokers) == (1, [True])
    changed("clients", "c", configs)
    assert (len(updated), of_brokers) == (1, [True])


# ---- the end -------------------------------------------------------------------------------------


def test_what_does_not_stop_cleanly_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Last begun, first ended; a part that raises is named, and the others are ended."""
    server = KafkaServer(config())
    ended: list[str] = []

    def fails() -> None:
        raise RuntimeError("planted")

    server._on_stop("first", lambda: ended.append("first"))
    server._on_stop("second", fails)
    server._on_stop("third", lambda: ended.append("third"))
    server._before("first", "after the first", lambda: ended.append("after the first"))
    server.shutdown()
    assert ended == ["third", "first", "after the first"]
    assert "second did not stop cleanly" in caplog.text
    server.shutdown()
    assert len(ended) == 3


def test_where_metrics_are_served_says_one_file_in_a_directory_that_works(tmp_path: Path) -> None:
    """Lives that were killed left some."""
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        (directory / "metrics.url").write_text("http://127.0.0.1:1\n")
    server = KafkaServer(config(log_dirs=str(tmp_path), biplane_metrics_port="0"))
    server._serve_metrics([second, first])
    try:
        assert "127.0.0.1:1\n" not in (second / "metrics.url").read_text()
        assert not (first / "metrics.url").exists()
    finally:
        server.shutdown()
    assert not (second / "metrics.url").exists()


def test_where_metrics_are_not_served_no_file_says_that_they_are(tmp_path: Path) -> None:
    """A life that was killed left one."""
    (tmp_path / "metrics.url").write_text("http://127.0.0.1:1\n")
    (tmp_path / "other").write_text("")
    server = KafkaServer(config(log_dirs=str(tmp_path), biplane_metrics_port="-1"))
    for _ in range(2):
        server._serve_metrics([tmp_path])
        assert [each.name for each in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("traces", [True, False])
def test_the_last_word_of_what_was_used_is_the_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, traces: bool
) -> None:
    """It is told when the clock that told it until then stands still: one thread at a time."""
    said: list[str] = []

    def player(name: str, *methods: str) -> Any:
        calls = {m: lambda m=m: said.append(f"{name}: {m}") for m in methods}
        return SimpleNamespace(**calls)

    def ticker(name: str, interval_ms: int, task: Callable[[], None]) -> Any:
        said.append(f"{name} every {interval_ms} ms")
        return player(name, "start", "stop")

    monkeypatch.setattr(broker, "Ticker", ticker)
    monkeypatch.setattr(broker, "PlaneUse", lambda *_: player("use", "tell"))
    monkeypatch.setattr(broker, "ChannelMetrics", lambda *_: player("queues", "tell"))
    server = KafkaServer(config())
    trace = Trace(tmp_path / "trace.jsonl" if traces else None, node=1)
    server._tell_use(cast(Any, SimpleNamespace(served=dict)), trace)
    began = ["plane-use every 1000 ms", "plane-use: start"]
    began += ["channel-metrics every 250 ms", "channel-metrics: start"]
    assert said == (began if traces else [])
    said.clear()
    server.shutdown()
    ended = ["channel-metrics: stop", "queues: tell", "plane-use: stop", "use: tell"]
    assert said == (ended if traces else [])
    trace.close()


# ---- the whole -----------------------------------------------------------------------------------


NAMED = ("claim_cluster",)
"""Calls whose words are told as well."""


class Cast:
    """Every part of a broker, played: what is asked of it becomes a line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.made: dict[str, Any] = {}
        self.quiet = {
            "get_topic_configs",
            "get_entity_configs",
            "get_all_broker_and_epochs_in_cluster",
            "get_full_replica_assignment_for_topic",
        }
        for name, role, answers in (
            ("KafkaZkClient", "zookeeper", {
                "create_or_get_cluster_id": "the-cluster",
                "get_topic_configs": {"segment.bytes": "777"},
                "get_entity_configs": {"unclean.leader.election.enable": "true"},
                "get_all_broker_and_epochs_in_cluster": {},
                "get_full_replica_assignment_for_topic": {"partition 0": "", "partition 1": ""},
                "register_broker": 42,
            }),
            ("SocketServer", "sockets", {}),
            ("ReplicaManager", "replicas", {}),
            ("GroupCoordinator", "groups", {"on_leadership_change": "heard"}),
            ("KafkaController", "controller", {}),
            ("ConfigChanges", "config changes", {}),
            ("KafkaApis", "apis", {}),
        ):  # fmt: skip
            monkeypatch.setattr(broker, name, self._player(role, answers))
        monkeypatch.setattr(logs, "LogManager", self._player("logs", {}))
        for module in (broker, logs):
            monkeypatch.setattr(module, "Ticker", self._player("ticker", {}))
        for name in ("check_endpoints_are_free", "controlled_shutdown", "register_group_gauges"):
            monkeypatch.setattr(broker, name, lambda *_, name=name: self.said.append(name))
        monkeypatch.setattr(broker, "sys", SimpleNamespace(setswitchinterval=lambda _: None))
        quiet_gc = SimpleNamespace(**dict.fromkeys(("collect", "freeze"), lambda: None))
        quiet_gc.set_threshold = lambda *_: None
        monkeypatch.setattr(broker, "gc", quiet_gc)

    def _player(self, role: str, answers: dict[str, Any]) -> Any:
        outer = self

        class Player:
            broker_epoch = 42
            default_config = LogConfig()
            log_dirs = (Path("/somewhere"),)
            live_log_dirs = log_dirs

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                self.args, self.kwargs = args, kwargs
                self.name = args[0] if role == "ticker" else role
                outer.made[self.name] = self

            def __getattr__(self, method: str) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    if method not in outer.quiet:
                        shown = [a for a in args if isinstance(a, str) and method in NAMED]
                        shown += [f"{key} {value}" for key, value in kwargs.items()]
                        outer.said.append(" ".join([f"{self.name}: {method}", *shown]))
                    return answers.get(method)

                return call

            def load(self, config_of: Any) -> None:
                size = config_of(TopicPartition("t", 0)).segment_bytes
                outer.said.append(f"logs: load, segments of t {size}")

            def bind(self) -> Any:
                outer.said.append("sockets: bind")
                return {e.name: e.with_port(7) for e in self.args[0].listeners}

        return Player

    def take(self) -> list[str]:
        said, self.said = self.said, []
        # Without tickers, which have a test of their own.
        return [line for line in said if not line.startswith(("kafka-", "Periodic"))]


@pytest.mark.parametrize("asks_to_be_relieved", [True, False])
def test_the_order_in_which_a_broker_begins_and_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asks_to_be_relieved: bool
) -> None:
    """KafkaServer.startup and shutdown. Sockets are bound, and not listened to, before it is
    registered, so that ports are known; what it has registered stays as long as it can answer."""
    cast_ = Cast(monkeypatch)
    enabled = str(asks_to_be_relieved).lower()
    server = KafkaServer(
        config(
            log_dirs=str(tmp_path),
            biplane_metrics_port="-1",
            zookeeper_session_timeout_ms="5000",
            controlled_shutdown_enable=enabled,
        )
    )
    server.startup()
    assert cast_.take() == [
        "zookeeper: start",
        "zookeeper: create_or_get_cluster_id",
        "logs: load, segments of t 777",
        "logs: claim_cluster the-cluster",
        "sockets: bind",
        "register_group_gauges",
        "replicas: startup",
        "groups: startup partition_count 2",
        "check_endpoints_are_free",
        "zookeeper: register_broker wait_ms 10000",
        "controller: startup",
        "config changes: startup",
        "sockets: start_handlers",
        "sockets: enable_request_processing",
    ]
    made = cast_.made
    assert made["sockets"].kwargs["apis"] is SUPPORTED
    assert made["controller"].kwargs["broker_epoch"] == 42
    assert made["controller"].args[0].unclean_leader_election_enable, "as it was set while it ran"
    assert made["replicas"].kwargs["broker_epoch"]() == 42
    assert made["replicas"].on_leadership_change() == "heard", "groups keep what they have by it"
    assert server.config.listeners[0].port == 7
    cast_.take()
    server.shutdown()
    assert cast_.take() == [
        *(["controlled_shutdown"] if asks_to_be_relieved else []),
        "sockets: stop_processing_requests",
        "sockets: shutdown",
        "apis: shutdown",
        "config changes: shutdown",
        "groups: shutdown",
        "replicas: shutdown",
        "sockets: stop_processing_requests",
        "logs: close",
        "controller: shutdown",
        "zookeeper: close",
    ]
