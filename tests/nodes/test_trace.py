"""The trace writes whole lines that the history's schema accepts, from any thread, at once."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

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
    assert [row["seq"] for row in rows] == [0, 1]


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
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(row["seq"] for row in rows) == list(range(800))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``disk.room``: how many bytes of each write fit, None: all; ``disk.refuses``: a write that
    has this in it."""

    class Disk:
        room: int | None = None
        refuses: bytes | None = None

        def write(self, fd: int, line: bytes) -> int:
            if self.room == 0 or (self.refuses and self.refuses in line):
                raise OSError(28, "No space left on device")
            return write(fd, line if self.room is None else line[: self.room])

    write, made = os.write, Disk()
    monkeypatch.setattr(os, "write", made.write)
    return made


@pytest.mark.parametrize("room", [0, 20])
def test_what_could_not_be_written_leaves_a_gap_and_is_told(
    tmp_path: Path, disk: Any, room: int
) -> None:
    """Whether nothing of it fitted, or the beginning: then the next line follows it at once."""
    path = tmp_path / "trace.jsonl"
    trace = Trace(path, 1)
    trace.event("controller", event="elected", controller_epoch=1)
    disk.room = room
    trace.event("controller", event="resigned", controller_epoch=1)
    trace.event("controller", event="elected", controller_epoch=2)
    assert trace.lost == 2
    disk.room = None
    trace.event("controller", event="resigned", controller_epoch=2)
    trace.event("controller", event="elected", controller_epoch=3)
    assert trace.lost == 0
    starts = [line[line.rfind('{"f":') :] for line in path.read_text().splitlines()]
    rows = [json.loads(line) for line in starts]
    assert [(row["f"], row["seq"]) for row in rows] == [
        ("controller", 0), ("controller", 3), ("infra", 4), ("controller", 5),
    ]  # fmt: skip
    assert rows[2]["reason"] == "2 events could not be written"
    assert [problem_with(row) for row in rows] == [None] * 4


def test_what_could_not_be_told_either_is_told_later(tmp_path: Path, disk: Any) -> None:
    trace = Trace(tmp_path / "trace.jsonl", 1)
    disk.room = 0
    trace.event("controller", event="elected", controller_epoch=1)
    disk.room, disk.refuses = None, b"infra"
    trace.event("controller", event="resigned", controller_epoch=1)
    assert trace.lost == 2  # the event, and the word of it
    disk.refuses = None
    trace.event("controller", event="elected", controller_epoch=2)
    rows = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [row["seq"] for row in rows] == [1, 3, 4]
    assert rows[2]["reason"] == "2 events could not be written"


def test_an_event_that_is_no_json_does_not_reach_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    trace = Trace(path, 1)
    trace.event("controller", event=object())
    trace.event("controller", event="elected", controller_epoch=1)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["f"], row["seq"]) for row in rows] == [("controller", 1), ("infra", 2)]


def test_without_a_path_nothing_happens() -> None:
    trace = Trace()
    assert not trace.enabled
    trace.event("controller", event="elected")
    trace.close()


def test_boots_are_counted(tmp_path: Path) -> None:
    logs = [tmp_path / "logs"]
    assert [next_boot(logs) for _ in range(3)] == [1, 2, 3]
    (logs[0] / "biplane.boot").write_text("garbage")
    assert next_boot(logs) == 1
    assert next_boot(logs) == 2
    assert [each.name for each in logs[0].iterdir()] == ["biplane.boot"]


def test_boots_are_counted_whichever_log_directory_is_lost(tmp_path: Path) -> None:
    """And the one that comes back does not count anew."""
    first, second = logs = [tmp_path / "first", tmp_path / "second"]
    assert next_boot(logs) == 1
    for lost, boot in ((first, 2), (second, 4)):
        away = lost.rename(tmp_path / "away")
        lost.write_text("no directory")
        assert next_boot(logs) == boot
        lost.unlink()
        away.rename(lost)
        assert next_boot(logs) == boot + 1
    for directory in logs:
        directory.rename(tmp_path / f"{directory.name} is away")
        directory.write_text("no directory")
    with pytest.raises(OSError, match="exists"):
        next_boot(logs)


def test_a_new_life_writes_behind_the_old_one(tmp_path: Path) -> None:
    """A node that was killed and started again, and a life that has not ended yet: nobody writes
    over what another said, nor takes it away."""
    path = tmp_path / "trace.jsonl"
    first, second = Trace(path, 1, 1), Trace(path, 1, 2)
    for number, trace in enumerate((first, second, first, second)):
        trace.event("controller", event="elected", controller_epoch=number)
    first.close()
    Trace(path, 1, 3).event("controller", event="elected", controller_epoch=4)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["boot"], row["seq"], row["controller_epoch"]) for row in rows] == [
        (1, 0, 0), (2, 0, 1), (1, 1, 2), (2, 1, 3), (3, 0, 4),
    ]  # fmt: skip


def test_after_its_end_it_says_nothing_and_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    real = os.close

    def close(fd: int) -> None:
        closed.append(fd)
        real(fd)

    monkeypatch.setattr(os, "close", close)
    path = tmp_path / "trace.jsonl"
    trace = Trace(path, 1)
    assert trace.enabled
    trace.event("controller", event="elected", controller_epoch=1)
    fd = trace._fd
    assert not os.get_inheritable(fd), "no program that this one starts keeps it open"
    trace.close()
    trace.close()
    assert not trace.enabled
    trace.event("controller", event="resigned", controller_epoch=1)
    assert len(path.read_text().splitlines()) == 1
    assert closed.count(fd) == 1
