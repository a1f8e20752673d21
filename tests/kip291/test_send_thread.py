"""The thread that carries one broker's requests (Kafka's RequestSendThread), with its pauses in the
test's hands. What a whole controller does is in `test_controller_side`."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.one_broker import free_port
from nodes.controller import send_thread
from nodes.controller.send_thread import QueueItem, RequestSendThread
from nodes.core.brokers import EndPoint
from nodes.metrics import Histogram
from nodes.state_change_log import TRACE
from nodes.trace import Trace
from nodes.wire.apis import ApiKey
from tests.jsonl import whole_rows
from tests.kip291.control_listener import ControlListener, Received
from tests.kip291.parts import eventually
from tests.kip291.requests import Sender, leader_and_isr, update_metadata


class Thread(RequestSendThread):
    """Its pauses are noted and not made."""

    def __init__(self, port: int) -> None:
        self.pauses_s: list[float] = []
        self.was_connected: list[bool] = []
        """In each pause."""
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
        self.was_connected.append(self._connection.is_connected)
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
    assert carrier.was_connected == [False] * 3, "closed first, then the pause"
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


def test_a_request_is_never_given_up(
    thread: Callable[..., Thread], listener: Callable[[], ControlListener]
) -> None:
    """However often its broker takes it in and does not answer; what waits behind it waits on."""
    control = listener()
    refusals = 60
    control.answer_with = lambda _, frame: frame if len(control.received) > refusals else None
    carrier = thread(control.port)
    carrier.carry("first", leader_and_isr("t", 2, 0))
    carrier.carry("second", update_metadata({}))
    eventually(lambda: len(carrier.answers) == 2)
    assert [name for name, _ in carrier.answers] == ["first", "second"]
    tried = [r.api for r in control.received]
    assert tried == [ApiKey.LEADER_AND_ISR] * (refusals + 1) + [ApiKey.UPDATE_METADATA]
    assert carrier.pauses_s == [0.1] * refusals


def test_all_that_is_queued_is_sent_in_its_order(
    thread: Callable[..., Thread], listener: Callable[[], ControlListener]
) -> None:
    """LinkedBlockingQueue: without a bound, and nothing that is newer makes up for what is older
    (a broker is told of each change, also of the ones that were overtaken)."""
    control = listener()
    control.flowing.clear()
    carrier = thread(control.port)
    for number in range(300):
        entity = update_metadata({}) if number % 2 else leader_and_isr("t", 2, number)
        carrier.carry(str(number), entity)
    eventually(lambda: control.received and carrier.queue_size == 299)
    control.flowing.set()
    eventually(lambda: len(carrier.answers) == 300)
    assert [name for name, _ in carrier.answers] == [str(number) for number in range(300)]
    assert [r.api for r in control.received] == [
        ApiKey.LEADER_AND_ISR,
        ApiKey.UPDATE_METADATA,
    ] * 150
    assert control.connections == 1


@pytest.mark.parametrize("answered", [1, -1, 2**31 - 1, -(2**31)])
def test_an_answer_to_another_request_is_none(
    thread: Callable[..., Thread], listener: Callable[[], ControlListener], answered: int
) -> None:
    """A later one's, or an earlier one's that came late."""
    control = listener()

    def answer(received: Received, frame: bytes) -> bytes:
        if received.header.correlation_id == 0:
            return frame[:4] + answered.to_bytes(4, "big", signed=True) + frame[8:]
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
    assert carrier._backoff(20) is True


# ---- what is traced of it ------------------------------------------------------------------------


def _until_answered(thread: Any, path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    eventually(lambda: thread.answers)
    thread.shutdown()
    rows = whole_rows(path)
    sends = [row for row in rows if row["f"] == "control_send"]
    return sends, [row for row in rows if row["f"] == "control_response"]


@pytest.fixture
def traced(thread: Callable[..., Thread], tmp_path: Path) -> Callable[[int], Thread]:
    def make(port: int) -> Thread:
        made = thread(port)
        made._trace = Trace(tmp_path / "trace.jsonl", 1, 1)
        return made

    return make


def test_each_try_is_traced_with_what_came_of_it(
    traced: Callable[[int], Thread], listener: Callable[[], ControlListener], tmp_path: Path
) -> None:
    """A request that is repeated keeps the time at which it was put into the queue, and its try's
    number grows; each try has a correlation id and a time of its own."""
    control = listener()
    spoilt: list[Callable[[bytes], bytes | None]] = [
        lambda frame: frame,
        lambda frame: (5).to_bytes(4, "big") + frame[4:8] + b"\0",  # cut short
        lambda frame: frame[:4] + (99).to_bytes(4, "big") + frame[8:],  # to another request
        lambda _: None,  # closed
    ]
    control.answer_with = lambda _, frame: spoilt.pop()(frame)
    carrier = traced(control.port)
    began_ns = time.monotonic_ns()
    carrier.carry("only", leader_and_isr("t", 2, 0, sender=Sender(1, 6, 71)))
    sends, answers = _until_answered(carrier, tmp_path / "trace.jsonl")
    assert [row["attempt"] for row in sends] == [1, 2, 3, 4]
    assert [row["correlation_id"] for row in sends] == [0, 1, 2, 3]
    assert len({row["enqueue_t"] for row in sends}) == 1
    times = [sends[0]["enqueue_t"], *(row["t"] for row in sends)]
    assert began_ns <= times[0]
    assert times == sorted(times)
    assert len(set(times[1:])) == 4
    assert {(row["to"], row["api"]) for row in sends} == {(2, "LEADER_AND_ISR")}
    assert {(row["controller_epoch"], row["broker_epoch"]) for row in sends} == {(6, 71)}
    found = [(row["failure"], row["error"]) for row in answers]
    assert found == [("disconnect", None), ("malformed", None), ("malformed", None), (None, 0)]
    assert [(row["to"], row["correlation_id"], row["send_t"]) for row in answers] == [
        (2, row["correlation_id"], row["t"]) for row in sends
    ]


@pytest.mark.parametrize("error", [0, 11, 77])
def test_what_a_broker_says_is_traced(
    traced: Callable[[int], Thread],
    listener: Callable[[], ControlListener],
    tmp_path: Path,
    error: int,
) -> None:
    """A refusal is an answer: it is not sent again; and what was said of whom stands beside it."""
    control = listener()
    control.answer_with = lambda _, frame: frame[:8] + b"\0" + error.to_bytes(2, "big") + frame[11:]
    carrier = traced(control.port)
    about = [{"topic": "t", "partition": 3, "leader": 2, "leader_epoch": 5}]

    def done(answer: Any) -> None:
        carrier.answers.append(("only", answer))

    carrier.put(QueueItem(update_metadata({}), done, time.monotonic_ns(), about))
    sends, answers = _until_answered(carrier, tmp_path / "trace.jsonl")
    assert [(row["error"], row["failure"]) for row in answers] == [(error, None)]
    assert [row["partitions"] for row in sends] == [about]
    assert [int(answer.error_code) for _, answer in carrier.answers] == [error]


def test_dials_that_fail_are_no_tries(
    traced: Callable[[int], Thread],
    listener: Callable[[], ControlListener],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is traced was sent: who could not be reached was sent nothing yet."""
    carrier = traced(listener().port)
    connect, failures = carrier._connection.connect, [ConnectionRefusedError(), TimeoutError()]

    def dial(timeout_ms: int) -> None:
        if failures:
            raise failures.pop()
        connect(timeout_ms)

    monkeypatch.setattr(carrier._connection, "connect", dial)
    carrier.carry("only", update_metadata({}))
    sends, answers = _until_answered(carrier, tmp_path / "trace.jsonl")
    assert [row["attempt"] for row in sends] == [1]
    assert len(answers) == 1
    assert carrier.pauses_s == [0.1] * 2


