"""The trace writes whole lines that the history's schema accepts, from any thread, at once."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from checkers.history import problem_with
from nodes.trace import Trace, next_boot


def test_events_are_lines_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "trace.jsonl"
    trace = Trace(path, 3, 2, lambda: 99)
    trace.event("controller", event="elected", controller_epoch=7)
    trace.event("controller", t=5, event="resigned", controller_epoch=7)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [problem_with(row) for row in rows] == [None, None]
    assert (rows[0]["t"], rows[1]["t"]) == (99, 5)
    assert {(row["process"], row["node"], row["boot"]) for row in rows} == {("node-3", 3, 2)}


def test_lines_of_several_threads_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    trace = Trace(path, 1)

    def write() -> None:
        for number in range(200):
            trace.event("controller", event="x" * number, controller_epoch=number)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 800


def test_without_a_path_nothing_happens() -> None:
    trace = Trace()
    assert not trace.enabled
    trace.event("controller", event="elected")
    trace.close()


def test_boots_are_counted(tmp_path: Path) -> None:
    assert [next_boot(tmp_path / "logs") for _ in range(3)] == [1, 2, 3]
    (tmp_path / "logs" / "biplane.boot").write_text("garbage")
    assert next_boot(tmp_path / "logs") == 1
