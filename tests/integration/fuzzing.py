"""Requests of every API and version with some of their bytes changed, the same for the same seed.

Left out are those that came out as a valid order to change the cluster or to wait for long, which a
broker without an authorizer has to obey: what they did to the rest of a test would prove nothing.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from nodes.wire.apis import SUPPORTED, ApiKey, request_class
from nodes.wire.codec import build, encode_request, parse_body, parse_header
from nodes.wire.errors import WireError
from tests.nodes.api.bodies import BODIES

_STALE: Final = {"controller_id": 1, "controller_epoch": 0, "broker_epoch": 0, "broker_id": 1}
CONTROL: Final = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
}
_SUBSCRIPTION: Final = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"
_MORE: Final[dict[ApiKey, dict[str, Any]]] = {
    ApiKey.OFFSET_FETCH: {
        "group_id": "g",
        "topics": [{"name": "t", "partition_indexes": [0, 1]}],
        "groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}],
    },
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g", "h"]},
    ApiKey.JOIN_GROUP: {
        "group_id": "fuzzed",
        "session_timeout": 6000,
        "rebalance_timeout": 1000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": _SUBSCRIPTION}],
    },
    ApiKey.SYNC_GROUP: {
        "group_id": "fuzzed",
        "generation_id": 1,
        "member_id": "m",
        "assignments": [{"member_id": "m", "assignment": b"abc"}],
    },
    ApiKey.DELETE_TOPICS: {"topic_names": ["fuzz"], "topics": [{"name": "fuzz"}]},
    ApiKey.DESCRIBE_LOG_DIRS: {"topics": [{"topic": "t", "partitions": [0]}]},
    ApiKey.OFFSET_DELETE: {
        "group_id": "g",
        "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}],
    },
    ApiKey.API_VERSIONS: {"client_software_name": "x", "client_software_version": "1"},
    ApiKey.CREATE_TOPICS: {
        "topics": [
            {"name": "fuzz", "num_partitions": 2, "configs": [{"name": "a", "value": "1"}]},
            {"name": "fuzz2", "assignments": [{"partition_index": 0, "broker_ids": [1, 2]}]},
        ],
        "validate_only": True,
    },
    ApiKey.CREATE_PARTITIONS: {"topics": [{"name": "t", "count": 3}], "validate_only": True},
}
_PATIENCE: Final = timedelta(seconds=2)
_INTEGERS: Final = (-1, 0, 1, 1000, 65_535, 2**31 - 1, -(2**31))
_LONGS: Final = (-1, 0, 2**40, 2**63 - 1, -(2**63))


def damaged_requests(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """(name, frame without its size)."""
    rng = random.Random(seed)
    whole = list(_whole())
    while count:
        name, payload = rng.choice(whole)
        damaged = _damage(payload, rng)
        if not _is_an_order(damaged):
            count -= 1
            yield name, damaged


def _whole() -> Iterator[tuple[str, bytes]]:
    for api, (low, high) in SUPPORTED.items():
        for version in range(low, high + 1):
            cls = request_class(api, version)
            body = BODIES.get(api, {}) | _MORE.get(api, {})
            if api in CONTROL:
                body |= {k: v for k, v in _STALE.items() if k in cls.__dataclass_fields__}
            yield f"{api.name} {version}", encode_request(build(cls, **body), 7, "fuzz")[4:]


def _damage(payload: bytes, rng: random.Random) -> bytes:
    data = bytearray(payload)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(8, max(len(data), 9))
        match rng.choice("bbbvvvildn"):
            case "b" if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case "v" if at < len(data):
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
            case "i":
                data[at : at + 4] = struct.pack(">i", rng.choice(_INTEGERS))
            case "l":
                data[at : at + 8] = struct.pack(">q", rng.choice(_LONGS))
            case "d":
                del data[at : at + rng.randrange(1, 5)]
            case _:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(data)


def _is_an_order(payload: bytes) -> bool:
    try:
        header = parse_header(payload)
        body = parse_body(header, payload)
    except WireError:
        return False
    match header.api_key:
        case ApiKey.LEADER_AND_ISR | ApiKey.STOP_REPLICA | ApiKey.UPDATE_METADATA:
            return body.controller_epoch > 0 or getattr(body, "broker_epoch", -1) != 0
        case ApiKey.CONTROLLED_SHUTDOWN | ApiKey.ALTER_PARTITION:
            return getattr(body, "broker_epoch", -1) != 0
        case ApiKey.CREATE_TOPICS | ApiKey.CREATE_PARTITIONS:
            return not body.validate_only
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            return True
        case ApiKey.FETCH:
            return bool(body.max_wait > _PATIENCE)
        case ApiKey.JOIN_GROUP:
            waits = (body.session_timeout, getattr(body, "rebalance_timeout", body.session_timeout))
            return bool(max(waits) > timedelta(seconds=6))
        case ApiKey.PRODUCE:
            return bool(body.acks == 0)  # not an order, but has no answer to wait for
        case _:
            return False
