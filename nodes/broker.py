"""One broker: every part of a node made, connected, started and stopped in Kafka's order.

Start (reference sheet, section 2)::

    ZooKeeper session -> cluster id -> logs -> sockets bound (control plane first, not listening)
    -> replica manager -> registration (its czxid is the broker epoch) -> controller
    -> handler pools (data, then control) -> listening (control, then data)

Stop: controlled shutdown while both planes live -> sockets -> handlers (data, then control) -> the
rest, the session last: `/brokers/ids/N` stays until nothing can be served any more.

Nothing but composition lives here. `startup` and `shutdown` belong to one thread.
"""

from __future__ import annotations

import base64
import gc
import logging
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import KazooException

from nodes.api.apis import KafkaApis
from nodes.api.config_entries import DYNAMIC_LOG_CONFIGS
from nodes.api.parse import parse
from nodes.api.services import Services
from nodes.channel_metrics import ChannelMetrics
from nodes.config import BrokerConfig, ConfigError, Endpoint
from nodes.controller.controller import KafkaController
from nodes.controller.partition_machine import UNCLEAN_CONFIG
from nodes.controller.shutdown import controlled_shutdown
from nodes.coordination.admin import AdminManager
from nodes.coordination.config_changes import ConfigChanges
from nodes.coordination.errors import CoordinationError
from nodes.coordination.producer_ids import ProducerIdManager
from nodes.coordination.zk import KafkaZkClient
from nodes.core.brokers import Broker, EndPoint, check_endpoints_are_free
from nodes.core.errors import ApiError, Errors
from nodes.core.rules import Rules
from nodes.dynamic_configs import ENTITY_TYPE, DynamicConfigs, current
from nodes.exceptions import tell_exceptions
from nodes.groups.coordinator import GroupCoordinator
from nodes.groups.gauges import register_gauges as register_group_gauges
from nodes.groups.store import OFFSETS_TOPIC
from nodes.log.config import LogConfig, LogConfigError
from nodes.log.failure import LogDirFailureHandler
from nodes.log.manager import LogDirError, LogManager
from nodes.logs import log_defaults, open_logs, upkeep
from nodes.metrics import Metrics
from nodes.metrics_server import URL_FILE, MetricsServer
from nodes.mutants import UnknownMutant, rules_with
from nodes.network.socket_server import SocketServer
from nodes.plane_use import PlaneUse
from nodes.replication.metadata_cache import MetadataCache
from nodes.replication.replica_manager import ReplicaManager
from nodes.replication.ticker import Ticker
from nodes.trace import Trace, next_boot
from nodes.wire.apis import SUPPORTED, ApiKey

log = logging.getLogger("kafka.server.KafkaServer")

SWITCH_INTERVAL_S: Final = 0.0001
"""How long a thread may keep the interpreter while others wait; Python's default is 50 times that,
which a control request on its way through three threads would pay several times."""

_PLANE_USE_MS: Final = 1_000
_CHANNEL_METRICS_MS: Final = 250
_GC_THRESHOLD: Final = 20_000


