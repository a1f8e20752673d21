"""`--live`: a process beside the run that says what is already certain (`checkers.live`).

It has its own JVM, one thread and a lower priority than the run's, and only reads what that writes.
What it finds is told in lines and stays in the run's ``live.jsonl``; the verdict is judging's
alone, and a watch that fails changes nothing about the run.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.live import LIVE_FILE
from harness.interrupts import interruptible, uninterrupted
from harness.progress import Shown
from harness.report import units

LOG_FILE: Final = "live.log"
_BEGIN_S: Final = 60.0
"""So long the run waits for it."""
_END_S: Final = 60.0
"""For its last look, when nothing else runs any more; then it is killed."""
_INTERRUPTED_S: Final = 10.0
"""The same when somebody waits for the run to end."""
_LOOK_S: Final = 0.25
FIGURES: Final = {"control": "control latency", "staleness": "age of stale answers"}
"""By their names in a line (`checkers.live.figures`)."""


@contextmanager
def watched(folder: Path, shown: Shown) -> Iterator[None]:
    """Watch the run in ``folder`` as long as the block lasts, and show what is found. The block
    begins when the watch is ready: what Spark needs to get going is not to be taken from the
    brokers, and the first finding is not to wait for it. ``shown``:
    tolerant of a terminal that is gone (`harness.progress.tolerant`)."""
    with uninterrupted():
        process = _start(folder)
        over = threading.Event()
        telling = threading.Thread(target=_tell, args=(folder, shown, over), daemon=True)
        telling.start()
        end_s = _INTERRUPTED_S
        try:
            with interruptible():
                shown("live", "making the watch ready")
                _await(process, folder)
                yield
            end_s = _END_S
        finally:
            code = _end(process, end_s)
            over.set()
            telling.join()
            if code:
                shown.say(f"live: the watch ended with {code}: {folder / LOG_FILE}")


def _start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / LOG_FILE).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "checkers.live", str(folder)],
            stdin=subprocess.PIPE,  # it ends when this closes, however we end
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches the harness alone: it ends us in order
        )


def _await(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _BEGIN_S
    while process.poll() is None and not read(folder) and time.monotonic() < deadline:
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes], end_s: float) -> int:
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(end_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _tell(folder: Path, shown: Shown, over: threading.Event) -> None:
    told = 0
    while True:
        last = over.wait(_LOOK_S)
        found = read(folder)
        for entry in found[told:]:
            if (line := in_words(entry)) is not None:
                shown.say(line)
        if found[told:]:
            shown.note(panel(found))
        told = len(found)
        if last:
            shown.note(())
            return


def panel(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a terminal shows of it now: the newest figures by arm, and how much was found."""
    found = [entry for entry in entries if entry["what"] == "finding"]
    last = next((entry for entry in reversed(entries) if entry["what"] == "figures"), None)
    lines = []
    for arm, of in () if last is None else last["arms"].items():
        parts = [f"{says} p99 {units.ms(of[name]['p99_ms'])} of {of[name]['count']}"
                 for name, says in FIGURES.items() if name in of]  # fmt: skip
        lines.append(f"{arm}: {', '.join(parts)}, in the last half minute")
    rules = dict.fromkeys(f"{entry['promise']}: {entry['rule']}" for entry in found)
    lines += [f"broken: {rule}" for rule in rules]
    return lines or ["nothing yet"]


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
    from checkers.live.replay import broken_rules, is_confirmed

    broken = broken_rules(results)
    return [
        f"live: not confirmed by the whole history: {entry['says']}"
        for entry in found
        if not is_confirmed(entry["rule"], broken)
    ]
