"""Where processes run: on loopback, or in containers."""

from __future__ import annotations

from collections.abc import Sequence

from harness.runtime.protocol import Runtime

RUNTIMES = ("process",)


class UnknownRuntime(ValueError):
    """The message names what is allowed."""


def get_runtime(name: str) -> Runtime:
    """A new runtime; it starts nothing by itself. Close it, or have a cluster close it."""
    if name == "process":
        from harness.runtime.process import ProcessRuntime

        return ProcessRuntime()
    raise UnknownRuntime(f"unknown runtime {name!r}; allowed: {', '.join(RUNTIMES)}")


def clean() -> Sequence[str]:
    """End what earlier runs left behind (their harness is gone); one line each."""
    from harness.runtime import registry
    from harness.runtime.paths import registry_dir

    return [f"ended {r.name} (pid {r.pid})" for r in registry.clean(registry_dir())]
