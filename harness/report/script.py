"""Plotly's script, which draws the pictures: five megabytes that a store holds once.

    STORE/assets/plotly-7.1.0.min.js
    STORE/<scenario>/<run id>/plotly-7.1.0.min.js      the same file: a hard link

A report asks for the one beside it, so that a run's folder that is copied elsewhere still opens;
yet on disk there is one file, however many runs. Where links cannot be made (another disk, a file
system without them), or where a run lies in no store, the folder gets a copy of its own.
"""

from __future__ import annotations

import filecmp
import os
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

ASSETS: Final = "assets"


@cache
def script_name() -> str:
    return f"plotly-{metadata.version('plotly')}.min.js"


@cache
def source() -> str:
    """As it can stand inside a page."""
    return _file().read_text(encoding="utf-8").replace("</script", "<\\/script")


def put_into(folder: Path) -> str:
    """Have the script in a folder, as a file of its own; answers its name."""
    target = folder / script_name()
    if not _sound(target):
        scratch = target.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(_file().read_bytes())
        scratch.replace(target)
    return target.name


def put_beside(folder: Path, store: Path | None) -> str:
    """Have the script in a run's folder, by a link where there is a store; answers its name."""
    if store is None:
        return put_into(folder)
    (store / ASSETS).mkdir(exist_ok=True)
    shared = store / ASSETS / put_into(store / ASSETS)
    target = folder / script_name()
    try:
        if target.exists() and target.samefile(shared):
            return target.name
        scratch = target.with_suffix(f".{os.getpid()}")
        os.link(shared, scratch)
        scratch.replace(target)
    except OSError:
        return put_into(folder)
    return target.name


def store_of(folder: Path, scenario: str) -> Path | None:
    """The store that a run's folder lies in: STORE/<scenario>/<run id>. None when it was taken out
    of one; nothing is put beside strangers."""
    folder = folder.absolute()
    return folder.parents[1] if scenario and folder.parent.name == scenario else None


def _sound(path: Path) -> bool:
    """Whether it is there and whole: the disk may have been full."""
    return path.is_file() and filecmp.cmp(_file(), path)


@cache
def _file() -> Path:
    import plotly

    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
