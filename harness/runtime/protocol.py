"""Where things run: the seam between the harness and a place that can hold processes.

A *runtime* knows how to start, kill, pause and find processes; it does not know what they are. A
*system under test* (harness/sut) knows what to start; it does not know where. They meet in
`ProcessSpec`, which is data: names, arguments, files and ports. There are two runtimes: processes
on loopback (``process.py``) and containers on a private network (``docker.py``).

What lets one spec fit both:
- paths are the host's. A container mounts ``workdir`` and every one of ``mounts`` at the same
  path, so that arguments, configuration and evidence need no translation;
- programs are asked for (`Runtime.programs`), because an image has its own Python and Java;
- addresses are known *before* a start (`Runtime.address`): loopback, or a container's fixed IP.
  A listener binds `Runtime.bind_host` and is reached at `Runtime.address`;
- ports are chosen by the runtime once and stay the same over restarts;
- what a process prints ends up in ``Handle.output``, a file on this host that is appended to over
  restarts.

Life of a handle::

    spawn -> [running] --kill/terminate/its own death--> [dead] --start--> [running] ...
                 |  ^
            pause v  | resume
               [paused] --kill/terminate--> [dead]

Guarantees: `Handle.kill` and `Handle.terminate` return when the process is gone and are idempotent;
`Runtime.close` ends whatever is left, may be called twice, and is safe after a half-failed start.
Handles may be used from any thread, one operation at a time a handle (a lock inside sees to it).

Errors: `SetupError` (something is missing on this machine; the message ends with the command that
mends it) and `StartFailed` (a process did not come up; the message holds the end of its output).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from faults.protocol import Capability, Usage


class RuntimeFailed(Exception):
    """Root of this package's errors."""


class SetupError(RuntimeFailed):
    """This machine lacks something. The message names it and the command that mends it."""


class StartFailed(RuntimeFailed):
    """A process ended or stayed silent instead of becoming ready."""


