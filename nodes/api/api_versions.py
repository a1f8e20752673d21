"""ApiVersions: what this broker speaks. The first request of every client.

The answer is the same for every request of a version, so it is kept encoded. A version of the
request itself that is not served cannot be parsed; it gets a version-0 answer with error 35 that
lists ApiVersions alone, from which the client learns which version to ask in
(`unsupported_version`; every other unknown request costs its client the connection).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from nodes.api.answers import answer
from nodes.core.errors import Errors
from nodes.wire.apis import SUPPORTED, ApiKey, response_class
from nodes.wire.codec import build, encode_response

if TYPE_CHECKING:
    from nodes.network.request_channel import Request

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE: Final = 3


def api_versions(request: Request) -> None:
    body = request.body
    if request.api_version >= _FIRST_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(body.client_software_name)
        and _SOFTWARE.fullmatch(body.client_software_version)
    ):
        answer(request, error_code=Errors.INVALID_REQUEST, api_keys=[])
        return
    frame = _served(request.api_version)
    request.respond(frame[:4] + request.correlation_id.to_bytes(4, "big", signed=True) + frame[8:])


def unsupported_version(correlation_id: int) -> bytes:
    """The whole response frame for an ApiVersions request of a version that is not served."""
    low, high = SUPPORTED[ApiKey.API_VERSIONS]
    row = {"api_key": ApiKey.API_VERSIONS, "min_version": low, "max_version": high}
    entity = build(
        response_class(ApiKey.API_VERSIONS, 0),
        error_code=Errors.UNSUPPORTED_VERSION,
        api_keys=[row],
    )
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, entity)


@cache
def _served(version: int) -> bytes:
    rows = [
        {"api_key": int(key), "min_version": low, "max_version": high}
        for key, (low, high) in sorted(SUPPORTED.items())
    ]
    entity = build(response_class(ApiKey.API_VERSIONS, version), api_keys=rows)
    return encode_response(ApiKey.API_VERSIONS, version, 0, entity)
