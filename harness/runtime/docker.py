"""The docker runtime: every process in a container of its own, on a private bridge network.

The same scenarios, plans, history and checkers as in the embedded runtime; only this package knows
the difference. What the parts are: ``docker_engine`` (the way to the engine, errors, labels),
``docker_images`` (which, and how they are built), ``docker_software`` (systems that lie in images),
``docker_network``, ``docker_handle`` (one container), ``docker_packets`` and ``docker_disk`` (what
containers add to faults), ``docker_clean``.

Containers run without root, with a read-only root, no capabilities and no new privileges, limits of
memory and processes, nothing published. Folders are mounted at their own paths, so that arguments,
traces and logs need no translation.

Containers outlive a harness that is killed (-9): no parent's death reaches them. Everything is
labelled for ``biplane clean`` instead.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from faults.protocol import Capability, Usage
from harness.interrupts import uninterrupted
from harness.runtime import docker_images, docker_packets, docker_software, services
from harness.runtime.docker_clean import Record
from harness.runtime.docker_disk import BoundedDisk, can_bound
from harness.runtime.docker_engine import Owner, connect, engine_errors
from harness.runtime.docker_handle import DockerHandle
from harness.runtime.docker_images import Image
from harness.runtime.docker_network import PrivateNetwork
from harness.runtime.paths import engine_records_dir
from harness.runtime.protocol import (
    Address,
    Handle,
    ProcessSpec,
    Programs,
    Role,
    RuntimeFailed,
    SetupError,
)

log = logging.getLogger(__name__)

EVERY_ADDRESS: Final = "0.0.0.0"  # of the container: its own one, and its loopback
_IMAGE_USER: Final = (10001, 10001)
_FIRST_PORT: Final = 9092
_LAST_PORT: Final = 32_000


class DockerRuntime:
    """See the module and `harness.runtime.protocol.Runtime`; also implements `Isolation`."""

    name: Final = "docker"

    def __init__(self, run: str = "") -> None:
        """``run``: what everything is labelled with. Does not touch the engine; `prepare` does."""
        self._owner: Final = Owner.of_this_process(run)
        self._prefix: Final = f"biplane-{secrets.token_hex(4)}"
        self._record = Record(engine_records_dir(), self._owner, self._prefix)
        self._handles: dict[str, DockerHandle] = {}
        self._ports: dict[str, int] = {}
        self._lock = Lock()
        self._client: Any = None
        self._network: PrivateNetwork | None = None
        self._programs: Programs | None = None
        self._closed = False

    @property
    def capabilities(self) -> frozenset[Capability]:
        found = {
            Capability.KILL,
            Capability.PAUSE,
            Capability.NETWORK_DETACH,
            Capability.RESOURCE_LIMITS,
        }
        if docker_packets.can_cut():
            found.add(Capability.PACKET_CUTS)
        if can_bound():
            found.add(Capability.BOUNDED_DISK)
        return frozenset(found)

    @property
    def programs(self) -> Programs:
        """They are in images: raises `SetupError` when those, or the engine, are not there."""
        if self._programs is None:
            docker_images.require()
            self._programs = Programs(
                python=docker_images.PYTHON,
                java=docker_images.JAVA,
                software=docker_software.find(connect()),
            )
        return self._programs

    def prepare(self) -> None:
        """The engine, the images, and the network (addresses are its)."""
        with uninterrupted(), self._lock:
            if self._closed:
                raise RuntimeFailed("this runtime is closed")
            if self._network is not None:
                return
            client = connect()
            docker_images.require()
            network = PrivateNetwork(client, self._owner, self._prefix)
            atexit.register(self.close)
            self._record.write()
            self._client, self._network = client, network
            network.create()

    def address(self, name: str) -> str:
        return self._net.address(name)

    def bind_host(self, name: str) -> str:
        return EVERY_ADDRESS

    def allocate_port(self, name: str) -> int:
        """Each container has every port to itself."""
        with self._lock:
            port = self._ports.get(name, _FIRST_PORT)
            if port > _LAST_PORT:
                raise RuntimeFailed(f"{name} has used up its ports")
            self._ports[name] = port + 1
        return port

    def spawn(self, spec: ProcessSpec) -> Handle:
        for path in spec.mounts:
            _check_readable(path)
        handle = DockerHandle(
            spec,
            client=self._client,
            owner=self._owner,
            network=self._net,
            name=f"{self._prefix}-{spec.name}",
            image=spec.software.image if spec.software else docker_images.tag(_image_for(spec)),
            user=_IMAGE_USER if os.geteuid() == 0 else (os.getuid(), os.getgid()),
        )
        with self._lock:
            if self._closed:
                raise RuntimeFailed("this runtime is closed")
            if spec.name in self._handles:
                raise RuntimeFailed(f"a process named {spec.name} exists already")
            self._handles[spec.name] = handle  # before the start: close() must know it
        handle.start()
        return handle

    def zookeeper_spec(self, name: str, workdir: Path) -> ProcessSpec:
        return services.zookeeper_spec(
            name=name,
            workdir=workdir,
            java=docker_images.JAVA,
            class_path=docker_images.ZOOKEEPER_CLASS_PATH,
            bind_host=EVERY_ADDRESS,
            client_port=self.allocate_port(name),
        )

    def toxiproxy_spec(self, name: str, workdir: Path) -> ProcessSpec:
        return services.toxiproxy_spec(
            name=name,
            workdir=workdir,
            binary=docker_images.TOXIPROXY_BINARY,
            bind_host=EVERY_ADDRESS,
            api_port=self.allocate_port(name),
        )

    def handles(self) -> Sequence[Handle]:
        with self._lock:
            return tuple(self._handles.values())

    def check(self) -> None:
        """Raises `EngineFailed` when the engine does not answer any more."""
        with engine_errors("asking whether the engine lives"):
            self._client.ping()

    def close(self) -> None:
        """What cannot be removed (the engine died) is said, and left to ``biplane clean``."""
        with self._lock:
            self._closed = True
            handles = list(self._handles.values())
            network = self._network
        steps: list[Callable[[], None]] = [handle.remove for handle in reversed(handles)]
        steps += [network.remove] if network is not None else []
        failures = []
        for step in steps:
            try:
                step()
            except RuntimeFailed as e:
                failures.append(str(e))
        if failures:  # tried once more when the interpreter ends
            log.warning("left for `biplane clean`: %s", "; ".join(failures))
        else:
            self._record.remove()
            atexit.unregister(self.close)

    # ---- Isolation ---------------------------------------------------------------------------

    def detach(self, name: str) -> None:
        self._handle(name).detach()

    def attach(self, name: str) -> None:
        self._handle(name).attach()

    def cut(self, name: str, peer: str, ports: Sequence[int]) -> None:
        docker_packets.cut(self._pid(name), self.address(peer), ports)

    def mend(self, name: str, peer: str, ports: Sequence[int]) -> None:
        docker_packets.mend(self._pid(name), self.address(peer), ports)

    def reaches(self, name: str, address: Address, timeout_s: float) -> bool:
        return docker_packets.reaches(self._pid(name), address, timeout_s)

    def limit_cpus(self, name: str, cpus: float | None) -> None:
        self._handle(name).limit_cpus(cpus)

    def limit_memory(self, name: str, memory_bytes: int | None) -> None:
        self._handle(name).limit_memory(memory_bytes)

    def usage(self, name: str) -> Usage:
        return self._handle(name).usage()

    def fill_disk(self, name: str) -> int:
        return self._disk(name).fill()

    def free_disk(self, name: str) -> None:
        self._disk(name).free()

    def disk_free_bytes(self, name: str) -> int:
        return self._disk(name).free_bytes

    # ---- inside ------------------------------------------------------------------------------

    @property
    def _net(self) -> PrivateNetwork:
        if self._network is None:
            raise RuntimeFailed("the runtime is not prepared: there is no network yet")
        return self._network

    def _handle(self, name: str) -> DockerHandle:
        with self._lock:
            handle = self._handles.get(name)
        if handle is None:
            raise RuntimeFailed(f"there is no process named {name}")
        return handle

    def _pid(self, name: str) -> int:
        pid = self._handle(name).pid
        if pid is None:
            raise RuntimeFailed(f"{name} does not run")
        return pid

    def _disk(self, name: str) -> BoundedDisk:
        disk = self._handle(name).disk
        if disk is None:
            raise RuntimeFailed(f"the disk of {name} is not bounded")
        return disk


def _image_for(spec: ProcessSpec) -> Image:
    """By what it is for, or, for a broker that is a Java program, by what it needs. (One that an
    image holds, jars and all, names that image itself.)"""
    if spec.role is Role.TOXIPROXY:
        return Image.TOXIPROXY
    if spec.role is Role.ZOOKEEPER or spec.argv[0] == docker_images.JAVA:
        return Image.JAVA
    return Image.NODE


def _check_readable(path: Path) -> None:
    """The container's user is not the harness's when that is root."""
    if os.geteuid() == 0 and path.stat().st_mode & 0o005 != 0o005:
        raise SetupError(
            f"{path} cannot be read by the containers' user; mend it: chmod -R o+rX {path}"
        )
