"""When everything slept too long, it is written down."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from harness.pulse import LATE_NS, TICK_NS, pulse, watched


@pytest.mark.parametrize(
    ("slept_ns", "noted"),
    [
        ([TICK_NS, TICK_NS + LATE_NS - 1, TICK_NS], []),  # a busy machine
        ([TICK_NS, TICK_NS + LATE_NS, TICK_NS], [LATE_NS]),
        ([6_000_000_000, TICK_NS, 2_000_000_000], [5_900_000_000, 1_900_000_000]),
        ([], []),
    ],
)
def test_late_ticks(slept_ns: list[int], noted: list[int]) -> None:
    now_ns = 7
    left = list(slept_ns)

    def wait(seconds: float) -> bool:
        nonlocal now_ns
        assert seconds == 0.1
        if not left:
            return True
        now_ns += left.pop(0)
        return False

    found: list[int] = []
    pulse(wait, lambda: now_ns, found.append)
    assert found == noted


def test_who_takes_long_to_write_it_down_is_not_late() -> None:
    now_ns = 0
    ticks = iter([TICK_NS + LATE_NS, TICK_NS])

    def wait(_seconds: float) -> bool:
        nonlocal now_ns
        slept = next(ticks, None)
        now_ns += slept or 0
        return slept is None

    found: list[int] = []

    def note(late_ns: int) -> None:
        nonlocal now_ns
        found.append(late_ns)
        now_ns += 3 * LATE_NS

    pulse(wait, lambda: now_ns, note)
    assert found == [LATE_NS]


def test_it_ends_with_what_it_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[str, dict[str, Any]]] = []
    late = threading.Event()

    def record(kind: str, /, **fields: Any) -> None:
        rows.append((kind, fields))
        late.set()

    clock = iter(range(0, 10**15, 10**12))  # each look at it a quarter of an hour later
    own = SimpleNamespace(monotonic_ns=lambda: next(clock))  # other threads keep theirs
    monkeypatch.setattr("harness.pulse.time", own)
    with watched(record):
        assert late.wait(30)
    monkeypatch.undo()
    assert rows[0][0] == "standstill"
    assert rows[0][1] == {"process": "pulse", "lasting_ns": 10**12 - TICK_NS}
    assert not [t for t in threading.enumerate() if t.name == "biplane-pulse"]


def test_a_wall_clock_that_is_set_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[str, dict[str, Any]]] = []
    noted = threading.Event()

    def record(kind: str, /, **fields: Any) -> None:
        rows.append((kind, fields))
        noted.set()

    ahead_ns = 0
    own = SimpleNamespace(monotonic_ns=time.monotonic_ns, time_ns=lambda: time.time_ns() + ahead_ns)
    monkeypatch.setattr("harness.clock.time", own)
    with watched(record):
        ahead_ns = 3_000_000_000
        assert noted.wait(30)
    fields = next(fields for kind, fields in rows if kind == "clock_set")
    assert fields["process"] == "pulse"
    assert abs(fields["by_ns"] - ahead_ns) < 1_000_000_000


CHILD = """
import time
from harness.pulse import watched

def record(kind, /, **fields):
    print(kind, fields["lasting_ns"], flush=True)

with watched(record):
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_process_that_is_stopped_notes_it_when_it_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            child.send_signal(signal.SIGSTOP)
            time.sleep(3 * LATE_NS / 1e9)
            child.send_signal(signal.SIGCONT)
            kind, lasting_ns = child.stdout.readline().split()
        finally:
            child.kill()
    assert kind == "standstill"
    assert int(lasting_ns) >= LATE_NS
