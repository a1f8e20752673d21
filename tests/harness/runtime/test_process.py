"""The process runtime with real processes: life cycle, clean ends, the death of the harness."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.runtime.process import ProcessRuntime
from harness.runtime.protocol import ProcessSpec, Ready, Role, RuntimeFailed, StartFailed
from harness.runtime.registry import Record, Registry, boot_id, clean, start_ticks

pytestmark = pytest.mark.slow
_SERVER = """
import os, signal, socket, sys, time
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if len(sys.argv) > 2: signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", os.getcwd(), os.environ.get("COLOUR"), flush=True)
while True: s.accept()[0].close()
"""


def wait_for(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.005)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessRuntime]:
    monkeypatch.setenv("BIPLANE_HOME", str(tmp_path / "home"))
    runtime = ProcessRuntime()
    yield runtime
    runtime.close()


def server(runtime: ProcessRuntime, workdir: Path, *arguments: str, name: str = "s") -> ProcessSpec:
    port = runtime.allocate_port(name)
    return ProcessSpec(
        name=name,
        role=Role.NODE,
        argv=(sys.executable, "-I", "server.py", str(port), *arguments),
        workdir=workdir / name,
        files={"server.py": _SERVER},
        env={"COLOUR": "green"},
        ports={"main": port},
        ready=Ready(ports=("main",), pattern="^up", timeout_s=60),
    )


def test_life_cycle(runtime: ProcessRuntime, tmp_path: Path) -> None:
    handle = runtime.spawn(server(runtime, tmp_path))
    handle.wait_ready()
    first = handle.pid
    assert handle.alive
    assert handle.exit_code is None
    assert handle.output.read_text().split() == ["up", str(handle.spec.workdir), "green"]
    with pytest.raises(RuntimeFailed, match="runs already"):
        handle.start()
    handle.pause()
    assert handle.paused
    assert handle.alive
    handle.resume()
    assert not handle.paused
    handle.kill()
    handle.kill()
    assert not handle.alive
    assert handle.exit_code == -signal.SIGKILL
    assert handle.pid is None
    handle.start()
    handle.wait_ready()
    assert handle.starts == 2
    assert handle.pid != first
    assert handle.terminate() is True
    assert handle.terminate() is True
    assert handle.exit_code == -signal.SIGTERM
    assert len(handle.output.read_text().splitlines()) == 2


def test_what_changes_between_starts(runtime: ProcessRuntime, tmp_path: Path) -> None:
    spec = server(runtime, tmp_path)
    handle = runtime.spawn(spec)
    handle.wait_ready()
    handle.respec(replace(spec, files={**spec.files, "more.txt": "new"}))
    assert not (spec.workdir / "more.txt").exists()  # not before its next start
    handle.kill()
    handle.start()
    handle.wait_ready()
    assert (spec.workdir / "more.txt").read_text() == "new"
    for other in (replace(spec, name="t"), replace(spec, argv=("true",))):
        with pytest.raises(RuntimeFailed, match="another process"):
            handle.respec(other)


def test_terminate_reaches_a_paused_process(runtime: ProcessRuntime, tmp_path: Path) -> None:
    handle = runtime.spawn(server(runtime, tmp_path))
    handle.wait_ready()
    handle.pause()
    assert handle.terminate(30) is True
    assert not handle.paused


def test_a_process_that_ignores_the_signal_is_killed(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    handle = runtime.spawn(server(runtime, tmp_path, "stubborn"))
    handle.wait_ready()
    assert handle.terminate(0.2) is False
    assert handle.exit_code == -signal.SIGKILL


def test_a_failed_start_tells_the_output(runtime: ProcessRuntime, tmp_path: Path) -> None:
    spec = ProcessSpec(
        name="broken",
        role=Role.NODE,
        argv=(sys.executable, "-c", "import sys; sys.exit('no such colour: green')"),
        workdir=tmp_path / "broken",
        ready=Ready(pattern="started", timeout_s=60),
    )
    with pytest.raises(StartFailed, match="broken exited with 1") as e:
        runtime.spawn(spec).wait_ready()
    assert "its output ended:\n  no such colour: green" in str(e.value)


def test_a_silent_start_times_out(runtime: ProcessRuntime, tmp_path: Path) -> None:
    spec = ProcessSpec(
        name="silent",
        role=Role.NODE,
        argv=("sleep", "60"),
        workdir=tmp_path / "silent",
        ready=Ready(pattern="started"),
    )
    with pytest.raises(StartFailed, match=r"no output matching 'started' within 0\.1 s"):
        runtime.spawn(spec).wait_ready(0.1)


def test_a_missing_program_is_named(runtime: ProcessRuntime, tmp_path: Path) -> None:
    spec = ProcessSpec(
        name="ghost",
        role=Role.NODE,
        argv=("/no/such/program",),
        workdir=tmp_path / "ghost",
        ready=Ready(pattern="x"),
    )
    with pytest.raises(StartFailed, match="cannot run /no/such/program"):
        runtime.spawn(spec).wait_ready()


def test_the_first_command_runs_once(runtime: ProcessRuntime, tmp_path: Path) -> None:
    spec = ProcessSpec(
        name="formatted",
        role=Role.NODE,
        argv=("sleep", "60"),
        first=("sh", "-c", "echo formatted >> disk"),
        workdir=tmp_path / "formatted",
        ready=Ready(),
    )
    handle = runtime.spawn(spec)
    handle.kill()
    handle.start()
    assert (spec.workdir / "disk").read_text() == "formatted\n"


def test_close_ends_all_even_paused_ones(runtime: ProcessRuntime, tmp_path: Path) -> None:
    handles = [runtime.spawn(server(runtime, tmp_path, name=f"s{i}")) for i in range(3)]
    handles[1].pause()
    with pytest.raises(RuntimeFailed, match="exists already"):
        runtime.spawn(handles[0].spec)
    runtime.close()
    runtime.close()
    assert not any(handle.alive for handle in handles)
    assert not list((tmp_path / "home" / "processes").iterdir())
    with pytest.raises(RuntimeFailed, match="closed"):
        runtime.spawn(server(runtime, tmp_path, name="late"))


def test_a_node_started_by_a_thread_survives_that_thread(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    handle = runtime.spawn(server(runtime, tmp_path))
    handle.wait_ready()
    handle.kill()
    thread = threading.Thread(target=handle.start)
    thread.start()
    thread.join()
    handle.wait_ready()
    assert handle.alive


_HARNESS = """
import sys, time
from pathlib import Path
from harness.runtime.process import ProcessRuntime
from harness.runtime.protocol import ProcessSpec, Ready, Role
runtime = ProcessRuntime()
spec = lambda n: ProcessSpec(name=n, role=Role.NODE, argv=("sleep", "300"),
                             workdir=Path(sys.argv[1]) / n, ready=Ready())
