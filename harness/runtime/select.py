"""Runtimes by name, and ending what earlier runs left behind in any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.runtime import registry
from harness.runtime.paths import registry_dir
from harness.runtime.process import ProcessRuntime
from harness.runtime.protocol import Runtime

RUNTIMES: Final[Mapping[str, Callable[[], Runtime]]] = {"process": ProcessRuntime}


class UnknownRuntime(ValueError):
    """The message names what is allowed."""


def get_runtime(name: str) -> Runtime:
    """A new runtime. It serves one cluster; see `Runtime.close`."""
    if name not in RUNTIMES:
        raise UnknownRuntime(f"unknown runtime {name!r}; allowed: {', '.join(RUNTIMES)}")
    return RUNTIMES[name]()


def clean() -> list[str]:
    """End leftovers, found by recorded id; returns a line for each."""
    ended = registry.clean(registry_dir())
    return [f"ended {record.name} (pid {record.pid})" for record in ended]
