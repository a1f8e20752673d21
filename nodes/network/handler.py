"""The threads that answer requests (Kafka's KafkaRequestHandler and its pool)."""

from __future__ import annotations

import logging
import os
import threading
import time
from _thread import LockType
from collections.abc import Callable
from typing import Final

from nodes.network.baton import Baton
from nodes.network.idle_time import IdleTime
from nodes.network.request_channel import QUICK_APIS, Plane, Request, RequestChannel, Taker

log = logging.getLogger("kafka.server.KafkaRequestHandler")

Handle = Callable[[Request], None]

SHARE_NS: Final = 500_000
"""How long quick requests are handled before a network thread may have the baton."""


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
        self._idle = [IdleTime() for _ in range(count)]
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
        """Nanoseconds spent waiting until now, divided by the number of threads (as Kafka's
        KafkaRequestHandlerPool does for RequestHandlerAvgIdlePercent)."""
        now_ns = time.monotonic_ns()
        return sum(idle.total_ns(now_ns) for idle in self._idle) / len(self._idle)

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
        baton, idle = self._baton, self._idle[index]
        while True:
            idle.begin(now_ns())
            request = taker.get()
            idle.end(now_ns())
            held, taker.baton = taker.baton, None
            if baton is not None and request is not None and request.api_key in QUICK_APIS:
                self._handle_quick(taker, request, baton, held or baton.take())
                # Network threads that were woken on this core go first, while we have the turn
                # still, so they need not wake us. Anybody else would go first, too, and take a
                # whole time slice while requests wait, so the core must be ours alone.
                if baton.home is not None and baton.home.is_ours:
                    os.sched_yield()
                continue
            if held is not None:
                held.release()
            if request is None:
                return
            taker.hand_on()
            if baton is not None and baton.home is not None:
                baton.home.leave()
            self._handle_one(request)
            del request

    def _handle_quick(self, taker: Taker, request: Request, baton: Baton, held: LockType) -> None:
        """Handles a share of quick requests with the baton in hand, and gives it back."""
        calls = baton.begin_handling()
        try:
            self._handle_one(request)
            end_ns = request.dequeue_ns + SHARE_NS
            while (more := taker.get_one_of(QUICK_APIS)) is not None:
                self._handle_one(more)
                if more.dequeue_ns > end_ns and baton.is_wanted():
                    return
        finally:
            baton.give_after_handling(held, calls)

    def _handle_one(self, request: Request) -> None:
        request.dequeue_ns = time.monotonic_ns()
        try:
            self._handle(request)
        except Exception:
            log.exception("Exception when handling %r", request)
            request.close_connection()
        request.let_go()
        # The answer may have left already, and with it the last reader of this field.
        if not request.handled_ns:
            request.handled_ns = time.monotonic_ns()