def test_an_answer_that_does_not_come_in_time(
    traced: Callable[[int], Thread], listener: Callable[[], ControlListener], tmp_path: Path
) -> None:
    """``request.timeout.ms`` is over: a time-out, told from a lost connection."""
    control = listener()
    silent = [True]
    control.answer_with = lambda _, frame: b"" if silent and silent.pop() else frame
    carrier = traced(control.port)
    carrier._request_timeout_ms = 200
    carrier.carry("only", update_metadata({}))
    _, answers = _until_answered(carrier, tmp_path / "trace.jsonl")
    assert [row["failure"] for row in answers if row["failure"]][:1] == ["timeout"]


def test_a_broker_that_is_removed_meanwhile(
    traced: Callable[[int], Thread], listener: Callable[[], ControlListener], tmp_path: Path
) -> None:
    control = listener()
    control.flowing.clear()
    carrier = traced(control.port)
    carrier.carry("sent", update_metadata({}))
    eventually(lambda: control.received)
    carrier.shutdown()
    rows = whole_rows(tmp_path / "trace.jsonl")
    assert [row["failure"] for row in rows if row["f"] == "control_response"] == ["removed"]


def test_nothing_is_left_open_by_a_thread_that_ended() -> None:
    """A broker that comes and goes costs its controller no descriptor."""
    port = free_port()  # and its lock
    before = len(os.listdir("/proc/self/fd"))
    carrier = Thread(port)
    carrier.start()
    carrier.carry("never", update_metadata({}))
    eventually(lambda: carrier.pauses_s)
    carrier.shutdown()
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)


# ---- what it says --------------------------------------------------------------------------------


