"""The bound is exact, and no request is lost, whoever puts and gets."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.network.request_channel import PriorityRequestChannel, Request, RequestChannel


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
        while (request := channel.get()) is not None:
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


def test_a_full_queue_blocks_a_put_until_something_is_taken() -> None:
    channel = RequestChannel(2)
    channel.put(a_request(0))
    channel.put(a_request(1))
    late = a_request(2)
    done = threading.Event()
    blocked = threading.Thread(target=lambda: (channel.put(late), done.set()), daemon=True)
    blocked.start()
    assert not done.wait(0.05)
    assert (channel.size(), late.enqueue_ns) == (2, 0)
    taken_ns = time.monotonic_ns()
    first = channel.get()
    assert first is not None
    assert first.correlation_id == 0
    assert done.wait(60)
    blocked.join()
    assert late.enqueue_ns >= taken_ns  # it counts as queued from when there was room


def test_a_sleeping_handler_wakes_for_every_request() -> None:
    """One at a time, so that each put meets a handler that sleeps or is about to."""
    channel = RequestChannel(10)
    got: list[Request | None] = []
    taker = threading.Thread(target=lambda: [got.append(channel.get()) for _ in range(500)])
    taker.start()
    for number in range(500):
        channel.put(a_request(number))
        deadline = time.monotonic() + 60
        while len(got) <= number:
            assert time.monotonic() < deadline
            time.sleep(0)
    taker.join(60)


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """A thread keeps the interpreter until it waits."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("undisturbed")
def test_requests_that_come_together_wake_a_handler_each() -> None:
    """Each handler is stuck in what it got, so one that sleeps on would leave a request behind."""
    for _ in range(20):
        channel, handlers = RequestChannel(10), 4
        together = threading.Barrier(handlers)
        late: list[BaseException] = []

        def handle(channel: Any = channel, together: Any = together, late: Any = late) -> None:
            while channel.get() is not None:
                try:
                    together.wait(60)
                except threading.BrokenBarrierError as problem:
                    late.append(problem)

        threads = [threading.Thread(target=handle) for _ in range(handlers)]
        for thread in threads:
            thread.start()
        time.sleep(0.001)  # most sleep by now; whoever does not is no easier case
        for number in range(handlers):
            channel.put(a_request(number))
        channel.end_handlers(handlers)
        for thread in threads:
            thread.join(120)
        assert not late


def test_control_requests_overtake_and_everything_else_keeps_its_order() -> None:
    channel = PriorityRequestChannel(10)
    for number, api_key in enumerate((0, 3, 6, 1)):
        channel.put(a_request(number, api_key))
    got = [channel.get() for _ in range(4)]
    assert [request.correlation_id for request in got if request] == [2, 0, 1, 3]
