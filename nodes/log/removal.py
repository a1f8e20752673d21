"""How parts of a log go: snapshots, and the whole directory."""

from __future__ import annotations

import contextlib
import re
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nodes.core.topic_names import MAX_FILE_NAME_BYTES
from nodes.core.types import TopicPartition
from nodes.log.paths import inside

DELETE_SUFFIX: Final = "-delete"
_DELETED: Final = re.compile(rf".+\.[0-9a-f]{{32}}{DELETE_SUFFIX}")


def remove_snapshots(directory: Path, *, beyond: int) -> None:
    """Removes producer snapshots taken after an offset."""
    for path in directory.glob("*.snapshot"):
        if path.stem.isascii() and path.stem.isdigit() and int(path.stem) > beyond:
            path.unlink(missing_ok=True)


def remove_stray_snapshots(directory: Path, bases: Iterable[int], *, start: int, end: int) -> None:
    """Keeps the snapshots that loading a log from `start` to `end` may begin with: those taken
    where one of its segments begins, and the last one, of a clean stop (ProducerStateManager)."""
    taken = sorted(
        int(path.stem)
        for path in directory.glob("*.snapshot")
        if path.stem.isascii() and path.stem.isdigit()
    )
    segments = set(bases)
    last = max((offset for offset in taken if max(segments) <= offset <= end), default=None)
    for offset in taken:
        if not start < offset <= end or (offset not in segments and offset != last):
            (directory / f"{offset:020d}.snapshot").unlink(missing_ok=True)


def rename_for_deletion(directory: Path, tp: TopicPartition) -> Path:
    """Gives a partition's directory the name under which it will not be loaded again."""
    suffix = f".{uuid.uuid4().hex}{DELETE_SUFFIX}"
    name = str(tp)[: MAX_FILE_NAME_BYTES - len(suffix)] + suffix
    return directory.rename(inside(directory.parent, name))


def is_deleted(name: str) -> bool:
    """Whether `rename_for_deletion` gave a directory this name: nobody else's may go."""
    return _DELETED.fullmatch(name) is not None


def delete_directory(directory: Path) -> None:
    """Removes a directory, whatever of it is still there. Raises OSError."""
    while directory.exists():
        with contextlib.suppress(FileNotFoundError):  # somebody else removed a file of it meanwhile
            shutil.rmtree(directory)
