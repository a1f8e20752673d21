"""The project's own folder for what it installs and keeps between runs: ``.biplane/``; and how what
is missing is brought, in a checkout and out of one."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Final

PACKAGES: Final = Path(__file__).resolve().parents[2]
"""Where they lie beside each other: the root of a checkout, or pip's folder."""


def in_checkout() -> bool:
    """Whether the packages lie in the project's tree, and not among others where pip put them."""
    return (PACKAGES / "pyproject.toml").is_file() and (PACKAGES / "setup.sh").is_file()


def home() -> Path:
    """``$BIPLANE_HOME``, else ``.biplane`` beside the packages of a checkout, else the user's own
    folder for data (XDG Base Directory Specification)."""
    configured = os.environ.get("BIPLANE_HOME")
    if configured:
        return Path(configured)
    if in_checkout():
        return PACKAGES / ".biplane"
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local/share") / "biplane"


def setup_or(otherwise: str) -> str:
    """The command that mends a lack: ``make setup`` in a checkout, ``otherwise`` out of one."""
    return make_or("setup", otherwise)


def make_or(target: str, otherwise: str) -> str:
    """The same of another target of the Makefile."""
    return f"make {target}" if in_checkout() else otherwise


def recipes() -> Path:
    """The folder of what images are built of, besides packages: the checkout's own, or what pip put
    somewhere of it (data-files in pyproject.toml). Raises `FileNotFoundError`."""
    if in_checkout():
        return PACKAGES
    for file in metadata.files("biplane") or ():
        if file.parts[-3:] == ("share", "biplane", "Dockerfile"):
            return Path(str(file.locate())).resolve().parent
    raise FileNotFoundError("biplane was installed without what images are built of")


def bin_dir() -> Path:
    return home() / "bin"


def registry_dir() -> Path:
    """Records of running processes (`registry`)."""
    return home() / "processes"


def engine_records_dir() -> Path:
    """Records of harnesses that use a Docker engine (`docker_clean`)."""
    return home() / "engine"
