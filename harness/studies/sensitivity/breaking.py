"""Broken copies of evidence: one column of one kind of event says something else than it did.

    once     in one row, drawn by seed out of the later half of those that say anything
    always   in all rows of one broker (or writer) from the middle of the trial on, as of a bug

A *way* changes a value; where it would change nothing in any row, there is no such copy. Pure
functions of Arrow tables: rows without ``arm`` and ``trial``, in any order.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.whole_rows import NEEDS
from checkers.history.schema import KINDS, OPERATIONS
from harness.studies.sensitivity.accounts import renumbered
from harness.studies.sensitivity.columns import is_left_out

if TYPE_CHECKING:
    import pyarrow as pa

ONCE: Final = "once"
ALWAYS: Final = "always"
WIDTHS: Final = (ONCE, ALWAYS)
ROW: Final = "(row)"
"""In place of a column: rows as a whole."""
ANSWER: Final = "(answer)"
"""In place of a column: ``type`` and ``error``, which a client makes of one answer."""
Tables = Mapping[str, "pa.Table"]
"""By kind."""
SORTS: Final[Mapping[str, str]] = {
    "listed_offset": "asked_ms",
    "group_step": "step",
    "zk_write": "what",
    "final_state": "what",
    "forged": "lie",
    "plane_metric": "attribute",
    "topic_deletion": "step",
    **dict.fromkeys(("described", "admin_request"), "api"),
    **dict.fromkeys(("control_send", "control_response", "control_request"), "api"),
}
"""Kinds that hold answers of several sorts, and which column tells them apart: a lie in one of them
is not noticed by who looks at another."""
_ASKED_MS: Final = {-1: "end", -2: "beginning"}
_FAR: Final = 100_000
_STEPS: Final[Mapping[str, int]] = {"_t": 1_000_000_000, "_ns": 1_000_000_000, "_ms": 1_000}
"""The step by which a time is wrong, by how its column's name ends: less may be measuring."""
Pool = Sequence[Any]
"""All values that a column has, each once, in order."""
Change = Callable[[Any, Pool, int], Any]
"""(value, pool, step) -> what is said in its place."""


def _another(value: Any, pool: Pool, step: int) -> Any:
    """The one after it, of those that occur."""
    return pool[(pool.index(value) + 1) % len(pool)]


def _void(value: Any, pool: Pool, step: int) -> Any:
    return None


def _exchanged(value: Any, pool: Pool, step: int) -> Any:
    return [value[1], value[0], *value[2:]] if len(value) > 1 else value


# What is below 0 says that there is none, and stays.
_NUMBERS: Final[Mapping[str, Change]] = {
    "one more": lambda value, pool, step: value + step if value >= 0 else value,
    "one less": lambda value, pool, step: value - step if value >= 0 else value,
    "far": lambda value, pool, step: value + _FAR * step if value >= 0 else value,
    "another's": _another,
    "none": lambda value, pool, step: -1,
}
_TEXTS: Final[Mapping[str, Change]] = {
    "another's": _another,
    "empty": lambda value, pool, step: "",
}
_FLAGS: Final[Mapping[str, Change]] = {"flipped": lambda value, pool, step: not value}
_LISTS: Final[Mapping[str, Change]] = {
    "last left out": lambda value, pool, step: value[:-1],
    "two exchanged": _exchanged,
    "first twice": lambda value, pool, step: [*value[:1], *value],
}
_NULL: Final = "null"
"""Not of what each row of its kind has: that lie has no form."""
_LOST, _TWICE, _UNTOLD = "lost", "twice", "never told"
_ROWS: Final = (_LOST, _TWICE, _UNTOLD)
"""Lost: of what was stored. Never told: a broker did not do it, or did not say that it did."""
_ANSWERS: Final[Mapping[str, tuple[str, str, int]]] = {
    "refused": ("ok", "fail", -1),
    "denied": ("ok", "fail", 6),
    "granted": ("fail", "ok", 0),
}
"""By way: which answers (by ``type``) become what, with which error: UNKNOWN_SERVER_ERROR,
NOT_LEADER_OR_FOLLOWER, none."""


