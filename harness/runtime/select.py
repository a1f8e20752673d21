"""Runtimes by name, and ending what earlier runs left behind in any of them.

Each is imported when it is asked for: a run without containers need not load the Docker SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.runtime import registry
from harness.runtime.paths import engine_records_dir, registry_dir, setup_or
from harness.runtime.protocol import Runtime, SetupError


def _process(_run: str) -> Runtime:
    from harness.runtime.process import ProcessRuntime

    return ProcessRuntime()


def _docker(run: str) -> Runtime:
    try:
        from harness.runtime.docker import DockerRuntime
    except ModuleNotFoundError as error:
        if error.name != "docker":
            raise
        raise SetupError(
            "--runtime=docker needs Docker's SDK, which is not installed; install it: "
            + setup_or("pip install 'biplane[docker]'")
        ) from None
    return DockerRuntime(run)


RUNTIMES: Final[Mapping[str, Callable[[str], Runtime]]] = {"process": _process, "docker": _docker}


class UnknownRuntime(ValueError):
    """The message names what is allowed."""


def get_runtime(name: str, run: str = "") -> Runtime:
    """A new runtime, for the run of that id. It serves one cluster; see `Runtime.close`."""
    if name not in RUNTIMES:
        raise UnknownRuntime(f"unknown runtime {name!r}; allowed: {', '.join(RUNTIMES)}")
    return RUNTIMES[name](run)


def clean() -> list[str]:
    """End leftovers of harnesses that are gone, found by recorded id; returns a line for each."""
    ended = registry.clean(registry_dir())
    lines = [f"ended {record.name} (pid {record.pid})" for record in ended]
    try:
        from harness.runtime import docker_clean
    except ModuleNotFoundError as error:
        if error.name != "docker":
            raise
        return lines  # then no harness has made containers here
    return lines + docker_clean.clean(engine_records_dir())
