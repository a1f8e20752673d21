"""The bound is exact, and no request is lost, whoever puts and gets."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.network.handler import RequestHandlerPool
from nodes.network.request_channel import PriorityRequestChannel, Request, RequestChannel
from nodes.wire.apis import ApiKey
from tests.nodes.network.conftest import eventually


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


@pytest.mark.parametrize("kind", [RequestChannel, PriorityRequestChannel])
def test_handlers_end_after_everything_that_waits(kind: type[RequestChannel]) -> None:
    """RequestChannel.sendShutdownRequest: behind the others, whatever they are, and however full
    the queue is."""
    channel = kind(4)
    for number, api_key in enumerate((0, 1, 3, 18)):
        channel.put(a_request(number, api_key))
    channel.end_handlers(2)
    assert channel.size() == 4, "an ending is no request that waits"
    taken = [channel.get() for _ in range(6)]
    assert [request and request.correlation_id for request in taken] == [0, 1, 2, 3, None, None]


@pytest.mark.parametrize("api", ApiKey, ids=lambda api: api.name)
def test_who_overtakes(api: ApiKey) -> None:
    """What a controller sends to brokers, and nothing else: not what brokers ask a controller
    (ControlledShutdown, AlterPartition), whose way is not the control plane's either."""
    channel = PriorityRequestChannel(10)
    channel.put(a_request(1, ApiKey.PRODUCE))
    channel.put(a_request(2, api))
    first = channel.get()
    assert first is not None
    overtakes = api.name in ("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA")
    assert first.correlation_id == (2 if overtakes else 1)


def test_control_requests_overtake_and_everything_else_keeps_its_order() -> None:
    channel = PriorityRequestChannel(10)
    for number, api_key in enumerate((0, 3, 6, 1)):
        channel.put(a_request(number, api_key))
    got = [channel.get() for _ in range(4)]
    assert [request.correlation_id for request in got if request] == [2, 0, 1, 3]


def test_what_is_dropped_is_gone_and_its_room_is_free() -> None:
    """RequestChannel.clear: who waits to put goes on, and handlers see nothing of it."""
    channel = RequestChannel(3)
    for _ in range(2):
        for number in range(3):
            channel.put(a_request(number))
        channel.clear()
        assert channel.size() == 0
        assert channel._slots.qsize() == 3, "a put would wait for ever"
    for number in range(7, 10):
        channel.put(a_request(number))
    got = [channel.get() for _ in range(3)]
    assert [request.correlation_id for request in got if request] == [7, 8, 9]
    channel.clear()
    channel.end_handlers(1)
    assert channel.get() is None


# ---- the end of a request ------------------------------------------------------------------------


class Answers:
    """A processor that keeps what is to be sent."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def reply(self, _request: Request, frame: Any) -> None:
        self.got.append(frame)


ENDS: dict[str, Callable[[Request], None]] = {
    "answer": lambda request: request.respond(b"a"),
    "nothing": Request.respond_nothing,
    "close": Request.close_connection,
}
SENT = {"answer": b"a", "nothing": b"", "close": None}


def answered() -> tuple[Request, Answers]:
    request, answers = a_request(1), Answers()
    request._processor = answers
    return request, answers


@pytest.mark.parametrize("second", ENDS)
@pytest.mark.parametrize("first", ENDS)
def test_whatever_ends_a_request_first_ends_it(first: str, second: str) -> None:
    """A connection has one request in flight: a second end would be the end of the next one."""
    request, answers = answered()
    for end in (first, second, first):
        ENDS[end](request)
    assert answers.got == [SENT[first]]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("returned_ns", [0, 7])
def test_a_handler_is_done_at_the_latest_with_its_answer(end: str, returned_ns: int) -> None:
    """LocalTimeMs ends and RemoteTimeMs begins when the handler has returned, or earlier when the
    answer is ready: it may have been sent, and counted, before the handler comes back."""
    request, _ = answered()
    request.handled_ns = returned_ns
    before_ns = time.monotonic_ns()
    ENDS[end](request)
    assert before_ns <= request.ready_ns <= time.monotonic_ns()
    assert request.handled_ns == (returned_ns or request.ready_ns)


def test_a_handler_that_returns_late_changes_no_time() -> None:
    """What it did after its answer is nobody's time."""
    request, _ = answered()
    pool = RequestHandlerPool("data", RequestChannel(1), lambda r: r.respond(b"a"), 1)
    try:
        pool._handle_one(request)
        assert request.dequeue_ns <= request.handled_ns == request.ready_ns
    finally:
        pool.shutdown()


@pytest.mark.parametrize("error", [ValueError, KeyError, OSError, MemoryError, RecursionError])
def test_a_handler_that_raises_costs_the_connection_and_no_thread(error: type[Exception]) -> None:
    """KafkaRequestHandler.run: whatever it is."""
    channel = RequestChannel(4)

    def fails(_request: Request) -> None:
        raise error("planted")

    pool = RequestHandlerPool("control", channel, fails, 1)
    try:
        for _ in range(2):
            request, answers = answered()
            channel.put(request)
            eventually(lambda answers=answers: answers.got)
            assert answers.got == [None]
    finally:
        pool.shutdown()


@pytest.mark.parametrize("count", [1, 4])
def test_a_pool_has_ended_when_it_says_so(count: int) -> None:
    """Every one of its threads, whatever each is at: what is under way is finished first."""
    channel, held, began = RequestChannel(4), threading.Event(), threading.Event()

    def waits(_request: Request) -> None:
        began.set()
        held.wait(60)

    pool = RequestHandlerPool("data", channel, waits, count)
    threads = pool._threads
    channel.put(a_request(1))
    assert began.wait(60)
    ending = threading.Thread(target=pool.shutdown, args=(60.0,))
    ending.start()
    ending.join(0.02)
    assert ending.is_alive(), "one of its handlers is still at work"
    held.set()
    ending.join(60)
    assert not ending.is_alive()
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("count", [1, 4])
def test_what_is_queued_before_the_end_is_handled(count: int) -> None:
    """RequestChannel.sendShutdownRequest puts the end behind what waits. (A server that stops drops
    that itself, before it ends its handlers.)"""
    channel, held = RequestChannel(16), threading.Event()
    handled: list[int] = []

    def waits(request: Request) -> None:
        held.wait(60)
        handled.append(request.correlation_id)

    pool = RequestHandlerPool("control", channel, waits, count)
    for number in range(10):
        channel.put(a_request(number))
    ending = threading.Thread(target=pool.shutdown, args=(60.0,))
    ending.start()
    ending.join(0.02)
    held.set()
    ending.join(60)
    assert sorted(handled) == list(range(10))