class KafkaServer:
    """A broker in this process."""

    def __init__(self, config: BrokerConfig, *, now_ns: Callable[[], int] = time.monotonic_ns):
        self.config = config
        self.metrics = Metrics()
        self._now_ns = now_ns
        self._says = f"[KafkaServer id={config.broker_id}]"
        self._disks = LogDirFailureHandler(self._halt, map(Path, config.log_dirs))
        self._stops: list[tuple[str, Callable[[], object]]] = []
        """What `shutdown` does, last first: each part enters what undoes its start."""

    def _halt(self) -> None:
        if _rules(self.config).halts_without_disks():
            _halt()

    # ---- start -----------------------------------------------------------------------------------
    def startup(self) -> None:
        """Returns once clients can connect. Raises ConfigError and others; then call `shutdown`."""
        config = self.config
        log.info("%s starting", self._says)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        rules = _rules(config)
        trace = self._start_trace()
        zk = self._connect(config, checks_controller_znode=rules.checks_controller_znode())
        cluster_id = zk.create_or_get_cluster_id(_random_cluster_id())
        log.info("%s Cluster ID = %s", self._says, cluster_id)
        dynamic = DynamicConfigs(config.broker_id, zk.get_entity_configs)
        settings = current(config, dynamic.of, DYNAMIC_LOG_CONFIGS)
        logs = open_logs(
            settings,
            trace,
            self.metrics,
            zk.get_topic_configs,
            cluster_id=cluster_id,
            on_failure=self._disks.failed,
            verify_tail=rules.verifies_log_tail(),
        )
        self._on_stop("logs", logs.close)
        sockets = SocketServer(
            config,
            parse,
            self.metrics,
            api_name=_api_name,
            error_name=_error_name,
            apis=SUPPORTED,
            rules=rules,
            now_ns=self._now_ns,
        )
        self._on_stop("sockets", sockets.stop_processing_requests)
        self.config = config = _bound(config, sockets.bind())

        metadata_cache = MetadataCache(config.broker_id)
        controller: KafkaController | None = None

        def broker_epoch() -> int:
            return -1 if controller is None else controller.broker_epoch

        replica_manager = ReplicaManager(
            config,
            logs,
            metadata_cache,
            trace,
            self.metrics,
            rules,
            now_ns=self._now_ns,
            broker_epoch=broker_epoch,
            topic_overrides=zk.get_topic_configs,
        )
        groups = GroupCoordinator(config, replica_manager)
        replica_manager.on_leadership_change = groups.on_leadership_change
        register_group_gauges(self.metrics, groups)
        self._start_replication(replica_manager, logs, lets_go=rules.lets_go_of_the_old())
        partitions = zk.get_full_replica_assignment_for_topic(OFFSETS_TOPIC)
        groups.startup(partition_count=len(partitions))
        self._on_stop("groups", groups.shutdown)

        broker = _broker(config)
        check_endpoints_are_free(
            broker, [b for b, _ in zk.get_all_broker_and_epochs_in_cluster().values()]
        )
        # A life that was killed a moment ago is still registered until its session expires.
        epoch = zk.register_broker(broker, wait_ms=2 * config.zookeeper_session_timeout_ms)
        controller = KafkaController(
            config.replace(unclean_leader_election_enable=settings.unclean_leader_election_enable),
            *(zk, broker, trace, self.metrics, rules),
            broker_epoch=epoch,
            now_ns=self._now_ns,
        )
        controller.startup()
        self._before("logs", "controller", controller.shutdown)
        self._disks.start(partial(_take_out, replica_manager, zk, config.broker_id))
        of_broker = partial(_change_settings, config, dynamic, zk, logs, controller, rules)
        reconfigure = partial(_reconfigure, replica_manager, controller, of_broker)
        changes = ConfigChanges(zk, reconfigure, rules=rules)
        changes.startup()
        self._on_stop("config changes", changes.shutdown)
        apis = KafkaApis(
            Services(
                config=config,
                cluster_id=cluster_id,
                replica_manager=replica_manager,
                metadata_cache=metadata_cache,
                controller=controller,
                admin=_admin(config, zk, metadata_cache, logs),
                broker_configs=dynamic.of,
                zk=zk,
                producer_ids=ProducerIdManager(config.broker_id, zk),
                groups=groups,
                trace=trace,
                metrics=self.metrics,
                broker_epoch=broker_epoch,
                now_ns=self._now_ns,
            )
        )
        self._on_stop("apis", apis.shutdown)
        self._on_stop("handlers", sockets.shutdown)
        sockets.start_handlers(apis.handle)
        self._on_stop("sockets", sockets.stop_processing_requests)
        sockets.enable_request_processing()
        self._tell_use(sockets, trace)
        if config.controlled_shutdown_enable:
            self._on_stop(
                "controlled shutdown", lambda: controlled_shutdown(config, zk, broker_epoch)
            )
            if not rules.hears_until_relieved():
                self._on_stop("control plane", sockets.stop_control_plane)
        self._serve_metrics(logs.live_log_dirs)
        # What exists by now lives as long as the broker: collections need not look at it again,
        # and requests leave no cycles behind, so that collections can be rare.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD, 20, 50)
        log.info("%s started", self._says)

    def _serve_metrics(self, log_dirs: Sequence[Path]) -> None:
        host, port = self.config.biplane_metrics_host, self.config.biplane_metrics_port
        for directory in log_dirs:
            (directory / URL_FILE).unlink(missing_ok=True)  # of a life that was killed
        if port < 0:
            return
        try:
            server = MetricsServer(self.metrics, port, host, url_file=log_dirs[0] / URL_FILE)
        except OSError as problem:
            raise ConfigError(
                "biplane.metrics.port",
                f"{host}:{port} cannot be bound: {problem}",
                "a free port, 0 for any, -1 for none",
            ) from None
        self._on_stop("metrics", server.close)

    def _start_trace(self) -> Trace:
        config = self.config
        boot = next_boot(config.log_dirs)
        trace = Trace(config.biplane_trace_path, config.broker_id, boot, self._now_ns)
        self._on_stop("trace", trace.close)
        if trace.enabled:
            self._on_stop("exceptions", tell_exceptions(trace))
        return trace

    def _connect(self, config: BrokerConfig, *, checks_controller_znode: bool) -> KafkaZkClient:
        zk = KafkaZkClient(
            config.zookeeper_connect,
            config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms,
            max_in_flight_requests=config.zookeeper_max_in_flight_requests,
            checks_controller_znode=checks_controller_znode,
        )
        self._on_stop("zookeeper", zk.close)
        log.info("%s Connecting to zookeeper on %s", self._says, config.zookeeper_connect)
        zk.start()
        return zk

    def _tell_use(self, sockets: SocketServer, trace: Trace) -> None:
        if not trace.enabled:
            return
        use = PlaneUse(sockets.served, trace, _api_constant, self._now_ns)
        queues = ChannelMetrics(self.metrics, trace, self._now_ns)
        for name, interval_ms, tell in (
            ("plane use", _PLANE_USE_MS, use.tell),
            ("channel metrics", _CHANNEL_METRICS_MS, queues.tell),
        ):
            ticker = Ticker(name.replace(" ", "-"), interval_ms, tell)
            ticker.start()
            self._on_stop(f"last word of {name}", tell)
            self._on_stop(name, ticker.stop)

    def _start_replication(
        self, replica_manager: ReplicaManager, logs: LogManager, *, lets_go: bool = True
    ) -> None:
        replica_manager.startup()
        self._on_stop("replica manager", replica_manager.shutdown)
        high_watermark_of = replica_manager.high_watermark_of
        for name, ticker in upkeep(self.config, logs, high_watermark_of, lets_go=lets_go):
            ticker.start()
            self._on_stop(name, ticker.stop)

    # ---- stop ------------------------------------------------------------------------------------
    def shutdown(self) -> None:
        """Undoes what was started, in reverse; also after a start that failed. Idempotent."""
        if not self._stops:
            return
        log.info("%s shutting down", self._says)
        while self._stops:
            what, stop = self._stops.pop()
            try:
                stop()
            except Exception:
                log.exception("%s %s did not stop cleanly", self._says, what)
        log.info("%s shut down completed", self._says)

    def _on_stop(self, what: str, stop: Callable[[], object]) -> None:
        self._stops.append((what, stop))

    def _before(self, later: str, what: str, stop: Callable[[], object]) -> None:
        """Enters a stop that is to come right after `later`'s, out of the order of starting."""
        index = next(i for i, (name, _) in enumerate(self._stops) if name == later)
        self._stops.insert(index, (what, stop))


