"""Declares a Kafka message once and makes a dataclass of it for each version.

Kafka's message definitions say per field from which version to which it exists; kio generates one
module a version from them. Here the same facts are a table (`Field`, `Struct`, `MessagePair`) and
the dataclasses are made on first use. They have kio's form: frozen, slotted, keyword-only, with
``__version__``, ``__flexible__``, ``__api_key__``, ``__header_schema__`` and a ``kafka_type`` in
each field's metadata.

Rejected: 38 hand-kept modules, in which one version's slip is easily overlooked; golden bytes
check every version instead (tests/nodes/wire/golden).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from typing import Any, Final

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64

_PYTHON_TYPES: Final[Mapping[str, Any]] = {
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "bool": bool,
    "string": str,
    "uuid": uuid.UUID | None,
    "error_code": ErrorCode,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `kind` is a primitive's kafka_type or a `Struct`; versions are inclusive.

    `default` None means that there is none (no field of these messages defaults to null).
    """

    name: str
    kind: str | Struct
    since: int = 0
    until: int = 32767
    many: bool = False
    nullable: bool = False
    default: object = None
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    """A nested structure."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class MessagePair:
    """A request and its response, versions `lowest` to `highest`, flexible from `flexible_from`."""

    api_key: int
    lowest: int
    highest: int
    flexible_from: int
    request_struct: Struct
    response_struct: Struct

    def request(self, version: int) -> Any:
        """The request's dataclass at a version."""
        header = 2 if version >= self.flexible_from else 1
        if self.api_key == 7 and version == 0:
            header = 0
        return self._make(self.request_struct, version, EntityType.request, header)

    def response(self, version: int) -> Any:
        """The response's dataclass at a version."""
        header = 1 if version >= self.flexible_from else 0
        return self._make(self.response_struct, version, EntityType.response, header)

    def _make(self, struct: Struct, version: int, entity_type: EntityType, header: int) -> Any:
        if not self.lowest <= version <= self.highest:
            raise KeyError((self.api_key, version))
        side = "request_header" if entity_type is EntityType.request else "response_header"
        common = {
            "__version__": i16(version),
            "__flexible__": version >= self.flexible_from,
            "__api_key__": i16(self.api_key),
            "__header_schema__": _header_class(side, header),
        }
        return _make_struct(struct, version, entity_type, tuple(common.items()))


def _header_class(side: str, version: int) -> Any:
    """kio's header class; it has none for request header 0 (see `apis.request_header_version`)."""
    if side == "request_header" and version == 0:
        return None
    return load_entity_schema(side, version, EntityType.header)


@cache
def _make_struct(
    struct: Struct, version: int, entity_type: EntityType, common: tuple[tuple[str, Any], ...]
) -> Any:
    fields: list[tuple[str, Any, Any]] = []
    for spec in struct.fields:
        if not spec.since <= version <= spec.until:
            continue
        metadata: dict[str, Any] = {}
        kind: Any
        if isinstance(spec.kind, Struct):
            kind = _make_struct(spec.kind, version, EntityType.nested, common)
        else:
            kind = _PYTHON_TYPES[spec.kind]
            metadata["kafka_type"] = spec.kind
        if spec.many:
            kind = tuple[kind, ...]
        if spec.nullable:
            kind = kind | None
        if spec.tag is not None:
            metadata["tag"] = spec.tag
        default: Any = MISSING if spec.default is None else spec.default
        if spec.many and isinstance(spec.kind, str):
            default = ()
        fields.append((spec.name, kind, dataclasses.field(metadata=metadata, default=default)))
    namespace = {
        "__type__": entity_type,
        "__doc__": f"{struct.name}, version {version}.",
        "__module__": __name__,
        **dict(common),
    }
    return dataclasses.make_dataclass(
        struct.name, fields, namespace=namespace, frozen=True, slots=True, kw_only=True
    )