a, b = runtime.spawn(spec("a")), runtime.spawn(spec("b"))
b.pause()
print(a.pid, b.pid, flush=True)
time.sleep(300)
"""


def test_children_die_with_a_killed_harness(tmp_path: Path) -> None:
    env = {**os.environ, "BIPLANE_HOME": str(tmp_path / "home")}
    harness = subprocess.Popen(
        [sys.executable, "-c", _HARNESS, str(tmp_path)], stdout=subprocess.PIPE, env=env
    )
    assert harness.stdout is not None
    pids = [int(word) for word in harness.stdout.readline().split()]
    assert len(pids) == 2
    assert all(start_ticks(pid) is not None for pid in pids)
    harness.kill()
    harness.wait()
    harness.stdout.close()
    wait_for(lambda: all(start_ticks(pid) is None for pid in pids))
    assert clean(tmp_path / "home" / "processes") == []  # nothing left to end, records removed
    assert not list((tmp_path / "home" / "processes").iterdir())


def test_clean_ends_orphans_by_identity_only(tmp_path: Path) -> None:
    orphan, reused, owned = (
        subprocess.Popen(["sleep", "300"], start_new_session=True) for _ in range(3)
    )
    try:
        for process in (orphan, reused):
            ticks = start_ticks(process.pid)
            assert ticks is not None
            record = Record(
                name="leftover",
                pid=process.pid,
                start_ticks=ticks if process is orphan else ticks - 1,
                owner_pid=os.getpid(),
                owner_start_ticks=1,  # an earlier process that had our pid
                boot_id=boot_id(),
            )
            (tmp_path / f"{process.pid}.json").write_text(
                json.dumps({name: getattr(record, name) for name in record.__slots__})
            )
        (tmp_path / "damaged.json").write_text("{")
        mine = Registry(tmp_path).add("mine", owned.pid)
        threading.Thread(target=orphan.wait).start()  # reaps it: here we are its parent
        ended = clean(tmp_path)
        assert [record.pid for record in ended] == [orphan.pid]
        assert reused.poll() is None
        assert owned.poll() is None
        assert [path for path in tmp_path.iterdir() if path.suffix == ".json"] == [mine]
    finally:
        for process in (orphan, reused, owned):
            process.kill()
            process.wait()
