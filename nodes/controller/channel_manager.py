"""The controller's channels: a queue and a send thread for every registered broker, itself included
(Kafka's ControllerChannelManager).

A broker is reached at the listener that *the controller* names as its control plane listener, else
at the inter-broker listener: in a rolling upgrade the controller's own configuration decides
(KIP-291). Channels follow the registrations; a bounced broker gets a new one, its old requests with
their old broker epoch are dropped with the old.

A broker that has no such listener ends the event that met it, as in Kafka: of the brokers that came
or went with it none is taken in or given up, again and again until it is gone or has the listener;
and who is elected while it is there cannot take office, so that the controllership passes on until
somebody gets it whose configuration does not name the listener. So the listener must be everywhere
before anybody names it (the first round of KIP-291's migration).

The event thread adds, removes and sends; gauges may read from anywhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from nodes.config import BrokerConfig
from nodes.controller.send_thread import QueueItem, RequestSendThread
from nodes.core.brokers import Broker
from nodes.core.rules import RULES, Rules
from nodes.metrics import Metrics
from nodes.trace import Trace
from nodes.wire.apis import ApiKey

log = logging.getLogger("kafka.controller.ControllerChannelManager")

_MBEAN = "kafka.controller:type=ControllerChannelManager,name="


class EndPointNotAvailable(Exception):
    """A broker has not registered the listener (Kafka's BrokerEndPointNotAvailableException)."""


class ControllerChannelManager:
    """See the module."""

    def __init__(
        self,
        config: BrokerConfig,
        trace: Trace,
        metrics: Metrics,
        rules: Rules = RULES,
        *,
        now_ns: Callable[[], int],
    ) -> None:
        self._config = config
        self._listener = rules.controllers_listener(
            config.inter_broker_listener_name, config.control_plane_listener_name
        )
        self._gives_up_requests = rules.gives_up_requests()
        self._trace = trace
        self._metrics = metrics
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._threads: dict[int, RequestSendThread] = {}
        metrics.gauge(_MBEAN + "TotalQueueSize", self._total_queue_size)

    def startup(self, brokers: Iterable[Broker]) -> None:
        """A channel for each; raises EndPointNotAvailable."""
        for broker in brokers:
            self.add_broker(broker)

    def shutdown(self) -> None:
        """End every channel; requests that were not sent are dropped."""
        for broker_id in list(self._threads):
            self.remove_broker(broker_id)

    def add_broker(self, broker: Broker) -> None:
        """Open a channel, unless there is one. Raises EndPointNotAvailable."""
        if broker.id in self._threads:
            return
        endpoint = broker.endpoint(self._listener)
        if endpoint is None:
            raise EndPointNotAvailable(
                f"End point with listener name {self._listener} not found for broker {broker.id}"
            )
        mbean = f"{_MBEAN}RequestRateAndQueueTimeMs,broker-id={broker.id}"
        thread = RequestSendThread(
            self._config.broker_id,
            broker.id,
            endpoint,
            request_timeout_ms=self._config.request_timeout_ms,
            socket_timeout_ms=self._config.controller_socket_timeout_ms,
            trace=self._trace,
            queue_time_ms=self._metrics.timer(mbean),
            now_ns=self._now_ns,
            gives_up_requests=self._gives_up_requests,
        )
        self._metrics.gauge(f"{_MBEAN}QueueSize,broker-id={broker.id}", lambda: thread.queue_size)
        with self._lock:
            self._threads[broker.id] = thread
        thread.start()

    def remove_broker(self, broker_id: int) -> None:
        with self._lock:
            thread = self._threads.pop(broker_id, None)
        if thread is None:
            return
        thread.shutdown()
        self._metrics.remove(f"{_MBEAN}QueueSize,broker-id={broker_id}")
        self._metrics.remove(f"{_MBEAN}RequestRateAndQueueTimeMs,broker-id={broker_id}")

    def send(self, broker_id: int, item: QueueItem) -> None:
        thread = self._threads.get(broker_id)
        if thread is None:
            log.warning(
                "Not sending request %s with controllerId=%d, controllerEpoch=%d, brokerEpoch=%d "
                "to broker %d, since it is offline.",
                ApiKey(item.entity.__api_key__).display_name,
                item.entity.controller_id,
                item.entity.controller_epoch,
                item.entity.broker_epoch,
                broker_id,
            )
        else:
            thread.put(item)

    def _total_queue_size(self) -> int:
        with self._lock:
            return sum(thread.queue_size for thread in self._threads.values())
