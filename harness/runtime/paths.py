"""The project's own folder for what it installs and keeps between runs: ``.biplane/``; and how what
is missing is brought, in a checkout and out of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[2]


def in_checkout() -> bool:
    """Whether the packages lie in the project's tree, and not among others where pip put them."""
    return (_ROOT / "pyproject.toml").is_file() and (_ROOT / "setup.sh").is_file()


def home() -> Path:
    """``$BIPLANE_HOME``, else ``.biplane`` beside the packages of a checkout, else the user's own
    folder for data (XDG Base Directory Specification)."""
    configured = os.environ.get("BIPLANE_HOME")
    if configured:
        return Path(configured)
    if in_checkout():
        return _ROOT / ".biplane"
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local/share") / "biplane"


def setup_or(otherwise: str) -> str:
    """The command that mends a lack: ``make setup`` in a checkout, ``otherwise`` out of one."""
    return "make setup" if in_checkout() else otherwise


def bin_dir() -> Path:
    return home() / "bin"


def registry_dir() -> Path:
    """Records of running processes (`registry`)."""
    return home() / "processes"


def ports_dir() -> Path:
    """Locks on ports (`ports`)."""
    return home() / "ports"


def engine_records_dir() -> Path:
    """Records of harnesses that use a Docker engine (`docker_clean`)."""
    return home() / "engine"
