"""Handling brokers by commands: what is done is seen, what is owed is on disk, and paid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.protocol import FaultFailed
from harness.runtime.protocol import Address, ProcessSpec, Ready, Role, RuntimeFailed, StartFailed
from harness.runtime.registry import start_ticks
from harness.sut.external import leaving, ways
from harness.sut.external.form import parse_cluster
from harness.sut.external.owed import Owed, debts
from harness.sut.external.ways import (
    BrokerHandle,
    Brokers,
    Sign,
    WayFailed,
    run_command,
    sign_of_life,
)
from tests.conftest import _hold_free_port as hold_free_port

pytestmark = pytest.mark.slow
BROKER = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    client, _ = server.accept()
    with client:
        head = client.recv(4096)
        if head:
            # ApiVersions 0: correlation id, no error, no APIs
            client.sendall(bytes((0, 0, 0, 10)) + head[8:12] + bytes(6))
"""
SCRIPT = """#!/bin/sh
pid=$(cat pid)
case $1 in
late) echo x >>tries; [ $(wc -l <tries) -lt 2 ] && exit 0
  "$PYTHON" -I -S broker.py $2 >>broker.log 2>&1 & echo $! >pid;;
start) "$PYTHON" -I -S broker.py $2 >>broker.log 2>&1 & echo $! >pid; echo started;;
stop) kill -TERM $pid;;
kill) kill -KILL $pid;;
pause) kill -STOP $pid;;
resume) kill -CONT $pid;;
deaf) exit 0;;
refuse) echo no such unit; exit 5;;
slow) sleep 60;;
esac
"""
FILE = """cluster: 1
name: theirs
brokers: {{1: {{client: "127.0.0.1:{port}"}}}}
ways:
  start: [sh, "{folder}/ctl.sh", {start}, "{port}"]
  stop: [sh, "{folder}/ctl.sh", {stop}]
  kill: [sh, "{folder}/ctl.sh", {kill}]
  pause: [sh, "{folder}/ctl.sh", pause]
  resume: [sh, "{folder}/ctl.sh", resume]
  env: {{PYTHON: "{python}"}}
  within_s: {within_s}
"""


class Place:
    """One broker, a process that answers ApiVersions, as somebody else would have started it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        held = hold_free_port()
        self.port = held.getsockname()[1]
        held.close()
        self.address = Address("127.0.0.1", self.port)
        (folder / "broker.py").write_text(BROKER)
        (folder / "ctl.sh").write_text(SCRIPT)
        (folder / "pid").write_text("1")
        monkeypatch.chdir(folder)  # where the script keeps the pid

    def text(self, **ways: Any) -> str:
        given = {"start": "start", "stop": "stop", "kill": "kill", "within_s": 30, **ways}
        return FILE.format(port=self.port, folder=self.folder, python=sys.executable, **given)

    def brokers(self, owed: Owed, **ways: Any) -> tuple[Brokers, BrokerHandle]:
        found = Brokers(parse_cluster(self.text(**ways).encode(), "x"), self.folder, owed)
        spec = ProcessSpec(
            name="node-1", role=Role.NODE, argv=(), workdir=self.folder / "run", ready=Ready()
        )
        handle = found.spawn(spec)
        assert isinstance(handle, BrokerHandle)
        return found, handle

    def run(self, what: str) -> None:
        env = {**os.environ, "PYTHON": sys.executable}
        subprocess.run(["sh", "ctl.sh", what, str(self.port)], env=env, check=True, cwd=self.folder)

    @property
    def pid(self) -> int:
        return int((self.folder / "pid").read_text())

    def end(self) -> None:
        if self.pid > 1 and start_ticks(self.pid) is not None:
            os.kill(self.pid, signal.SIGKILL)


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> Iterator[Place]:
    found = Place(tmp_path, monkeypatch)
    try:
        found.run("start")
        wait_until(lambda: sign_of_life(found.address) is Sign.ANSWERS)
        yield found
    finally:
        found.end()


@pytest.fixture
def owed(tmp_path: Path) -> Owed:
    return Owed(tmp_path / "owed/x.json", file=tmp_path / "x.yaml", text="", token="t")


def record(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "owed/x.json"
    found: dict[str, Any] = json.loads(path.read_text())["brokers"] if path.exists() else {}
    return found


def test_a_broker_goes_and_comes_back(place: Place, owed: Owed, tmp_path: Path) -> None:
    _, handle = place.brokers(owed)
    handle.wait_ready()
    assert (handle.alive, handle.starts) == (True, 1)
    for end in (handle.kill, lambda: handle.terminate(30)):
        before = place.pid
        end()
        assert not handle.alive
        assert sign_of_life(place.address) is Sign.REFUSES
        assert record(tmp_path) == {"1": "start"}
        handle.start()
        handle.wait_ready()
        assert handle.alive
        assert place.pid != before
        assert record(tmp_path) == {}
    assert handle.starts == 3
    assert "ctl.sh kill" in handle.output.read_text()


def test_a_paused_broker_is_silent_and_goes_on(place: Place, owed: Owed, tmp_path: Path) -> None:
    _, handle = place.brokers(owed)
    handle.pause()
    assert (handle.paused, handle.alive) == (True, True)
    assert sign_of_life(place.address, 0.3) is Sign.SILENT
    assert record(tmp_path) == {"1": "resume"}
    handle.resume()
    handle.wait_ready()
    assert record(tmp_path) == {}


def test_what_was_done_is_undone_whatever_state_it_is_in(
    place: Place, owed: Owed, tmp_path: Path
) -> None:
    brokers, handle = place.brokers(owed)
    assert brokers.restore() == []
    handle.pause()
    assert brokers.restore() == []
    assert sign_of_life(place.address) is Sign.ANSWERS
    handle.kill()
    assert brokers.restore() == []
    assert sign_of_life(place.address) is Sign.ANSWERS
    assert record(tmp_path) == {}


def test_a_command_that_does_nothing_is_no_kill(place: Place, owed: Owed, tmp_path: Path) -> None:
    _, handle = place.brokers(owed, kill="deaf", within_s=0.5)
    with pytest.raises(FaultFailed, match="node-1 answers after 'kill'"):
        handle.kill()
    assert handle.alive


def test_a_command_that_fails_says_what_it_said(place: Place, owed: Owed) -> None:
    _, handle = place.brokers(owed, stop="refuse")
    with pytest.raises(FaultFailed, match=r"(?s)ended with 5; its output ended:.*no such unit"):
        handle.terminate()
    assert handle.alive  # it answers: nothing happened to it


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(WayFailed, match=r"not done within 0.2 s"):
        run_command(["sleep", "600"], env={}, within_s=0.2, log=tmp_path / "log")
    assert time.monotonic() - begun < 60
    with pytest.raises(WayFailed, match="No such file"):
        run_command(["/no/such/program"], env={}, within_s=1, log=tmp_path / "log")


def test_a_broker_that_does_not_come_back_is_owed(place: Place, owed: Owed, tmp_path: Path) -> None:
    brokers, handle = place.brokers(owed, start="deaf", within_s=0.5)
    handle.kill()
    handle.start()
    with pytest.raises(StartFailed, match="did not answer within"):
        handle.wait_ready()
    (why,) = brokers.restore()
    assert "node-1" in why
    assert record(tmp_path) == {"1": "start"}


def test_a_broker_that_cannot_start_yet_is_started_again(
    place: Place, owed: Owed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's refuses while its last registration is there."""
    monkeypatch.setattr(ways, "AGAIN_S", 0.5)
    brokers, handle = place.brokers(owed, start="late")
    handle.kill()
    assert brokers.restore() == []
    assert sign_of_life(place.address) is Sign.ANSWERS
    assert len((tmp_path / "tries").read_text().split()) >= 2
    assert record(tmp_path) == {}


