"""The controller does one thing at a time: a queue of events and the thread that takes them.

Whatever the controller learns (a watch fired, a response came, an API was called) becomes an event.
One `controller-event-thread` runs them in order of arrival, so nothing behind it needs a lock, and
an event that waits for ZooKeeper keeps all later ones waiting: that is how a controller that is cut
off stands still while its send threads go on.

When the session has expired the queue is emptied (`clear_and_put`): events of the lost session may
not be acted upon. Those who wait for an answer get one from `preempt`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from nodes.metrics import Metrics

log = logging.getLogger("kafka.controller.ControllerEventManager")

_MBEAN = "kafka.controller:type=ControllerEventManager,name="


class ControllerState(IntEnum):
    """What the event thread is busy with; the gauge ControllerState shows the number."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16


@dataclass(frozen=True, slots=True)
class Event:
    """Something to do on the event thread, and what to do instead if it is dropped."""

    name: str
    state: ControllerState
    run: Callable[[], None]
    preempt: Callable[[], None] = lambda: None


@dataclass(slots=True)
class QueuedEvent:
    event: Event
    enqueue_ns: int
    started: threading.Event = field(default_factory=threading.Event)


class ControllerEventManager:
    """`process` runs an event and handles its failures; it is called on the event thread only."""

    def __init__(
        self,
        process: Callable[[Event], None],
        metrics: Metrics,
        *,
        now_ns: Callable[[], int],
    ) -> None:
        self._process = process
        self._now_ns = now_ns
        self._queue: deque[QueuedEvent] = deque()
        self._condition = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(
            target=self._loop, name="controller-event-thread", daemon=True
        )
        self.state = ControllerState.IDLE
        self._queue_time_ms = metrics.histogram(_MBEAN + "EventQueueTimeMs")
        metrics.gauge(_MBEAN + "EventQueueSize", lambda: len(self._queue))

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Let the current event end, drop the others, end the thread. Idempotent."""
        with self._condition:
            if self._closed:
                return
            self._closed = True
            dropped, self._queue = list(self._queue), deque()
            self._condition.notify_all()
        _preempt(dropped)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def put(self, event: Event) -> QueuedEvent:
        """Any thread. An event put after `close` is preempted at once."""
        queued = QueuedEvent(event, self._now_ns())
        with self._condition:
            closed = self._closed
            if not closed:
                self._queue.append(queued)
                self._condition.notify()
        if closed:
            _preempt([queued])
        return queued

    def clear_and_put(self, event: Event) -> QueuedEvent:
        """Drop everything that waits, then put. Any thread."""
        with self._condition:
            dropped, self._queue = list(self._queue), deque()
            queued = QueuedEvent(event, self._now_ns())
            if self._closed:
                queued.started.set()
            else:
                self._queue.append(queued)
                self._condition.notify()
        _preempt(dropped)
        return queued

    def _loop(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                queued = self._queue.popleft()
            self.state = queued.event.state
            self._queue_time_ms.update((self._now_ns() - queued.enqueue_ns) / 1e6)
            queued.started.set()
            try:
                self._process(queued.event)
            except Exception:
                log.exception("Uncaught error processing event %s", queued.event.name)
            self.state = ControllerState.IDLE


def _preempt(dropped: list[QueuedEvent]) -> None:
    for queued in dropped:
        queued.started.set()
        try:
            queued.event.preempt()
        except Exception:
            log.exception("Uncaught error dropping event %s", queued.event.name)
