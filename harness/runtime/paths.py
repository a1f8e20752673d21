"""The project's own folder for what it installs and keeps between runs: ``.biplane/``."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """``$BIPLANE_HOME``, else ``.biplane`` beside the packages."""
    configured = os.environ.get("BIPLANE_HOME")
    return Path(configured) if configured else Path(__file__).resolve().parents[2] / ".biplane"


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
