"""What is wrong with a row before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from checkers.history.schema import KINDS

_PYTHON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "int64": (int,),
    "int32": (int,),
    "bool": (bool,),
    "string": (str,),
}


def problem_with(event: Mapping[str, Any]) -> str | None:
    """What is wrong with a live event, naming field and what is allowed; None when it is sound."""
    kind = KINDS.get(event.get("f", ""))
    if kind is None:
        return f"field 'f': unknown kind {event.get('f')!r}; allowed: {', '.join(KINDS)}"
    columns = kind.all_columns
    for name, value in event.items():
        if name == "f" or value is None:
            continue
        declared = columns.get(name)
        if declared is None:
            return (
                f"field {name!r}: not a column of kind {kind.name!r}; allowed: {', '.join(columns)}"
            )
        allowed = _PYTHON_TYPES.get(declared, (list,))
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            return f"field {name!r} of kind {kind.name!r}: {value!r} is not of type {declared}"
    if event.get("t") is None or event.get("process") is None:
        return f"kind {kind.name!r}: fields 't' (int64 ns) and 'process' (string) are required"
    return None
