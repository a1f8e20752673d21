"""Judging on a cluster: a standalone master and two workers on loopback, from pip's own Spark; a
history that is no local folder, its results beside it; and Spark's own way to start a program.

The URI is Hadoop's view file system, with a local folder mounted: everything goes through Hadoop's
FileSystem, as with hdfs:// and s3a://, and no server is needed. The workers' Python knows pyarrow,
and nothing of this project but what is shipped to it; the suspects are so many that they are judged
there.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from checkers.check import check_run
from checkers.class_archive import NOTHING_OF_ARCHIVES, archive_path
from checkers.history.made import make

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(pyspark.__file__).parent
_ARCHIVE = [f"-XX:SharedArchiveFile={archive_path()}", "-Xshare:auto", *NOTHING_OF_ARCHIVES]
QUICK = " ".join(
    ["-XX:+UseSerialGC -XX:TieredStopAtLevel=1", *(_ARCHIVE if archive_path().exists() else [])]
)
"""For JVMs that live for seconds."""
ENV = {
    **os.environ,
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": QUICK,
}


class Standalone:
    """A master and its workers. Each ends by its own pid, executors first."""

    def __init__(self, home: Path, workers: int) -> None:
        self._home = home
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        here = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._processes = [self._start("master", "master.Master", *here, "--port", str(port))]
        self.wait("master", "I have been elected leader")
        for number in range(workers):
            folder = self.work(number)
            sizes = ["--work-dir", str(folder), "-c", "1", "-m", "1g"]
            self._processes.append(
                self._start(f"worker-{number}", "worker.Worker", *here, *sizes, self.master)
            )
        for number in range(workers):
            self.wait(f"worker-{number}", "Successfully registered with master")

    def _start(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{main}", *arguments]
        with (self._home / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=ENV)

    def work(self, number: int) -> Path:
        return self._home / f"work-{number}"

    def wait(self, name: str, text: str) -> None:
        deadline = time.monotonic() + 90
        while text not in (self._home / f"{name}.log").read_text():
            if time.monotonic() > deadline:
                raise RuntimeError((self._home / f"{name}.log").read_text()[-2000:])
            time.sleep(0.05)

    def tasks(self, number: int) -> int:
        """How many tasks a worker's executors have begun."""
        logs = self.work(number).glob("app-*/*/stderr")
        return sum(log.read_text(errors="replace").count("Running task ") for log in logs)

    def kill(self, number: int) -> None:
        """A worker and its executors, at once."""
        process = self._processes[number + 1]
        for pid in [*_children(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for number in range(len(self._processes) - 1):
            self.kill(number)
        self._processes[0].kill()
        self._processes[0].wait()


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [*_children(int(child)), int(child)]
    return found


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    cluster = None
    try:
        cluster = Standalone(tmp_path, workers=2)
        yield cluster
    finally:
        if cluster is not None:
            cluster.close()


def foreign_python(home: Path) -> dict[str, str]:
    """For the workers: the same interpreter and packages, without what makes this project known to
    it (a path that is listed in a file of its site-packages)."""
    script = home / "python"
    places = ":".join(p for p in sys.path if p.endswith("site-packages"))
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{places}" exec {sys.executable} -S "$@"\n'
    )
    script.chmod(0o755)
    known = [str(script), "-c", "import pyarrow; import checkers"]
    done = subprocess.run(known, cwd=home, capture_output=True, text=True, check=False)
    assert "No module named 'checkers'" in done.stderr
    return {"PYSPARK_PYTHON": str(script), "PYSPARK_DRIVER_PYTHON": sys.executable}


def asked_for(run: Path, *checks: str) -> None:
    """A few are enough to see where judging takes place. None named: all that it is to have."""
    if not checks:
        return
    record = json.loads((run / "run.json").read_text())
    record["expectations"]["checks"] = list(checks)
    (run / "run.json").write_text(json.dumps(record))


def judged(results: dict[str, Any]) -> dict[str, Any]:
    """Results but for who answered, and how long that took."""
    del results["engine"]
    for check in results["checks"].values():
        del check["seconds"]
    return results


def test_a_cluster_that_loses_a_worker_says_the_same(
    spark: Any, tmp_path: Path, standalone: Standalone
) -> None:
    run = tmp_path / "store" / "run"
    make(run, rows=60_000, plants={"acked-all-lost": 2_200, "replica-differs": 2})
    asked_for(run, "truncation-loss", "replicas")
    alone = judged(check_run(run, spark=spark, out=tmp_path / "alone"))
    assert alone["verdict"] == "invalid"
    mounted = f"spark.hadoop.fs.viewfs.mounttable.made.link./store=file://{tmp_path}/store"
    command = [
        *(sys.executable, "-m", "harness.cli", "check", "viewfs://made/store/run"),
        *("--master", standalone.master, "--conf", mounted),
        *("--conf", "spark.executor.memory=600m", "--conf", "spark.cores.max=2"),
        *("--conf", f"spark.executor.extraJavaOptions={QUICK}"),
        *("--conf", "spark.sql.shuffle.partitions=2"),
    ]
    output, python = tmp_path / "driver.log", foreign_python(tmp_path)
    with output.open("wb") as log:
        driver = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env={**ENV, **python})
        try:
            while standalone.tasks(1) < 20 and driver.poll() is None:
                time.sleep(0.05)
            assert driver.poll() is None, output.read_text()[-3000:]
            standalone.kill(1)
            assert driver.wait(timeout=240) == 1, output.read_text()[-3000:]
        finally:
            driver.kill()
            driver.wait()
    before = standalone.tasks(0)
    assert before >= 20, "the other worker took its part"
    stored = judged(json.loads((run / "results.json").read_text()))
    assert stored == alone
    alone_figures = {p.name for p in (tmp_path / "alone/results").iterdir()}
    assert {p.name for p in (run / "results").iterdir() if p.suffix == ".parquet"} == alone_figures


def test_spark_submit_judges(tmp_path: Path) -> None:
    """It ends with the verdict's exit code, and with another when there is nothing to judge."""
    run = tmp_path / "run"
    make(run, rows=5_000, plants={"metadata-never-committed": 1})
    asked_for(run, "stale-metadata")
    submit = [str(HOME / "bin/spark-submit"), "--master", "local[1]"]
    submit += ["--conf", f"spark.driver.extraJavaOptions={QUICK}"]
    submit += ["--conf", "spark.ui.enabled=false", str(ROOT / "harness/cli.py"), "check"]
    # Not in the project's folder: what it needs it finds by itself.
    same: dict[str, Any] = {"cwd": tmp_path, "env": ENV, "capture_output": True, "text": True}
    done = subprocess.run([*submit, str(run)], timeout=240, check=False, **same)
    assert done.returncode == 1, done.stderr[-3000:]
    results = json.loads((run / "results.json").read_text())
    assert results["checks"]["stale-metadata"]["violation_counts"] == {
        "metadata-never-committed": 1
    }
    nothing = subprocess.run([*submit, str(tmp_path / "none")], timeout=240, check=False, **same)
    assert nothing.returncode == 254, nothing.stderr[-3000:]
