"""The threads that answer requests (Kafka's KafkaRequestHandler and its pool)."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from nodes.network.idle_time import IdleTime
from nodes.network.request_channel import Plane, Request, RequestChannel

log = logging.getLogger("kafka.server.KafkaRequestHandler")

Handle = Callable[[Request], None]


class RequestHandlerPool:
    """`count` threads that take requests off one plane's channel.

    A handler that raises costs its request's connection, never the thread. `prepare` runs first in
    each thread (the control plane asks for its priority there).
    """

    def __init__(
        self,
        plane: Plane,
        channel: RequestChannel,
        handle: Handle,
        count: int,
        prepare: Callable[[], object] | None = None,
        *,
        broker_id: int = -1,
    ) -> None:
        self._says = f"[{plane}-plane Kafka Request Handler on Broker {broker_id}],"
        self._channel = channel
        self._handle = handle
        self._prepare = prepare
        self._idle = [IdleTime() for _ in range(count)]
        self._served: list[dict[tuple[str, int], int]] = [{} for _ in range(count)]
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(i,),
                name=f"{plane}-plane-kafka-request-handler-{i}",
                daemon=True,
            )
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def threads(self) -> list[int]:
        """As the kernel numbers them."""
        return [thread.native_id for thread in self._threads if thread.native_id is not None]

    @property
    def idle_ns(self) -> float:
        """Nanoseconds spent waiting until now, divided by the number of threads (as Kafka's
        KafkaRequestHandlerPool does for RequestHandlerAvgIdlePercent)."""
        now_ns = time.monotonic_ns()
        return sum(idle.total_ns(now_ns) for idle in self._idle) / len(self._idle)

    @property
    def served(self) -> Counter[tuple[str, int]]:
        """How many requests these threads have taken up, by (listener, api key)."""
        found: Counter[tuple[str, int]] = Counter()
        for served in self._served:
            found.update(served.copy())
        return found

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Lets the handlers finish what they are at, and what is queued, then end."""
        log.info("%s shutting down", self._says)
        self._channel.end_handlers(len(self._threads))
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                log.warning("%s %s is still busy; it is left behind", self._says, thread.name)
        log.info("%s shut down completely", self._says)

    def _run(self, index: int) -> None:
        if self._prepare is not None:
            self._prepare()
        channel, now_ns, idle = self._channel, time.monotonic_ns, self._idle[index]
        served = self._served[index]
        while True:
            idle.begin(now_ns())
            request = channel.get()
            idle.end(now_ns())
            if request is None:
                return
            kind = (request.listener, request.api_key)
            served[kind] = served.get(kind, 0) + 1
            self._handle_one(request)
            del request  # its connection and bytes live no longer than its answer

    def _handle_one(self, request: Request) -> None:
        request.dequeue_ns = time.monotonic_ns()
        try:
            self._handle(request)
        except Exception:
            log.exception("Exception when handling %r", request)
            request.errors = ()
            request.close_connection()
        request.let_go()
        # The answer may have left already, and with it the last reader of this field.
        if not request.handled_ns:
            request.handled_ns = time.monotonic_ns()
