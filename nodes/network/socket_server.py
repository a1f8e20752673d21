"""The planes of a broker's network layer (Kafka's SocketServer, KIP-291).

::

    data plane      each listener: 1 acceptor, num.network.threads processors
                    all listeners: one queue of queued.max.requests, num.io.threads handlers
    control plane   its listener:  1 acceptor, 1 processor; a queue of 20, 1 handler

Without a control-plane listener everything is data plane. The control plane is made first, so its
processor has id 0. Life of a server::

    bind -> start_handlers (data, then control) -> enable_request_processing (control, then data)
         -> stop_processing_requests -> shutdown (handlers: data, then control)
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from nodes.config import BrokerConfig, Endpoint
from nodes.core.rules import RULES, Rules
from nodes.metrics import Metrics
from nodes.network.acceptor import Acceptor
from nodes.network.handler import Handle, RequestHandlerPool
from nodes.network.home_core import HomeCore
from nodes.network.memory_pool import MemoryPool, PooledProcessor
from nodes.network.processor import Parse, Processor
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import Plane, PriorityRequestChannel, RequestChannel
from nodes.network.request_times import Meters, request_counts, request_metrics
from nodes.priorities import prefer_this_thread

log = logging.getLogger("kafka.network.SocketServer")

CONTROL_PLANE_QUEUE_SIZE: Final = 20
_UNBOUNDED: Final = 2**63 - 1
"""What a pool without a bound says that it has available."""
_NETWORK: Final = "kafka.network:type="
_WINDOW_NS: Final = 1_000_000_000


@dataclass(slots=True)
class _Listener:
    acceptor: Acceptor
    processors: list[Processor]
    threads: list[threading.Thread]

    def stop(self) -> None:
        if self.threads:
            self.acceptor.stop()
            for processor in self.processors:
                processor.stop()


@dataclass(slots=True)
class _PlaneParts:
    plane: Plane
    channel: RequestChannel
    handlers: int
    listeners: list[_Listener] = field(default_factory=list)
    pool: RequestHandlerPool | None = None

    def processors(self) -> Iterator[Processor]:
        for listener in self.listeners:
            yield from listener.processors

    def threads(self) -> list[int]:
        """Acceptors, network threads and handlers, as the kernel numbers them."""
        found = [t.native_id for listener in self.listeners for t in listener.threads]
        return [t for t in found if t is not None] + (self.pool.threads if self.pool else [])

    def answered(self) -> int:
        """Requests so far."""
        return sum(sum(p.times.counts.copy().values()) for p in self.processors())


class SocketServer:
    """All listeners, queues and handlers of one broker. Driven by one thread, the composition's."""

    def __init__(
        self,
        config: BrokerConfig,
        parse: Parse,
        metrics: Metrics,
        *,
        api_name: Callable[[int], str] = str,
        error_name: Callable[[int], str] = str,
        apis: Iterable[int] = (),
        rules: Rules = RULES,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`apis`: those that have metrics from the start."""
        self._config = config
        self._rules = rules
        self._parse = parse
        self._now_ns = now_ns
        self._says = f"[SocketServer listenerType=ZK_BROKER, nodeId={config.broker_id}]"
        protected = config.inter_broker_listener_name if len(config.listeners) > 1 else None
        self.quotas = ConnectionQuotas(
            config.max_connections, config.max_connections_per_ip, protected
        )
        pool_bytes = config.queued_max_request_bytes
        self._pool = MemoryPool(pool_bytes) if pool_bytes > 0 else None
        self._next_processor = 0
        self._control: _PlaneParts | None = None
        if config.control_plane_endpoint is not None:
            self._control = _PlaneParts("control", RequestChannel(CONTROL_PLANE_QUEUE_SIZE), 1)
            self._add_listener(self._control, config.control_plane_endpoint, 1)
            self._say_made("control-plane acceptor and processor", config.control_plane_endpoint)
        by_priority = config.plane_mode == "priority"
        channel = (PriorityRequestChannel if by_priority else RequestChannel)(
            config.queued_max_requests
        )
        self._data = _PlaneParts("data", channel, config.num_io_threads)
        for endpoint in config.data_plane_endpoints:
            self._add_listener(self._data, endpoint, config.num_network_threads)
            self._say_made("data-plane acceptor and processors", endpoint)
        self._home = (
            HomeCore(self._data.threads, self._data.answered)
            if config.biplane_data_home_core
            else None
        )
        self._register_metrics(metrics, api_name, error_name, tuple(apis))

    # ---- life ------------------------------------------------------------------------------------
    def bind(self) -> dict[str, Endpoint]:
        """Binds every listener; returns the endpoints by name, with real ports. ConfigError."""
        return {
            endpoint.name: endpoint
            for parts in self._planes()
            for endpoint in [listener.acceptor.bind() for listener in parts.listeners]
        }

    def start_handlers(self, handle: Handle) -> None:
        if self._pool is not None:
            handle = self._pool.handling(handle)
        for parts in (self._data, self._control):
            if parts is not None:
                parts.pool = RequestHandlerPool(
                    parts.plane,
                    parts.channel,
                    handle,
                    parts.handlers,
                    self._prepare(parts.plane),
                    broker_id=self._config.broker_id,
                )

    def enable_request_processing(self) -> None:
        """Starts processors and acceptors; from now on clients can connect."""
        log.info("%s Enabling request processing.", self._says)
        for parts in self._planes():
            for listener in parts.listeners:
                self._start(parts.plane, listener)
                at = listener.acceptor.endpoint
                log.info("Awaiting socket connections on %s:%d.", at.host or "0.0.0.0", at.port)
        if self._home is not None:
            self._home.start()

    def stop_processing_requests(self, timeout_s: float = 5.0) -> None:
        """Stops acceptors and processors, closes every connection, and drops what waits for a
        handler. Idempotent."""
        if not any(parts.listeners for parts in self._planes()):
            return
        log.info("%s Stopping socket server request processors", self._says)
        if self._home is not None:
            self._home.stop()
        self.quotas.close()
        listeners = [listener for parts in self._planes() for listener in parts.listeners]
        for listener in listeners:
            listener.stop()
        deadline = time.monotonic() + timeout_s
        for parts in self._planes():
            for listener in parts.listeners:
                for thread in listener.threads:
                    thread.join(max(0.0, deadline - time.monotonic()))
                if any(thread.is_alive() for thread in listener.threads):
                    # Frozen on a queue that no handler drains any more.
                    parts.channel.release_putters(len(listener.processors))
                    for thread in listener.threads:
                        thread.join(1.0)
                listener.acceptor.close()
        for parts in self._planes():
            parts.listeners.clear()
            parts.channel.clear()
        log.info("%s Stopped socket server request processors", self._says)

    def stop_control_plane(self) -> None:
        """What came by it is answered no more, and nobody gets in (a planted bug)."""
        if self._control is None:
            return
        for listener in self._control.listeners:
            listener.stop()
            for thread in listener.threads:
                thread.join()
            listener.acceptor.close()
        self._control.listeners.clear()

    def shutdown(self) -> None:
        """Ends the handlers, the data plane's first."""
        for parts in (self._data, self._control):
            if parts is not None and parts.pool is not None:
                parts.pool.shutdown()
                parts.pool = None

    # ---- views -----------------------------------------------------------------------------------
    @property
    def data_channel(self) -> RequestChannel:
        return self._data.channel

    @property
    def connection_count(self) -> int:
        return sum(p.connection_count for parts in self._planes() for p in parts.processors())

    # ---- inside ----------------------------------------------------------------------------------
    def served(self) -> dict[tuple[str, str, int], int]:
        """How many requests the handlers of each plane have taken up: by (plane, listener, api
        key), since the start."""
        return {
            (parts.plane, *kind): count
            for parts in self._planes()
            if parts.pool is not None
            for kind, count in parts.pool.served.items()
        }

    def _planes(self) -> list[_PlaneParts]:
        return [parts for parts in (self._control, self._data) if parts is not None]

    def _say_made(self, what: str, endpoint: Endpoint) -> None:
        name = f"ListenerName({endpoint.name})"
        log.info("%s Created %s for endpoint : %s", self._says, what, name)

    def _prepare(self, plane: Plane) -> Callable[[], object] | None:
        wanted = plane == "control" and self._config.biplane_control_priority
        return prefer_this_thread if wanted else None

    def _add_listener(self, parts: _PlaneParts, endpoint: Endpoint, network_threads: int) -> None:
        config, pool = self._config, self._pool
        make: Callable[..., Processor] = Processor
        parse = self._parse
        if pool is not None:
            make = partial(PooledProcessor, pool=pool)
            parse = pool.parsing(parse)
        processors = []
        for _ in range(network_threads):
            processors.append(
                make(
                    self._next_processor,
                    listener=endpoint.name,
                    plane=parts.plane,
                    channel=parts.channel,
                    parse=parse,
                    quotas=self.quotas,
                    max_request_bytes=config.socket_request_max_bytes,
                    max_idle_ms=config.connections_max_idle_ms,
                    mutes=self._rules.mutes_who_waits(),
                    now_ns=self._now_ns,
                )
            )
            self._next_processor += 1
        acceptor = Acceptor(
            endpoint,
            processors,
            self.quotas,
            backlog=config.socket_listen_backlog_size,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        )
        parts.listeners.append(_Listener(acceptor, processors, []))

    def _start(self, plane: Plane, listener: _Listener) -> None:
        endpoint = listener.acceptor.endpoint
        prepare = self._prepare(plane)

        def start(name: str, run: Callable[[], None]) -> None:
            def body() -> None:
                if prepare is not None:
                    prepare()
                run()

            thread = threading.Thread(target=body, name=name, daemon=True)
            listener.threads.append(thread)
            thread.start()

        # As Java prints a ListenerName, which is what Kafka puts there.
        where = f"ListenerName({endpoint.name})-{endpoint.security_protocol}"
        for processor in listener.processors:
            start(
                f"{plane}-plane-kafka-network-thread-{self._config.broker_id}-{where}-{processor.id}",
                processor.run,
            )
        listener.acceptor.listen()
        start(f"{plane}-plane-kafka-socket-acceptor-{where}-{endpoint.port}", listener.acceptor.run)

    def _register_metrics(
        self,
        metrics: Metrics,
        api_name: Callable[[int], str],
        error_name: Callable[[int], str],
        apis: tuple[int, ...],
    ) -> None:
        self._register_plane(metrics, "", self._data)
        if self._control is not None:
            own = self._rules.measures_own_plane()
            self._register_plane(metrics, "ControlPlane", self._control if own else self._data)
        else:
            # What Kafka's SocketServer says without a control plane. Of a queue and of handlers
            # that do not exist there is no MBean at all.
            sockets = f"{_NETWORK}SocketServer,name=ControlPlane"
            metrics.gauge(f"{sockets}NetworkProcessorAvgIdlePercent", lambda: math.nan)
            metrics.gauge(f"{sockets}ExpiredConnectionsKilledCount", lambda: 0)
        sockets, pool = f"{_NETWORK}SocketServer,name=", self._pool
        metrics.gauge(
            f"{sockets}MemoryPoolAvailable", lambda: pool.available_bytes if pool else _UNBOUNDED
        )
        metrics.gauge(
            f"{sockets}MemoryPoolUsed",
            lambda: pool.size_bytes - pool.available_bytes if pool else 0,
        )
        times = [p.times for parts in self._planes() for p in parts.processors()]
        meters = Meters(self._now_ns)
        metrics.family(
            lambda: request_metrics(times, meters, api_name, error_name, apis),
            tick=lambda: meters.tick(request_counts(times, api_name, error_name)),
        )

    def _register_plane(self, metrics: Metrics, prefix: str, parts: _PlaneParts) -> None:
        channel, processors = parts.channel, list(parts.processors())
        queues = f"{_NETWORK}RequestChannel,name={prefix}"
        metrics.gauge(f"{queues}RequestQueueSize", channel.size)
        metrics.gauge(
            f"{queues}ResponseQueueSize", lambda: sum(p.response_queue_size for p in processors)
        )
        sockets = f"{_NETWORK}SocketServer,name={prefix}"
        metrics.gauge(f"{sockets}ExpiredConnectionsKilledCount", lambda: 0)
        shares = [RecentShare(lambda p=p: p.idle_ns, self._now_ns) for p in processors]  # type: ignore[misc]
        metrics.gauge(
            f"{sockets}NetworkProcessorAvgIdlePercent",
            lambda: sum(share() for share in shares) / len(shares),
        )
        for processor, share in zip(processors, shares, strict=True):
            metrics.gauge(
                f"{_NETWORK}Processor,name=IdlePercent,networkProcessor={processor.id}", share
            )
            metrics.gauge(
                f"{queues}ResponseQueueSize,processor={processor.id}",
                lambda p=processor: p.response_queue_size,  # type: ignore[misc]
            )
        for listener in parts.listeners:
            acceptor = listener.acceptor
            metrics.share(
                f"{_NETWORK}Acceptor,name={prefix}AcceptorBlockedPercent,"
                f"listener={acceptor.endpoint.name}",
                lambda a=acceptor: a.blocked_ns,  # type: ignore[misc]
            )
        metrics.share(
            f"kafka.server:type=KafkaRequestHandlerPool,name={prefix}RequestHandlerAvgIdlePercent",
            lambda: parts.pool.idle_ns if parts.pool else 0,
        )


class RecentShare:
    """The share of time that a growing count of nanoseconds took, over the last window of at least
    a second that has ended at a reading (Kafka's io-wait-ratio, capped at 1 as Kafka caps it).
    Before the first window has ended: of the time so far. Any thread."""

    def __init__(self, total_ns: Callable[[], float], now_ns: Callable[[], int]) -> None:
        self._total_ns = total_ns
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._at_ns = now_ns()
        self._then_ns = total_ns()
        self._share: float | None = None

    def __call__(self) -> float:
        with self._lock:
            now_ns, total_ns = self._now_ns(), self._total_ns()
            elapsed_ns = now_ns - self._at_ns
            if elapsed_ns < _WINDOW_NS and self._share is not None:
                return self._share
            share = (total_ns - self._then_ns) / elapsed_ns if elapsed_ns > 0 else 0.0
            share = min(1.0, max(0.0, share))
            if elapsed_ns >= _WINDOW_NS:
                self._share = share
                self._at_ns, self._then_ns = now_ns, total_ns
            return share
