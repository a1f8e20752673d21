"""Apache Kafka that ends, or speaks, otherwise than planned: `unknown` with exactly which reason.

Each is provoked for real. None may be `valid` (the run proves nothing) nor `invalid` (it is no
broker's violation), and what was recorded is kept and judged. Where Kafka's jars are not on the
machine the tests are skipped with what would bring them.
"""

from __future__ import annotations

import os
import signal
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from faults.plan import Plan
from faults.protocol import Entry, Link
from harness import trial
from harness.cluster.cluster import Cluster
from harness.run import Outcome, run
from harness.runtime.paths import registry_dir
from harness.runtime.protocol import SetupError
from harness.runtime.registry import records
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from harness.sut import kafka_logging
from harness.sut.kafka_jars import KRAFT_LINE, ZOOKEEPER_LINE, Release, libs_dir
from harness.sut.kafka_jvm import HEAP_VARIABLE

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

_VERSION_FILE = "kafka/kafka-version.properties"
RELEASES = {"kafka-zk": ZOOKEEPER_LINE, "kafka-kraft": KRAFT_LINE}


def jars(release: Release) -> Path:
    try:
        return libs_dir(release)
    except SetupError as lacking:
        pytest.skip(str(lacking))


def nothing(_where: str, _what: str) -> None:
    pass


def play(
    store: Path, sut: str, progress: Callable[[str, str], None] = nothing, **options: Any
) -> Outcome:
    """broker-restart with a plan that harms nobody: what ends a broker here is a stranger."""
    jars(RELEASES[sut])
    plan = store / "plan.json"
    reads = {"target": "1", "connections": 2}
    quiet = Entry(id="quiet", fault="flood-metadata", at_ms=100, duration_ms=200, params=reads)
    Plan.of(1, [quiet]).save(plan)
    settings = Settings.of(
        store=store, sut=sut, planes="dual", seed=1, plan=plan, time_limit_s=2, **options
    )
    return run(SCENARIOS["broker-restart"], settings, progress)


def reasons(outcome: Outcome) -> str:
    assert outcome.verdict is Verdict.UNKNOWN, outcome.reasons
    assert outcome.verdict.exit_code == 2
    assert not any(c["violations"] for c in outcome.results["checks"].values())
    for name in ("run.json", "results.json", "report.html"):
        assert (outcome.folder / name).stat().st_size > 0
    return " ".join(outcome.reasons)


@pytest.mark.parametrize("sut", RELEASES)
def test_a_broker_that_a_stranger_kills(sut: str, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_node(_where: str, what: str) -> None:
        if what.startswith("chaos") and not killed:
            for _, entry in records(registry_dir()):
                if entry and entry.owner_pid == os.getpid() and entry.name == "node-2":
                    killed.append(entry.pid)
                    os.kill(entry.pid, signal.SIGKILL)

    outcome = play(tmp_path, sut, kill_node)
    said = reasons(outcome)
    assert len(killed) == 1
    assert "node 2 ended by itself: exit code -9" in said


def test_a_broker_out_of_heap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEAP_VARIABLE, "-Xms16m -Xmx16m")
    said = reasons(play(tmp_path, "kafka-zk"))
    assert "ended by itself: exit code 3" in said
    assert "java.lang.OutOfMemoryError" in said


def test_a_broker_that_cannot_bind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[socket.socket] = []

    class Robbed(Cluster):
        """A stranger takes a port after it was allocated."""

        def start(self) -> None:
            thief = socket.socket()
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.bind(tuple(self.address(2, Link.CLIENT, direct=True)))
            thief.listen()
            taken.append(thief)
            super().start()

    monkeypatch.setattr(trial, "cluster_of", Robbed)
    try:
        said = reasons(play(tmp_path, "kafka-zk"))
        port = taken[0].getsockname()[1]
    finally:
        for thief in taken:
            thief.close()
    assert f"Socket server failed to bind to 127.0.0.1:{port}" in said
    assert "node-2" in said or "node 2" in said


def test_a_broker_that_says_it_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    pose_as(jars(ZOOKEEPER_LINE), home / "libs", version="3.5.0")
    monkeypatch.delenv(ZOOKEEPER_LINE.variable, raising=False)
    monkeypatch.setenv("KAFKA_HOME", str(home))
    said = reasons(play(tmp_path, "kafka-zk"))
    assert "it was written by Kafka 3.5.0; allowed: 3.9.x" in said


def pose_as(libs: Path, other: Path, *, version: str) -> None:
    """The same jars, but what a broker reads of its own version out of them: several hold it."""
    other.mkdir(parents=True)
    for jar in libs.glob("*.jar"):
        with zipfile.ZipFile(jar) as old:
            if _VERSION_FILE not in old.namelist():
                (other / jar.name).symlink_to(jar)
                continue
            with zipfile.ZipFile(other / jar.name, "w") as new:
                for item in old.infolist():
                    said = f"version={version}\ncommitId=0\n".encode()
                    told = said if item.filename == _VERSION_FILE else old.read(item)
                    new.writestr(item, told)


def test_logs_in_another_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = kafka_logging._layout

    def foreign(name: str) -> list[str]:
        if name == "stdout":
            return ours(name)  # or nobody would see that the broker is up
        pattern = f"log4j.appender.{name}.layout.ConversionPattern=%d{{HH:mm:ss}} %-5p %c - %m%n"
        return [f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout", pattern]

    monkeypatch.setattr(kafka_logging, "_layout", foreign)
    said = reasons(play(tmp_path, "kafka-zk"))
    for node in (1, 2, 3):
        assert f"evidence of node {node}: " in said
    assert "allowed: lines of log4j's pattern [%d{ISO8601}] %p [%t] %m (%c)" in said


def test_lines_that_no_parser_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same format, with other words in it: as another release would write them."""
    ours = kafka_logging._layout

    def reworded(name: str) -> list[str]:
        return [line.replace("%m", "Novel: %m") if name == "state" else line for line in ours(name)]

    monkeypatch.setattr(kafka_logging, "_layout", reworded)
    said = reasons(play(tmp_path, "kafka-zk"))
    assert "state-change.log" in said
    assert "lines are not as Kafka 3.9 writes them, for example 'Novel: " in said
