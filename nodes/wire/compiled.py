"""Compiles, for an entity class, a writer and a checker of its wire form.

Why a writer: kio's walks closures field by field (150 us for a Metadata answer of 30 partitions);
a function generated per class packs each run of fixed-size fields at once.

Why a checker: kio's native reader trusts an array's length. A frame that claims 2^31 items makes it
reserve 16 GiB, and where that fails *the process aborts*: no exception reaches Python. The checker
walks only lengths and counts (no object is made), refuses whatever cannot fit into the frame, and
so bounds time and memory by the frame's size. It must accept exactly the frames that the native
reader can read without reading beyond their end, whose strings have at most `MAX_TEXT_BYTES` each,
and that hold at most `MAX_ITEMS` array items in all: each item becomes an object, so that 100 MB of
two-byte topic names would cost half a minute of a network thread (the native reader keeps the
interpreter lock all the while) and gigabytes.

Generated functions::

    write(out, entity)       out is list.append; values may be kio's types or plain ints (ms)
    check(buffer, at, end, cuts)
                             returns the offset after the entity; raises WireError or IndexError/
                             struct.error (the caller turns these into WireError). Tagged fields
                             that nobody knows yet (KIP-482) go into `cuts`: kio refuses them

The generated source contains field names of entity classes only, never anything from the wire.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, TypeAlias
from uuid import UUID

from nodes.wire.errors import WireError
from nodes.wire.plan import FIXED, FieldPlan, fields_of

Append: TypeAlias = Callable[[bytes | memoryview], object]
Write: TypeAlias = Callable[[Append, Any], None]
Cut: TypeAlias = tuple[int, int, bytes]
"""What from one offset to another is to be replaced by."""
Check: TypeAlias = Callable[[bytes | memoryview, int, int, list[Cut]], int]

MAX_ITEMS: Final = 500_000
"""Items of all arrays of one frame, nested ones included: about half a second, and far more than a
LeaderAndIsr or UpdateMetadata of 50,000 partitions has."""

MAX_TEXT_BYTES: Final = 0x7FFF
"""Of a string, in all versions, as in Kafka: other messages, and records, have 16 bits for it."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_ZERO_UUID: Final = bytes(16)
_ONE_BYTE: Final = [bytes((value,)) for value in range(0x80)]


def varint(value: int) -> bytes:
    """Kafka's unsigned varint."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes: (value, offset after it)."""
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 28:
            raise WireError("varint longer than five bytes")


def duration_ms(value: Any) -> int:
    """Milliseconds of a timedelta, or of a plain int."""
    return value // _MILLISECOND if isinstance(value, timedelta) else int(value)


def epoch_ms(value: Any) -> int:
    """Milliseconds since the epoch of a datetime, an int, or None (-1)."""
    if value is None:
        return -1
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else int(value)


def uuid_bytes(value: UUID | None) -> bytes:
    """Sixteen bytes; None is Kafka's zero id."""
    return value.bytes if value is not None else _ZERO_UUID


def _too_short(name: str) -> WireError:
    return WireError(f"{name} does not fit into the frame")


def _too_many(name: str) -> WireError:
    return WireError(f"more than {MAX_ITEMS} items by the end of {name}")


def _too_long(name: str) -> WireError:
    return WireError(f"{name} is longer than {MAX_TEXT_BYTES} bytes")


def _must_not_be_null(name: str) -> WireError:
    return WireError(f"{name} must not be null")


_CONVERSIONS: Final = {
    "timedelta_i32": "duration_ms({})",
    "timedelta_i64": "duration_ms({})",
    "datetime_i64": "epoch_ms({})",
    "uuid": "uuid_bytes({})",
}


class _Source:
    """Lines of a function and the names that they refer to."""

    def __init__(self, entity_class: Any, signature: str) -> None:
        self.name = entity_class.__name__
        self.flexible = bool(entity_class.__flexible__)
        self.lines = [f"def generated({signature}):"]
        self.names: dict[str, Any] = {
            "varint": varint,
            "read_varint": read_varint,
            "duration_ms": duration_ms,
            "epoch_ms": epoch_ms,
            "uuid_bytes": uuid_bytes,
            "too_short": _too_short,
            "too_many": _too_many,
            "too_long": _too_long,
            "must_not_be_null": _must_not_be_null,
            "WireError": WireError,
            "pack": struct.pack,
            "pack_i16": struct.Struct(">h").pack,
            "pack_i32": struct.Struct(">i").pack,
            "read_i16": struct.Struct(">h").unpack_from,
            "read_i32": struct.Struct(">i").unpack_from,
        }

    def add(self, indent: int, *lines: str) -> None:
        self.lines.extend("    " * indent + line for line in lines)

    def bind(self, value: Any) -> str:
        name = f"bound_{len(self.names)}"
        self.names[name] = value
        return name

    def finish(self) -> Any:
        exec(compile("\n".join(self.lines), f"<{self.name}>", "exec"), self.names)
        return self.names["generated"]


