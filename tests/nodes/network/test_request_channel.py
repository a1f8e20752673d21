"""The bound is exact, and no request is lost, whoever puts and gets."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.network.request_channel import PriorityRequestChannel, Request, RequestChannel, Taker


def a_request(number: int, api_key: int = 0) -> Request:
    header: Any = SimpleNamespace(
        api_key=api_key, api_version=0, correlation_id=number, client_id=None, body_offset=0
    )
    nobody: Any = None
    return Request(nobody, None, header, None, b"", "L", "data", "h", 0)


@pytest.mark.parametrize("kind", [RequestChannel, PriorityRequestChannel])
def test_everything_arrives_once(kind: type[RequestChannel]) -> None:
    channel = kind(7)
    putters, getters, each = 4, 5, 400
    seen: list[int] = []
    largest = 0

    def put(start: int) -> None:
        nonlocal largest
        for number in range(start, start + each):
            channel.put(a_request(number, api_key=number % 9))
            largest = max(largest, len(channel._requests))

    def get() -> None:
        taker = Taker(channel)
        while (request := taker.get()) is not None:
            if request.correlation_id % 3:
                taker.hand_on()  # as for a request that may wait
            seen.append(request.correlation_id)

    takers = [threading.Thread(target=get) for _ in range(getters)]
    givers = [threading.Thread(target=put, args=(i * each,)) for i in range(putters)]
    for thread in (*takers, *givers):
        thread.start()
    for thread in givers:
        thread.join(60)
    channel.end_handlers(getters)
    for thread in takers:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(seen) == list(range(putters * each))
    assert largest <= 7


def test_a_full_queue_refuses_an_offer_and_blocks_a_put() -> None:
    channel = RequestChannel(2)
    assert channel.offer(a_request(0))
    assert channel.offer(a_request(1))
    assert not channel.offer(a_request(2))
    done = threading.Event()
    blocked = threading.Thread(target=lambda: (channel.put(a_request(3)), done.set()))
    blocked.start()
    assert not done.wait(0.05)
    first = Taker(channel).get()
    assert first is not None
    assert first.correlation_id == 0
    assert done.wait(60)
    blocked.join()


def test_a_sleeping_handler_wakes_for_every_request() -> None:
    """One at a time, so that each put meets a handler that sleeps or is about to."""
    channel = RequestChannel(10)
    got: list[Request | None] = []
    hand = Taker(channel)
    taker = threading.Thread(target=lambda: [got.append(hand.get()) for _ in range(500)])
    taker.start()
    for number in range(500):
        channel.put(a_request(number))
        deadline = time.monotonic() + 60
        while len(got) <= number:
            assert time.monotonic() < deadline
            time.sleep(0)
    taker.join(60)


def test_a_handler_that_waits_hands_its_turn_on() -> None:
    """Two handlers, the first stuck in its request: the second gets the next one."""
    channel = RequestChannel(10)
    stuck, got = threading.Event(), threading.Event()

    def handle() -> None:
        taker = Taker(channel)
        while (request := taker.get()) is not None:
            taker.hand_on()
            if request.correlation_id:
                got.set()
            else:
                stuck.wait(240)

    handlers = [threading.Thread(target=handle) for _ in range(2)]
    for handler in handlers:
        handler.start()
    channel.put(a_request(0))
    channel.put(a_request(1))
    assert got.wait(60)
    stuck.set()
    channel.end_handlers(2)
    for handler in handlers:
        handler.join(60)
        assert not handler.is_alive()


def test_only_requests_of_the_asked_kinds_are_taken_without_waiting() -> None:
    channel = RequestChannel(10)
    taker = Taker(channel)
    for number, api_key in enumerate((0, 0, 3, 0)):
        assert channel.offer(a_request(number, api_key))
    first = taker.get()
    assert first is not None
    second = taker.get_one_of({0})
    assert second is not None
    assert taker.get_one_of({0}) is None
    assert channel.size() == 2
    third = taker.get()
    assert third is not None
    assert [r.correlation_id for r in (first, second, third)] == [0, 1, 2]


def asleep(channel: RequestChannel, count: int = 1) -> None:
    deadline = time.monotonic() + 60
    while len(channel._idle) < count:
        assert time.monotonic() < deadline
        time.sleep(0)


def test_a_woken_handler_gets_the_baton_only_if_nobody_is_at_it() -> None:
    channel, baton = RequestChannel(10), threading.Lock()
    taker = Taker(channel)
    handler = threading.Thread(target=taker.get)
    handler.start()
    asleep(channel)
    assert not channel.wake(baton)  # nothing to do
    channel.offer(a_request(0))
    assert channel.wake(baton)
    handler.join(60)
    assert taker.baton is baton
    channel.offer(a_request(1))
    assert not channel.wake(baton)


def test_a_stuck_handler_loses_its_turn() -> None:
    """It keeps what it has; another one goes on, and then it takes its place in the line again."""
    channel = RequestChannel(10)
    stuck, other = Taker(channel), Taker(channel)
    channel.offer(a_request(0))
    assert stuck.get() is not None
    got: list[Request | None] = []
    handler = threading.Thread(target=lambda: got.append(other.get()))
    handler.start()
    asleep(channel)
    channel.put(a_request(1))
    channel.put(a_request(2))
    assert not got
    channel.take_turn_away()
    handler.join(60)
    assert [request.correlation_id for request in got if request] == [1]
    assert stuck.get_one_of({0}) is None
    other.hand_on()
    last = stuck.get()
    assert last is not None
    assert last.correlation_id == 2
