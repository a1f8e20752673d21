"""The threads that answer requests (Kafka's KafkaRequestHandler and its pool)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from nodes.network.baton import Baton
from nodes.network.request_channel import QUICK_APIS, Plane, Request, RequestChannel, Taker

log = logging.getLogger("kafka.server.KafkaRequestHandler")

Handle = Callable[[Request], None]

SHARE: Final = 32
"""Quick requests that are handled before a network thread may have the baton."""


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
        baton: Baton | None = None,
    ) -> None:
        self._channel = channel
        self._baton = baton
        self._handle = handle
        self._prepare = prepare
        self._idle_ns = [0] * count
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
    def idle_ns(self) -> float:
        """Nanoseconds spent waiting, the mean over the threads."""
        return sum(self._idle_ns) / len(self._idle_ns)

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Lets the handlers finish what is queued, then end."""
        self._channel.end_handlers(len(self._threads))
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                log.warning("%s is still busy; it is left behind", thread.name)

    def _run(self, index: int) -> None:
        if self._prepare is not None:
            self._prepare()
        taker, now_ns = Taker(self._channel), time.monotonic_ns
        baton = self._baton
        while True:
            free_ns = now_ns()
            request = taker.get()
            self._idle_ns[index] += now_ns() - free_ns
            if baton is not None and request is not None and request.api_key in QUICK_APIS:
                if not taker.has_baton:
                    baton.take()
                taker.has_baton = False
                self._handle_quick(taker, baton, request)
                continue
            if taker.has_baton:
                assert baton is not None
                taker.has_baton = False
                baton.give()
            if request is None:
                return
            taker.hand_on()
            self._handle_one(request)
            del request

    def _handle_quick(self, taker: Taker, baton: Baton, first: Request) -> None:
        """Handles a share of quick requests with the baton in hand, and gives it back."""
        baton.begin_handling()
        try:
            request: Request | None = first
            for _ in range(SHARE):
                if request is None:
                    return
                self._handle_one(request)
                request = taker.get_one_of(QUICK_APIS)
            if request is not None:
                self._handle_one(request)
        finally:
            baton.give_after_handling()

    def _handle_one(self, request: Request) -> None:
        request.dequeue_ns = time.monotonic_ns()
        try:
            self._handle(request)
        except Exception:
            log.exception("Exception when handling %r", request)
            request.close_connection()
        # The answer may have left already, and with it the last reader of this field.
        if not request.handled_ns:
            request.handled_ns = time.monotonic_ns()