@dataclass(frozen=True, slots=True, order=True)
class Breakage:
    """``sort``: of which rows of the kind, by its column in `SORTS`, "" where it has none;
    ``column``: also ``partitions.leader``, a field of the first struct of a list, or `ROW`."""

    kind: str
    column: str
    way: str
    width: str
    sort: str = ""

    @property
    def place(self) -> str:
        """Kind, sort and column: ``listed_offset[end].offset``."""
        return f"{self.kind}{f'[{self.sort}]' if self.sort else ''}.{self.column}"

    def __str__(self) -> str:
        return f"{self.place}: {self.way}, {self.width}"

    @classmethod
    def of(cls, text: str) -> Breakage:
        """Of what `str` gives."""
        match = _WRITTEN.fullmatch(text)
        assert match is not None, text
        return cls(**match.groupdict(default=""))


_WRITTEN: Final = re.compile(
    r"(?P<kind>\w+)(\[(?P<sort>.*)\])?\.(?P<column>[^:]+): (?P<way>[^,]+), (?P<width>\w+)"
)


def breakages(tables: Tables, widths: Sequence[str] = WIDTHS) -> Iterator[Breakage]:
    """All that there could be, of columns that are not left out."""
    for kind, table in tables.items():
        for sort in sorted(set(_sorts(kind, table))):
            for column, way in ways(kind):
                if not is_left_out(kind, column):
                    yield from (Breakage(kind, column, way, width, sort) for width in widths)


def _sorts(kind: str, table: pa.Table) -> Sequence[str]:
    """By row, of which sort it is."""
    if kind not in SORTS:
        return [""] * table.num_rows
    values = table[SORTS[kind]].to_pylist()
    return [
        _ASKED_MS.get(value, "time") if kind == "listed_offset" else str(value) for value in values
    ]


def ways(kind: str) -> Iterator[tuple[str, str]]:
    """Of each column that a kind has, by what it holds."""
    for name, column_type in KINDS[kind].all_columns.items():
        for column, held in _held(name, column_type):
            yield from ((column, way) for way in _changes(held))
        if name not in _needed(kind):
            yield name, _NULL
    yield from ((ROW, way) for way in _ROWS)
    if kind in OPERATIONS:
        yield from ((ANSWER, way) for way in _ANSWERS)


def _held(name: str, column_type: str) -> Iterator[tuple[str, str]]:
    """The column, and the fields of its structs."""
    yield name, column_type
    if "struct<" in column_type:
        fields = column_type.removeprefix("list<struct<").removesuffix(">>")
        for field in fields.split(","):
            inner, _, held = field.partition(":")
            yield f"{name}.{inner}", held


def _needed(kind: str) -> set[str]:
    return {
        name
        for need in NEEDS.get(kind, ())
        for columns in need.columns
        for name in columns.split("|")
    }


def _changes(held: str) -> Mapping[str, Change]:
    if held.startswith("list<"):
        return _LISTS
    return {"string": _TEXTS, "bool": _FLAGS}.get(held, _NUMBERS)


def _type_of(breakage: Breakage) -> str:
    name = breakage.column.partition(".")[0]
    return dict(_held(name, KINDS[breakage.kind].all_columns[name]))[breakage.column]


def broken(tables: Tables, breakage: Breakage, seed: int) -> Tables | None:
    """The kinds whose rows say something else in the copy; None where they would say the same."""
    table = tables[breakage.kind]
    if breakage.column == ROW:
        return _rows_broken(tables, breakage, seed)
    copy = _answers_broken if breakage.column == ANSWER else _column_broken
    changed = copy(table, breakage, seed)
    return None if changed is None else {breakage.kind: changed}


def _column_broken(table: pa.Table, breakage: Breakage, seed: int) -> pa.Table | None:
    name, _, inner = breakage.column.partition(".")
    change = _void if breakage.way == _NULL else _changes(_type_of(breakage))[breakage.way]
    step = next((n for end, n in _STEPS.items() if breakage.column.endswith(end)), 1)
    values = table[name].to_pylist()
    read = _inner(inner) if inner else _itself
    said = _of_sort(table, breakage, [None if v is None else read(v) for v in values])
    pool = _pool(said)
    new = list(values)
    for index in _candidates(table, said, breakage.width, seed):
        changed = change(said[index], pool, step)
        if changed == said[index]:
            continue
        new[index] = _put(values[index], inner, changed) if inner else changed
        if breakage.width == ONCE:
            break
    return None if new == values else _with(table, name, new)


