"""A trace in which rows were never written: its numbers close up, and its accounts know of none."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

_SOURCE: Final = "source"
Boot = tuple[str, int]
"""Process and boot."""


def renumbered(
    tables: Mapping[str, pa.Table], kind: str, gone: Sequence[Mapping[str, Any]]
) -> dict[str, pa.Table]:
    """Of ``tables``, out of which the rows ``gone`` of a kind were taken: all that changed."""
    import pyarrow as pa

    numbers: dict[Boot, list[int]] = {}
    for row in gone:
        numbers.setdefault((row["process"], row["boot"]), []).append(row["seq"])
    for each in numbers.values():
        each.sort()
    found = {kind: tables[kind]}
    for name, table in tables.items():
        if name == _SOURCE:
            continue
        keys = zip(*(table[c].to_pylist() for c in ("process", "boot", "seq")), strict=True)
        old = table["seq"].to_pylist()
        new = [
            seq
            if seq is None or (process, boot) not in numbers
            else seq - bisect_left(numbers[process, boot], seq)
            for process, boot, seq in keys
        ]
        if new != old:
            index = table.schema.get_field_index("seq")
            field = table.schema.field(index)
            found[name] = table.set_column(index, field, pa.array(new, field.type))
    if _SOURCE in tables:
        of_kind = Counter(row["process"] for row in gone)
        rows = [_account(row, kind, numbers, of_kind) for row in tables[_SOURCE].to_pylist()]
        found[_SOURCE] = pa.Table.from_pylist(rows, schema=tables[_SOURCE].schema)
    return found


def _account(
    row: dict[str, Any], kind: str, numbers: Mapping[Boot, list[int]], of_kind: Counter[str]
) -> dict[str, Any]:
    fewer = len(numbers.get((row["process"], row["boot"]), ()))
    changed = {**row}
    if fewer:
        changed |= {name: row[name] - fewer for name in ("rows", "last_seq") if row[name]}
    stored = json.loads(row["stored"] or "{}")
    for process, n in of_kind.items():
        if stored.get(kind, {}).get(process):
            stored[kind][process] -= n
            changed["stored"] = json.dumps(stored)
    return changed
