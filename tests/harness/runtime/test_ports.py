"""Ports: below the kernel's own range, and ours alone while we live."""

from __future__ import annotations

import os
import random
import socket

from harness.runtime.ports import PortAllocator, ephemeral_low

_PID = os.getpid()
HOST = f"127.{64 + (_PID >> 16)}.{_PID >> 8 & 255}.{_PID & 255}"
"""All of 127/8 is loopback. Here nobody else listens: not what a test draws from a fixed seed, and
not another test session that draws the same."""


def test_two_harnesses_never_share_a_port() -> None:
    first = PortAllocator(HOST, random.Random(7))
    second = PortAllocator(HOST, random.Random(7))  # draws the same numbers
    ports = [first.allocate() for _ in range(20)] + [second.allocate() for _ in range(20)]
    assert len(set(ports)) == 40
    assert max(ports) < ephemeral_low()
    first.release_all()
    again = PortAllocator(HOST, random.Random(7))
    assert again.allocate() == ports[0]
    again.release_all()
    second.release_all()


def test_a_port_in_use_is_passed_over() -> None:
    drawn = random.Random(3).randrange(12_000, min(ephemeral_low(), 32_768))
    with socket.create_server((HOST, drawn)):
        allocator = PortAllocator(HOST, random.Random(3))
        assert allocator.allocate() != drawn
        allocator.release_all()