def _of_sort(table: pa.Table, breakage: Breakage, said: Sequence[Any]) -> Sequence[Any]:
    """The same, None in rows of another sort."""
    sorts = _sorts(breakage.kind, table)
    return [one if sort == breakage.sort else None for one, sort in zip(said, sorts, strict=True)]


def _answers_broken(table: pa.Table, breakage: Breakage, seed: int) -> pa.Table | None:
    was, becomes, error = _ANSWERS[breakage.way]
    types, errors = table["type"].to_pylist(), table["error"].to_pylist()
    said = _of_sort(table, breakage, [one if one == was else None for one in types])
    chosen = _candidates(table, said, breakage.width, seed)
    if not chosen:
        return None
    for index in chosen[:1] if breakage.width == ONCE else chosen:
        types[index], errors[index] = becomes, error
    return _with(_with(table, "type", types), "error", errors)


def _itself(value: Any) -> Any:
    return value


def _inner(field: str) -> Callable[[Any], Any]:
    return lambda value: value[0][field] if value else None


def _put(value: Any, field: str, changed: Any) -> Any:
    return [{**value[0], field: changed}, *value[1:]]


def _pool(said: Sequence[Any]) -> Pool:
    if any(isinstance(value, list) for value in said):
        return ()
    return sorted({value for value in said if value is not None})


def _with(table: pa.Table, name: str, values: Sequence[Any]) -> pa.Table:
    import pyarrow as pa

    index = table.schema.get_field_index(name)
    field = table.schema.field(index)
    return table.set_column(index, field, pa.array(values, type=field.type))


def _candidates(table: pa.Table, said: Sequence[Any], width: str, seed: int) -> Sequence[int]:
    """Rows that say anything: once, those of the later half, in an order drawn by seed; always, one
    broker's from the middle of its kind's time on."""
    times = table["t"].to_pylist()
    there = sorted(
        (i for i, value in enumerate(said) if value is not None), key=lambda i: times[i] or 0
    )
    late = there[len(there) // 2 :]
    if width == ONCE:
        random.Random(seed).shuffle(late)
        return late
    tellers = _tellers(table)
    counted = Counter(tellers[i] for i in late)
    if not counted:
        return ()
    most = max(sorted(counted, key=str), key=lambda teller: counted[teller])
    return [i for i in late if tellers[i] == most]


def _tellers(table: pa.Table) -> Sequence[Any]:
    """By row, whose word it is: a broker's, else its writer's."""
    nodes, processes = table["node"].to_pylist(), table["process"].to_pylist()
    return [
        process if node is None else node for node, process in zip(nodes, processes, strict=True)
    ]


def _rows_broken(tables: Tables, breakage: Breakage, seed: int) -> Tables | None:
    import pyarrow as pa

    kind = breakage.kind
    table = tables[kind]
    said = table["process" if breakage.way != _UNTOLD else "seq"].to_pylist()
    if breakage.way == _UNTOLD:
        boots = table["boot"].to_pylist()
        said = [None if boot is None else seq for boot, seq in zip(boots, said, strict=True)]
    chosen = _candidates(table, _of_sort(table, breakage, said), breakage.width, seed)
    if breakage.width == ONCE:
        chosen = chosen[:1]
    if not chosen:
        return None
    if breakage.way == _TWICE:
        return {kind: pa.concat_tables([table, table.take(pa.array(chosen))])}
    left = set(chosen)
    kept = pa.array([i for i in range(table.num_rows) if i not in left], pa.int64())
    fewer = {kind: table.take(kept)}
    if breakage.way == _LOST:
        return fewer
    return renumbered({**tables, **fewer}, kind, table.take(pa.array(chosen)).to_pylist())