class Address(NamedTuple):
    """Where a socket is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Role(StrEnum):
    """What a process is for. A container runtime picks its image by it."""

    NODE = "node"
    ZOOKEEPER = "zookeeper"
    TOXIPROXY = "toxiproxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """A system that the place brings along by itself, so that it need not be on this host."""

    name: str
    version: str
    path: Path
    """Where it lies, as processes there see it."""
    image: str
    """What holds it; only the runtime that said so can read this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Interpreters as found where processes run (in a container: inside the image)."""

    python: str
    java: str
    software: tuple[Software, ...] = ()
    """Systems that are there besides; the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """How a process shows that it serves: every condition that is given must hold.

    The listed ``ports`` (names of `ProcessSpec.ports`) accept connections; ``pattern`` (a regular
    expression, searched line by line) appeared in the output of *this* start; ``four_letter_word``
    (ZooKeeper's ``srvr``) was answered on the first port.
    """

    ports: tuple[str, ...] = ()
    pattern: str | None = None
    four_letter_word: str | None = None
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One process to run. Immutable; ``name`` is unique within a runtime."""

    name: str
    role: Role
    argv: tuple[str, ...]
    workdir: Path
    """A host folder that is its own: its current directory; ``files`` are written into it."""
    ready: Ready
    files: Mapping[str, str] = field(default_factory=dict)
    """Relative path -> text; (re)written before every start."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to a small base environment; the harness's own environment is not inherited."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Every port that it listens on, by name."""
    mounts: tuple[Path, ...] = ()
    """Host paths that it reads besides ``workdir`` (jars, sources)."""
    software: Software | None = None
    """One of `Programs.software`, when it is run from there."""
    first: tuple[str, ...] = ()
    """A command to run to its end in the same place before the first start (format a disk)."""
    stop_signal: int = 15
    memory_bytes: int | None = None
    """A limit, where the runtime can set one (Capability RESOURCE_LIMITS)."""
    cpus: float | None = None
    disk: Path | None = None
    """A folder below ``workdir`` to be put on a disk of its own, of ``disk_bytes``, where the
    runtime can do that (Capability BOUNDED_DISK)."""
    disk_bytes: int | None = None


def check_respec(old: ProcessSpec, new: ProcessSpec) -> None:
    """`RuntimeFailed` unless the two differ only in what may change between starts."""
    if replace(new, files=old.files, ports=old.ports, ready=old.ready) != old:
        raise RuntimeFailed(f"{old.name} cannot become another process")


class Handle(Protocol):
    """One process of a runtime, over all of its restarts. See the module's picture."""

    @property
    def spec(self) -> ProcessSpec: ...
    @property
    def output(self) -> Path:
        """Everything that it printed, over all starts."""
        ...

    @property
    def starts(self) -> int:
        """How often it was started, from 1."""
        ...

    @property
    def alive(self) -> bool:
        """Whether the process exists (a paused one does)."""
        ...

    @property
    def paused(self) -> bool: ...
    @property
    def exit_code(self) -> int | None:
        """Of the last start; negative: killed by that signal; None while alive."""
        ...

    @property
    def pid(self) -> int | None:
        """On this host; None when dead (or not known)."""
        ...

    def start(self) -> None:
        """Start it again after its death. Does not wait; see `wait_ready`."""
        ...

    def respec(self, spec: ProcessSpec) -> None:
        """What it is from its next start on: other files, ports and signs of readiness. Its name,
        place and program stay."""
        ...

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Return once `ProcessSpec.ready` holds. Raises `StartFailed` with the output's end."""
        ...

    def kill(self) -> None:
        """SIGKILL; returns when it is gone. Works on a paused process."""
        ...

    def terminate(self, timeout_s: float = 30.0) -> bool:
        """Stop signal, then SIGKILL at the timeout. True when it went by itself.

        A paused process is resumed first, or it could not obey."""
        ...

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Runtime(Protocol):
    """A place for processes. One runtime serves one cluster; `close` ends all that it started."""

    @property
    def name(self) -> str: ...
    @property
    def capabilities(self) -> frozenset[Capability]: ...
    @property
    def programs(self) -> Programs: ...

    def prepare(self) -> None:
        """See that this machine has all that is needed; quick when asked again. Addresses and
        specs may be asked for from then on. Raises `SetupError`."""
        ...

    def address(self, name: str) -> str:
        """The host under which the harness, and every other process, reaches process ``name``."""
        ...

    def bind_host(self, name: str) -> str:
        """The host that process ``name`` must bind its listeners to."""
        ...

    def allocate_port(self, name: str) -> int:
        """A port for process ``name`` that stays free for it while the runtime lives."""
        ...

    def spawn(self, spec: ProcessSpec) -> Handle:
        """Write the files and start it. Does not wait for it to be ready."""
        ...

    def zookeeper_spec(self, name: str, workdir: Path) -> ProcessSpec:
        """A ZooKeeper server; its client port is ``ports['client']``, its transaction logs are in
        ``workdir/data/version-2``."""
        ...

    def toxiproxy_spec(self, name: str, workdir: Path) -> ProcessSpec:
        """A toxiproxy server without proxies; its API is ``ports['api']``."""
        ...

    def handles(self) -> Sequence[Handle]: ...

    def check(self) -> None:
        """Raise when the place itself has failed (an engine died); for the health monitor."""
        ...

    def close(self) -> None:
        """End every process that this runtime started, whatever its state. Idempotent."""
        ...


@runtime_checkable
class Isolation(Protocol):
    """What a runtime may offer besides (its capabilities say what of it): to act on the place where
    a process lives, by the process's name. See `faults.protocol.Machines` for what each means."""

    def detach(self, name: str) -> None: ...
    def attach(self, name: str) -> None: ...
    def cut(self, name: str, peer: str, ports: Sequence[int]) -> None:
        """Drop what passes between ``ports`` of ``name`` and ``peer``."""
        ...

    def mend(self, name: str, peer: str, ports: Sequence[int]) -> None: ...
    def reaches(self, name: str, address: Address, timeout_s: float) -> bool: ...
    def limit_cpus(self, name: str, cpus: float | None) -> None: ...
    def limit_memory(self, name: str, memory_bytes: int | None) -> None: ...
    def usage(self, name: str) -> Usage: ...
    def fill_disk(self, name: str) -> int: ...
    def free_disk(self, name: str) -> None: ...
    def disk_free_bytes(self, name: str) -> int: ...