def test_what_it_says_of_its_connection_and_answers(
    thread: Callable[..., Thread],
    listener: Callable[[], ControlListener],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """RequestSendThread's lines: connected, the answer to the request of that number (TRACE), and
    why a try failed. The answer is logged before anything follows from it."""
    control = listener()
    failures = [None]
    control.answer_with = lambda _, frame: failures.pop() if failures else frame
    with (
        caplog.at_level(logging.INFO, "kafka.controller"),
        caplog.at_level(TRACE, "state.change.logger"),
    ):
        carrier = thread(control.port)
        lines: list[str] = []
        entity = update_metadata({}, sender=Sender(1, 6))
        carrier.put(
            QueueItem(entity, lambda _: lines.extend(caplog.messages), time.monotonic_ns(), [])
        )
        eventually(lambda: lines)
    node = f"127.0.0.1:{control.port} (id: 2)"
    says = "[RequestSendThread controllerId=1]"
    connected = f"{says} Controller 1 connected to {node} for sending state change requests"
    assert [m for m in lines if "connected" in m] == [connected, connected]
    failed = [m for m in lines if "fails to send" in m]
    assert failed == [
        f"{says} Controller 1 epoch 6 fails to send request UpdateMetadataRequest (attempt 1) to "
        f"broker {node}: ConnectionResetError: the broker closed the connection. "
        "Reconnecting to broker."
    ]
    assert [m for m in lines if "Received response" in m] == [
        "[Controller id=1 epoch=6] Received response UpdateMetadataResponseData(errorCode=0) for "
        f"request UPDATE_METADATA with correlation id 1 sent to broker {node}"
    ]


@pytest.mark.parametrize(
    ("problem", "expected"),
    [(OSError("lost"), True), (TimeoutError(), True), (KeyError("a bug"), False)],
)
def test_only_what_nobody_expects_is_told_with_its_trace(
    thread: Callable[..., Thread],
    listener: Callable[[], ControlListener],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
    expected: bool,
) -> None:
    """A broker that is away for an hour is 36,000 lines, not as many stack traces; a bug is to be
    found."""
    carrier = thread(listener().port)
    exchange, failures = carrier._connection.exchange, [problem]

    def fails_once(*args: Any) -> bytes:
        if failures:
            raise failures.pop()
        return exchange(*args)

    monkeypatch.setattr(carrier._connection, "exchange", fails_once)
    with caplog.at_level(logging.WARNING, "kafka.controller"):
        carrier.carry("only", update_metadata({}))
        eventually(lambda: carrier.answers)
    (record,) = [r for r in caplog.records if "fails to send" in r.getMessage()]
    assert bool(record.exc_info) != expected
    assert record.levelname == "WARNING"


SAYS = "[RequestSendThread controllerId=1] Controller 1"


@pytest.mark.parametrize(
    ("where", "level", "text"),
    [
        (
            "connect",
            "WARNING",
            "'s connection to broker {node} was unsuccessful: ConnectionRefusedError: planted",
        ),
        (
            "exchange",
            "WARNING",
            " epoch 6 fails to send request LeaderAndIsrRequest (attempt 1) to broker {node}: "
            "ConnectionRefusedError: planted. Reconnecting to broker.",
        ),
        ("callback", "ERROR with stack", " fails to send a request to broker {node}"),
    ],
)
def test_each_failure_has_a_line(
    thread: Callable[..., Thread],
    listener: Callable[[], ControlListener],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    level: str,
    text: str,
) -> None:
    """Of the dial, of the request, of what followed the answer; one line each, and nothing louder
    than INFO when all is well."""
    control = listener()
    carrier = thread(control.port)
    failures = [ConnectionRefusedError("planted")]

    def fails_once(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if failures:
                raise failures.pop()
            return real(*args)

        return call

    def on_response(response: Any) -> None:
        carrier.answers.append(("first", response))

    if where != "callback":
        real = getattr(carrier._connection, where)
        monkeypatch.setattr(carrier._connection, where, fails_once(real))
    else:
        on_response = fails_once(on_response)
    with caplog.at_level(logging.INFO, "kafka.controller"):
        entity = leader_and_isr("t", 2, 0, sender=Sender(1, 6))
        carrier.put(QueueItem(entity, on_response, time.monotonic_ns(), []))
        carrier.carry("second", update_metadata({}))
        eventually(lambda: "second" in {name for name, _ in carrier.answers})
    lines = [
        (r.levelname + (" with stack" if r.exc_info else ""), r.getMessage())
        for r in caplog.records
        if r.name == "kafka.controller.RequestSendThread" and "connected to" not in r.getMessage()
    ]
    node = f"127.0.0.1:{control.port} (id: 2)"
    assert lines == [(level, SAYS + text.format(node=node))]
