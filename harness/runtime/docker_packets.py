"""Packets dropped between two containers, on chosen ports: a cut that nobody is told of.

toxiproxy cannot do this: it tells nobody apart, and its cuts close connections. Here packets
vanish, so connections stall and time out as they do when a switch fails.

The rules live in the network namespace of the container that listens, put there from the host with
``nsenter`` and ``iptables`` (root): the container itself has no capability and no tools. They go
with the container's death.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from harness.runtime.protocol import Address, RuntimeFailed

_TIMEOUT_S: Final = 20
_DIAL: Final = (
    "import socket, sys\n"
    "socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).close()\n"
)


def can_cut() -> bool:
    return os.geteuid() == 0 and all(shutil.which(tool) for tool in ("nsenter", "iptables"))


def cut(pid: int, host: str, ports: Sequence[int]) -> None:
    """In the namespace of ``pid``: drop what passes between its ``ports`` and ``host``."""
    for rule in _rules(host, ports):
        if _iptables(pid, "-C", rule).returncode != 0:
            done = _iptables(pid, "-I", rule)
            if done.returncode != 0:
                raise RuntimeFailed(f"iptables refused a rule: {done.stderr.strip()[:200]}")


def mend(pid: int, host: str, ports: Sequence[int]) -> None:
    """Take the rules of `cut` away. Idempotent."""
    for rule in _rules(host, ports):
        while _iptables(pid, "-D", rule).returncode == 0:
            pass


def reaches(pid: int, address: Address, timeout_s: float) -> bool:
    """Whether a connection can be made from the namespace of ``pid``."""
    command = [*_enter(pid), sys.executable, "-I", "-S", "-c", _DIAL]
    command += [address.host, str(address.port), str(timeout_s)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=timeout_s + 10)
    return done.returncode == 0


def _rules(host: str, ports: Sequence[int]) -> Iterator[list[str]]:
    for port in ports:
        yield ["INPUT", "-s", host, "-p", "tcp", "--dport", str(port), "-j", "DROP"]
        yield ["OUTPUT", "-d", host, "-p", "tcp", "--sport", str(port), "-j", "DROP"]


def _iptables(pid: int, action: str, rule: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_enter(pid), "iptables", "-w", action, *rule],
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )


def _enter(pid: int) -> list[str]:
    return ["nsenter", "-t", str(pid), "-n"]
