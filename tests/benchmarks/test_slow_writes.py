"""The slow disk is slow where it should be, for as long as it is told, and nowhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.slow_writes import NoCompiler, SlowWrites, compile_library

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is here")

_CHILD = """
import os, sys, time
below, outside = sys.argv[1:]
def took_ms(call, *arguments):
    start = time.monotonic()
    call(*arguments)
    return (time.monotonic() - start) * 1e3
slow, fast = (os.open(d + "/file", os.O_RDWR | os.O_CREAT) for d in (below, outside))
near = os.open(below + "-not/file", os.O_RDWR | os.O_CREAT)
_, pipe = os.pipe()
calls = [(os.write, b"x"), (os.pwrite, b"x", 5), (os.writev, [b"x"]), (os.pwritev, [b"x"], 5)]
print(*[took_ms(call, slow, *arguments) for call, *arguments in calls])
print(*[took_ms(call, fd, *a) for fd in (fast, near) for call, *a in calls],
      took_ms(os.write, pipe, b"x"))
print(os.fstat(slow).st_size)
"""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowWrites]:
    for name in ("below", "below-not", "outside", "own"):
        (tmp_path / name).mkdir()
    made = SlowWrites(tmp_path / "own", tmp_path / "below")
    yield made
    made.close()


@pytest.fixture
def child(slow: SlowWrites, tmp_path: Path) -> Callable[[], list[str]]:
    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(tmp_path / "below"), str(tmp_path / "outside")],
            env={**os.environ, **slow.environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.splitlines()

    return run


def test_writes_below_the_directory_stall(slow: SlowWrites, child: Callable[[], list[str]]) -> None:
    slow.stall(150)
    stalled, others, size = child()
    assert all(float(ms) >= 150 for ms in stalled.split())
    assert min(float(ms) for ms in others.split()) < 150  # on any machine that is alive
    assert slow.count == 4
    assert size == "6"  # and they are still writes


def test_writes_are_counted_and_not_stalled_when_the_stall_is_nothing(
    slow: SlowWrites, child: Callable[[], list[str]]
) -> None:
    stalled, _, _ = child()
    assert min(float(ms) for ms in stalled.split()) < 150
    assert slow.count == 4


def test_a_machine_without_a_compiler_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(NoCompiler, match="install"):
        compile_library(tmp_path / "library.so")
