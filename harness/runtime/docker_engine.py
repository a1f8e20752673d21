"""The way to a Docker engine, its errors in one line each, and whose things are whose.

Only the harness talks to the engine, through the Docker SDK. What is needed of it: on this host
(folders are mounted, containers are reached at their own addresses, and one kernel means one
monotonic clock), native Linux, not rootless, API 1.41 (engine 20.10) or newer.

Everything made carries `Owner.labels`: the run, and the harness process that made it by pid, start
time and boot. A pid alone is reused; with its start time it is not. ``docker_clean`` ends what
belongs to no living harness by these labels, and nothing else.

Errors: `SetupError` when the engine is absent, refuses or will not do (the message ends with what
to do), `EngineFailed` when it fails later on.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import docker
import requests
from docker.errors import APIError, DockerException

from harness.runtime import paths
from harness.runtime.protocol import RuntimeFailed, SetupError
from harness.runtime.registry import boot_id, start_ticks

LABEL_RUN: Final = "biplane.run"
LABEL_OWNER: Final = "biplane.owner"
_SOCKET: Final = "unix:///var/run/docker.sock"
_START: Final = "containers/engine.sh up"
_API_AT_LEAST: Final = (1, 41)
_TIMEOUT_S: Final = 60
_POOL: Final = 32  # calls at a time: faults, health monitor and teardown have threads of their own


class EngineFailed(RuntimeFailed):
    """The engine did not do what it was asked; the message says what, and why in its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A harness process, and the run that it makes things for."""

    run: str
    identity: str

    @classmethod
    def of_this_process(cls, run: str = "") -> Owner:
        """``run`` is made up when there is none (tests)."""
        return cls(run=run or f"adhoc-{secrets.token_hex(4)}", identity=identity(os.getpid()))

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL_RUN: self.run, LABEL_OWNER: self.identity}


def identity(pid: int) -> str:
    """``pid:start ticks:boot`` of a process on this machine."""
    return f"{pid}:{start_ticks(pid) or 0}:{boot_id()}"


def is_alive(owner: str) -> bool:
    """Whether the process of that `identity` still runs. A damaged label belongs to nobody."""
    pid, _, _ = owner.partition(":")
    return pid.isdigit() and start_ticks(int(pid)) is not None and identity(int(pid)) == owner


@cache
def connect() -> Any:
    """A client for the engine of this host, checked once a process. Raises `SetupError`."""
    client = _dial()
    with _explained("asking the Docker engine who it is"):
        version, info = client.version(), client.info()
    try:
        _check(version, info)
    except SetupError:
        client.close()
        raise
    return client


def _dial() -> Any:
    where = os.environ.get("DOCKER_HOST") or _SOCKET
    if not where.startswith("unix://"):
        raise SetupError(
            f"DOCKER_HOST={where} is not on this host, where the folders and the clock are; "
            "unset it, or run there"
        )
    _knock(where)
    try:
        return docker.DockerClient(
            base_url=where, version="auto", timeout=_TIMEOUT_S, max_pool_size=_POOL
        )
    except (DockerException, requests.RequestException, ValueError) as e:
        raise SetupError(
            f"what answers at {where} is no Docker engine that can be used ({one_line(str(e))}); "
            "look at: docker version"
        ) from None


def _knock(where: str) -> None:
    """Whether anybody is at home: the kernel's word for why not, before the SDK wraps it up."""
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(_TIMEOUT_S)
            door.connect(where.removeprefix("unix://"))
    except PermissionError:
        raise SetupError(
            f"not permitted to use the Docker engine at {where}; "
            "join its group (sudo usermod -aG docker $USER, then log in again) or be root"
        ) from None
    except OSError as e:
        raise SetupError(
            f"no Docker engine answers at {where} ({(e.strerror or str(e)).lower()}); "
            f"start it: sudo {_START if paths.in_checkout() else 'systemctl start docker'}"
        ) from None


def _check(version: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    api = tuple(int(part) for part in str(version.get("ApiVersion", "0.0")).split("."))
    if api < _API_AT_LEAST:
        raise SetupError(
            f"the Docker engine {version.get('Version')} (API {version.get('ApiVersion')}) is too "
            "old, at least 20.10 (API 1.41) is needed; upgrade it: apt-get install docker.io"
        )
    if info.get("OSType") != "linux" or "desktop" in str(info.get("OperatingSystem", "")).lower():
        raise SetupError(
            f"the Docker engine runs in {info.get('OperatingSystem')}, not on this kernel: "
            "containers cannot be reached at their addresses; use an engine on Linux itself, or "
            "--runtime=process"
        )
    if any("rootless" in str(option) for option in info.get("SecurityOptions") or ()):
        raise SetupError(
            "the Docker engine is rootless: containers cannot be reached at their addresses; "
            "use the system's engine (unset DOCKER_HOST), or --runtime=process"
        )


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn the SDK's and its transport's errors into `EngineFailed`: "<what>: <why>"."""
    try:
        yield
    except APIError as e:
        raise EngineFailed(f"{what}: {one_line(e.explanation or str(e))}") from e
    except (DockerException, requests.RequestException, OSError) as e:
        raise EngineFailed(
            f"{what}: the Docker engine does not answer ({one_line(str(e))}); look at: docker info"
        ) from e


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """As `engine_errors`, for what happens before anything runs."""
    try:
        with engine_errors(what):
            yield
    except EngineFailed as e:
        raise SetupError(str(e)) from e


def one_line(text: str) -> str:
    return " ".join(str(text).split())[:400]
