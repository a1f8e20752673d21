"""Whose sockets lead where: real sockets of this process, IPv4 and IPv4 in IPv6."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from subprocess import PIPE
from typing import Any

import pytest

from faults.protocol import Link
from harness.cluster.sockets import SocketWatch, count, established
from harness.runtime.protocol import Address

NOWHERE = Address("127.0.0.1", 1)


@pytest.fixture
def servers() -> Iterator[list[socket.socket]]:
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    yield made
    for server in made:
        server.close()


def watch(servers: list[socket.socket], rows: list[dict[str, Any]], pid: int) -> SocketWatch:
    ways = {
        (number, Link.CONTROL): (Address(*server.getsockname()), NOWHERE)
        for number, server in enumerate(servers, 1)
    }
    return SocketWatch(lambda: {7: pid}, ways, lambda kind, **row: rows.append({"f": kind, **row}))


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_connections_are_told_when_they_change(servers: list[socket.socket], family: int) -> None:
    rows: list[dict[str, Any]] = []
    looked = watch(servers, rows, os.getpid())
    looked.look()
    assert not rows
    host, port = servers[1].getsockname()
    with socket.socket(family) as client:
        client.connect((host if family == socket.AF_INET else f"::ffff:{host}", port))
        looked.look()
        looked.look()
        told = {"f": "connection", "process": "sockets", "node": 7, "to": 2, "link": "control"}
        assert rows == [{**told, "connections": 1}]
    looked.look()
    assert rows == [{**told, "connections": 1}, {**told, "connections": 0}]


def test_connections_of_others_do_not_count(servers: list[socket.socket]) -> None:
    rows: list[dict[str, Any]] = []
    with socket.create_connection(servers[0].getsockname()):
        watch(servers, rows, os.getppid()).look()
        watch(servers, rows, 2**30).look()  # nobody
    assert not rows


def test_nodes_may_have_networks_of_their_own(servers: list[socket.socket]) -> None:
    """As containers have: one that is looked at first hides nothing of another."""
    rows: list[dict[str, Any]] = []
    apart = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 60"], stdout=PIPE)
    try:
        assert apart.stdout is not None
        if not apart.stdout.readline():
            pytest.skip("this user may not make a network namespace")
        end = Address(*servers[0].getsockname())
        looked = SocketWatch(
            lambda: {7: apart.pid, 8: os.getpid()},
            {(1, Link.CONTROL): (end, NOWHERE)},
            lambda _kind, **row: rows.append(row),
        )
        with socket.create_connection((end.host, end.port)):
            looked.look()
    finally:
        apart.kill()
        apart.communicate()
    assert [(row["node"], row["connections"]) for row in rows] == [(8, 1)]


def test_only_established_connections_to_a_known_end_count() -> None:
    line = "  1: 0100007F:9C40 0100007F:2383 {} 00000000:00000000 00:0 0 0 0 {} 1"
    table = "\n".join(line.format(*state) for state in (("01", 5), ("06", 6), ("0A", 7)))
    assert list(established(table)) == [(5, ("127.0.0.1", 9091))]
    way = (1, Link.CONTROL)
    assert count({5}, table, {("127.0.0.1", 9091): way}) == {way: 1}
    assert not count({6}, table, {("127.0.0.1", 9091): way})
    assert not count({5}, table, {("127.0.0.1", 9092): way})
