"""Every line that the network layer logs: to which logger, how loud, and in Kafka's words where
Kafka has such a line (SocketServer, Acceptor, Processor, KafkaRequestHandlerPool)."""

from __future__ import annotations

import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.listeners import Endpoint
from nodes.network.acceptor import Acceptor
from nodes.network.handler import RequestHandlerPool
from nodes.network.processor import Processor
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import RequestChannel

DUAL = {
    "listeners": "DATA://127.0.0.1:0,CLIENT://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "listener_security_protocol_map": "DATA:PLAINTEXT,CLIENT:PLAINTEXT,CONTROL:PLAINTEXT",
    "control_plane_listener_name": "CONTROL",
}
SERVER, POOL = "kafka.network.SocketServer", "kafka.server.KafkaRequestHandler"
ACCEPTOR, PROCESSOR = "kafka.network.Acceptor", "kafka.network.Processor"

Lines = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    """(level, text) of what these loggers were given; with a stack where there is to be one."""

    def found(*loggers: str) -> list[tuple[str, str]]:
        return [
            (r.levelname + (" with stack" if r.exc_info or r.stack_info else ""), r.getMessage())
            for r in list(caplog.records)
            if r.name in loggers
        ]

    with caplog.at_level(logging.DEBUG, "kafka"):
        yield found


# ---- a server's life -----------------------------------------------------------------------------


@pytest.mark.parametrize("dual", [True, False])
def test_a_servers_life(start: Any, lines: Lines, dual: bool) -> None:
    """What an operator sees of KIP-291 in the log: which listener got which plane, in which order
    they are opened, and whose handlers end last."""
    planes = dict(DUAL)
    if not dual:
        del planes["control_plane_listener_name"]
    running = start(**planes)
    says = "[SocketServer listenerType=ZK_BROKER, nodeId=1]"
    made = [
        f"Created data-plane acceptor and processors for endpoint : ListenerName({name})"
        for name in ("DATA", "CLIENT", *(() if dual else ("CONTROL",)))
    ]
    if dual:
        what = "control-plane acceptor and processor"
        made.insert(0, f"Created {what} for endpoint : ListenerName(CONTROL)")
    opened = ("CONTROL", "DATA", "CLIENT") if dual else ("DATA", "CLIENT", "CONTROL")
    expected = [
        *(f"{says} {text}" for text in made),
        f"{says} Enabling request processing.",
        *(f"Awaiting socket connections on 127.0.0.1:{running.ports[name]}." for name in opened),
    ]
    assert lines(SERVER) == [("INFO", text) for text in expected]
    running.stop()
    running.stop()
    ending = [f"{says} {word} socket server request processors" for word in ("Stopping", "Stopped")]
    assert lines(SERVER)[len(expected) :] == [("INFO", text) for text in ending], "once"
    assert lines(POOL) == [
        ("INFO", f"[{plane}-plane Kafka Request Handler on Broker 1], {text}")
        for plane in (("data", "control") if dual else ("data",))
        for text in ("shutting down", "shut down completely")
    ]


def test_the_wildcard_is_said_as_an_address(start: Any, lines: Lines) -> None:
    running = start(listeners="DATA://:0")
    text = f"Awaiting socket connections on 0.0.0.0:{running.ports['DATA']}."
    assert lines(SERVER)[-1] == ("INFO", text)


def test_a_handler_that_does_not_end_is_named(lines: Lines) -> None:
    channel, entered, may_end = RequestChannel(1), threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        entered.set()
        may_end.wait(60)

    pool = RequestHandlerPool("control", channel, handle, 1, broker_id=7)
    channel.put(a_request())
    assert entered.wait(60)
    pool.shutdown(0.01)
    may_end.set()
    says = "[control-plane Kafka Request Handler on Broker 7],"
    assert lines(POOL)[1] == (
        "WARNING",
        f"{says} control-plane-kafka-request-handler-0 is still busy; it is left behind",
    )


# ---- connections that are not taken in -----------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3])
def test_an_address_with_too_many_connections(
    start: Any, wire: Any, lines: Lines, most: int
) -> None:
    running = start(max_connections_per_ip=str(most))
    for _ in range(most):
        client = running.client()
        client.send(wire.request(0, 1))
        client.answer()
    assert running.client().is_closed_by_peer()
    text = (
        "Rejected connection from /127.0.0.1, address already has the configured maximum of "
        f"{most} connections."
    )
    assert lines(ACCEPTOR) == [("INFO", text)]


@pytest.fixture
def acceptor() -> Iterator[Acceptor]:
    quotas = ConnectionQuotas(10, 10, None)
    made = Acceptor(Endpoint("L", "PLAINTEXT", "127.0.0.1", 9), [], quotas, backlog=1)
    yield made
    made.close()


def test_one_that_was_gone_before(acceptor: Acceptor, lines: Lines) -> None:
    left, right = socket.socketpair()
    left.close()
    right.close()
    acceptor._hand_over(left, "10.0.0.9")
    ((level, text),) = lines(ACCEPTOR)
    assert level == "INFO"
    assert text.startswith("Connection from 10.0.0.9 went before it was taken in: ")


@pytest.mark.usefixtures("pauses")
def test_without_descriptors(acceptor: Acceptor, lines: Lines) -> None:

    def accept() -> None:
        raise OSError(errno.EMFILE, "planted")

    acceptor._accept_all(SimpleNamespace(accept=accept))  # type: ignore[arg-type]
    text = f"cannot accept on L://127.0.0.1:9: [Errno {errno.EMFILE}] planted"
    assert lines(ACCEPTOR) == [("ERROR", text)]