# ---- translations between the parts --------------------------------------------------------------


def _halt() -> None:
    """End the process now, without any of what a shutdown does."""
    logging.shutdown()
    os._exit(1)


def _take_out(
    replica_manager: ReplicaManager, zk: KafkaZkClient, broker_id: int, log_dir: Path
) -> None:
    replica_manager.take_out(log_dir)
    try:
        zk.propagate_log_dir_event(broker_id)
    except (CoordinationError, KazooException):
        # In the next session this is a new broker, whom the controller asks about all it has.
        log.exception("Cannot tell the controller of the failure of %s", log_dir)


def _reconfigure(
    replica_manager: ReplicaManager,
    controller: KafkaController,
    of_broker: Callable[[], None],
    entity_type: str,
    name: str,
    configs: Mapping[str, str],
) -> None:
    """Configs of an entity changed in ZooKeeper; `of_broker` takes in what brokers' are now."""
    if entity_type == ENTITY_TYPE:
        of_broker()
    elif entity_type == "topics":
        replica_manager.update_topic_config(name, configs)
        if configs.get(UNCLEAN_CONFIG, "").lower() == "true":
            controller.enable_topic_unclean_leader_election(name)


def _change_settings(
    config: BrokerConfig,
    dynamic: DynamicConfigs,
    zk: KafkaZkClient,
    logs: LogManager,
    controller: KafkaController,
    rules: Rules,
) -> None:
    dynamic.take_in()
    settings = current(config, dynamic.of, DYNAMIC_LOG_CONFIGS)
    overrides_of = zk.get_topic_configs if rules.keeps_overrides() else _no_overrides
    logs.reconfigure(log_defaults(settings), overrides_of)
    controller.set_unclean_leader_election(settings.unclean_leader_election_enable)


