"""What the controller's event queue says of itself (ControllerEventManager)."""

from __future__ import annotations

import threading

from nodes.controller.event_manager import ControllerEventManager, ControllerState, Event
from nodes.metrics import Metrics

_MBEAN = "kafka.controller:type=ControllerEventManager,name="


def test_size_and_time_are_of_events_that_wait() -> None:
    """EventQueueTimeMs is from the put to the turn, in milliseconds; who has its turn does not
    wait any more."""
    now_ms = [0]
    metrics = Metrics()
    events = ControllerEventManager(
        lambda event: event.run(), metrics, now_ns=lambda: now_ms[0] * 1_000_000
    )
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert go_on.wait(60)

    try:
        events.put(Event("first", ControllerState.TOPIC_CHANGE, first))
        events.start()
        assert begun.wait(60)
        events.put(Event("second", ControllerState.BROKER_CHANGE, done.set))
        assert metrics.value(f"{_MBEAN}EventQueueSize") == 1
        assert events.state is ControllerState.TOPIC_CHANGE
        now_ms[0] = 250
        go_on.set()
        assert done.wait(60)
        times = metrics.by_mbean()[f"{_MBEAN}EventQueueTimeMs"]
        assert (times["Count"], times["Min"], times["Max"]) == (2, 0, 250)
        assert metrics.value(f"{_MBEAN}EventQueueSize") == 0
    finally:
        events.close()
