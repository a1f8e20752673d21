"""What the controller's event queue says of itself (ControllerEventManager)."""

from __future__ import annotations

import threading
from typing import Any

from nodes.controller.event_manager import ControllerEventManager, ControllerState, Event
from nodes.metrics import Metrics

_MBEAN = "kafka.controller:type=ControllerEventManager,name="


def test_size_and_time_are_of_events_that_wait(wait_until: Any) -> None:
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
        wait_until(lambda: events.state is ControllerState.IDLE)
    finally:
        events.close()


def test_events_are_processed_one_by_one_in_the_order_they_came() -> None:
    """By one thread, which is named as Kafka's; whatever one of them throws, the next has its
    turn."""
    done: list[tuple[int, str]] = []

    def run(number: int) -> None:
        done.append((number, threading.current_thread().name))
        if number % 3 == 0:
            raise ValueError("planted")

    ended = threading.Event()
    events = ControllerEventManager(lambda event: event.run(), Metrics(), now_ns=lambda: 1)
    for number in range(10):
        events.put(Event(str(number), ControllerState.IDLE, lambda n=number: run(n)))  # type: ignore[misc]
    events.put(Event("end", ControllerState.IDLE, ended.set))
    events.start()
    try:
        assert ended.wait(60)
    finally:
        events.close()
    assert done == [(number, "controller-event-thread") for number in range(10)]


def test_states_have_kafkas_numbers() -> None:
    """What an operator reads off the gauge ControllerState (ControllerState.value)."""
    kafkas = {
        "IDLE": 0, "CONTROLLER_CHANGE": 1, "BROKER_CHANGE": 2, "TOPIC_CHANGE": 3,
        "TOPIC_DELETION": 4, "ALTER_PARTITION_REASSIGNMENT": 5, "AUTO_LEADER_BALANCE": 6,
        "MANUAL_LEADER_BALANCE": 7, "CONTROLLED_SHUTDOWN": 8, "ISR_CHANGE": 9,
        "LEADER_AND_ISR_RESPONSE_RECEIVED": 10, "LOG_DIR_CHANGE": 11, "CONTROLLER_SHUTDOWN": 12,
        "UNCLEAN_LEADER_ELECTION_ENABLE": 13,
        "TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE": 14, "LIST_PARTITION_REASSIGNMENT": 15,
        "UPDATE_METADATA_RESPONSE_RECEIVED": 16,
    }  # fmt: skip
    assert {state.name: state.value for state in ControllerState} == kafkas


def test_whoever_waits_for_an_event_that_is_dropped_hears_of_it() -> None:
    """When the session is over, when the queue is closed, and from then on; each once, and one that
    fails keeps no other from it."""
    events = ControllerEventManager(lambda _event: None, Metrics(), now_ns=lambda: 0)
    heard: list[str] = []

    def event(name: str) -> Event:
        def dropped() -> None:
            heard.append(name)
            if name == "fails":
                raise RuntimeError(name)

        return Event(name, ControllerState.TOPIC_CHANGE, lambda: None, dropped)

    first = [events.put(event(name)) for name in ("a", "fails", "b")]
    expire = events.clear_and_put(event("expire"))
    assert heard == ["a", "fails", "b"]
    assert all(queued.started.is_set() for queued in first)
    assert not expire.started.is_set()
    events.close()
    assert heard == ["a", "fails", "b", "expire"]
    assert expire.started.is_set()
    late = events.put(event("late"))
    assert heard[-1] == "late"
    assert late.started.is_set()
    assert events.clear_and_put(event("later")).started.is_set(), "nobody is kept waiting"
    events.close()
    assert len(heard) == 5