def test_whatever_else_goes_wrong_with_accepting(
    start: Any, wire: Any, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start()
    taken_in, failures = Acceptor._hand_over, [RuntimeError("planted")]

    def hand_over(self: Acceptor, client: socket.socket, host: str) -> None:
        if failures:
            client.close()
            raise failures.pop()
        taken_in(self, client, host)

    monkeypatch.setattr(Acceptor, "_hand_over", hand_over)
    assert running.client().is_closed_by_peer()
    text = f"Error while accepting connection on DATA://127.0.0.1:{running.ports['DATA']}"
    wire.eventually(lambda: lines(ACCEPTOR) == [("ERROR with stack", text)])


# ---- connections that are closed -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "level", "text"),
    [
        ((-1).to_bytes(4, "big", signed=True), "INFO", ": size -1 is not within 0 and 1000"),
        ((1001).to_bytes(4, "big"), "INFO", ": size 1001 is not within 0 and 1000"),
        (
            (6).to_bytes(4, "big") + b"\xff\xff" + bytes(4),
            "WARNING",
            " on CONTROL: cannot parse request: negative api key",
        ),
    ],
)
def test_bytes_that_are_no_request(
    start: Any, wire: Any, lines: Lines, data: bytes, level: str, text: str
) -> None:
    running = start(socket_request_max_bytes="1000", **DUAL)
    client = running.client("CONTROL")
    client.send(data)
    assert client.is_closed_by_peer()
    expected = (level, f"Closing connection from 127.0.0.1{text}")
    wire.eventually(lambda: lines(PROCESSOR) == [expected])


def test_who_goes_is_nothing_to_talk_about(start: Any, wire: Any, lines: Lines) -> None:
    """The twin: the client's own close, with and without a request before."""
    running = start(**DUAL)
    for name in ("CONTROL", "DATA"):
        for asks in (False, True):
            client = running.client(name)
            if asks:
                client.send(wire.request(0, 1))
                client.answer()
            client.close()
    wire.eventually(lambda: running.server.quotas.total == 0)
    assert lines(PROCESSOR, POOL, ACCEPTOR) == []


def a_processor() -> Processor:
    return Processor(
        3, listener="L", plane="data", channel=RequestChannel(1), parse=lambda f: (None, f),
        quotas=ConnectionQuotas(9, 9, None), max_request_bytes=100, max_idle_ms=5,
    )  # fmt: skip


def test_an_idle_one_is_not_worth_a_line_of_everybodys(lines: Lines) -> None:
    processor = a_processor()
    ours, theirs = socket.socketpair()
    processor.offer(ours, "10.0.0.9", block=False)
    processor._now_ns = lambda: 0
    processor._take_new_connections()
    processor._now_ns = lambda: 10_000_000
    processor._expire()
    assert lines(PROCESSOR) == [("DEBUG", "Closing idle connection from 10.0.0.9")]
    processor._close_all()
    theirs.close()


def test_one_that_cannot_be_watched(lines: Lines) -> None:
    processor = a_processor()
    ours, theirs = socket.socketpair()
    processor.offer(ours, "10.0.0.9", block=False)
    processor._epoll.close()

    def register(*_: Any) -> None:
        raise OSError(errno.ENOMEM, "planted")

    real, processor._epoll = processor._epoll, SimpleNamespace(register=register)  # type: ignore[assignment]
    processor._take_new_connections()
    text = "Processor 3 could not register a connection from 10.0.0.9"
    assert lines(PROCESSOR) == [("ERROR with stack", text)]
    processor._epoll = real
    processor._close_all()
    theirs.close()


def test_a_bug_in_a_network_thread(
    start: Any, wire: Any, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processor.processException: it goes on."""
    running = start()
    turn, failures = Processor._turn, [RuntimeError("planted")]

    def fails(self: Processor) -> None:
        if failures:
            raise failures.pop()
        turn(self)

    monkeypatch.setattr(Processor, "_turn", fails)
    client = running.client()
    client.send(wire.request(0, 4))
    assert client.answer() == (4).to_bytes(4, "big")
    text = "Processor 0 got uncaught exception."
    assert lines(PROCESSOR) == [("ERROR with stack", text)]


# ---- requests ------------------------------------------------------------------------------------

REQUEST = "Request(api_key=0, api_version=0, correlation_id=1, client_id='t', listener=DATA)"


def a_request() -> Any:
    return SimpleNamespace(listener="L", api_key=0, let_go=lambda: None, handled_ns=1)


def _raises(_: Any) -> None:
    raise RuntimeError("planted")


def _answers_twice(req: Any) -> None:
    req.respond_nothing()
    req.respond_nothing()


def _closes_twice(req: Any) -> None:
    req.close_connection()
    req.close_connection()


def _is_followed_by_a_bug(req: Any) -> None:
    req.on_sent = _raises
    req.respond_nothing()


@pytest.mark.parametrize(
    ("handle", "logger", "text"),
    [
        (_raises, POOL, f"Exception when handling {REQUEST}"),
        (
            _answers_twice,
            "kafka.network.RequestChannel",
            f"{REQUEST} was answered twice; the second answer is dropped",
        ),
        (
            _closes_twice,
            "kafka.network.RequestChannel",
            f"{REQUEST} was answered twice; the second answer is dropped",
        ),
        (_is_followed_by_a_bug, PROCESSOR, f"what followed the answer to {REQUEST} failed"),
    ],
)
def test_bugs_name_their_request(
    start: Any, wire: Any, lines: Lines, handle: Any, logger: str, text: str
) -> None:
    running = start()
    running.handle = handle
    running.client().send(wire.request(0, 1))
    wire.eventually(lambda: lines(logger) == [("ERROR with stack", text)])
