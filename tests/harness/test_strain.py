"""How long the harness waits for a processor, as the kernel tells it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from harness.strain import between, measured, shares


def task(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "schedstat").write_text(text)


def test_each_thread_is_read_and_what_is_no_count_is_left_out(tmp_path: Path) -> None:
    task(tmp_path, "7", "100 30 2\n")
    task(tmp_path, "8", "5 6 7\n")
    task(tmp_path, "9", "\n")
    (tmp_path / "10").mkdir()  # it has just ended
    assert shares(tmp_path) == {"7": (100, 30), "8": (5, 6)}
    assert shares(tmp_path / "none") == {}


def test_only_threads_that_lived_all_the_while_count() -> None:
    before = {"1": (100, 10), "2": (50, 5)}
    after = {"1": (130, 70), "3": (900, 900)}
    assert between(before, after) == (30, 60)
    assert between({}, after) == (0, 0)


def test_this_machine_counts() -> None:
    """A thread that works has run for as long as it did."""
    before = shares()
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    ran_ns, waited_ns = between(before, shares())
    assert ran_ns > 0.15e9
    assert waited_ns >= 0


def test_it_is_written_down_each_second_and_ends_with_what_it_measures() -> None:
    rows: list[tuple[str, dict[str, Any]]] = []
    two = threading.Event()

    def record(kind: str, /, **fields: Any) -> None:
        rows.append((kind, fields))
        if len(rows) == 2:
            two.set()

    clock = iter(range(1, 1000))
    with measured(record, lambda: next(clock)) as strain:
        assert two.wait(30)
    assert {kind for kind, _ in rows} == {"strain"}
    assert set(rows[0][1]) == {"process", "ran_ns", "waited_ns"}
    assert strain.patience(0) >= 1.0
    assert strain.patience(10**9) == 1.0
    assert not [t for t in threading.enumerate() if t.name == "biplane-strain"]
