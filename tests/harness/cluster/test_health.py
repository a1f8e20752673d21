"""The monitor tells a dead service, a mute one, and nothing of a merely slow one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from harness.cluster import health
from harness.cluster.health import HealthMonitor, Watched


class Process:
    """The two properties of a handle that the monitor looks at."""

    alive = True
    exit_code: int | None = None


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_POLL_S", 0.002)
    monkeypatch.setattr(health, "_PROBE_EVERY", 1)


class Watch:
    def __init__(self, **services: Watched) -> None:
        self.rows: list[dict[str, Any]] = []
        self.reported = threading.Event()
        self.monitor = HealthMonitor(services, lambda: None, self.record)

    def record(self, kind: str, /, **fields: Any) -> None:
        self.rows.append({"f": kind, **fields})
        self.reported.set()


def test_a_dead_service_is_reported_once() -> None:
    process = Process()
    watch = Watch(zookeeper=Watched(process, lambda: None))  # type: ignore[arg-type]
    watch.monitor.start()
    assert watch.rows == []
    process.exit_code, process.alive = 137, False
    assert watch.reported.wait(30)
    watch.monitor.stop()
    (row,) = watch.rows
    assert (row["f"], row["component"], row["reason"]) == ("infra", "zookeeper", "exited with 137")


def test_a_mute_service_is_reported_after_several_tries() -> None:
    answers = iter([True, False, False, True, False, False, False])
    tries = []

    def probe() -> None:
        tries.append(1)
        if not next(answers, False):
            raise TimeoutError("no answer")

    watch = Watch(toxiproxy=Watched(Process(), probe))  # type: ignore[arg-type]
    watch.monitor.start()
    assert watch.reported.wait(30)
    watch.monitor.stop()
    assert len(tries) == 7
    assert watch.monitor.failed == {"toxiproxy": "does not answer: no answer"}
