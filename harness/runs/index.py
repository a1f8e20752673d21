"""The table of all runs of a store: ``STORE/runs.parquet``, one row an arm of a run.

    note(store, folder)     what every run does at its end: its rows, put in the place of older ones
    refresh(store)          what `biplane index` does: all folders read again
    load(store)             the rows

The file is replaced whole, under a lock, so that readers see the old or the new table and runs that
end at once do not lose each other's rows. Folders go (a CI keeps the table, not the runs): their
rows stay, unless only what lies there is asked for. A table that cannot be read is set aside, not
lost, and made again.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkers.history import HistoryError
from harness.runs.rows import FIGURES, NotARun, Row, rows_of, run_folders

if TYPE_CHECKING:
    import pyarrow as pa

INDEX_FILE: Final = "runs.parquet"
_LOCK_FILE: Final = ".runs.lock"
VERSION: Final = 1
"""Raised when an older biplane would misread the table. New columns need no new version."""
_VERSION_KEY: Final = b"biplane.runs.version"


class IndexTorn(Exception):
    """The table cannot be read as one."""


@dataclass(slots=True)
class Refreshed:
    """What came of reading all folders again. ``left_out``: (folder, why); ``kept``: how many rows
    are of folders that are gone; ``aside``: where a table that could not be read was put."""

    rows: list[Row]
    left_out: list[tuple[str, str]] = field(default_factory=list)
    kept: int = 0
    aside: Path | None = None


def note(store: Path, folder: Path) -> None:
    """Put one run's rows into the table. Raises `NotARun`, `HistoryError` and OSError: a run's
    verdict stands without it."""
    path = folder.relative_to(store).as_posix()
    rows = rows_of(folder, path)
    with _locked(store):
        known, _ = _known(store)
        _write(store, [*(row for row in known if row.path != path), *rows])


def refresh(store: Path, *, only_there: bool = False, write: bool = True) -> Refreshed:
    """Read every folder again. ``only_there``: drop the rows of folders that are gone."""
    if not store.is_dir():
        raise HistoryError(f"{store}: no such folder; allowed: a store, such as --store names")
    if not write:
        return _read_all(store, [] if only_there else load(store))
    with _locked(store):
        known, aside = _known(store)
        found = _read_all(store, [] if only_there else known)
        found.aside = aside
        _write(store, found.rows)
    return found


def _read_all(store: Path, known: Iterable[Row]) -> Refreshed:
    there: dict[str, list[Row]] = {}
    left_out = []
    for folder in run_folders(store):
        path = folder.relative_to(store).as_posix()
        try:
            there[path] = rows_of(folder, path)
        except NotARun as why:
            left_out.append((path, str(why)))
            there[path] = []
    gone = [row for row in known if row.path not in there]
    rows = in_order([*(row for rows in there.values() for row in rows), *gone])
    return Refreshed(rows, left_out, len(gone))


def in_order(rows: Iterable[Row]) -> list[Row]:
    """By time; runs that began at once by their folder."""
    return sorted(rows, key=lambda row: (row.started_at_ms, row.path, row.arm))


def load(where: Path) -> list[Row]:
    """The rows of a store, or of a table by its own path; of a store without one none. Raises
    `HistoryError` when it cannot be read."""
    path = where / INDEX_FILE if where.is_dir() else where
    try:
        return _read(path)
    except FileNotFoundError:
        if where.is_dir():
            return []
        raise HistoryError(f"{where}: no such store or table of runs") from None
    except (IndexTorn, OSError) as error:
        hint = f"make it again: biplane index {path.parent}"
        raise HistoryError(f"{path}: {error}; {hint}") from None


# -- the file


def _known(store: Path) -> tuple[list[Row], Path | None]:
    """The rows so far. A table that cannot be read is moved aside; then all folders are read."""
    path = store / INDEX_FILE
    try:
        return _read(path), None
    except FileNotFoundError:
        return _read_all(store, []).rows, None
    except IndexTorn:
        aside = _free(path)
        path.rename(aside)
        return _read_all(store, []).rows, aside


def _free(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.torn-{number}")).exists():
        number += 1
    return aside


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    with (store / _LOCK_FILE).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(store: Path, rows: Sequence[Row]) -> None:
    import pyarrow.parquet as pq

    target = store / INDEX_FILE
    scratch = target.with_name(f".{INDEX_FILE}.{os.getpid()}")
    try:
        pq.write_table(to_table(in_order(rows)), scratch)
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def _read(path: Path) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        metadata = table.schema.metadata or {}
        version = int(metadata.get(_VERSION_KEY, b"0"))
        if version > VERSION:
            raise HistoryError(
                f"{path}: its version is {version}; allowed: up to {VERSION}, which is all that "
                "this biplane knows"
            )
        if version < 1:
            raise IndexTorn("it is no table of runs")
        return [_row(entry) for entry in table.to_pylist()]
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, HistoryError):
            raise
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise IndexTorn(f"it cannot be read: {line}") from error


def schema() -> pa.Schema:
    """The table's columns; figures are columns of their own, null where not measured."""
    import pyarrow as pa

    words = pa.list_(pa.string())
    pairs = pa.map_(pa.string(), pa.string())
    kinds: dict[str, pa.DataType] = {
        "chaos_s": pa.float64(), "rounds": pa.int32(), "seed": pa.int64(), "mutants": words,
        "overrides": pairs, "own_plan": pa.bool_(), "checks": pairs, "broken": words,
        "reasons": words, "violations": pa.int64(), "played_s": pa.float64(),
    }  # fmt: skip
    columns = []
    for known in dataclasses.fields(Row):
        if known.name == "figures":
            columns += [pa.field(name, pa.float64()) for name in FIGURES]
        elif known.name == "started_at_ms":
            columns.append(pa.field("started_at", pa.timestamp("ms", tz="UTC")))
        else:
            columns.append(pa.field(known.name, kinds.get(known.name, pa.string())))
    return pa.schema(columns, metadata={_VERSION_KEY: str(VERSION).encode()})


def to_table(rows: Sequence[Row]) -> pa.Table:
    """As stored."""
    import pyarrow as pa

    entries = []
    for row in rows:
        entry: dict[str, Any] = {
            f.name: getattr(row, f.name) for f in dataclasses.fields(row) if f.name != "figures"
        }
        entry["started_at"] = entry.pop("started_at_ms")
        for name in ("checks", "overrides"):
            entry[name] = sorted(entry[name].items())
        entries.append(entry | {name: row.figures.get(name) for name in FIGURES})
    return pa.Table.from_pylist(entries, schema=schema())


def _row(entry: Mapping[str, Any]) -> Row:
    """A row as it was; columns that are not there (an older table) read as nothing."""
    plain = {f.name: entry.get(f.name) for f in dataclasses.fields(Row)}
    started = entry["started_at"]
    plain |= {
        "started_at_ms": round(started.timestamp() * 1000),
        "figures": {n: entry[n] for n in FIGURES if entry.get(n) is not None},
        "checks": dict(entry.get("checks") or ()),
        "overrides": dict(entry.get("overrides") or ()),
    }
    for name in ("mutants", "broken", "reasons"):
        plain[name] = tuple(entry.get(name) or ())
    return Row(**plain)  # type: ignore[arg-type]
