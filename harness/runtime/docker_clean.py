"""Ending what harnesses that are gone left on the engine, and nothing else.

Everything that a run makes names its harness process in a label (containers, networks, volumes) or
in a mount's source (bounded disks). What belongs to a harness that still runs, or to nobody of
ours, is left alone.

A harness may die while the engine is still doing what it was asked for. `Record`, a small file
written before anything is made and removed when all is gone, tells that there may be more to come:
then it is looked again until nothing appears.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from docker.errors import NotFound

from harness.runtime import docker_disk
from harness.runtime.docker_engine import (
    LABEL_OWNER,
    LABEL_RUN,
    EngineFailed,
    Owner,
    connect,
    engine_errors,
    is_alive,
)
from harness.runtime.protocol import RuntimeFailed, SetupError

_PASSES: Final = 16
_PAUSE_S: Final = 0.5
_QUIET_PASSES: Final = 4  # a busy engine takes a while over the last thing it was asked for


class Record:
    """That a harness uses the engine. One file a runtime."""

    def __init__(self, folder: Path, owner: Owner, name: str) -> None:
        self._path = folder / f"{name}.json"
        self._owner = owner

    def write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".part")
        text = {"run": self._owner.run, "owner": self._owner.identity}
        scratch.write_text(json.dumps(text))
        scratch.replace(self._path)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def clean(folder: Path) -> list[str]:
    """Returns a line for each thing that was ended, or that could not be."""
    orphans = list(_orphaned_records(folder))
    lines: list[str] = []
    failures: list[str] = []
    quiet = 0
    try:
        client = connect()
    except SetupError as e:
        lines += _unmount_disks()
        if orphans:
            lines.append(f"containers of {len(orphans)} runs could not be looked for: {e}")
        return lines
    for _ in range(_PASSES):
        try:
            removed, failures = _one_pass(client)
        except EngineFailed as e:
            removed, failures = [], [str(e)]
        lines += removed
        quiet = 0 if removed or failures else quiet + 1
        if quiet >= (_QUIET_PASSES if orphans or lines else 1):
            break
        time.sleep(_PAUSE_S)
    lines += _unmount_disks() + failures
    if not failures:
        for path in orphans:
            path.unlink(missing_ok=True)
    return lines


def _orphaned_records(folder: Path) -> Iterable[Path]:
    for path in sorted(folder.glob("*.json")):
        try:
            owner = str(json.loads(path.read_text())["owner"])
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            owner = ""
        if not is_alive(owner):
            yield path


def _one_pass(client: Any) -> tuple[list[str], list[str]]:
    """(what was removed, what could not be): containers first, they hold the rest."""
    api, filters = client.api, {"label": LABEL_OWNER}
    removed: list[str] = []
    failures: list[str] = []

    def remove(kind: str, name: str, labels: dict[str, str], action: Any) -> None:
        if is_alive(labels.get(LABEL_OWNER, "")):
            return
        try:
            with engine_errors(f"{kind} {name} cannot be removed"), suppress(NotFound):
                action()
            removed.append(f"removed {kind} {name} (run {labels.get(LABEL_RUN, '?')})")
        except EngineFailed as e:
            failures.append(str(e))

    with engine_errors("listing what is on the engine"):
        containers = api.containers(all=True, filters=filters)
        networks = api.networks(filters=filters)
        volumes = api.volumes(filters=filters)["Volumes"] or []
    for each in containers:
        name = (each["Names"] or [each["Id"][:12]])[0].lstrip("/")
        remove(
            "container",
            name,
            each["Labels"],
            lambda each=each: api.remove_container(each["Id"], force=True, v=True),
        )
    for each in networks:
        remove(
            "network",
            each["Name"],
            each["Labels"],
            lambda each=each: api.remove_network(each["Id"]),
        )
    for each in volumes:
        remove(
            "volume",
            each["Name"],
            each["Labels"],
            lambda each=each: api.remove_volume(each["Name"], force=True),
        )
    return removed, failures


def _unmount_disks() -> list[str]:
    lines = []
    for owner, folder in docker_disk.mounted():
        if is_alive(owner):
            continue
        try:
            docker_disk.unmount(folder)
            lines.append(f"unmounted {folder}")
        except RuntimeFailed as e:
            lines.append(str(e))
    return lines
