"""What an entity class consists of, as a flat plan that readers, writers and builders follow.

kio describes a class by dataclass fields, annotations and metadata. This module reads that
description once per class, so that `compiled` and `build` need not know kio's conventions.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

#: struct codes of the kafka_types whose size is fixed.
FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """One field: exactly one of `primitive` and `entity` is set."""

    name: str
    primitive: str | None
    entity: Any
    many: bool
    nullable: bool
    tag: int | None
    default: Any

    @property
    def code(self) -> str | None:
        """The struct code when the field (a lone primitive) has a fixed size."""
        return FIXED.get(self.primitive) if self.primitive and not self.many else None


@cache
def fields_of(entity_class: Any) -> tuple[FieldPlan, ...]:
    """The plan of a class, in wire order (tagged fields wherever the class has them)."""
    plans = []
    for field in dataclasses.fields(entity_class):
        inner, nullable = _without_none(field.type)
        many = get_origin(inner) is tuple
        if many:
            inner = get_args(inner)[0]
        entity = inner if dataclasses.is_dataclass(inner) else None
        plans.append(
            FieldPlan(
                name=field.name,
                primitive=None if entity else field.metadata["kafka_type"],
                entity=entity,
                many=many,
                nullable=nullable,
                tag=field.metadata.get("tag"),
                default=MISSING if field.default is MISSING else field.default,
            )
        )
    return tuple(plans)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (UnionType, Union):
        inner = [item for item in get_args(annotation) if item is not NoneType]
        return inner[0], len(inner) < len(get_args(annotation))
    return annotation, False
