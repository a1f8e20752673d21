"""Judging by Spark Connect: a server on loopback, from pip's own Spark, and a client that finds no
Java. The server's workers know nothing of this project but what is shipped to them, and the
suspects are so many that they are judged there.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.check import check_run
from checkers.history.made import make
from tests.checkers.test_cluster import ENV, HOME, QUICK, ROOT, asked_for, foreign_python, judged

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
NO_JAVA = {"JAVA_HOME": "/nonexistent", "PATH": "/nonexistent"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = [
        str(HOME / "bin/spark-class"),
        "org.apache.spark.deploy.SparkSubmit",
        "--class",
        MAIN,
    ]
    command += ["--master", "local[2]"]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    output, env = (
        tmp_path / "server.log",
        {**ENV, **foreign_python(tmp_path), "SPARK_DAEMON_MEMORY": "1g"},
    )
    with output.open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"], cwd=tmp_path, stdout=log, stderr=log, env=env
        )
    try:
        deadline = time.monotonic() + 90
        while "Spark Connect server started at" not in output.read_text():
            assert process.poll() is None, output.read_text()[-3000:]
            assert time.monotonic() < deadline, output.read_text()[-3000:]
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def check(run: Path | str, master: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", "check", str(run), "--master", master]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**ENV, **NO_JAVA},
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


def test_a_client_without_java_says_the_same(spark: Any, tmp_path: Path, server: str) -> None:
    run = tmp_path / "run"
    make(run, rows=60_000, plants={"acked-all-lost": 2_200, "metadata-never-committed": 2})
    asked_for(run, "truncation-loss", "stale-metadata")
    alone = judged(check_run(run, spark=spark, out=tmp_path / "alone"))
    assert alone["verdict"] == "invalid"
    done = check(run, server, timeout=400)
    assert done.returncode == 1, done.stderr[-3000:]
    assert judged(json.loads((run / "results.json").read_text())) == alone
    elsewhere = check("s3a://bucket/run", server, timeout=100)
    assert elsewhere.returncode == 254, elsewhere.stderr[-3000:]
    assert "a folder that the server sees" in elsewhere.stderr


def test_a_server_that_nobody_runs_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    make(run, rows=5_000)
    nobody = check(run, "sc://127.0.0.1:1", timeout=100)
    assert nobody.returncode == 254, nobody.stderr[-3000:]
    assert "sc://127.0.0.1:1" in nobody.stderr
