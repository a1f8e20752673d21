"""Waiting until a process serves: the conditions of `Ready`, checked from outside.

Shared by the runtimes. Only the output of the current start counts, so the caller gives the offset
at which that output begins.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path

from harness.runtime.protocol import Ready, StartFailed

_POLL_S = 0.02
_DIAL_TIMEOUT_S = 1.0
_TAIL_LINES = 15
_TAIL_BYTES = 16_384


def wait_ready(
    ready: Ready,
    *,
    name: str,
    host: str,
    ports: dict[str, int],
    output: Path,
    output_start: int,
    alive: Callable[[], bool],
    exit_code: Callable[[], int | None],
    timeout_s: float,
) -> None:
    """Return when all conditions hold; raise `StartFailed` at the deadline or at its death."""
    pending: list[tuple[str, Callable[[], bool]]] = [
        (f"{host}:{ports[p]} accepts connections", _dials(host, ports[p])) for p in ready.ports
    ]
    if ready.four_letter_word is not None:
        word = ready.four_letter_word
        pending.append((f"an answer to {word}", _answers(host, next(iter(ports.values())), word)))
    if ready.pattern is not None:
        what = f"output matching {ready.pattern!r}"
        pending.append((what, _printed(output, output_start, ready.pattern)))
    deadline = time.monotonic() + timeout_s
    while pending:
        if pending[0][1]():
            pending.pop(0)
            continue
        if not alive():
            raise StartFailed(f"{name} exited with {exit_code()}; {tail(output, output_start)}")
        if time.monotonic() > deadline:
            raise StartFailed(
                f"{name}: no {pending[0][0]} within {timeout_s:g} s; {tail(output, output_start)}"
            )
        time.sleep(_POLL_S)


def tail(output: Path, start: int = 0) -> str:
    """The last lines of an output, for an error message."""
    try:
        with output.open("rb") as f:
            size = f.seek(0, 2)
            f.seek(max(start, size - _TAIL_BYTES))
            lines = f.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:
        lines = []
    if not lines:
        return f"it printed nothing (see {output})"
    return "its output ended:\n  " + "\n  ".join(lines)


def four_letter_word(host: str, port: int, word: str, timeout_s: float = _DIAL_TIMEOUT_S) -> str:
    """ZooKeeper's answer to one of its administrative words; OSError when there is none."""
    with socket.create_connection((host, port), timeout=timeout_s) as s:
        s.sendall(word.encode())
        answer = b""
        while chunk := s.recv(4096):
            answer += chunk
    return answer.decode(errors="replace")


def _dials(host: str, port: int) -> Callable[[], bool]:
    def check() -> bool:
        try:
            socket.create_connection((host, port), timeout=_DIAL_TIMEOUT_S).close()
        except OSError:
            return False
        return True

    return check


def _answers(host: str, port: int, word: str) -> Callable[[], bool]:
    def check() -> bool:
        try:
            return "Zookeeper version" in four_letter_word(host, port, word)
        except OSError:
            return False

    return check


def _printed(output: Path, start: int, pattern: str) -> Callable[[], bool]:
    expression = re.compile(pattern.encode())
    position = start

    def check() -> bool:
        nonlocal position
        try:
            with output.open("rb") as f:
                f.seek(position)
                chunk = f.read()
        except OSError:
            return False
        whole, _, _ = chunk.rpartition(b"\n")  # a line half written is read again
        if any(expression.search(line) for line in whole.splitlines()):
            return True
        position += len(whole)
        return False

    return check
