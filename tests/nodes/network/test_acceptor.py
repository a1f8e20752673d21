"""A listener outlives whatever a single connection does to it."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from nodes.listeners import Endpoint
from nodes.network.acceptor import Acceptor
from nodes.network.quotas import ConnectionQuotas


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
    quotas = ConnectionQuotas(10, 10, None)
    acceptor = Acceptor(Endpoint("L", "PLAINTEXT", "127.0.0.1", 0), [], quotas, backlog=1)
    left, right = socket.socketpair()
    left.close()  # setting an option fails, as on a connection that was reset
    acceptor._hand_over(left, "h")
    assert quotas.total == 0
    right.close()
    acceptor.close()
