"""Frames on raw connections: one answer each, or several to what was sent at once."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness.workload.links import Channel, Links


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


class _Owner:
    def __init__(self) -> None:
        self.told: list[tuple[str, bytes | str]] = []
        self.links = Links(
            lambda _channel, payload, _t: self.told.append(("answer", payload)),
            lambda _channel, reason, _t: self.told.append(("lost", reason)),
        )

    def step_until(self, n: int) -> None:
        deadline = time.monotonic() + 5
        while len(self.told) < n and time.monotonic() < deadline:
            self.links.step(0.01)


@pytest.fixture
def joined() -> Iterator[tuple[_Owner, Channel, socket.socket]]:
    owner = _Owner()
    with socket.create_server(("127.0.0.1", 0)) as server:
        channel = owner.links.add(1, server.getsockname())
        assert owner.links.dial_all(5, lambda: False)
        peer, _ = server.accept()
        with peer:
            yield owner, channel, peer
        owner.links.close()


def test_one_answer_frees_a_channel(joined: Any) -> None:
    owner, channel, peer = joined
    owner.links.send(channel, frame(b"asked"), "tag")
    assert channel.state == "busy"
    peer.sendall(frame(b"told"))
    owner.step_until(1)
    assert owner.told == [("answer", b"told")]
    assert channel.state == "free"


@pytest.mark.parametrize("cut", [0, 2, 6, 9, 13])
def test_two_answers_in_whatever_pieces(joined: Any, cut: int) -> None:
    owner, channel, peer = joined
    owner.links.send(channel, frame(b"one") + frame(b"two"), "tag", answers=2)
    both = frame(b"told") + frame(b"too")
    peer.sendall(both[:cut])
    owner.links.step(0.05)
    assert channel.state == "busy"
    peer.sendall(both[cut:])
    owner.step_until(2)
    assert owner.told == [("answer", b"told"), ("answer", b"too")]
    assert channel.state == "free"


def test_who_is_answered_once_of_twice_loses_the_other(joined: Any) -> None:
    owner, channel, peer = joined
    owner.links.send(channel, frame(b"one") + frame(b"two"), "tag", answers=2)
    peer.sendall(frame(b"told"))
    owner.step_until(1)
    peer.close()
    owner.step_until(2)
    assert owner.told == [("answer", b"told"), ("lost", "disconnect")]


def test_the_second_may_be_sent_later(joined: Any) -> None:
    owner, channel, peer = joined
    owner.links.send(channel, frame(b"one"), "tag", answers=2)
    assert peer.recv(100) == frame(b"one")
    peer.sendall(frame(b"told"))
    owner.step_until(1)
    assert channel.state == "busy"
    owner.links.send_more(channel, frame(b"two"))
    assert peer.recv(100) == frame(b"two")
    peer.sendall(frame(b"too"))
    owner.step_until(2)
    assert channel.state == "free"


def test_what_is_sent_later_comes_behind_what_the_socket_did_not_take_yet(joined: Any) -> None:
    owner, channel, peer = joined
    large = frame(bytes(20_000_000))
    owner.links.send(channel, large, "tag", answers=2)
    assert channel._out is not None
    owner.links.send_more(channel, frame(b"two"))
    got = bytearray()
    peer.settimeout(5)
    while len(got) < len(large) + 7:
        owner.links.step(0.001)
        got += peer.recv(1 << 20)
    assert got == large + frame(b"two")
