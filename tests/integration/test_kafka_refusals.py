"""Kafka's jars that are lacking or do not fit: exit code 254 and one line with what would mend it.

Through the console script, as a user meets it; nothing is started.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.sut.kafka_jars import KRAFT_LINE, ZOOKEEPER_LINE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MENDS = ("make kafka", "--kafka-home", "KAFKA_HOME", "--runtime=docker")
SUTS = {"kafka-zk": ZOOKEEPER_LINE, "kafka-kraft": KRAFT_LINE}


def home_with(folder: Path, version: str) -> Path:
    (folder / "libs").mkdir(parents=True)
    (folder / "libs" / f"kafka_2.13-{version}.jar").touch()
    return folder


def refused(tmp_path: Path, sut: str, *options: str, **variables: str) -> str:
    """The one line. The environment has nothing of Kafka but what is given; nothing was fetched."""
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, "run", "broker-restart", "--sut", sut, *options],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
            "BIPLANE_HOME": str(tmp_path / "none"),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 254, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert not (tmp_path / "store").exists()
    return lines[0]


@pytest.mark.parametrize("sut", SUTS)
def test_nothing_is_there(sut: str, tmp_path: Path) -> None:
    line = refused(tmp_path, sut)
    assert line.startswith(f"biplane: Apache Kafka {SUTS[sut].says} is not on this machine;")
    assert all(mend in line for mend in MENDS)


def test_what_is_named_holds_no_kafka(tmp_path: Path) -> None:
    line = refused(tmp_path, "kafka-zk", "--kafka-home", "empty")
    assert line.startswith(f"biplane: --kafka-home: {tmp_path}/empty/libs holds no Kafka; allowed:")


def test_what_is_named_is_another_version(tmp_path: Path) -> None:
    home = home_with(tmp_path / "dist", "3.9.2")
    line = refused(tmp_path, "kafka-kraft", "--kafka-home", str(home))
    assert line.startswith(f"biplane: --kafka-home: {home}/libs holds Kafka 3.9.2; allowed:")
    line = refused(tmp_path, "kafka-kraft", KAFKA_HOME=str(home))
    assert f"(KAFKA_HOME names {home}/libs, which holds Kafka 3.9.2)" in line
    assert all(mend in line for mend in MENDS)


def test_a_folder_of_jars_that_does_not_fit_is_named_by_its_variable(tmp_path: Path) -> None:
    libs = home_with(tmp_path / "dist", "4.0.0") / "libs"
    variables = {ZOOKEEPER_LINE.variable: str(libs)}
    line = refused(tmp_path, "kafka-zk", **variables)
    assert f"({ZOOKEEPER_LINE.variable} names {libs}, which holds Kafka 4.0.0)" in line


def test_a_heap_that_no_machine_would_take(tmp_path: Path) -> None:
    home = home_with(tmp_path / "dist", ZOOKEEPER_LINE.pinned)
    line = refused(tmp_path, "kafka-zk", "--kafka-home", str(home), KAFKA_HEAP_OPTS="-Xmx1g -Dx=y")
    assert line == (
        "biplane: KAFKA_HEAP_OPTS: '-Dx=y'; allowed: -Xms, -Xmx, -Xmn or -Xss and a size, such as "
        "-Xms384m -Xmx384m"
    )


@pytest.mark.parametrize("says", [None, "Could not transfer artifact: unknown host"])
def test_make_kafka_without_maven_or_network(says: str | None, tmp_path: Path) -> None:
    """``None``: there is no Maven. Else one that fails as Maven does without a network."""
    tools = tmp_path / "tools"
    tools.mkdir()
    if says is not None:
        (tools / "mvn").write_text(f"#!/bin/sh\necho '[ERROR] {says}'\nexit 1\n")
        (tools / "mvn").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "harness.sut.kafka_jars"],
        cwd=tmp_path,
        env={"PATH": str(tools), "PYTHONPATH": str(ROOT), "BIPLANE_HOME": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert (says or "no Maven found; install it: apt-get install -y maven") in line
    assert all(mend in line for mend in ("--kafka-home", "KAFKA_HOME", "--runtime=docker"))


_MAIN = "from harness.cli import main; main()"
