"""A benchmark that is ended by a signal ends what it started."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def started(mark: str) -> dict[int, str]:
    """By pid, the programs whose environment bears the mark."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if mark.encode() in (process / "environ").read_bytes():
                    program = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(process.name)] = program
    return found


@pytest.mark.slow
def test_a_signal_ends_the_brokers_too() -> None:
    if shutil.which("java") is None or importlib.util.find_spec("pyspark") is None:
        pytest.skip("needs java and pyspark")
    mark = f"BIPLANE_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    name, _, value = mark.partition("=")
    benchmark = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.produce_throughput", "--rounds", "1000"],
        cwd=ROOT,
        env={**os.environ, name: value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not any(" -m nodes " in program for program in started(mark).values()):
            assert benchmark.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        benchmark.send_signal(signal.SIGTERM)
        assert benchmark.wait(60) != 0
        assert started(mark) == {}
    finally:
        for pid in started(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        benchmark.wait()
