"""Carries one broker's requests from the controller, in order (Kafka's RequestSendThread).

The queue is unbounded and a request is never given up: after whatever went wrong (a refused, reset
or silent connection, an answer that is none, an answer to another request, a bug on the way to the
socket) the connection is closed and, 100 ms later, *the same* request is sent again, until the
broker answers or is removed from the cluster. Only what fails *after* the answer, in the
callback, is not tried again: the broker has done its part. One request is in flight, so a broker
that is slow to answer a LeaderAndIsr learns of nothing else in the meantime. What a request says
was fixed when it was enqueued, epochs included; that is why a controller without a session still
speaks with its old epoch.

The thread knows nothing of ZooKeeper. It ends with its channel: when the broker is removed, or when
the controller resigns.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

from nodes.controller.connection import BrokerConnection, Interrupted
from nodes.core.brokers import EndPoint
from nodes.metrics import Histogram
from nodes.state_change_log import data, of_controller
from nodes.trace import Trace
from nodes.wire.apis import ApiKey
from nodes.wire.codec import decode_response, encode_request
from nodes.wire.errors import WireError

log = logging.getLogger("kafka.controller.RequestSendThread")

BACKOFF_S: Final = 0.1
"""Kafka's RequestSendThread pauses 100 ms before it tries again."""


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One request to one broker. `partitions` is for the trace: what it says about whom; and
    `partition_epochs`, of which state of each, where it tells one."""

    entity: Any
    on_response: Callable[[Any], None]
    enqueue_ns: int
    partitions: list[dict[str, Any]]
    partition_epochs: list[int] | None = None

    @property
    def api_name(self) -> str:
        return ApiKey(self.entity.__api_key__).name


class RequestSendThread(threading.Thread):
    """`put` from any thread; `shutdown` from any thread but this."""

    def __init__(
        self,
        controller_id: int,
        broker_id: int,
        endpoint: EndPoint,
        *,
        request_timeout_ms: int,
        socket_timeout_ms: int,
        trace: Trace,
        queue_time_ms: Histogram,
        now_ns: Callable[[], int],
        backoff: Callable[[float], object] | None = None,
        gives_up_requests: bool = True,
    ) -> None:
        """`backoff` waits so many seconds; by default it ends early at `shutdown`.
        `gives_up_requests` False is a planted bug."""
        super().__init__(
            name=f"Controller-{controller_id}-to-broker-{broker_id}-send-thread", daemon=True
        )
        self.broker_id = broker_id
        self._client_id = str(controller_id)
        self._connection = BrokerConnection(endpoint.host, endpoint.port)
        self._request_timeout_ms = request_timeout_ms
        self._socket_timeout_ms = socket_timeout_ms
        self._trace = trace
        self._queue_time_ms = queue_time_ms
        self._now_ns = now_ns
        self._queue: SimpleQueue[QueueItem | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._backoff = backoff or self._stopping.wait
        self._gives_up_requests = gives_up_requests
        self._says = f"[RequestSendThread controllerId={controller_id}]"
        self._node = f"{endpoint.host}:{endpoint.port} (id: {broker_id})"
        self._next_correlation_id = 0

    def put(self, item: QueueItem) -> None:
        self._queue.put(item)

    @property
    def queue_size(self) -> int:
        return self._queue.qsize()

    def shutdown(self) -> None:
        """End the thread now, mid-request if need be; what is queued is dropped."""
        self._stopping.set()
        if self._gives_up_requests:
            self._connection.interrupt()
        self._queue.put(None)
        if self.is_alive():
            self.join()
        self._connection.dispose()

    def run(self) -> None:
        while not self._stopping.is_set():
            item = self._queue.get()
            if item is None:
                return
            self._queue_time_ms.update((self._now_ns() - item.enqueue_ns) / 1e6)
            response = self._deliver(item)
            if response is None:
                return
            try:
                self._log_response(item, response)
                item.on_response(response)
            except Exception:
                log.exception(
                    "%s Controller %s fails to send a request to broker %s",
                    self._says,
                    self._client_id,
                    self._node,
                )
                self._connection.close()

    def _deliver(self, item: QueueItem) -> Any:
        """The broker's answer, however long it takes; None when the thread is to end before."""
        attempt = 0
        while not self._stopping.is_set():
            try:
                if not self._connection.is_connected:
                    self._connect()
                attempt += 1
                return self._attempt(item, attempt)
            except Interrupted:
                return None
            except Exception as error:
                if not self._stopping.is_set():
                    self._warn(item, attempt, error)
                self._connection.close()
                self._backoff(BACKOFF_S)
        return None

    def _connect(self) -> None:
        self._connection.connect(self._socket_timeout_ms)
        log.info(
            "%s Controller %s connected to %s for sending state change requests",
            self._says,
            self._client_id,
            self._node,
        )

    def _warn(self, item: QueueItem, attempt: int, error: Exception) -> None:
        if not self._connection.is_connected:
            log.warning(
                "%s Controller %s's connection to broker %s was unsuccessful: %s: %s",
                self._says,
                self._client_id,
                self._node,
                type(error).__name__,
                error,
            )
            return
        expected = isinstance(error, OSError | WireError)
        log.warning(
            "%s Controller %s epoch %s fails to send request %s (attempt %d) to broker %s: %s: %s. "
            "Reconnecting to broker.",
            self._says,
            self._client_id,
            getattr(item.entity, "controller_epoch", "?"),
            type(item.entity).__name__,
            attempt,
            self._node,
            type(error).__name__,
            error,
            exc_info=None if expected else error,
        )

    def _attempt(self, item: QueueItem, attempt: int) -> Any:
        """Send once and read the answer; both ends are traced, whatever comes of it."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        frame = encode_request(item.entity, correlation_id, self._client_id)
        send_ns = self._now_ns()
        self._trace.event(
            "control_send",
            t=send_ns,
            to=self.broker_id,
            api=item.api_name,
            correlation_id=correlation_id,
            controller_epoch=item.entity.controller_epoch,
            broker_epoch=item.entity.broker_epoch,
            enqueue_t=item.enqueue_ns,
            attempt=attempt,
            partitions=item.partitions,
            partition_epochs=item.partition_epochs,
        )
        error: int | None = None
        failure: str | None = None
        try:
            payload = self._connection.exchange(frame, self._request_timeout_ms)
            answered, response = decode_response(
                item.entity.__api_key__, item.entity.__version__, payload
            )
            if answered != correlation_id:
                raise WireError(f"correlation id {answered} instead of {correlation_id}")
            error = int(response.error_code.value)
        except Exception as problem:
            failure = _name_of(problem)
            raise
        finally:
            self._trace.event(
                "control_response",
                to=self.broker_id,
                api=item.api_name,
                correlation_id=correlation_id,
                send_t=send_ns,
                error=error,
                failure=failure,
            )
        return response

    def _log_response(self, item: QueueItem, response: Any) -> None:
        changes = of_controller(int(self._client_id), int(item.entity.controller_epoch))
        if changes.traces:
            changes.trace(
                "Received response %s for request %s with correlation id %d sent to broker %s",
                data(response, f"{type(response).__name__}Data"),
                item.api_name,
                self._next_correlation_id - 1,
                self._node,
            )


def _name_of(problem: Exception) -> str:
    match problem:
        case Interrupted():
            return "removed"
        case TimeoutError():
            return "timeout"
        case OSError():
            return "disconnect"
        case _:
            return "malformed"
