"""What an IncrementalAlterConfigs makes of an entity's overrides (KIP-339). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from nodes.core.errors import ApiError, Errors


class Operation(IntEnum):
    """Wire codes."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One config of one entity; `value` is what is set, or the list that is added or taken away."""

    name: str
    operation: int
    value: str | None


def altered(
    overrides: Mapping[str, str],
    alterations: Iterable[Alteration],
    *,
    is_list: Callable[[str], bool],
    default_of: Callable[[str], str | None],
) -> dict[str, str]:
    """The overrides afterwards. A list that is not overridden is grown or shrunk from its default.

    Raises ApiError INVALID_REQUEST for what is malformed, INVALID_CONFIG for list operations on
    what is not a list.
    """
    rows = list(alterations)
    names = [row.name for row in rows]
    if len(set(names)) != len(names):
        raise ApiError(Errors.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [row.name for row in rows if row.value is None and row.operation != Operation.DELETE]
    if nulls:
        raise ApiError(Errors.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    result = dict(overrides)
    for name, operation, value in rows:
        if operation == Operation.SET:
            result[name] = value or ""
        elif operation == Operation.DELETE:
            result.pop(name, None)
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            if not is_list(name):
                word = Operation(operation).name.lower()
                raise ApiError(
                    Errors.INVALID_CONFIG,
                    f"Config value {word} is not allowed for config key: {name}",
                )
            present = _items(result.get(name, default_of(name)))
            given = _items(value)
            if operation == Operation.APPEND:
                items = [*present, *(item for item in given if item not in present)]
            else:
                items = [item for item in present if item not in given]
            result[name] = ",".join(items)
        else:
            raise ApiError(Errors.INVALID_REQUEST, f"Unknown operations type {operation}")
    return result


def _items(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]
