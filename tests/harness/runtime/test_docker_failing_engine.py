"""An engine that dies in mid-run: it is said, what ran is ended, and nothing is left in the end.

The engine is reached through a socket of the test's own, which can be shut: to the harness that is
an engine that went away, while other tests keep theirs.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.health import HealthMonitor, Watched
from harness.runtime.docker import DockerRuntime
from harness.runtime.docker_engine import EngineFailed, connect
from harness.runtime.protocol import ProcessSpec, Ready, Role, RuntimeFailed

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

_ENGINE = "/var/run/docker.sock"


class Door:
    """A Unix socket that leads to the engine while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.open()

    def open(self) -> None:
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.path.unlink(missing_ok=True)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as engine, contextlib.suppress(OSError):
            engine.connect(_ENGINE)
            self._open |= {client, engine}
            if self._listener is None:
                return  # shut while this connection was on its way
            peers = {client: engine, engine: client}
            with selectors.DefaultSelector() as selector:
                for end in peers:
                    selector.register(end, selectors.EVENT_READ)
                while True:
                    for key, _ in selector.select():
                        source = key.fileobj
                        assert isinstance(source, socket.socket)
                        data = source.recv(65_536)
                        if not data:
                            return
                        peers[source].sendall(data)


@pytest.fixture
def door(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    door = Door(tmp_path_factory.mktemp("d") / "s")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{door.path}")
    connect.cache_clear()
    yield door
    door.shut()
    connect.cache_clear()


def test_an_engine_that_dies(door: Door, home: Path, tmp_path: Path) -> None:
    runtime = DockerRuntime("dying")
    runtime.prepare()
    spec = ProcessSpec(
        name="s",
        role=Role.NODE,
        argv=(runtime.programs.python, "-c", "import time; time.sleep(600)"),
        workdir=tmp_path / "s",
        ready=Ready(),
    )
    handle = runtime.spawn(spec)
    runtime.check()
    rows: list[dict[str, object]] = []
    said = threading.Event()

    def record(kind: str, /, **fields: object) -> None:
        rows.append({"f": kind, **fields})
        said.set()

    door.shut()
    monitor = HealthMonitor({"runtime": Watched(None, runtime.check, tries=1)}, list, record)
    monitor.start()
    assert said.wait(60)
    monitor.stop()
    assert [(r["f"], r["component"]) for r in rows] == [("infra", "runtime")]
    assert "does not answer" in str(rows[0]["reason"])
    with pytest.raises(EngineFailed, match="the Docker engine does not answer"):
        runtime.check()
    assert handle.alive  # /proc says so
    with pytest.raises(RuntimeFailed):
        handle.pause()
    runtime.close()  # raises nothing
    record_file = next((home / "engine").glob("*.json"))
    door.open()
    runtime.close()
    assert not handle.alive
    assert not record_file.exists()
    label = {"label": "biplane.run=dying"}
    assert not connect().api.containers(all=True, filters=label)


def test_a_run_too_short_for_the_next_look(door: Door, home: Path) -> None:
    """The monitor looks once more when it is stopped."""
    runtime = DockerRuntime("short")
    runtime.prepare()
    rows: list[object] = []
    monitor = HealthMonitor(
        {"runtime": Watched(None, runtime.check, tries=1)},
        list,
        lambda _kind, /, **fields: rows.append(fields["component"]),
    )
    monitor.start()
    door.shut()
    monitor.stop()
    monitor.stop()
    assert rows == ["runtime"]
    door.open()
    runtime.close()
