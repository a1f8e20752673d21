"""What a run was played on, and of which commit: written into run.json as ``machine``.

Figures of two machines are not compared, so runs carry a *host class*: all hosts of one class are
taken to be alike. It is made of what the kernel says (system, architecture, processors, memory in
powers of two: a virtual machine's rest of it differs), or is what BIPLANE_HOST_CLASS says, where
somebody knows better, such as a CI whose runners differ behind one label.
"""

from __future__ import annotations

import math
import os
import platform
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_COMMIT_OF_CI: Final = ("BIPLANE_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA")
HOST_CLASS: Final = "BIPLANE_HOST_CLASS"
_GIB: Final = 1 << 30


def machine_facts(environment: Mapping[str, str], here: Path) -> dict[str, Any]:
    """Of this machine. ``here``: where biplane was called, whose commit is what is tested."""
    facts: dict[str, Any] = {
        "architecture": platform.machine(),
        "memory_bytes": memory_bytes(),
        "host": socket.gethostname(),
        "commit": commit_of(environment, here),
    }
    if environment.get(HOST_CLASS):
        facts["host_class"] = environment[HOST_CLASS]
    return facts


def memory_bytes() -> int | None:
    """Of the machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def commit_of(environment: Mapping[str, str], here: Path) -> str | None:
    """What the CI says that it tests; else the commit that is checked out, with ``+`` behind it
    when files differ from it; None outside a checkout."""
    for name in _COMMIT_OF_CI:
        if environment.get(name):
            return environment[name]
    commit = _git(here, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if changed else commit


def _git(here: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def host_class(machine: Mapping[str, Any]) -> str:
    """Of a run's ``machine``: hosts that are compared. Older runs tell less of theirs, and are a
    class of their own."""
    told = machine.get("host_class")
    if told:
        return str(told)
    system = str(machine.get("system") or "?").split(" ")[0]
    words = [system, machine.get("architecture"), f"{machine.get('processors') or '?'} cpus"]
    memory = machine.get("memory_bytes")
    if isinstance(memory, int) and memory > 0:
        words.append(f"{2 ** round(math.log2(max(1.0, memory / _GIB)))} GiB")
    return " ".join(str(word) for word in words if word)
