"""From a handler's plain fields to a framed response of the request's own version.

Handlers write one answer for all versions: `build` drops what a version does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import build, encode_response

if TYPE_CHECKING:
    from nodes.network.request_channel import Request

NO_OPERATIONS: Final = -(2**31)
"""What `authorized_operations` fields say when nobody asked for them."""

CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000
"""Bits of AclOperation codes: create, alter, describe, cluster action, describe configs, alter
configs, idempotent write. Without an authorizer every supported operation is allowed."""

TOPIC_OPERATIONS: Final = 0b1101_1111_1000
"""Read, write, create, delete, alter, describe, describe configs, alter configs."""

GROUP_OPERATIONS: Final = 0b1_0100_1000
"""Read, delete, describe."""

K = TypeVar("K")
V = TypeVar("V")


def frame_of(request: Request, fields: Mapping[str, Any]) -> bytes:
    """The whole response frame for `fields`."""
    key, version = ApiKey(request.api_key), request.api_version
    request.errors = error_codes(fields)
    entity = build(response_class(key, version), **fields)
    return encode_response(key, version, request.correlation_id, entity)


def error_codes(fields: Mapping[str, Any]) -> list[int] | None:
    """Every error code that an answer's fields say, for the metric ErrorsPerSec; None where they
    say nothing or nothing but one "no error". As in Kafka's responses (`errorCounts`), an error of
    the whole answer is counted as often as there are parts that share its fate."""
    found: list[int] = []
    _collect(fields, found)
    whole = int(fields.get("error_code") or 0)
    if whole:
        return [whole] * max(1, len(found) - 1)
    return found if found and found != [0] else None


def _collect(fields: Mapping[str, Any], found: list[int]) -> None:
    for name, value in fields.items():
        if name == "error_code":
            found.append(int(value or 0))
        elif isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, Mapping):
                    _collect(item, found)


def answer(request: Request, /, **fields: Any) -> None:
    """Build, frame and send; any thread."""
    request.respond(frame_of(request, fields))


def millis(duration: timedelta) -> int:
    """kio's durations as whole milliseconds (negative ones too)."""
    return (duration.days * 86_400 + duration.seconds) * 1000 + duration.microseconds // 1000


def by_topic(rows: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Group rows by topic, both in order of first appearance."""
    grouped: dict[K, list[V]] = {}
    for topic, row in rows:
        grouped.setdefault(topic, []).append(row)
    return grouped
