"""A stored history's files: which there are, what they are to hold, and how Arrow reads them.

    history/_history.json              version, trials, and every file: rows, bytes, CRC-32
    history/_rejected.jsonl            lines of live files that are no rows, each with the reason
    history/f=<kind>/part-00000.parquet, ...

Version 2. A file holds rows of one kind and of many trials, with ``arm`` and ``trial`` as columns,
in order of (arm, trial, topic, partition, t): a partition or a span of time is read alone, by the
statistics of row groups and pages. The manifest is written last, and the folder put in its place as
a whole (`checkers.history.writer`): what is not there was not finished, what does not agree was
changed afterwards, and both are errors.

Version 1 has no manifest: ``f=<kind>/arm=<arm>/trial=<n>/*.parquet``, and nobody knows what is
missing. It is read all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote
from zlib import crc32

from checkers.history.schema import KINDS, VERSION, HistoryError, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST: Final = "_history.json"
REJECTED: Final = "_rejected.jsonl"
_READABLE: Final = (2,)
_ROWS_AT_ONCE: Final = 10_000
"""A row in Python is many times what it is in Arrow."""
_BYTES_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a kind."""

    name: str
    rows: int
    bytes: int
    crc: int | None = None
    """CRC-32 of its bytes; None: written by a biplane that told none."""


