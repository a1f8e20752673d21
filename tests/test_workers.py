"""Tests shared by several workers: what belongs together stays together, under its own names."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
import pytest
from tests.workers import in_order, is_worker, pytest_collection_finish, pytest_runtest_protocol
from tests.workers import pytest_xdist_make_scheduler
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if is_worker(config):
        items[:] = in_order(items)
"""
CLUSTERS = """
import os
import pytest
BEGAN = os.nice(0)
@pytest.mark.cluster
@pytest.mark.parametrize("n", range(4))
def test_starts_a_cluster(n): assert os.nice(0) == BEGAN
@pytest.mark.spark
def test_judges(): pass
@pytest.mark.parametrize("text", ["a@@b", "c::d", "[e]"])
def test_is_light(text): pass
"""
PROMISE = """
import pytest
@pytest.mark.spark
@pytest.mark.parametrize("n", range(3))
def test_holds(n): pass
"""
MORE = """
import os
import pytest
BEGAN = os.nice(0)
@pytest.mark.docker
@pytest.mark.spark
def test_both(): pass
@pytest.mark.spark
def test_judges(): assert False
@pytest.mark.spark
def test_steps_back(request):
    assert os.nice(0) == (max(BEGAN, 5) if hasattr(request.config, "workerinput") else BEGAN)
"""


def play(folder: Path, *options: str) -> str:
    files = {"conftest.py": CONFTEST, "test_a.py": CLUSTERS, "test_b.py": MORE}
    (folder / "promises").mkdir()
    for name, text in (files | {"promises/test_c.py": PROMISE}).items():
        (folder / name).write_text(text)
    marks = "[pytest]\nmarkers =\n    cluster\n    docker\n    spark\n"
    (folder / "pytest.ini").write_text(f"{marks}pythonpath = {ROOT}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout


class Taker:
    """A test, as collecting it has it."""

    def __init__(self, *fixtures: str) -> None:
        self.fixturenames, self.marks = fixtures, set[str]()

    def add_marker(self, mark: str) -> None:
        self.marks.add(mark)


def test_whoever_takes_what_is_slow_is_marked() -> None:
    """Else `make unit` would start a Spark session."""
    from tests.conftest import pytest_collection_modifyitems

    takers: Any = [Taker("tmp_path", "spark"), Taker("zookeeper", "spark"), Taker("sparks")]
    pytest_collection_modifyitems(Any, takers)
    assert [taker.marks for taker in takers] == [{"spark"}, {"zookeeper", "spark"}, set()]


def test_what_belongs_together_is_played_by_one_worker(tmp_path: Path) -> None:
    told = play(tmp_path, "-n2", "-v")
    by_worker = defaultdict(set)
    for worker, test in re.findall(r"\[(gw\d)\].* (?:PASSED|FAILED) (\S+)", told):
        by_worker[test.partition("[")[0]].add(worker)
    clusters = by_worker["test_a.py::test_starts_a_cluster"] | by_worker["test_b.py::test_both"]
    spark = by_worker["test_a.py::test_judges"] | by_worker["test_b.py::test_judges"]
    assert len(clusters) == len(spark) == len(by_worker["test_a.py::test_is_light"]) == 1, told
    assert clusters != by_worker["promises/test_c.py::test_holds"]
    assert len(by_worker["promises/test_c.py::test_holds"]) == 1, told
    assert "FAILED test_b.py::test_judges - assert False" in told
    assert "1 failed, 13 passed" in told
    assert "test_a.py::test_is_light[a@@b]" in told


@pytest.mark.parametrize("option", ["-n0", "-pno:xdist"])
def test_in_one_process_nothing_is_different(tmp_path: Path, option: str) -> None:
    told = play(tmp_path, option)
    assert "1 failed, 13 passed" in told
    assert "FAILED test_b.py::test_judges - assert False" in told
