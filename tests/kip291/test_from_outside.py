"""Brokers as an operator starts them, ``python -m nodes``: metrics that are there without being
asked for, and a state-change log at the level that was asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kip291.parts import MAP, eventually

_ROOT = Path(__file__).parents[2]


class Process:
    """A broker in a process of its own."""

    def __init__(self, folder: Path, properties: dict[str, str]) -> None:
        folder.mkdir()
        file = folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.data = Path(properties["log.dirs"])
        self._output = folder / "out.log"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nodes", str(file)], stdout=output, stderr=output, cwd=_ROOT
            )
        eventually(lambda: "started (kafka.server.KafkaServer)" in self.said())

    def said(self) -> str:
        assert self._process.poll() is None, self._output.read_text()
        return self._output.read_text()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()


@pytest.fixture
def process(
    zookeeper: str, zookeeper_chroot: str, tmp_path: Path
) -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def make(broker_id: int, **properties: str) -> Process:
        folder = tmp_path / str(broker_id)
        given = {name.replace("_", "."): value for name, value in properties.items()}
        made.append(
            Process(
                folder,
                {
                    "broker.id": str(broker_id),
                    "zookeeper.connect": zookeeper + zookeeper_chroot,
                    "listeners": "CONTROLLER://127.0.0.1:0,REPLICATION://127.0.0.1:0",
                    "listener.security.protocol.map": MAP,
                    "inter.broker.listener.name": "REPLICATION",
                    "control.plane.listener.name": "CONTROLLER",
                    "log.dirs": str(folder / "data"),
                    "controlled.shutdown.enable": "false",
                    **given,
                },
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.stop()


def read(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        return str(answer.read().decode())


def test_metrics_are_there_by_default(process: Callable[..., Process]) -> None:
    """Two brokers on one machine that were told nothing: each says where its metrics are, in its
    log and in a file, on loopback, and they are its own."""
    urls = []
    for broker_id in (1, 2):
        broker = process(broker_id)
        said = re.search(r"Metrics at (http://127\.0\.0\.1:\d+)/metrics", broker.said())
        assert said
        assert (broker.data / "metrics.url").read_text() == f"{said[1]}\n"
        urls.append(said[1])
    active = "kafka.controller:type=KafkaController,name=ActiveControllerCount"
    found = [json.loads(read(f"{url}/mbeans"))[active]["Value"] for url in urls]
    assert found == [1, 0]
    assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in read(
        f"{urls[0]}/metrics"
    )
    with pytest.raises(urllib.error.HTTPError) as missing:
        read(f"{urls[0]}/nothing")
    with missing.value as answer:
        assert answer.code == 404


def test_metrics_can_be_left_out(process: Callable[..., Process]) -> None:
    broker = process(1, biplane_metrics_port="-1")
    assert "Metrics at" not in broker.said()
    assert not (broker.data / "metrics.url").exists()


def test_levels_are_configured(process: Callable[..., Process]) -> None:
    """TRACE of the state-change log is asked for by name; by default there is INFO, as in Kafka."""
    asked = process(1, biplane_log_levels="state.change.logger:TRACE")
    eventually(lambda: "TRACE [Controller id=1 epoch=1] Received response" in asked.said())
    assert "INFO [Controller id=1 epoch=1] Sending UpdateMetadata request" in asked.said()
    other = process(2)
    eventually(lambda: "from metadata cache in response to UpdateMetadata" in other.said())
    assert "TRACE" not in other.said()
