"""Which node is connected to which link, as the kernel has it.

That a controller uses the control listener is something that brokers say of themselves. This is the
word of somebody else: once a second, the sockets of each node's process (``/proc/<pid>/fd``) are
looked up in its network namespace's tables (``/proc/<pid>/net/tcp`` and ``tcp6``: a JVM's IPv4
connections are in the latter), and those whose other end is
one of the proxies of `harness.links` are counted, by proxy. A ``connection`` row is written when a
count changes; a connection shorter than the interval may be missed, so rows prove presence, and
only a long absence proves anything.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Final

from faults.protocol import Link
from harness.cluster.record import Record
from harness.runtime.protocol import Address

PROCESS: Final = "sockets"
_INTERVAL_S: Final = 1.0
_ESTABLISHED: Final = "01"
_IPV4_DIGITS: Final = 8
_IPV4_MAPPED: Final = ("0000000000000000FFFF0000", "00000000000000000000FFFF")
"""::ffff:0:0/96, as machines of either byte order print it."""

Way = tuple[int, Link]
"""To which node, by which link."""


def established(table: str) -> Iterator[tuple[int, tuple[str, int]]]:
    """(inode, other end) of every established IPv4 connection of such tables, their lines one after
    another."""
    for line in table.splitlines():
        if f" {_ESTABLISHED} " not in line:  # nearly all: what is over is in the table for a minute
            continue
        fields = line.split()
        if len(fields) > 9 and fields[3] == _ESTABLISHED:
            host, _, port = fields[2].partition(":")
            if len(host) > _IPV4_DIGITS and not host.startswith(_IPV4_MAPPED):
                continue
            # The kernel prints an address as one number in its own byte order.
            ip = socket.inet_ntoa(struct.pack("=I", int(host[-_IPV4_DIGITS:], 16)))
            yield int(fields[9]), (ip, int(port, 16))


def inodes(descriptors: Mapping[str, str]) -> set[int]:
    """The sockets among a process's descriptors (name -> what its link in /proc leads to)."""
    return {
        int(target[len("socket:[") : -1])
        for target in descriptors.values()
        if target.startswith("socket:[")
    }


def count(own: set[int], table: str, ways: Mapping[tuple[str, int], Way]) -> Counter[Way]:
    """How many connections lead where, of a process with the sockets ``own``."""
    found: Counter[Way] = Counter()
    for inode, end in established(table):
        if inode in own and end in ways:
            found[ways[end]] += 1
    return found


class SocketWatch:
    """`start` once nodes may run, `stop` before they are taken down. One daemon thread."""

    def __init__(
        self,
        pids: Callable[[], Mapping[int, int]],
        proxies: Mapping[Way, tuple[Address, Address]],
        record: Record,
    ) -> None:
        """``pids``: of the nodes that run, at the moment."""
        self._pids, self._record = pids, record
        self._ways = {
            (socket.gethostbyname(listen.host), listen.port): way
            for way, (listen, _) in proxies.items()
        }
        self._written: Counter[tuple[int, Way]] = Counter()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="biplane-sockets", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Idempotent."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Write what changed since the last look."""
        found: Counter[tuple[int, Way]] = Counter()
        tables: dict[str, str] = {}
        for node, pid in self._pids().items():
            # A process that ended while it was looked at has no connections.
            with contextlib.suppress(OSError):
                own, table = _own(pid), _table(pid, tables)
                found.update({(node, way): n for way, n in count(own, table, self._ways).items()})
        for key in sorted(set(found) | set(self._written)):
            if found[key] != self._written[key]:
                node, (to, link) = key
                self._record(
                    "connection",
                    process=PROCESS,
                    node=node,
                    to=to,
                    link=str(link),
                    connections=found[key],
                )
        self._written = found

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL_S):
            self.look()


def _own(pid: int) -> set[int]:
    folder = f"/proc/{pid}/fd"
    targets = {}
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # closed since
            targets[name] = os.readlink(f"{folder}/{name}")
    return inodes(targets)


def _table(pid: int, known: dict[str, str]) -> str:
    """Of its network namespace, read once a look: ``known``, by namespace. It may be long."""
    namespace = os.readlink(f"/proc/{pid}/ns/net")
    if namespace not in known:
        tables = (Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
        known[namespace] = "".join(tables)
    return known[namespace]