@dataclass(slots=True)
class Manifest:
    """What a history of version 2 holds. ``trials``: rows by kind, by (arm, trial)."""

    parts: dict[str, list[Part]] = field(default_factory=dict)
    trials: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, int]:
        return {kind: sum(part.rows for part in parts) for kind, parts in self.parts.items()}

    def to_json(self) -> str:
        body = {
            "version": VERSION,
            "trials": [
                {"arm": arm, "trial": trial, "rows": rows}
                for (arm, trial), rows in sorted(self.trials.items())
            ],
            "parts": {
                kind: [
                    {"name": p.name, "rows": p.rows, "bytes": p.bytes, "crc": p.crc} for p in parts
                ]
                for kind, parts in sorted(self.parts.items())
            },
        }
        return json.dumps(body, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str, where: str) -> Manifest:
        """`HistoryError` names what is wrong with it."""
        try:
            body = json.loads(text)
            version = body["version"]
            if version not in _READABLE:
                raise HistoryError(newer_or_wrong(where, version))
            return cls(
                parts={
                    str(kind): [
                        Part(str(p["name"]), int(p["rows"]), int(p["bytes"]), p.get("crc"))
                        for p in of
                    ]
                    for kind, of in body["parts"].items()
                },
                trials={
                    (str(t["arm"]), int(t["trial"])): {str(k): int(n) for k, n in t["rows"].items()}
                    for t in body["trials"]
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, HistoryError):
                raise
            raise HistoryError(f"{where}: not a history's manifest: {error!r}") from error


def newer_or_wrong(where: str, version: object) -> str:
    """What to say of a version that cannot be read."""
    if isinstance(version, int) and version > VERSION:
        return (
            f"{where}: field 'version': {version}: written by a newer biplane; allowed: up to "
            f"{VERSION}"
        )
    return f"{where}: field 'version': {version!r}; allowed: 1 to {VERSION}"


def compare_files(manifest: Manifest, found: Mapping[str, Mapping[str, int]], where: str) -> None:
    """Hold the files that are there (kind -> name -> bytes) against the manifest."""
    for kind in sorted({*manifest.parts, *found}):
        wanted = {part.name: part.bytes for part in manifest.parts.get(kind, [])}
        there = found.get(kind, {})
        for name in sorted({*wanted, *there}):
            place = f"{where}/f={kind}/{name}"
            if name not in there:
                raise HistoryError(f"{place}: it is missing; {MANIFEST} names it")
            if name not in wanted:
                raise HistoryError(f"{place}: it is no part of this history; {MANIFEST} has it not")
            if there[name] != wanted[name]:
                raise HistoryError(
                    f"{place}: truncated or changed: {there[name]} bytes; allowed: {wanted[name]}"
                )


# -- reading local files with Arrow ---------------------------------------------------------------


def stored_schema(kind: str) -> pa.Schema:
    """The columns of a kind, and ``arm`` and ``trial``."""
    import pyarrow as pa

    keys = [pa.field("arm", pa.string()), pa.field("trial", pa.int32())]
    return pa.schema([*arrow_schema(kind), *keys])


def place_of(file: Path) -> tuple[str, int] | None:
    """The (arm, trial) that a file's folders name; None where they name none (version 2)."""
    trial, arm = file.parent.name, file.parent.parent.name
    if not arm.startswith("arm=") or not trial.startswith("trial="):
        return None
    number = trial.removeprefix("trial=")
    if not number.isdigit():
        raise HistoryError(f"{file.parent}: allowed: arm=<label>/trial=<number>")
    return unquote(arm.removeprefix("arm=")), int(number)


def files_of(history: Path, kind: str) -> list[Path]:
    """The local files of a kind, in order; those whose names begin with _ or . are none."""
    found = sorted((history / f"f={kind}").rglob("*.parquet"))
    return [file for file in found if file.name[0] not in "_."]


def read_file(
    file: Path, kind: str, columns: Sequence[str] | None = None, condition: Any = None
) -> pa.Table:
    """One file of a kind, with ``arm`` and ``trial``. Columns that it lacks read as null; pages are
    held against their checksums. Raises OSError and pa.ArrowException."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    place = place_of(file)
    schema = arrow_schema(kind) if place else stored_schema(kind)
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    layout = ds.ParquetFileFormat(default_fragment_scan_options=options)
    wanted = [name for name in columns or stored_schema(kind).names if name in schema.names]
    wanted += [] if place else [n for n in ("arm", "trial") if n not in wanted]
    data = ds.dataset(file, schema=schema, format=layout)
    table = data.to_table(columns=wanted, filter=condition)
    if place is not None:
        arm = pa.repeat(pa.scalar(place[0], pa.string()), table.num_rows)
        trial = pa.repeat(pa.scalar(place[1], pa.int32()), table.num_rows)
        table = table.append_column("arm", arm).append_column("trial", trial)
    return table


def read_table(
    history: Path, kind: str, columns: Sequence[str] | None = None, condition: Any = None
) -> pa.Table:
    """All rows of a kind, file by file; `HistoryError` names the file that cannot be read."""
    import pyarrow as pa

    tables = []
    for file in files_of(history, kind):
        try:
            tables.append(read_file(file, kind, columns, condition))
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"{file}: cannot be read: {error}") from error
    if tables:
        return pa.concat_tables(tables)
    schema = stored_schema(kind)
    names = [n for n in columns or schema.names if n not in ("arm", "trial")]
    return schema.empty_table().select([*names, "arm", "trial"])


def checksum(file: Path) -> int:
    """CRC-32 of its bytes."""
    crc = 0
    with file.open("rb") as content:
        while block := content.read(_BYTES_AT_ONCE):
            crc = crc32(block, crc)
    return crc


def verify(history: Path, kind: str) -> None:
    """Hold a kind's files against what the manifest says of their bytes: one that changed on disk
    is no evidence. Where nobody says it, each page against its own checksum, for which all of it
    has to be decoded. Raises `OSError`, which names the file."""
    path = history / MANIFEST
    parts = Manifest.parse(path.read_text(), str(path)).parts if path.exists() else {}
    told = {part.name: part.crc for part in parts.get(kind, ())}
    for file in files_of(history, kind):
        crc = told.get(file.name)
        if crc is None:
            _verify_pages(file)
        elif crc != checksum(file):
            raise OSError(f"{file}: changed: its CRC is not the one in {MANIFEST}")


def _verify_pages(file: Path) -> None:
    """Texts stay numbers of their dictionary, which halves the cost."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        there = pq.read_schema(file)  # a biplane of before wrote fewer columns
        texts = [field.name for field in there if pa.types.is_string(field.type)]
        with pq.ParquetFile(file, page_checksum_verification=True, read_dictionary=texts) as pages:
            for _ in pages.iter_batches(use_threads=False):
                pass
    except (OSError, pa.ArrowException) as error:
        raise OSError(f"{file}: {error}") from error


def read_rows(history: Path, kind: str, columns: Iterable[str] | None = None) -> list[Any]:
    """The same as plain rows, in order of ``t`` where that is among the columns, and of what a
    writer wrote first."""
    return in_order(read_table(history, kind, None if columns is None else list(columns)))


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    """Rows by ``t``; of the same time by writer and number, so that no file's order matters. They
    share what is equal in a column, lists too: nobody changes them."""
    names, columns = table.column_names, [_shared(column) for column in table.columns]
    values = zip(*columns, strict=True)
    rows = list(alike(dict(zip(names, row, strict=True)) for row in values))
    rows.sort(
        key=lambda row: (
            row.get("t") or 0,
            row.get("process") or "",
            row.get("boot") or 0,
            -1 if row.get("seq") is None else row["seq"],
        )
    )
    return rows


def alike(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same rows, all with the same keys, in half the memory or less: what objects of one class
    have as attributes has its keys in common (PEP 412)."""
    shape: Any = type("row", (), {})
    for row in rows:
        one = shape()
        for name, value in row.items():
            setattr(one, name, value)
        yield vars(one)


def arrow_table(rows: Iterable[Mapping[str, Any]], schema: str) -> pa.Table:
    """Of rows that are taken one by one; ``schema`` is DDL, of which they may have more."""
    import pyarrow as pa

    fields = [part.split() for part in schema.split(", ")]
    types = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
    types["array<bigint>"] = pa.list_(pa.int64())
    layout = pa.schema([pa.field(name, types[kind]) for name, kind in fields])
    left, parts = iter(rows), [layout.empty_table()]
    while some := [dict(row) for row in islice(left, _ROWS_AT_ONCE)]:
        parts.append(pa.Table.from_pylist(some, layout))
    return pa.concat_tables(parts)


def _shared(column: pa.ChunkedArray) -> list[Any]:
    """The column's values, those that are equal as one object."""
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    known: dict[Any, Any] = {}
    if not pa.types.is_nested(column.type):
        return [known.setdefault(value, value) for value in values]
    if not pa.types.is_list(column.type) or pa.types.is_nested(column.type.value_type):
        return values
    return [one if one is None else known.setdefault(tuple(one), one) for one in values]


def is_kind(name: str, where: str) -> str | None:
    """The kind that a folder's name ``f=<kind>`` stands for; None when it is none."""
    key, _, kind = name.partition("=")
    if key != "f":
        return None
    if kind not in KINDS:
        raise HistoryError(f"{where}/{name}: unknown kind; allowed: {', '.join(KINDS)}")
    return kind
