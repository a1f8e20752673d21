"""What a run still owes to a cluster that is not its own: on disk before it is done, gone when it
was undone.

A run undoes all of it on every way out, signals included. What remains is a harness that was killed
(-9) or a machine that went down: then ``biplane clean`` finds the record of a harness that is gone
and pays. One file a run: the cluster's file as it was, the token that its topics have in their
names, and by broker the command that undoes what was done to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

from harness.runtime.paths import home
from harness.runtime.registry import boot_id, start_ticks


def owed_dir() -> Path:
    return home() / "owed"


class Owed:
    """Of one run's life in one cluster. Thread-safe; every change is on disk when it returns."""

    def __init__(self, path: Path, *, file: Path, text: str, token: str) -> None:
        """``file``, ``text``: the cluster's file. Nothing is written before something is owed."""
        self._path = path
        self._lock = Lock()
        self._record: Final[dict[str, Any]] = {
            "owner_pid": os.getpid(),
            "owner_start_ticks": start_ticks(os.getpid()),
            "boot_id": boot_id(),
            "file": str(file),
            "text": text,
            "token": token,
            "topics": False,
            "brokers": {},
        }

    def topics(self) -> None:
        """From now on there may be topics with the token in their names."""
        with self._lock:
            if not self._record["topics"]:
                self._record["topics"] = True
                self._write()

    def undo(self, node: int, command: str) -> None:
        """``command``: "start" or "resume"."""
        with self._lock:
            self._record["brokers"][str(node)] = command
            self._write()

    def undone(self, node: int) -> None:
        with self._lock:
            if self._record["brokers"].pop(str(node), None) is not None:
                self._write()

    def settled(self) -> None:
        """Nothing is owed any more."""
        with self._lock:
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".part")
        scratch.write_text(json.dumps(self._record, indent=2) + "\n")
        scratch.replace(self._path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Debt:
    """What a harness that is gone has left undone."""

    path: Path
    file: Path
    text: str
    token: str
    topics: bool
    brokers: dict[int, str]


def debts(folder: Path) -> Iterator[Debt]:
    """Those of harnesses that do not run any more; damaged records are passed over."""
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text())
            alive = data["boot_id"] == boot_id() and (
                start_ticks(int(data["owner_pid"])) == data["owner_start_ticks"]
            )
            debt = Debt(
                path=path,
                file=Path(data["file"]),
                text=str(data["text"]),
                token=str(data["token"]),
                topics=bool(data["topics"]),
                brokers={int(node): str(command) for node, command in data["brokers"].items()},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if not alive:
            yield debt
