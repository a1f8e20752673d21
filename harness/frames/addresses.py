"""Answers in which brokers tell where they are, with other addresses in them.

Clients follow the addresses that a cluster advertises. Where those cannot be a proxy's, because the
cluster is not ours, what clients are told is changed on its way to them: in Metadata,
FindCoordinator and DescribeCluster, by broker id. Produce 10 and Fetch 16 tell of new leaders with
their addresses, too (KIP-951); ApiVersions is cut short below those, so that no client asks for
them. A broker that the map does not know keeps its own address. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from harness.frames.wire import SIZE, Head

METADATA: Final = 3
FIND_COORDINATOR: Final = 10
API_VERSIONS: Final = 18
DESCRIBE_CLUSTER: Final = 60
TELL_ADDRESSES: Final = frozenset({METADATA, FIND_COORDINATOR, API_VERSIONS, DESCRIBE_CLUSTER})
NEWEST: Final[Mapping[int, int]] = {0: 9, 1: 15}
"""Produce and Fetch: the last versions whose answers name no broker's address."""
_FLEXIBLE: Final[Mapping[int, int]] = {METADATA: 9, FIND_COORDINATOR: 3, DESCRIBE_CLUSTER: 0}
"""From which version on an answer's header has tagged fields; ApiVersions' never has (KIP-511)."""
_UNSUPPORTED_VERSION: Final = 35

Addresses = Mapping[int, tuple[str, int]]
"""By broker id: where clients are to find it."""


class Unreadable(ValueError):
    """An answer that is none; passed on as it is, a client would find its way past the proxies."""


def tells_addresses(head: Head) -> bool:
    return head.api_key in TELL_ADDRESSES


def readdressed(head: Head, answer: bytes, addresses: Addresses) -> bytes:
    """``answer``: without its size, to the request ``head``; with its size what the client gets.
    Raises `Unreadable`."""
    start = SIZE.size
    if head.version >= _FLEXIBLE.get(head.api_key, 1 << 15):
        start += 1
        if answer[SIZE.size : start] != b"\0":
            raise Unreadable(f"tags in the header of an answer to API {head.api_key}")
    version = head.version
    if head.api_key == API_VERSIONS and answer[4:6] == _UNSUPPORTED_VERSION.to_bytes(2, "big"):
        version = 0  # this error is answered in version 0, whatever version was asked (KIP-511)
    try:
        kind: Any = load_response_schema(head.api_key, version)
        entity, _ = entity_reader(kind)(answer, start)
        changed = _changed(head.api_key, entity, addresses)
        body = bytearray(answer[:start])
        entity_writer(kind)(_Sink(body), changed)  # type: ignore[arg-type]
    except Exception as error:  # kio's readers raise whatever comes
        raise Unreadable(f"API {head.api_key}, version {head.version}: {error!r}") from error
    return SIZE.pack(len(body)) + bytes(body)


class _Sink:
    """What kio writes to."""

    def __init__(self, into: bytearray) -> None:
        self._into = into

    def write(self, data: bytes) -> None:
        self._into += data


def _changed(api_key: int, entity: Any, addresses: Addresses) -> Any:
    if api_key == METADATA:
        found = tuple(_at(one, one.node_id, addresses) for one in entity.brokers)
        return dataclasses.replace(entity, brokers=found)
    if api_key == DESCRIBE_CLUSTER:
        found = tuple(_at(one, one.broker_id, addresses) for one in entity.brokers)
        return dataclasses.replace(entity, brokers=found)
    if api_key == API_VERSIONS:
        return dataclasses.replace(entity, api_keys=tuple(_cut(key) for key in entity.api_keys))
    if hasattr(entity, "coordinators"):
        found = tuple(_at(one, one.node_id, addresses) for one in entity.coordinators)
        return dataclasses.replace(entity, coordinators=found)
    return _at(entity, entity.node_id, addresses)


def _at(one: Any, node: int, addresses: Addresses) -> Any:
    found = addresses.get(int(node))
    if found is None:
        return one
    host, port = found
    return dataclasses.replace(one, host=host, port=type(one.port)(port))


def _cut(key: Any) -> Any:
    newest = NEWEST.get(int(key.api_key))
    if newest is None or int(key.max_version) <= newest:
        return key
    return dataclasses.replace(key, max_version=type(key.max_version)(newest))
