"""Makes an entity of any version from plain values, so that a handler writes one answer for all.

``build(cls, topics=[{"name": "t", "partitions": [...]}])`` leaves out what the version does not
have, fills in defaults or zero values for what was not given, turns dicts into nested entities,
lists into tuples and numbers into kio's types (milliseconds into timedelta, codes into ErrorCode).
A name that *no* version of the message has is a slip in the caller and raises TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.wire.plan import FieldPlan, fields_of

_ERROR_CODES: Final = {int(code): code for code in ErrorCode}
_NO_ERROR: Final = _ERROR_CODES[0]
_ZERO: Final = timedelta(0)


def _error_code(value: Any) -> ErrorCode:
    return value if type(value) is ErrorCode else _ERROR_CODES[int(value)]


def _timedelta(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(milliseconds=value)


def _datetime(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromtimestamp(value / 1000, UTC) if value >= 0 else None


_CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "error_code": _error_code,
    "timedelta_i32": _timedelta,
    "timedelta_i64": _timedelta,
    "datetime_i64": _datetime,
}
_ZEROES: Final[Mapping[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "float64": 0.0,
    "uuid": None,
    "error_code": _NO_ERROR,
    "timedelta_i32": _ZERO,
    "timedelta_i64": _ZERO,
    "datetime_i64": None,
}


def default_of(field: FieldPlan) -> Any:
    """The value of a field that was not given."""
    if field.default is not MISSING:
        return field.default
    if field.nullable:
        return None
    if field.many:
        return ()
    if field.entity:
        return build(field.entity)
    return _ZEROES.get(field.primitive or "", 0)


def build(entity_class: Any, /, **values: Any) -> Any:
    """An entity of `entity_class` from plain values (see the module's text)."""
    return _builder(entity_class)(values)


@cache
def _builder(entity_class: Any) -> Callable[[Mapping[str, Any]], Any]:
    plans = [
        (field.name, _converter(field), default_of(field)) for field in fields_of(entity_class)
    ]
    names = frozenset(name for name, _, _ in plans)

    def make(values: Mapping[str, Any]) -> Any:
        arguments = {}
        for name, convert, default in plans:
            if name in values:
                value = values[name]
                arguments[name] = value if convert is None else convert(value)
            else:
                arguments[name] = default
        if not names.issuperset(values):
            _refuse_unknown(entity_class, values.keys() - names)
        return entity_class(**arguments)

    return make


def _converter(field: FieldPlan) -> Callable[[Any], Any] | None:
    one: Callable[[Any], Any] | None
    if field.entity:
        make = _builder(field.entity)
        entity_class = field.entity

        def one(value: Any) -> Any:
            if value is None or isinstance(value, entity_class):
                return value
            return make(value)
    else:
        one = _CONVERTERS.get(field.primitive or "")
    if not field.many:
        return one
    if one is None:
        return lambda items: None if items is None else tuple(items)
    convert = one
    return lambda items: None if items is None else tuple(map(convert, items))


def _refuse_unknown(entity_class: Any, unknown: set[str]) -> None:
    known = _names_in_any_version(
        int(entity_class.__api_key__), entity_class.__type__.name, entity_class.__name__
    )
    wrong = sorted(unknown - known)
    if wrong:
        raise TypeError(f"{entity_class.__name__} has no field {', '.join(wrong)} in any version")


@cache
def _names_in_any_version(api_key: int, entity_type: str, class_name: str) -> frozenset[str]:
    """Names of the class's fields over all served versions of its message.

    Nested structures change their names now and then between versions; a structure found in
    neither message of a version contributes nothing.
    """
    from nodes.wire.apis import SUPPORTED, ApiKey, request_class, response_class

    low, high = SUPPORTED[ApiKey(api_key)]
    names: set[str] = set()
    for version in range(low, high + 1):
        for root in (request_class(api_key, version), response_class(api_key, version)):
            for found in _nested(root):
                if found.__name__ == class_name:
                    names.update(field.name for field in fields_of(found))
    return frozenset(names)


@cache
def _nested(root: Any) -> tuple[Any, ...]:
    found = [root]
    for field in fields_of(root):
        if field.entity:
            found.extend(_nested(field.entity))
    return tuple(found)
