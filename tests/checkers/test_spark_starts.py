"""A Java that does not start is for the user to mend, and says so in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkers.spark import archive_path

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
from checkers import spark
from harness.refusals import is_refusal
try:
    spark.session()
except Exception as error:
    assert is_refusal(error), error
    print(error)
    spark.end()
"""


def test_a_java_that_does_not_start_is_a_refusal(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'Error: could not reserve enough space' >&2\nexit 1\n")
    java.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert "Spark does not start" in line
    assert "`java -version` (or that of $JAVA_HOME) must say 17 or newer" in line
    assert "could not reserve enough space" in done.stderr


AHEAD = """
import logging, os, sys
from checkers import spark
spark.start_ahead()
if sys.argv[1] == "asked for":
    context = spark.session().sparkContext
    assert context.parallelize(range(3)).mapPartitions(list).count() == 3  # by Python workers
spark.end()
from pyspark import SparkContext
print(SparkContext._gateway.proc.returncode is not None)
spark.end()
print(len(logging.getLogger().filters))
"""


@pytest.mark.parametrize("then", ["asked for", "not asked for"])
def test_one_that_was_started_ahead_is_used_and_ended(then: str) -> None:
    """Whatever it is at. What cannot be told it any more is not logged, nor an interruption, by a
    filter each, and who listened to its workers says nothing of its end."""
    done = subprocess.run(
        [sys.executable, "-c", AHEAD, then],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["True", "2"]
    assert "Traceback" not in done.stderr
    for greeting in ("log4j", "log level", " WARN "):
        assert greeting not in done.stderr  # what goes wrong is not to be searched for


INTERRUPTED = """
import signal
from checkers import spark
from harness import interrupts
from pyspark.sql import SparkSession

create = SparkSession.Builder.getOrCreate
def created_and_interrupted(builder):
    session = create(builder)
    signal.raise_signal(signal.SIGINT)
    return session
SparkSession.Builder.getOrCreate = created_and_interrupted

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests ignores it
interrupts.install()
try:
    spark.session()
except KeyboardInterrupt:
    print("interrupted")
spark.end()
"""


def test_ctrl_c_once_spark_has_started_is_not_sparks() -> None:
    """In the main thread Spark takes SIGINT over, and then speaks to its JVM from the handler, in
    the midst of what is being said to it: a page of py4j's tracebacks."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["interrupted"]
    assert "biplane: SIGINT" in done.stderr
    assert "Traceback" not in done.stderr


BUSY = """
import os, signal, threading, time
from checkers import spark
from harness import interrupts
busy = spark.tuned(spark.session(), 0).range(10**13).selectExpr("max(hash(id))")
jobs = spark.session().sparkContext.statusTracker()
def stop():
    while not jobs.getActiveJobsIds():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
interrupts.install()
threading.Thread(target=stop).start()
try:
    busy.collect()
except KeyboardInterrupt:
    print("interrupted")
spark.end()
"""


def test_a_signal_in_the_midst_of_a_job_is_told_of_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUSY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["interrupted"]
    assert done.stderr.count("biplane: SIGTERM") == 1
    assert "Traceback" not in done.stderr
    assert "KeyboardInterrupt" not in done.stderr


def test_a_class_data_archive_is_of_one_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another made a JVM passes over, in silence; one that was replaced is another."""
    for name in ("one", "other"):
        java = tmp_path / name / "bin/java"
        java.parent.mkdir(parents=True)
        java.touch(0o755)

    def path_with(name: str) -> Path:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / name))
        return archive_path()

    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    first = path_with("one")
    assert first.parent == tmp_path / "venv/biplane"
    assert path_with("other") != first == path_with("one")
    os.utime(tmp_path / "one/bin/java", (1, 1))
    replaced = path_with("one")
    assert replaced != first
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert path_with("one") == tmp_path / "cache/biplane" / replaced.name
