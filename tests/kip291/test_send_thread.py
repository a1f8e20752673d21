"""The thread that carries one broker's requests (Kafka's RequestSendThread), with its pauses in the
test's hands. What a whole controller does is in `test_controller_side`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodes.controller import send_thread
from nodes.controller.send_thread import QueueItem, RequestSendThread
from nodes.core.brokers import EndPoint
from nodes.metrics import Histogram
from nodes.trace import Trace
from nodes.wire.apis import ApiKey
from tests.kip291.control_listener import ControlListener, Received
from tests.kip291.kafka import free_port
from tests.kip291.parts import eventually
from tests.kip291.requests import leader_and_isr, update_metadata


class Thread(RequestSendThread):
    """Its pauses are noted and not made."""

    def __init__(self, port: int) -> None:
        self.pauses_s: list[float] = []
        super().__init__(
            1,
            2,
            EndPoint("CONTROLLER", "PLAINTEXT", "127.0.0.1", port),
            request_timeout_ms=90_000,
            socket_timeout_ms=90_000,
            trace=Trace(None, 1, 1),
            queue_time_ms=Histogram(),
            now_ns=time.monotonic_ns,
            backoff=self._note,
        )
        self.answers: list[tuple[str, Any]] = []

    def _note(self, seconds: float) -> None:
        self.pauses_s.append(seconds)
        time.sleep(0.001)

    def carry(self, name: str, entity: Any, fails: bool = False) -> None:
        def on_response(response: Any) -> None:
            self.answers.append((name, response))
            if fails:
                raise RuntimeError("planted")

        self.put(QueueItem(entity, on_response, time.monotonic_ns(), []))


@pytest.fixture
def thread(listener: Callable[[], ControlListener]) -> Iterator[Callable[..., Thread]]:
    made: list[Thread] = []

    def make(port: int) -> Thread:
        made.append(Thread(port))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        if each.is_alive():
            each.shutdown()


def test_a_bug_on_the_way_to_the_socket_gives_nothing_up(
    thread: Callable[..., Thread],
    listener: Callable[[], ControlListener],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """doWork: whatever a try throws, the connection is closed and the same request tried again 100
    ms later. (It was dropped before.)"""
    control = listener()
    encode, failures = send_thread.encode_request, [ValueError("a"), KeyError("b"), MemoryError()]

    def encode_request(*args: Any) -> bytes:
        if failures:
            raise failures.pop(0)
        return encode(*args)

    monkeypatch.setattr(send_thread, "encode_request", encode_request)
    carrier = thread(control.port)
    carrier.carry("first", leader_and_isr("t", 2, 0))
    carrier.carry("second", update_metadata({}))
    eventually(lambda: len(carrier.answers) == 2)
    assert [name for name, _ in carrier.answers] == ["first", "second"]
    assert [r.api for r in control.received] == [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA]
    assert carrier.pauses_s == [0.1] * 3
    assert control.connections == 4, "each failure costs the connection"


def test_nobody_listens(thread: Callable[..., Thread]) -> None:
    """Refused connections are tried again in the same way, for as long as it takes."""
    carrier = thread(free_port())
    carrier.carry("never", update_metadata({}))
    eventually(lambda: len(carrier.pauses_s) > 20)
    carrier.shutdown()
    assert not carrier.is_alive()
    assert set(carrier.pauses_s) == {0.1}
    assert carrier.answers == []


def test_what_fails_after_the_answer_is_not_sent_again(
    thread: Callable[..., Thread], listener: Callable[[], ControlListener]
) -> None:
    """The broker has obeyed; a callback that throws costs the connection, not the thread, and
    nothing is repeated."""
    control = listener()
    carrier = thread(control.port)
    carrier.carry("first", update_metadata({}), fails=True)
    carrier.carry("second", leader_and_isr("t", 2, 0))
    eventually(lambda: len(carrier.answers) == 2)
    assert [r.api for r in control.received] == [ApiKey.UPDATE_METADATA, ApiKey.LEADER_AND_ISR]
    assert control.connections == 2
    assert carrier.pauses_s == []


def test_an_answer_to_another_request_is_none(
    thread: Callable[..., Thread], listener: Callable[[], ControlListener]
) -> None:
    control = listener()

    def answer(received: Received, frame: bytes) -> bytes:
        if received.header.correlation_id == 0:
            return frame[:4] + (1).to_bytes(4, "big") + frame[8:]
        return frame

    control.answer_with = answer
    carrier = thread(control.port)
    carrier.carry("only", update_metadata({}))
    eventually(lambda: len(carrier.answers) == 1)
    assert [r.header.correlation_id for r in control.received] == [0, 1]
    assert carrier.pauses_s == [0.1]
    assert control.connections == 2


def test_it_ends_in_the_middle_of_a_request(
    thread: Callable[..., Thread], listener: Callable[[], ControlListener]
) -> None:
    """A removed broker's thread ends at once, whatever it waits for; what is queued is dropped."""
    control = listener()
    control.flowing.clear()
    carrier = thread(control.port)
    for name in ("sent", "queued"):
        carrier.carry(name, update_metadata({}))
    assert carrier.name == "Controller-1-to-broker-2-send-thread"
    eventually(lambda: control.received)
    ending = threading.Thread(target=carrier.shutdown)
    ending.start()
    ending.join(30)  # long before the request's own time is over
    assert not carrier.is_alive()
    assert carrier.answers == []
    assert len(control.received) == 1


def test_by_default_the_pause_is_made_and_ends_at_shutdown() -> None:
    """The real one: an event's wait, so that a broker that is removed costs no pause."""
    carrier = RequestSendThread(
        1,
        2,
        EndPoint("CONTROLLER", "PLAINTEXT", "127.0.0.1", free_port()),
        request_timeout_ms=1,
        socket_timeout_ms=1,
        trace=Trace(None, 1, 1),
        queue_time_ms=Histogram(),
        now_ns=time.monotonic_ns,
    )
    start_ns = time.monotonic_ns()
    carrier._backoff(send_thread.BACKOFF_S)
    assert time.monotonic_ns() - start_ns >= 99_000_000
    carrier.shutdown()
    assert carrier._backoff(3600) is True
