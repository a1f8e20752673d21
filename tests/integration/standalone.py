"""A cluster as somebody else would have it: brokers in the background, each with a folder, and a
script that starts and stops them by their pids. Nothing of the harness is in it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tests.conftest import _hold_free_port as hold_free_port

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """#!/bin/sh
# broker.sh start|stop|kill|pause|resume FOLDER
# A broker outlives whoever asked for it, but not the tests ($OWNER), however those end.
cd "$2" || exit 1
pid=$(cat pid 2>/dev/null)
echo "$1" >>calls
runs() { [ -n "$pid" ] && [ -d /proc/$pid ] && ! grep -q '^State:.Z' /proc/$pid/status; }
case $1 in
start) runs && exit 0
  nohup "$PYTHON" -m nodes server.properties >>output.log 2>&1 &
  pid=$!
  echo $pid >pid
  (while [ -d /proc/$OWNER ] && runs; do sleep 1; done
   [ -d /proc/$OWNER ] || kill -KILL $pid) >/dev/null 2>&1 &;;
stop) kill -TERM $pid; while runs; do sleep 0.1; done;;
kill) kill -KILL $pid; while runs; do sleep 0.1; done;;
pause) kill -STOP $pid;;
resume) kill -CONT $pid;;
esac
"""
FILE = """cluster: 1
name: {name}
brokers:
{brokers}
ways:
  start: [sh, ../broker.sh, start, "{{{{folder}}}}"]
  stop: [sh, ../broker.sh, stop, "{{{{folder}}}}"]
  kill: [sh, ../broker.sh, kill, "{{{{folder}}}}"]
  pause: [sh, ../broker.sh, pause, "{{{{folder}}}}"]
  resume: [sh, ../broker.sh, resume, "{{{{folder}}}}"]
  env: {{PYTHON: "{python}", PYTHONPATH: "{root}", PYTHONSAFEPATH: "1", OWNER: "{owner}"}}
"""


class Standalone:
    """Three brokers. `start` them, and always `end` them."""

    def __init__(self, folder: Path, zookeeper: str, *, mutants: str = "") -> None:
        """``zookeeper``: host:port/chroot."""
        self.folder, self.zookeeper = folder, zookeeper
        self.ids = (1, 2, 3)
        folder.mkdir(parents=True)
        self.script = folder / "broker.sh"
        self.script.write_text(SCRIPT)
        held = {node: [hold_free_port() for _ in range(2)] for node in self.ids}
        self.ports = {node: [s.getsockname()[1] for s in of] for node, of in held.items()}
        for of in held.values():
            for one in of:
                one.close()
        for node in self.ids:
            self._write(node, mutants)

    def _write(self, node: int, mutants: str) -> None:
        client, peers = self.ports[node]
        home = self.home(node)
        home.mkdir()
        properties = {
            "broker.id": node,
            "listeners": f"A://127.0.0.1:{client},B://127.0.0.1:{peers}",
            "advertised.listeners": f"A://127.0.0.1:{client},B://127.0.0.1:{peers}",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
            "inter.broker.listener.name": "B",
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": 2000,
            "log.dirs": home / "data",
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "offsets.topic.num.partitions": 3,
            **({"biplane.mutants": mutants} if mutants else {}),
        }
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        (home / "server.properties").write_text(text)

    def home(self, node: int) -> Path:
        return self.folder / f"broker-{node}"

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(node) for node in self.ids)

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self.ports[node][0]}"

    def file(
        self, name: str = "theirs", addresses: Mapping[int, str] | None = None, more: str = ""
    ) -> Path:
        """A file about this cluster; ``addresses``: where else its brokers are reached."""
        at = addresses or {node: self.address(node) for node in self.ids}
        brokers = "".join(
            f'  {node}: {{client: "{at[node]}", words: {{folder: {self.home(node)}}}}}\n'
            for node in self.ids
        )
        text = FILE.format(
            name=name, brokers=brokers, python=sys.executable, root=ROOT, owner=os.getpid()
        )
        path = self.folder / f"{name}.yaml"
        path.write_text(text.replace("../broker.sh", str(self.script)) + more)
        return path

    @property
    def calls(self) -> list[str]:
        """What its script was asked for so far, after the first starts."""
        return [
            call
            for node in self.ids
            for call in (self.home(node) / "calls").read_text().split()[1:]
        ]

    def do(self, what: str, node: int) -> None:
        own = {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "OWNER": str(os.getpid())}
        env = {**os.environ, **own}
        subprocess.run(["sh", self.script, what, self.home(node)], env=env, check=True)

    def start(self, wait_until: Callable[..., None], answers: Callable[[int], bool]) -> None:
        for node in self.ids:
            self.do("start", node)
        wait_until(lambda: all(answers(node) for node in self.ids))

    def pid(self, node: int) -> int:
        return int((self.home(node) / "pid").read_text())

    def end(self) -> None:
        for node in self.ids:
            with suppress(OSError, ValueError):
                os.kill(self.pid(node), signal.SIGKILL)


class Recorder:
    """Before one broker: passes everything on, and keeps each request as it came."""

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._to = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.requests: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def apis(self) -> list[int]:
        return [int(struct.unpack_from(">h", one)[0]) for one in self.requests]

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            node = socket.create_connection(self._to)
            for way in ((client, node, self.requests), (node, client, None)):
                threading.Thread(target=_pass, args=way, daemon=True).start()


def _pass(source: socket.socket, sink: socket.socket, kept: list[bytes] | None) -> None:
    with suppress(OSError, struct.error):
        while True:
            prefix = _exactly(source, 4)
            frame = _exactly(source, struct.unpack(">i", prefix)[0])
            if kept is not None:
                kept.append(frame)
            sink.sendall(prefix + frame)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            raise ConnectionError
        data += piece
    return data
