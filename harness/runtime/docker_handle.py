"""One process in a container of its own, over all of its restarts.

The container is made once and started again after each death, so that it keeps its address and its
limits. Inside, an init is PID 1 (else a stop signal is lost until the program handles it) and the
program's output goes straight into ``output.log`` of its mounted folder: what was printed is on
this host at once, kill -9 or not. toxiproxy's image has no shell for that; its output is fetched
from the engine when it ends.

Whether it lives is read from /proc, by the process's pid and start time: asking the engine costs
milliseconds, and an engine that died says nothing.

The clock: rows of a container are compared with rows of the host, so both must read one
CLOCK_MONOTONIC. They do when kernel (boot id) and time namespace are the same, which every start
writes down and `DockerHandle.wait_ready` checks.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any, Final

from docker.types import LogConfig, Mount, Ulimit

from faults.protocol import Usage
from harness.interrupts import uninterrupted
from harness.runtime.docker_disk import BoundedDisk
from harness.runtime.docker_engine import EngineFailed, Owner, engine_errors, one_line
from harness.runtime.docker_network import PrivateNetwork
from harness.runtime.protocol import (
    ProcessSpec,
    Role,
    RuntimeFailed,
    SetupError,
    StartFailed,
    check_respec,
)
from harness.runtime.readiness import tail, wait_ready
from harness.runtime.registry import boot_id, start_ticks

_GIB: Final = 1 << 30
_MEMORY_BYTES: Final = {Role.NODE: 2 * _GIB, Role.ZOOKEEPER: _GIB // 2, Role.TOXIPROXY: _GIB // 2}
_PIDS: Final = 4096
_CPU_PERIOD_US: Final = 100_000
_KERNEL: Final = ".kernel"
_POLL_S: Final = 0.005
_KILL_TIMEOUT_S: Final = 20.0
_FIRST_TIMEOUT_S: Final = 120
_NOTED_S: Final = 5.0
_SIGNALLED: Final = 128
_CANNOT_RUN: Final = (126, 127)  # what shells and inits exit with when there is no such program
# Output is appended on this host; which kernel and which clock this is, is noted for the harness.
_SHELL: Final = (
    "/bin/sh",
    "-c",
    f"{{ readlink /proc/self/ns/time; cat /proc/sys/kernel/random/boot_id; }} >{_KERNEL}; "
    'exec "$@" >>output.log 2>&1',
    "sh",
)


class _Ulimits:
    """Control threads may prefer themselves (SCHED_FIFO, see nodes/priorities.py) as they may in
    the embedded runtime, if the engine may grant it: one without CAP_SYS_RESOURCE may not, which
    shows when the first container starts. They then run at normal priority and say so."""

    def __init__(self) -> None:
        self.allowed = [Ulimit(name="rtprio", soft=1, hard=1)]

    def refused_by(self, error: EngineFailed) -> bool:
        """Whether that was the reason; then the limits are not asked for again."""
        refused = bool(self.allowed) and "rlimit" in str(error)
        if refused:
            self.allowed = []
        return refused


_ulimits: Final = _Ulimits()


class DockerHandle:
    """See the module and `harness.runtime.protocol.Handle`. Operations hold ``_lock``."""

    def __init__(
        self,
        spec: ProcessSpec,
        *,
        client: Any,
        owner: Owner,
        network: PrivateNetwork,
        name: str,
        image: str,
        user: tuple[int, int],
    ) -> None:
        self.spec = spec
        self.output: Final = spec.workdir / "output.log"
        self.starts = 0
        self.paused = False
        self.disk: Final = (
            BoundedDisk(spec.disk, spec.disk_bytes, owner.identity, user)
            if spec.disk is not None and spec.disk_bytes
            else None
        )
        self._api = client.api
        self._owner, self._network = owner, network
        self._name, self._image, self._user = name, image, user
        self._has_shell = spec.role is not Role.TOXIPROXY
        self._lock = RLock()
        self._container: str | None = None
        self._process: tuple[int, int] | None = None  # (pid, start ticks) of the last start
        self._exit_code: int | None = None
        self._output_start = 0

    # ---- what it is doing --------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        process = self._process
        return process is not None and start_ticks(process[0]) == process[1]

    @property
    def pid(self) -> int | None:
        process = self._process
        return process[0] if process is not None and self.alive else None

    @property
    def exit_code(self) -> int | None:
        if self.alive or self._container is None or not self.starts:
            return None
        if self._exit_code is None:
            with suppress(EngineFailed):
                if self._noted_gone():  # until then the engine says 0
                    code = int(self._inspect()["State"]["ExitCode"])
                    self._exit_code = _SIGNALLED - code if code > _SIGNALLED else code
        return self._exit_code

    @property
    def container(self) -> str:
        if self._container is None:
            raise RuntimeFailed(f"{self.spec.name} has no container yet")
        return self._container

    def usage(self) -> Usage:
        with engine_errors(f"asking what {self.spec.name} uses"):
            stats = self._api.stats(self.container, stream=False, one_shot=True)
        throttling = stats.get("cpu_stats", {}).get("throttling_data", {})
        return Usage(
            memory_bytes=int(stats.get("memory_stats", {}).get("usage", 0)),
            throttled_periods=int(throttling.get("throttled_periods", 0)),
        )

    # ---- life --------------------------------------------------------------------------------

    def start(self) -> None:
        with uninterrupted(), self._lock:
            if self.alive:
                raise RuntimeFailed(f"{self.spec.name} runs already (pid {self.pid})")
            self._write_files()
            if self.disk is not None:
                self.disk.mount()
            if self.starts == 0 and self.spec.first:
                self._run_first()
            self._output_start = self.output.stat().st_size if self.output.exists() else 0
            try:
                if self._container is None:
                    self._start_new()
                else:
                    self._await_stopped()
                    self._start_container()
                state = self._inspect()["State"]
            except EngineFailed as e:
                if self.starts == 0 and "runtime create failed" in str(e):
                    raise self._image_failed(str(e)) from e
                raise StartFailed(f"{self.spec.name}: its container will not start: {e}") from e
            self.starts += 1
            self.paused, self._exit_code = False, None
            pid = int(state["Pid"])
            ticks = start_ticks(pid) if pid else None
            if pid and ticks is None and not self._noted_gone():
                raise StartFailed(
                    f"{self.spec.name}: pid {pid} of its container is not in this machine's /proc: "
                    "the engine runs elsewhere; run the harness on the engine's own host"
                )
            self._process = (pid, ticks) if ticks is not None else None

    def respec(self, spec: ProcessSpec) -> None:
        with self._lock:
            check_respec(self.spec, spec)
            self.spec = spec

    def wait_ready(self, timeout_s: float | None = None) -> None:
        try:
            wait_ready(
                self.spec.ready,
                name=self.spec.name,
                host=self._network.address(self.spec.name),
                ports=dict(self.spec.ports),
                output=self.output,
                output_start=self._output_start,
                alive=lambda: self.alive or self._fetch_output(),
                exit_code=lambda: self.exit_code,
                timeout_s=self.spec.ready.timeout_s if timeout_s is None else timeout_s,
            )
        except StartFailed as e:
            if self.starts == 1 and self.exit_code in _CANNOT_RUN:
                raise self._image_failed(self._last_words()) from e
            raise
        if self._has_shell:
            self._check_clock()

    def kill(self) -> None:
        with self._lock:
            if self.alive:
                try:
                    with engine_errors(f"killing {self.spec.name}"):
                        self._api.kill(self.container, "SIGKILL")
                except EngineFailed:
                    if self.alive:
                        self._kill_directly()
                if not self._await_gone(_KILL_TIMEOUT_S):
                    raise RuntimeFailed(f"{self.spec.name} outlived its SIGKILL")
            if self._container is not None and self.starts:
                with suppress(EngineFailed):  # its address goes with it: not at some later moment
                    self._await_stopped()
            self.paused = False
            self._fetch_output()

    def terminate(self, timeout_s: float = 30.0) -> bool:
        with self._lock:
            if not self.alive:
                self.kill()
                return True
            with engine_errors(f"stopping {self.spec.name}"):
                self._api.kill(self.container, self.spec.stop_signal)
            if self.paused:
                with suppress(EngineFailed):  # some engines wake it with the signal
                    self._unpause()
            graceful = self._await_gone(timeout_s)
            self.kill()
            return graceful

    def pause(self) -> None:
        with self._lock:
            if not self.alive:
                raise RuntimeFailed(f"{self.spec.name} could not be paused: it does not run")
            with engine_errors(f"pausing {self.spec.name}"):
                self._api.pause(self.container)
            self.paused = True

    def resume(self) -> None:
        with self._lock:
            if self.paused and self.alive:
                self._unpause()
            self.paused = False

    def remove(self) -> None:
        """End it for good: container and disk are gone. Idempotent; safe without an engine."""
        with uninterrupted(), self._lock:
            self.kill()
            if self._container is not None:
                self._remove_container()
            if self.disk is not None:
                self.disk.unmount()

    # ---- its place ---------------------------------------------------------------------------

    def detach(self) -> None:
        """Take it off the network. Idempotent."""
        with self._lock:
            if self._network.is_attached(self.spec.name, self.container):
                self._network.detach(self.spec.name, self.container)

    def attach(self) -> None:
        """Put it back, at its address. Idempotent; also while it does not run."""
        with self._lock:
            if not self._network.is_attached(self.spec.name, self.container):
                self._network.attach(self.spec.name, self.container)

    def limit_cpus(self, cpus: float | None) -> None:
        """None: what the spec says."""
        wanted = self.spec.cpus if cpus is None else cpus
        quota = -1 if wanted is None else int(wanted * _CPU_PERIOD_US)
        self._update(f"limiting the CPU of {self.spec.name}", cpu_quota=quota)

    def limit_memory(self, memory_bytes: int | None) -> None:
        """None: what the spec says. Refused when it is less than what cannot be reclaimed."""
        wanted = self._memory_bytes if memory_bytes is None else memory_bytes
        self._update(
            f"limiting the memory of {self.spec.name}", mem_limit=wanted, memswap_limit=wanted
        )

    def _update(self, what: str, **limits: Any) -> None:
        with self._lock, engine_errors(what):
            self._api.update_container(self.container, cpu_period=_CPU_PERIOD_US, **limits)

    @property
    def _memory_bytes(self) -> int:
        return self.spec.memory_bytes or _MEMORY_BYTES[self.spec.role]

    # ---- inside ------------------------------------------------------------------------------

    def _start_new(self) -> None:
        self._container = self._create(self.spec.argv, self._name)
        try:
            self._start_container()
        except EngineFailed as e:
            if not _ulimits.refused_by(e):
                raise
            self._remove_container()
            self._container = self._create(self.spec.argv, self._name)
            self._start_container()

    def _last_words(self) -> str:
        """What it wrote down, or, without a shell to do so, what the engine heard of it."""
        if self.output.exists():
            return self.output.read_text(errors="replace")
        with engine_errors(f"asking what {self.spec.name} said"):
            return str(self._api.logs(self.container).decode(errors="replace"))

    def _image_failed(self, said: str) -> SetupError:
        last = one_line(said.strip().splitlines()[-1]) if said.strip() else "it printed nothing"
        return SetupError(
            f"the image {self._image} cannot run {self.spec.argv[0]} for {self.spec.name} "
            f"({last}); make it anew: docker rmi {self._image} && make image"
        )

    def _start_container(self) -> None:
        with engine_errors(f"starting {self.spec.name}"):
            self._api.start(self.container)

    def _remove_container(self) -> None:
        with engine_errors(f"removing the container of {self.spec.name}"):
            self._api.remove_container(self.container, force=True, v=True)
        self._container = None

    def _create(self, argv: tuple[str, ...], name: str) -> str:
        spec, api = self.spec, self._api
        mounts = [Mount(str(spec.workdir), str(spec.workdir), type="bind")]
        mounts += [Mount(str(p), str(p), type="bind", read_only=True) for p in spec.mounts]
        host = api.create_host_config(
            mounts=mounts,
            network_mode=self._network.name,
            init=True,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            tmpfs={"/tmp": "size=64m,mode=1777"},
            mem_limit=self._memory_bytes,
            memswap_limit=self._memory_bytes,
            cpu_period=_CPU_PERIOD_US,
            cpu_quota=-1 if spec.cpus is None else int(spec.cpus * _CPU_PERIOD_US),
            pids_limit=_PIDS,
            ulimits=_ulimits.allowed,
            log_config=LogConfig(type="json-file", config={"max-size": "10m", "max-file": "2"}),
        )
        with engine_errors(f"creating the container of {spec.name} from {self._image}"):
            made = api.create_container(
                self._image,
                entrypoint=[*_SHELL, *argv] if self._has_shell else list(argv),
                command=[],
                name=name,
                hostname=spec.name,
                user=f"{self._user[0]}:{self._user[1]}",
                working_dir=str(spec.workdir),
                environment=dict(spec.env),
                labels={**self._owner.labels, "biplane.process": spec.name},
                host_config=host,
                networking_config=self._network.endpoint(spec.name),
                # The harness asks for itself; a check from inside would run in measured time.
                healthcheck={"test": ["NONE"]},
            )
        return str(made["Id"])

    def _run_first(self) -> None:
        """`ProcessSpec.first`, in a container of its own."""
        start = self.output.stat().st_size if self.output.exists() else 0
        container = self._create(self.spec.first, f"{self._name}-first")
        try:
            with engine_errors(f"running {self.spec.first[0]} for {self.spec.name}"):
                self._api.start(container)
                code = self._api.wait(container, timeout=_FIRST_TIMEOUT_S)["StatusCode"]
        finally:
            with engine_errors(f"removing the first container of {self.spec.name}"):
                self._api.remove_container(container, force=True, v=True)
        if code != 0:
            raise StartFailed(
                f"{self.spec.name}: {self.spec.first[0]} exited with {code}; "
                f"{tail(self.output, start)}"
            )

    def _write_files(self) -> None:
        """Its folder and files belong to whom the container runs as."""
        folder = self.spec.workdir
        folder.mkdir(parents=True, exist_ok=True)
        self._give(folder)
        (folder / _KERNEL).unlink(missing_ok=True)
        for relative, text in self.spec.files.items():
            path = folder / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            self._give(path.parent)
            self._give(path)

    def _give(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, *self._user)

    def _inspect(self) -> Any:
        with engine_errors(f"inspecting {self.spec.name}"):
            return self._api.inspect_container(self.container)

    def _unpause(self) -> None:
        with engine_errors(f"resuming {self.spec.name}"):
            self._api.unpause(self.container)
        self.paused = False

    def _kill_directly(self) -> None:
        """Without an engine: the container's init, whose death ends the rest of it."""
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _await_gone(self, timeout_s: float) -> bool:
        return _wait_until(lambda: not self.alive, timeout_s)

    def _noted_gone(self) -> bool:
        """Whether the engine knows that it ended. It is told a moment after /proc shows it."""
        return _wait_until(lambda: not self._inspect()["State"]["Running"], _NOTED_S)

    def _await_stopped(self) -> None:
        """Its process being gone, until the engine has noticed: else a start does nothing."""
        with engine_errors(f"waiting for the end of {self.spec.name}"):
            self._api.wait(self.container, timeout=_KILL_TIMEOUT_S, condition="not-running")

    def _fetch_output(self) -> bool:
        """Write what the engine kept of a program that could not write for itself; False."""
        if not self._has_shell and self._container is not None:
            with suppress(EngineFailed, OSError), engine_errors("fetching output"):
                said = self._api.logs(self._container, stdout=True, stderr=True)
                self.output.write_bytes(said)
        return False

    def _check_clock(self) -> None:
        path = self.spec.workdir / _KERNEL
        there = path.read_text().split() if path.exists() else []
        here = [os.readlink("/proc/self/ns/time"), boot_id()]
        if there != here:
            raise StartFailed(
                f"{self.spec.name} reads another clock than the harness (kernel and time "
                f"namespace {there}, here {here}); run the harness on the engine's own host"
            )


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
