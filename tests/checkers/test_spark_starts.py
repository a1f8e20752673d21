"""A Java that does not start is for the user to mend, and says so in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from checkers.class_archive import archive_path

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
    home = _java(tmp_path, "echo 'Error: could not reserve enough space' >&2; exit 1")
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": str(home)},
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
spark.end()
print(len(logging.getLogger().filters))
"""


@pytest.mark.parametrize("then", ["asked for", "not asked for"])
def test_one_that_was_started_ahead_is_used_and_ended(then: str, tmp_path: Path) -> None:
    """Whatever it is at, also while it starts. What cannot be told it any more is not logged, nor
    an interruption, by a filter each, and who listened to its workers says nothing of its end."""
    done = subprocess.run(
        [sys.executable, "-c", AHEAD, then],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "BIPLANE_SPARK_MASTER": "local[2]"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["2"]
    assert not _that_use(tmp_path)
    assert not list(tmp_path.iterdir())
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
import os, signal, sys, tempfile, threading, time
from checkers import spark
from harness import interrupts
from py4j.protocol import Py4JError
context = spark.session().sparkContext
jobs = context.statusTracker()
mark = tempfile.mkstemp()[1]
context._jvm.java.io.File(mark).deleteOnExit()
begun = tempfile.mkstemp()[1]
def work(rows):
    open(begun, "w").write("begun")
    time.sleep(100)
    yield from rows
def stop():
    while not (jobs.getActiveJobsIds() and os.path.getsize(begun)):
        time.sleep(0.1)
    os.killpg(0, signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
interrupts.install()
threading.Thread(target=stop).start()
try:
    context.parallelize(range(2), 2).mapPartitions(work).count()
except (KeyboardInterrupt, Py4JError):  # that of what py4j says after it was interrupted
    print("interrupted")
spark.end()
print(os.path.exists(mark))
os.unlink(begun)
os.unlink(mark)
"""


def test_a_signal_in_the_midst_of_a_job_is_told_of_once(tmp_path: Path) -> None:
    """Whoever else of the group has it. No hook of the JVM's runs, which would tell of what cannot
    go on; what it and its workers have is gone."""
    done = subprocess.run(
        [sys.executable, "-c", BUSY],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["interrupted", "True"]
    said = [line for line in done.stderr.splitlines() if line and "incubator" not in line]
    assert [line.split(":")[:2] for line in said] == [["biplane", " SIGTERM"]]
    assert not list(tmp_path.iterdir())
    assert not _that_use(tmp_path)


NEVER_UP = """
import os, signal, sys, threading, time
from checkers import spark
from harness import interrupts
begun = os.environ["BEGUN"]
def stop():
    while not os.path.exists(begun):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
interrupts.install()
threading.Thread(target=stop).start()
if sys.argv[1] == "ahead":
    spark.start_ahead()
try:
    if sys.argv[1] == "ahead":
        threading.Event().wait()
    spark.session()
except KeyboardInterrupt:
    print("interrupted")
spark.end()
"""


@pytest.mark.parametrize("by", ["ahead", "whoever needs it"])
def test_a_signal_while_it_starts_does_not_wait_for_it(by: str, tmp_path: Path) -> None:
    """On a busy machine that is half a minute; this one would never come up."""
    begun, temporary = tmp_path / "begun", tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", NEVER_UP, by],
        cwd=ROOT,
        env={
            **os.environ,
            "JAVA_HOME": str(_java(tmp_path, f"touch {begun}; exec sleep 1000")),
            "TMPDIR": str(temporary),
            "BEGUN": str(begun),
            "BIPLANE_SPARK_MASTER": "local[2]",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines() == ["interrupted"]
    said = [line for line in done.stderr.splitlines() if line]
    assert [line.split(":")[:2] for line in said] == [["biplane", " SIGTERM"]]
    assert not list(temporary.iterdir())
    assert not _that_use(temporary)


def _java(home: Path, does: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{does}\n")
    java.chmod(0o755)
    return home


ABANDONED = """
import os, signal
from checkers import spark
assert spark.session().sparkContext.parallelize(range(3)).mapPartitions(list).count() == 3
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_jvm_that_nobody_could_end_leaves_nothing_either(
    tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABANDONED],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not _that_use(tmp_path), 60.0)
    assert not list(tmp_path.iterdir())


def _that_use(temporary: Path) -> list[str]:
    """Processes that have it as their folder for temporary files."""
    wanted = f"TMPDIR={temporary}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue  # it has ended
    return found


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
