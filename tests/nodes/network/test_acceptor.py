"""A listener outlives whatever a single connection does to it."""

from __future__ import annotations

import errno
import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.listeners import ConfigError, Endpoint
from nodes.network.acceptor import Acceptor
from nodes.network.quotas import ConnectionQuotas
from tests.nodes.network.conftest import PATIENCE_S


def test_a_connection_that_breaks_while_it_is_taken_in_ends_nothing(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka logs any error of its acceptor's loop and goes on."""
    running = start()
    taken_in = Acceptor._hand_over
    broken = [RuntimeError("one"), OSError("two")]

    def hand_over(self: Acceptor, client: socket.socket, host: str) -> None:
        if broken:
            client.close()
            raise broken.pop()
        taken_in(self, client, host)

    monkeypatch.setattr(Acceptor, "_hand_over", hand_over)
    for _ in range(2):
        assert running.client().is_closed_by_peer()
    client = running.client()
    client.send(wire.request(0, 7))
    assert client.answer() == (7).to_bytes(4, "big")


def test_a_socket_that_takes_no_options_gives_its_slot_back() -> None:
    """And is closed: whoever is at its other end need not wait for anything."""
    quotas = ConnectionQuotas(10, 10, None)
    acceptor = Acceptor(Endpoint("L", "PLAINTEXT", "127.0.0.1", 0), [], quotas, backlog=1)
    left, right = socket.socketpair()  # no TCP: setting an option fails
    right.settimeout(PATIENCE_S)
    acceptor._hand_over(left, "h")
    assert quotas.total == 0
    assert right.recv(1) == b""
    right.close()
    acceptor.close()


PLANES = {
    "listeners": "DATA://127.0.0.1:0,CLIENT://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "listener_security_protocol_map": "DATA:PLAINTEXT,CLIENT:PLAINTEXT,CONTROL:PLAINTEXT",
    "control_plane_listener_name": "CONTROL",
}


def kernel_size(option: int, size_bytes: int) -> int:
    """What the kernel makes of a buffer's size."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        return probe.getsockopt(socket.SOL_SOCKET, option)


def test_sockets_have_kafkas_options(start: Any, wire: Any) -> None:
    """Of whichever plane: Acceptor.accept (no delay, keep-alive, ``socket.send.buffer.bytes``) and
    openServerSocket (the address may be taken again at once, ``socket.receive.buffer.bytes``, which
    connections inherit)."""
    running = start(socket_send_buffer_bytes="20000", socket_receive_buffer_bytes="30000", **PLANES)
    send = kernel_size(socket.SO_SNDBUF, 20_000)
    receive = kernel_size(socket.SO_RCVBUF, 30_000)
    assert send != receive
    for name in running.ports:
        client = running.client(name)
        client.send(wire.request(0, 1))
        client.answer()
    for parts in running.server._planes():
        for listener in parts.listeners:
            listening = listener.acceptor._socket
            assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 1
            (taken,) = [c.socket for p in listener.processors for c in p._connections.values()]
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == send
            assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == receive


def test_minus_one_leaves_buffers_to_the_kernel(start: Any, wire: Any) -> None:
    """Selectable.USE_DEFAULT_BUFFER_SIZE."""
    running = start(socket_send_buffer_bytes="-1", socket_receive_buffer_bytes="-1")
    client = running.client()
    client.send(wire.request(0, 1))
    assert client.answer() == (1).to_bytes(4, "big")


def an_acceptor() -> Acceptor:
    quotas = ConnectionQuotas(10, 10, None)
    return Acceptor(Endpoint("L", "PLAINTEXT", "127.0.0.1", 0), [], quotas, backlog=1)


@pytest.mark.parametrize(
    "number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM], ids=errno.errorcode.get
)
def test_without_descriptors_or_memory_it_pauses(number: int, pauses: list[float]) -> None:
    """The connection stays in the backlog, and the socket readable: trying again at once would take
    a core for itself."""
    acceptor = an_acceptor()

    def accept() -> None:
        raise OSError(number, "planted")

    acceptor._accept_all(SimpleNamespace(accept=accept))  # type: ignore[arg-type]
    assert pauses == [0.1]
    acceptor.close()


def test_a_connection_that_was_reset_in_the_backlog_costs_no_pause(pauses: list[float]) -> None:
    """The twin: nothing is wrong here."""
    acceptor = an_acceptor()

    def accept() -> None:
        raise ConnectionAbortedError

    acceptor._accept_all(SimpleNamespace(accept=accept))  # type: ignore[arg-type]
    assert pauses == []
    acceptor.close()


@pytest.mark.parametrize("name", ["DATA", "CLIENT", "CONTROL"])
def test_an_address_that_is_taken_is_refused_by_the_config_that_says_it(
    start: Any, name: str
) -> None:
    """Whichever plane's: the broker does not start, and names ``listeners`` and the endpoint."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        listeners = PLANES["listeners"].replace(
            f"{name}://127.0.0.1:0", f"{name}://127.0.0.1:{port}"
        )
        with pytest.raises(ConfigError) as refused:
            start(**{**PLANES, "listeners": listeners})
    assert refused.value.config == "listeners"
    assert refused.value.problem.startswith(f"{name}://127.0.0.1:{port} cannot be bound: ")
    assert refused.value.allowed == "a free local address"


def test_an_error_while_accepting_costs_a_pause(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    """What makes it fail may last, and the socket stays readable: no core is to be spent on it."""
    acceptor = an_acceptor()
    tries: list[object] = []

    def fails(sock: object) -> None:
        tries.append(sock)
        if len(tries) == 3:
            acceptor._running = False
        raise RuntimeError("planted")

    monkeypatch.setattr(acceptor, "_accept_all", fails)
    acceptor.bind()
    acceptor.listen()
    os.eventfd_write(acceptor._wake_fd, 1)  # it need not wait for a connection
    acceptor.run()
    assert pauses == [0.1] * 3
    acceptor.close()


@pytest.mark.parametrize("processors", [1, 2, 3])
def test_it_waits_for_the_last_of_all_only(processors: int) -> None:
    """Acceptor.accept: one after the other is asked, from where the last connection went on; when
    none has room it waits for the last one, and for that long it is blocked."""
    asked: list[tuple[int, bool]] = []

    def full(number: int) -> Any:
        def offer(_sock: Any, _host: str, *, block: bool) -> bool:
            asked.append((number, block))
            return block

        return SimpleNamespace(offer=offer)

    quotas = ConnectionQuotas(10, 10, None)
    dealt_to = [full(number) for number in range(processors)]
    acceptor = Acceptor(Endpoint("L", "PLAINTEXT", "127.0.0.1", 0), dealt_to, quotas, backlog=1)
    open_ones = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as server:
            open_ones.append(socket.create_connection(server.getsockname()))
            client, _ = server.accept()
        open_ones.append(client)
        asked.clear()
        acceptor._hand_over(client, "h")
        last = processors - 1
        assert asked == [*((number, False) for number in range(processors)), (last, True)]
    assert acceptor.blocked_ns > 0
    assert quotas.total == 2
    for each in open_ones:
        each.close()
    acceptor.close()