@cache
def writer(entity_class: Any) -> Write:
    """The compiled writer of a class."""
    source = _Source(entity_class, "out, entity")
    run: list[FieldPlan] = []
    for field in fields_of(entity_class):
        if field.tag is not None:
            continue
        if field.code:
            run.append(field)
            continue
        _write_run(source, run)
        run = []
        source.add(1, f"value = entity.{field.name}")
        _write_value(source, 1, field)
    _write_run(source, run)
    if source.flexible:
        _write_tags(source, entity_class)
    source.add(1, "return None")
    write: Write = source.finish()
    return write


def _converted(field: FieldPlan, value: str) -> str:
    return _CONVERSIONS.get(field.primitive or "", "{}").format(value)


def _write_run(source: _Source, run: list[FieldPlan]) -> None:
    if run:
        pack = source.bind(struct.Struct(">" + "".join(f.code or "" for f in run)).pack)
        values = ", ".join(_converted(field, f"entity.{field.name}") for field in run)
        source.add(1, f"out({pack}({values}))")


def _write_value(source: _Source, indent: int, field: FieldPlan) -> None:
    null = r"b'\0'" if source.flexible else "pack_i32(-1)"
    if field.many:
        source.add(indent, "if value is None:")
        source.add(indent + 1, _on_null(field, null))
        source.add(indent, "else:", "    count = len(value)")
        count = "varint(count + 1)" if source.flexible else "pack_i32(count)"
        source.add(indent + 1, f"out({count})")
        code = FIXED.get(field.primitive or "")
        if field.entity:
            source.add(indent + 1, "for item in value:")
            source.add(indent + 2, f"{source.bind(writer(field.entity))}(out, item)")
        elif code and field.primitive not in _CONVERSIONS:
            source.add(indent + 1, f"out(pack('>%d{code}' % count, *value))")
        else:
            item = FieldPlan(field.name, field.primitive, None, False, False, None, None)
            source.add(indent + 1, "for value in value:")
            _write_value(source, indent + 2, item)
    elif field.entity:
        write = source.bind(writer(field.entity))
        if field.nullable:
            source.add(indent, r"out(b'\xff' if value is None else b'\1')")
            source.add(indent, "if value is not None:", f"    {write}(out, value)")
        else:
            source.add(indent, f"{write}(out, value)")
    elif field.primitive in FIXED:
        pack = source.bind(struct.Struct(">" + FIXED[field.primitive]).pack)
        source.add(indent, f"out({pack}({_converted(field, 'value')}))")
    else:
        is_text = field.primitive == "string"
        if is_text and not source.flexible:
            null = "pack_i16(-1)"
        source.add(indent, "if value is None:")
        source.add(indent + 1, _on_null(field, null))
        source.add(indent, "else:")
        if is_text:
            source.add(indent + 1, "value = value.encode()")
        length = "pack_i16(len(value))" if is_text else "pack_i32(len(value))"
        if source.flexible:
            length = "varint(len(value) + 1)"
        source.add(indent + 1, f"out({length})", "out(value)")


def _on_null(field: FieldPlan, null: str) -> str:
    return f"out({null})" if field.nullable else f"raise must_not_be_null('{field.name}')"


def _write_tags(source: _Source, entity_class: Any) -> None:
    tagged = sorted((f for f in fields_of(entity_class) if f.tag is not None), key=_tag)
    if not tagged:
        source.add(1, r"out(b'\0')")
        return
    source.add(1, "tags = 0", "tagged = []", "outer = out")
    for field in tagged:
        default = source.bind(_tag_default(field))
        source.add(1, f"value = entity.{field.name}", f"if value != {default}:")
        source.add(2, "parts = []", "out = parts.append", "tags += 1")
        _write_value(source, 2, field)
        source.add(2, "body = b''.join(parts)")
        source.add(2, f"tagged.append(varint({field.tag}) + varint(len(body)) + body)")
    source.add(1, "outer(varint(tags) + b''.join(tagged))")


def _tag(field: FieldPlan) -> int:
    return field.tag if field.tag is not None else -1


def _tag_default(field: FieldPlan) -> Any:
    from nodes.wire.build import default_of

    return default_of(field)


@cache
def checker(entity_class: Any) -> Check:
    """The compiled checker of a class."""
    check = _checker(entity_class)
    return lambda buffer, at, end, cuts: check(buffer, at, end, [MAX_ITEMS], cuts)


def without(frame: bytes | memoryview, cuts: list[Cut]) -> bytes:
    """The frame as it is read."""
    pieces: list[bytes | memoryview] = []
    begin = 0
    for start, stop, instead in sorted(cuts):
        pieces += [frame[begin:start], instead]
        begin = stop
    return b"".join([*pieces, frame[begin:]])


@cache
def _checker(
    entity_class: Any,
) -> Callable[[bytes | memoryview, int, int, list[int], list[Cut]], int]:
    """The same with what is left of the items, in a list of one that all levels share."""
    source = _Source(entity_class, "buffer, at, end, room, cuts")
    size = 0
    for field in fields_of(entity_class):
        if field.tag is not None:
            continue
        if field.code:
            size += struct.calcsize(">" + field.code)
            continue
        if size:
            source.add(1, f"at += {size}")
            size = 0
        _check_value(source, 1, field)
    if size:
        source.add(1, f"at += {size}")
    if source.flexible:
        _check_tags(source, entity_class)
    source.add(1, "if at > end:", f"    raise too_short('{source.name}')", "return at")
    check: Callable[[bytes | memoryview, int, int, list[int], list[Cut]], int] = source.finish()
    return check