def test_who_was_waited_for_in_vain_is_tried_once_more(
    place: Place, owed: Owed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a fault that healed, then on the way out: not for twice as long. Who is back has all of
    its time again."""
    monkeypatch.setattr(ways, "AGAIN_S", 0.5)
    brokers, handle = place.brokers(owed, start="deaf", within_s=4)
    handle.kill()
    handle.start()
    with pytest.raises(StartFailed):
        handle.wait_ready()
    begun = time.monotonic()
    assert brokers.restore() != []
    assert time.monotonic() - begun < 3
    place.run("start")
    assert brokers.restore() == []
    handle.kill()
    begun = time.monotonic()
    assert brokers.restore() != []
    assert time.monotonic() - begun > 3


def test_a_broker_that_ends_by_itself_is_noticed(
    place: Place, owed: Owed, wait_until: Callable[..., None]
) -> None:
    brokers, handle = place.brokers(owed)
    brokers.watch()
    try:
        handle.wait_ready()
        os.kill(place.pid, signal.SIGKILL)
        wait_until(lambda: not handle.alive)
        assert brokers.restore() == []
        assert handle.alive
    finally:
        brokers.stop()


def test_silence_ends_nobody(place: Place, owed: Owed) -> None:
    """A flooded broker, or one that its owner has halted."""
    _, handle = place.brokers(owed)
    handle.wait_ready()
    os.kill(place.pid, signal.SIGSTOP)
    try:
        for _ in range(4):
            handle.look()
        assert handle.alive
    finally:
        os.kill(place.pid, signal.SIGCONT)


def test_it_keeps_its_configuration(place: Place, owed: Owed) -> None:
    _, handle = place.brokers(owed)
    with pytest.raises(RuntimeFailed, match="keeps its configuration"):
        handle.respec(handle.spec)


def test_clean_pays_what_a_killed_harness_owes(place: Place, tmp_path: Path) -> None:
    """A record of a harness that lives is left alone, one of a harness that is gone is paid."""
    folder = tmp_path / "owed"
    ours = Owed(folder / "x.json", file=tmp_path / "x.yaml", text=place.text(), token="t")
    _, handle = place.brokers(ours)
    handle.kill()
    assert list(debts(folder)) == []
    assert list(leaving.pay(folder)) == []
    path = folder / "x.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "owner_start_ticks": 1}))
    assert [d.brokers for d in debts(folder)] == [{1: "start"}]
    assert list(leaving.pay(folder)) == ["theirs: broker 1: start"]
    assert sign_of_life(place.address) is Sign.ANSWERS
    assert list(folder.iterdir()) == []


def test_what_cannot_be_paid_is_kept(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "owed"
    text = place.text(start="refuse", within_s=1)
    Owed(folder / "x.json", file=tmp_path / "x.yaml", text=text, token="t").undo(1, "start")
    path = folder / "x.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "an old one"}))
    (line,) = leaving.pay(folder)
    assert "broker 1 is not restored" in line
    assert path.exists()
    (folder / "damaged.json").write_text("{")
    assert len(list(debts(folder))) == 1