def _no_overrides(_topic: str) -> Mapping[str, str]:
    """Of a planted bug."""
    return {}


def _rules(config: BrokerConfig) -> Any:
    try:
        rules = rules_with(config.biplane_mutants)
    except UnknownMutant as unknown:
        raise ConfigError("biplane.mutants", str(unknown)) from None
    for name in config.biplane_mutants:
        log.warning("This broker has the planted bug %s", name)
    return rules


def _bound(config: BrokerConfig, bound: Mapping[str, Endpoint]) -> BrokerConfig:
    """The configuration with real ports, and a real host where none was given (rule 8)."""

    def advertise(endpoint: Endpoint) -> Endpoint:
        port = endpoint.port or bound[endpoint.name].port
        host = endpoint.host or socket.getfqdn()
        return Endpoint(endpoint.name, endpoint.security_protocol, host, port)

    return config.replace(
        listeners=tuple(bound[endpoint.name] for endpoint in config.listeners),
        advertised_listeners=tuple(advertise(e) for e in config.advertised_listeners),
    )


def _broker(config: BrokerConfig) -> Broker:
    endpoints: Iterable[EndPoint] = (
        EndPoint(e.name, e.security_protocol, e.host, e.port) for e in config.advertised_listeners
    )
    return Broker(config.broker_id, tuple(endpoints), config.broker_rack)


def _admin(
    config: BrokerConfig, zk: KafkaZkClient, metadata_cache: MetadataCache, logs: LogManager
) -> AdminManager:
    def validate(configs: Mapping[str, str]) -> None:
        try:
            LogConfig.from_overrides(logs.default_config, configs)
        except LogConfigError as problem:
            raise ApiError(Errors.INVALID_CONFIG, str(problem)) from None

    return AdminManager(
        config,
        zk,
        alive_brokers=lambda: {i: b.rack for i, b in metadata_cache.alive_brokers().items()},
        validate_configs=validate,
        rng=random.Random(),
        new_topic_id=uuid.uuid4,
    )


def _api_name(api_key: int) -> str:
    with suppress(ValueError):
        return ApiKey(api_key).display_name
    return str(api_key)


def _api_constant(api_key: int) -> str:
    with suppress(ValueError):
        return ApiKey(api_key).name
    return str(api_key)


def _error_name(code: int) -> str:
    with suppress(ValueError):
        return Errors(code).name
    return str(code)


def _random_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


STARTUP_ERRORS: Final = (
    *(ConfigError, ApiError, CoordinationError, KazooException),
    *(LogDirError, OSError),
)
"""What a start can fail with for reasons that an operator can mend: one line says it."""
