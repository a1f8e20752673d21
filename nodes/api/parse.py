"""From a received frame to a header and a body: what network threads call (`Processor`'s `parse`).

ApiVersions is the one request that may come in a version that nobody here knows: it is answered on
the spot, because its sender asks in order to find out. Everything else that cannot be parsed closes
its connection, as in Kafka.
"""

from __future__ import annotations

from typing import Any, Final

from nodes.api.api_versions import unsupported_version
from nodes.api.produce_frame import parse_single_produce
from nodes.network.processor import AnswerAtOnce
from nodes.wire.apis import ApiKey
from nodes.wire.codec import RequestHeader, UnsupportedVersion, parse_body, parse_header

_PRODUCE: Final = b"\0\0"


def parse(frame: bytes) -> tuple[RequestHeader, Any]:
    """Header and entity of a frame without its size; WireError closes, AnswerAtOnce answers."""
    if frame[:2] == _PRODUCE:
        single = parse_single_produce(frame)
        if single is not None:
            return single
    try:
        header = parse_header(frame)
    except UnsupportedVersion as unknown:
        if unknown.api_key == ApiKey.API_VERSIONS:
            raise AnswerAtOnce(unsupported_version(unknown.correlation_id)) from None
        raise
    return header, parse_body(header, frame)
