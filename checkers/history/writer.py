"""Writing a stored history: sized, sorted files, put in place as a whole or not at all.

    with HistoryWriter(run / "history") as writer:
        writer.add("produce", table, arm="a-single", trial=0)     # Arrow, without arm and trial

Rows of a kind are gathered until they make a file, sorted, and written to ``history.unfinished``;
leaving the block in order writes the manifest and renames the folder. Whoever is killed before
leaves the old history as it was, and a folder that the next writer removes. Between the two renames
that replace an old history it lies in ``history.old``; the next writer puts it back.

Memory: what is gathered, at most `HELD_BYTES` for all kinds together, and while it is sorted twice
what a file holds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from checkers.history.parts import MANIFEST, REJECTED, Manifest, Part, checksum, stored_schema
from checkers.history.schema import KINDS, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_A_FILE: Final = 2_000_000
ROWS_A_GROUP: Final = 131_072
HELD_BYTES: Final = 256 << 20
_ORDER: Final = ("arm", "trial", "topic", "partition", "t", "process", "seq")
_STRANGERS: Final = "each-kind-is-a-table-of-its-own"
"""Beside the kinds, so that a reader who takes the folder for one table is refused and reads why:
Spark calls such directory structures conflicting and names them."""


@dataclass(slots=True)
class _Held:
    """Rows of a kind that are no file yet."""

    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


class HistoryWriter:
    """Owned by one thread. ``target``: the run's ``history`` folder."""

    def __init__(
        self,
        target: Path,
        *,
        rows_a_file: int = ROWS_A_FILE,
        rows_a_group: int = ROWS_A_GROUP,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self.target = target
        self.folder = target.with_name(target.name + ".unfinished")
        self.manifest = Manifest()
        self._old = target.with_name(target.name + ".old")
        self._rows_a_file, self._rows_a_group = rows_a_file, rows_a_group
        self._held_bytes = held_bytes
        self._held: dict[str, _Held] = {}
        self._rejected: Any = None
        recover(target)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def add(self, kind: str, table: pa.Table, *, arm: str, trial: int) -> None:
        """Take in rows of one trial; the columns are those of `arrow_schema`."""
        import pyarrow as pa

        rows = table.num_rows
        keys = [pa.repeat(pa.scalar(arm, pa.string()), rows)]
        keys.append(pa.repeat(pa.scalar(trial, pa.int32()), rows))
        whole = table.select(arrow_schema(kind).names)
        for name, column in zip(("arm", "trial"), keys, strict=True):
            whole = whole.append_column(name, column)
        self._count(arm, trial, kind, rows)
        self._hold(kind, whole)

    def add_whole(self, kind: str, table: pa.Table) -> None:
        """Take in rows that have ``arm`` and ``trial``."""
        found = table.group_by(["arm", "trial"]).aggregate([([], "count_all")])
        for row in found.to_pylist():
            self._count(row["arm"], row["trial"], kind, row["count_all"])
        self._hold(kind, table.select(stored_schema(kind).names))

    def reject(self, line: bytes) -> None:
        """Keep a line (with its end) that is no row."""
        if self._rejected is None:
            self._rejected = (self.folder / REJECTED).open("ab")
        self._rejected.write(line)

    def add_trial(self, arm: str, trial: int) -> None:
        """There was this trial, whether or not it has rows."""
        self.manifest.trials.setdefault((arm, trial), {})

    def flush(self, kind: str) -> None:
        """Make a file of what is held of a kind."""
        import pyarrow as pa

        held = self._held.pop(kind, None)
        if held is not None:
            table = pa.concat_tables(held.tables)
            del held
            keys = [(name, "ascending") for name in _ORDER if name in table.column_names]
            self._write(kind, table.sort_by(keys))

    def finish(self) -> Manifest:
        """Write the rest and the manifest, and put the folder in its place."""
        for kind in list(self._held):
            self.flush(kind)
        self._close_rejected()
        hint = self.folder / _STRANGERS
        hint.mkdir()
        (hint / "README.txt").write_text(
            "Read history/f=<kind> each by itself: their columns differ.\n"
            + "".join(f"f={kind.name}: {kind.says}\n" for kind in KINDS.values())
        )
        scratch = self.folder / (MANIFEST + ".tmp")
        scratch.write_text(self.manifest.to_json())
        scratch.replace(self.folder / MANIFEST)
        if self.target.exists():
            self.target.replace(self._old)
        self.folder.replace(self.target)
        shutil.rmtree(self._old, ignore_errors=True)
        return self.manifest

    # -- inside -----------------------------------------------------------------------------------

    def _count(self, arm: str, trial: int, kind: str, rows: int) -> None:
        counts = self.manifest.trials.setdefault((arm, trial), {})
        counts[kind] = counts.get(kind, 0) + rows

    def _hold(self, kind: str, table: pa.Table) -> None:
        held = self._held.setdefault(kind, _Held())
        held.tables.append(table)
        held.rows += table.num_rows
        held.bytes += table.nbytes
        if held.rows >= self._rows_a_file:
            self.flush(kind)
        elif sum(each.bytes for each in self._held.values()) > self._held_bytes:
            self.flush(max(self._held, key=lambda name: self._held[name].bytes))

    def _write(self, kind: str, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        parts = self.manifest.parts.setdefault(kind, [])
        folder = self.folder / f"f={kind}"
        folder.mkdir(exist_ok=True)
        for begin in range(0, table.num_rows, self._rows_a_file):
            piece = table.slice(begin, self._rows_a_file)
            path = folder / f"part-{len(parts):05d}.parquet"
            pq.write_table(piece, path, row_group_size=self._rows_a_group, **_options(kind))
            size, crc = path.stat().st_size, checksum(path)
            parts.append(Part(path.name, piece.num_rows, size, crc))

    def _close_rejected(self) -> None:
        if self._rejected is not None:
            self._rejected.close()
            self._rejected = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """In order: finished. Otherwise what was begun is removed, and the old history stays."""
        done = False
        try:
            if kind is None:
                self.finish()
                done = True
        finally:
            if not done:
                self._close_rejected()
                shutil.rmtree(self.folder, ignore_errors=True)
                recover(self.target)


def recover(target: Path) -> bool:
    """Put back a history whose replacement was cut off between two renames; whether it was."""
    old = target.with_name(target.name + ".old")
    if target.exists() or not old.exists():
        return False
    os.replace(old, target)
    return True


_DELTA: Final = frozenset(
    {"t", "invoke_t", "planned_t", "seq", "op", "offset", "value", "read", "poll"}
)
"""Numbers that mostly rise: told by their differences. A dictionary of them would be as long."""


def _options(kind: str) -> Mapping[str, Any]:
    columns = {**KINDS[kind].all_columns, "arm": "string", "trial": "int32"}
    delta = [name for name in columns if name in _DELTA and columns[name] == "int64"]
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": [
            leaf for n, t in columns.items() if n not in delta for leaf in _leaves(n, t)
        ],
        "column_encoding": dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        "write_page_index": True,
        "write_page_checksum": True,
    }


def _leaves(name: str, column_type: str) -> list[str]:
    """A column as Parquet names what it stores."""
    if not column_type.startswith("list<"):
        return [name]
    element, inside = f"{name}.list.element", column_type.removeprefix("list<")[:-1]
    if not inside.startswith("struct<"):
        return [element]
    fields = inside.removeprefix("struct<")[:-1].split(",")
    return [f"{element}.{field.partition(':')[0]}" for field in fields]
