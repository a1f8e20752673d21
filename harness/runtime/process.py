"""The embedded runtime: every process on this machine, every listener on loopback.

Nothing outlives the harness, in this order of defence:
1. `ProcessRuntime.close` (also at interpreter exit) kills what runs;
2. the kernel kills each child when the thread that started it dies (PR_SET_PDEATHSIG, set by
   `launcher`), which covers ``kill -9`` of the harness;
3. `registry` records each process for ``biplane clean``.

The death signal is bound to the *thread* that forked, not to the process. Faults start nodes from
threads that end; therefore one spawner thread, as old as the runtime, does every fork.

Each child leads a session of its own: Ctrl-C in the terminal reaches the harness alone, which then
heals and stops in order.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, RLock
from typing import Final

from faults.protocol import Capability
from harness.interrupts import uninterrupted
from harness.runtime import services, tools
from harness.runtime.paths import registry_dir
from harness.runtime.ports import PortAllocator
from harness.runtime.protocol import (
    Handle,
    ProcessSpec,
    Programs,
    RuntimeFailed,
    StartFailed,
    check_respec,
)
from harness.runtime.readiness import tail, wait_ready
from harness.runtime.registry import Registry

LOOPBACK: Final = "127.0.0.1"
_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "USER")
_FIRST_TIMEOUT_S: Final = 120.0
_KILL_TIMEOUT_S: Final = 10.0
_STATE_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.005


class ProcessHandle:
    """See `harness.runtime.protocol.Handle`. Operations hold ``_lock``; properties do not."""

    def __init__(self, runtime: ProcessRuntime, spec: ProcessSpec) -> None:
        self.spec = spec
        self.output: Final = spec.workdir / "output.log"
        self.starts = 0
        self.paused = False
        self._runtime = runtime
        self._lock = RLock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._record: Path | None = None
        self._output_start = 0

    @property
    def alive(self) -> bool:
        popen = self._popen
        return popen is not None and popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        popen = self._popen
        return None if popen is None else popen.poll()

    @property
    def pid(self) -> int | None:
        popen = self._popen
        return popen.pid if popen is not None and popen.poll() is None else None

    def start(self) -> None:
        with uninterrupted(), self._lock:
            if self.alive:
                raise RuntimeFailed(f"{self.spec.name} runs already (pid {self.pid})")
            self._forget()
            self._write_files()
            if self.starts == 0 and self.spec.first:
                self._run_first()
            self._output_start = self.output.stat().st_size if self.output.exists() else 0
            with self.output.open("ab") as out:
                self._popen = self._runtime.fork(self.spec.argv, self.spec, out.fileno())
            self.starts += 1
            self.paused = False
            self._record = self._runtime.registry.add(self.spec.name, self._popen.pid)

    def respec(self, spec: ProcessSpec) -> None:
        with self._lock:
            check_respec(self.spec, spec)
            self.spec = spec

    def wait_ready(self, timeout_s: float | None = None) -> None:
        wait_ready(
            self.spec.ready,
            name=self.spec.name,
            host=LOOPBACK,
            ports=dict(self.spec.ports),
            output=self.output,
            output_start=self._output_start,
            alive=lambda: self.alive,
            exit_code=lambda: self.exit_code,
            timeout_s=self.spec.ready.timeout_s if timeout_s is None else timeout_s,
        )

    def kill(self) -> None:
        with self._lock:
            self._signal(signal.SIGKILL)
            self._reap(_KILL_TIMEOUT_S)
            self.paused = False
            self._forget()

    def terminate(self, timeout_s: float = 30.0) -> bool:
        with self._lock:
            if not self.alive:
                self._forget()
                return True
            self._signal(self.spec.stop_signal)
            if self.paused:
                self._signal(signal.SIGCONT)
                self.paused = False
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._reap(timeout_s)
            graceful = not self.alive
            self.kill()
            return graceful

    def pause(self) -> None:
        with self._lock:
            self._signal(signal.SIGSTOP)
            self.paused = self._await_state("Tt", True)
            if not self.paused:
                raise RuntimeFailed(f"{self.spec.name} could not be paused: it does not run")

    def resume(self) -> None:
        with self._lock:
            self._signal(signal.SIGCONT)
            self._await_state("Tt", False)
            self.paused = False

    def _signal(self, number: int) -> None:
        popen = self._popen
        if popen is not None and popen.poll() is None:  # not reaped, so the pid is still ours
            with contextlib.suppress(ProcessLookupError):
                os.killpg(popen.pid, number)

    def _reap(self, timeout_s: float) -> None:
        if self._popen is not None:
            self._popen.wait(timeout_s)

    def _await_state(self, states: str, inside: bool) -> bool:
        """Wait until /proc shows (or no longer shows) one of these states. False: it is dead."""
        deadline = time.monotonic() + _STATE_TIMEOUT_S
        while (pid := self.pid) is not None:
            with contextlib.suppress(OSError):
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                if (state in states) is inside:
                    return True
            if time.monotonic() > deadline:
                raise RuntimeFailed(f"{self.spec.name} did not change its state within 5 s")
            time.sleep(_POLL_S)
        return False

    def _write_files(self) -> None:
        self.spec.workdir.mkdir(parents=True, exist_ok=True)
        for relative, text in self.spec.files.items():
            path = self.spec.workdir / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _run_first(self) -> None:
        start = self.output.stat().st_size if self.output.exists() else 0
        with self.output.open("ab") as out:
            popen = self._runtime.fork(self.spec.first, self.spec, out.fileno())
        try:
            code = popen.wait(_FIRST_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            popen.kill()
            code = popen.wait()
        if code != 0:
            raise StartFailed(
                f"{self.spec.name}: {self.spec.first[0]} exited with {code}; "
                f"{tail(self.output, start)}"
            )

    def _forget(self) -> None:
        if self._record is not None:
            self._record.unlink(missing_ok=True)
            self._record = None


class ProcessRuntime:
    """See the module and `harness.runtime.protocol.Runtime`."""

    name: Final = "process"
    capabilities: Final = frozenset({Capability.KILL, Capability.PAUSE, Capability.FRAMES})

    def __init__(self) -> None:
        self.registry: Final = Registry(registry_dir())
        self._ports = PortAllocator(LOOPBACK)
        self._handles: list[ProcessHandle] = []
        self._lock = Lock()
        self._closed = False
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="biplane-spawner")
        atexit.register(self.close)

    @property
    def programs(self) -> Programs:
        return Programs(python=sys.executable, java=tools.find_java())

    def prepare(self) -> None:
        tools.require_home()
        tools.find_java()
        tools.find_zookeeper_jars()
        tools.require_toxiproxy()

    def address(self, name: str) -> str:
        return LOOPBACK

    def bind_host(self, name: str) -> str:
        return LOOPBACK

    def allocate_port(self, name: str) -> int:
        return self._ports.allocate()

    def spawn(self, spec: ProcessSpec) -> Handle:
        handle = ProcessHandle(self, spec)
        with self._lock:
            if self._closed:
                raise RuntimeFailed("this runtime is closed")
            if any(spec.name == other.spec.name for other in self._handles):
                raise RuntimeFailed(f"a process named {spec.name} exists already")
            self._handles.append(handle)  # before the start: close() must know it
        handle.start()
        return handle

    def zookeeper_spec(self, name: str, workdir: Path) -> ProcessSpec:
        return services.zookeeper_spec(
            name=name,
            workdir=workdir,
            java=tools.find_java(),
            class_path=os.pathsep.join(map(str, tools.find_zookeeper_jars())),
            bind_host=LOOPBACK,
            client_port=self.allocate_port(name),
        )

    def toxiproxy_spec(self, name: str, workdir: Path) -> ProcessSpec:
        return services.toxiproxy_spec(
            name=name,
            workdir=workdir,
            binary=tools.require_toxiproxy(),
            bind_host=LOOPBACK,
            api_port=self.allocate_port(name),
        )

    def handles(self) -> Sequence[Handle]:
        with self._lock:
            return tuple(self._handles)

    def check(self) -> None:
        """This machine is the place: there is nothing that could have failed apart."""

    def close(self) -> None:
        with self._lock:
            self._closed = True
            handles = list(self._handles)
        for handle in reversed(handles):
            handle.kill()
        self._spawner.shutdown(wait=True)
        self._ports.release_all()
        atexit.unregister(self.close)

    def fork(self, argv: Sequence[str], spec: ProcessSpec, out: int) -> subprocess.Popen[bytes]:
        """Start ``argv`` from the spawner thread (see the module); returns after its exec."""
        return self._spawner.submit(_fork, argv, spec, out).result()


def _fork(argv: Sequence[str], spec: ProcessSpec, out: int) -> subprocess.Popen[bytes]:
    read_end, write_end = os.pipe()
    try:
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(write_end)]
        popen = subprocess.Popen(
            [*launcher, *argv],
            cwd=spec.workdir,
            env=_environment(spec.env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(write_end,),
        )
    finally:
        os.close(write_end)
    with open(read_end, "rb") as exec_done:
        exec_done.read()  # until the launcher's copy closes: with its exec, or with its death
    return popen


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    """A small known environment: no proxies, no PYTHON* settings, no credentials of the caller."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**kept, **added}
