"""`--live`: a process beside the run that says what is already certain (`checkers.live`).

It has its own JVM, one thread, the lowest priority that still gets anything done, and only reads
what the run writes. What it finds is told in lines and stays in the run's ``live.jsonl``; the
verdict is judging's alone, and a watch that fails changes nothing about the run.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.live import LIVE_FILE
from harness.interrupts import interruptible, uninterrupted

LOG_FILE: Final = "live.log"
_END_S: Final = 20.0
"""For its last look; then it is killed."""
_LOOK_S: Final = 0.25
Say = Callable[[str], None]


@contextmanager
def watched(folder: Path, say: Say) -> Iterator[None]:
    """Watch the run in ``folder`` as long as the block lasts, and tell what is found."""

    def tell(line: str) -> None:
        with suppress(OSError, ValueError):  # a terminal that is gone is no obstacle
            say(line)

    with uninterrupted():
        process = _start(folder)
        over = threading.Event()
        telling = threading.Thread(target=_tell, args=(folder, tell, over), daemon=True)
        telling.start()
        try:
            with interruptible():
                yield
        finally:
            code = _end(process)
            over.set()
            telling.join()
            if code:
                tell(f"live: the watch ended with {code}: {folder / LOG_FILE}")


def _start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / LOG_FILE).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "checkers.live", str(folder)],
            stdin=subprocess.PIPE,  # it ends when this closes, however we end
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches the harness alone: it ends us in order
        )


def _end(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _tell(folder: Path, say: Say, over: threading.Event) -> None:
    told = 0
    while True:
        last = over.wait(_LOOK_S)
        found = read(folder)
        for entry in found[told:]:
            if (line := in_words(entry)) is not None:
                say(line)
        told = len(found)
        if last:
            return


def read(folder: Path) -> list[dict[str, Any]]:
    """What the watch has written by now, whole lines only; nothing where there was none."""
    try:
        data = (folder / LIVE_FILE).read_bytes()
    except OSError:
        return []
    return [orjson.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def in_words(entry: Mapping[str, Any]) -> str | None:
    """A line for what is worth one."""
    if entry["what"] == "finding":
        where = f"{entry['arm']}, trial {entry['trial']}"
        return (
            f"live: {entry['promise']}: {entry['rule']}: {entry['says']} ({where}; "
            f"told {entry['lag_ms'] / 1000:.1f} s after it)"
        )
    if entry["what"] == "ended":
        left = ", ".join(f"{n} {name}" for name, n in entry["left_out"].items() if n)
        lacking = f"; not looked at: {left}" if left else ""
        return f"live: {entry['looks']} looks, {entry['cpu_s']:.0f} CPU-s{lacking}"
    return None


def unconfirmed(folder: Path, results: Mapping[str, Any]) -> list[str]:
    """What was told while the run went on, and judging all of it did not come to: an excuse that
    only the end knew, or a fault of the watch."""
    found = [entry for entry in read(folder) if entry["what"] == "finding"]
    if not found:
        return []
    from checkers.live.offsets import JUDGED_BY

    checks = results["checks"].values()
    broken = {rule for check in checks for rule in check.get("violation_counts") or ()}
    lines = []
    for entry in found:
        if not JUDGED_BY.get(entry["rule"], frozenset({entry["rule"]})) & broken:
            lines.append(f"live: not confirmed by the whole history: {entry['says']}")
    return lines