@cache
def least_size(entity_class: Any) -> int:
    """The fewest bytes that an entity can take."""
    size = 1 if entity_class.__flexible__ else 0
    for field in fields_of(entity_class):
        if field.tag is None:
            size += _least_field_size(field, bool(entity_class.__flexible__))
    return size


def _least_field_size(field: FieldPlan, flexible: bool) -> int:
    if field.code:
        return struct.calcsize(">" + field.code)
    if field.entity and not field.many:
        return 1 if field.nullable else least_size(field.entity)
    if flexible:
        return 1
    return 2 if field.primitive == "string" and not field.many else 4


def _check_count(source: _Source, indent: int, field: FieldPlan, legacy: str) -> None:
    """Reads a count or length into `count` (null becomes 0 when it is allowed)."""
    if source.flexible:
        source.add(indent, "count = buffer[at]", "at += 1", "if count > 127:")
        source.add(indent + 1, "count, at = read_varint(buffer, at - 1)")
        source.add(indent, "count -= 1")
    else:
        width = 2 if legacy == "read_i16" else 4
        source.add(indent, f"count = {legacy}(buffer, at)[0]", f"at += {width}")
    source.add(indent, "if count < 0:")
    if field.nullable:
        source.add(indent + 1, "if count != -1:")
        source.add(indent + 2, f"raise WireError('{field.name} has a negative length')")
        source.add(indent + 1, "count = 0")
    else:
        source.add(indent + 1, f"raise must_not_be_null('{field.name}')")


def _check_value(source: _Source, indent: int, field: FieldPlan) -> None:
    if field.many:
        _check_count(source, indent, field, "read_i32")
        item = FieldPlan(field.name, field.primitive, field.entity, False, False, None, None)
        least = _least_field_size(item, source.flexible)
        source.add(indent, f"if count > (end - at) // {max(1, least)}:")
        source.add(indent + 1, f"raise too_short('{field.name}')")
        source.add(indent, "room[0] -= count", "if room[0] < 0:")
        source.add(indent + 1, f"raise too_many('{field.name}')")
        if item.code or _is_fixed(field.entity):
            source.add(indent, f"at += count * {least}")
        elif field.entity:
            check = source.bind(_checker(field.entity))
            source.add(indent, "for _ in range(count):")
            source.add(indent + 1, f"at = {check}(buffer, at, end, room, cuts)")
        else:
            source.add(indent, "for _ in range(count):")
            _check_value(source, indent + 1, item)
    elif field.entity:
        check = source.bind(_checker(field.entity))
        if field.nullable:
            source.add(indent, "at += 1", "if buffer[at - 1] != 255:")
            indent += 1
        source.add(indent, f"at = {check}(buffer, at, end, room, cuts)")
    elif field.code:
        source.add(indent, f"at += {struct.calcsize('>' + field.code)}")
    else:
        _check_count(
            source, indent, field, "read_i16" if field.primitive == "string" else "read_i32"
        )
        if field.primitive == "string" and source.flexible:
            source.add(indent, f"if count > {MAX_TEXT_BYTES}:")
            source.add(indent + 1, f"raise too_long('{field.name}')")
        source.add(indent, "at += count", "if at > end:")
        source.add(indent + 1, f"raise too_short('{field.name}')")


def _is_fixed(entity_class: Any) -> bool:
    return (
        entity_class is not None
        and not entity_class.__flexible__
        and all(field.code for field in fields_of(entity_class))
    )


def _check_tags(source: _Source, entity_class: Any) -> None:
    """Known tags must have exactly the size they declare; unknown ones are cut, but in a known one,
    whose size that would change."""
    source.add(1, "began = at", "tags, at = read_varint(buffer, at)", "after, known = at, tags")
    source.add(1, "for _ in range(tags):", "    entry, cut = at, len(cuts)")
    source.add(2, "tag, at = read_varint(buffer, at)", "size, at = read_varint(buffer, at)")
    source.add(2, "stop = at + size", "if stop > end:", "    raise too_short('tagged field')")
    word = "if"
    for field in fields_of(entity_class):
        if field.tag is not None:
            source.add(2, f"{word} tag == {field.tag}:")
            untagged = FieldPlan(
                field.name, field.primitive, field.entity, field.many, False, None, None
            )
            _check_value(source, 3, untagged)
            word = "elif"
    source.add(2, f"{word} True:", "    room[0] -= 1", "    if room[0] < 0:")
    source.add(4, f"raise too_many('{source.name}')")
    source.add(3, "at = stop", "known -= 1", "cuts.append((entry, stop, b''))", "continue")
    source.add(2, "if at != stop or len(cuts) != cut:")
    source.add(3, "raise WireError('tagged field of wrong size')")
    source.add(1, "if known != tags:", "    cuts.append((began, after, varint(known)))")
