"""One question to one broker: connect, send, read, close; errors by Kafka's names.

For what the harness asks itself now and then. Workloads keep connections of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.wire.apis import ApiKey, request_class
from nodes.wire.client import Connection, WireClientError
from nodes.wire.codec import WireError, build

CLIENT_ID: Final = "biplane-harness"
METADATA_VERSION: Final = 7
"""The first that tells leader epochs (Kafka 2.1)."""
_IDEA_VERSION: Final = 1
"""The first that tells the controller."""


class NoAnswer(Exception):
    """The broker could not be reached, or its answer was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdea:
    """What one broker believes."""

    controller: int
    brokers: frozenset[int]


def error_name(code: int) -> str:
    """Kafka's name of an error code: 41 -> NOT_CONTROLLER."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"error {code}"


def request(api: ApiKey, version: int, /, **fields: Any) -> Any:
    return build(request_class(api, version), **fields)


def ask(address: tuple[str, int], entity: Any, timeout_s: float) -> Any:
    """The broker's response entity. Raises `NoAnswer`."""
    host, port = address
    with Connection(host, port, CLIENT_ID, timeout_s) as connection:
        try:
            return connection.request(entity)
        except (WireClientError, WireError, OSError) as e:
            raise NoAnswer(f"{host}:{port}: {e}") from e


def served(address: tuple[str, int], timeout_s: float) -> dict[int, tuple[int, int]]:
    """By API key: the lowest and the highest version that the broker says it serves."""
    answer = ask(address, request(ApiKey.API_VERSIONS, 0), timeout_s)
    return {int(a.api_key): (int(a.min_version), int(a.max_version)) for a in answer.api_keys}


def cluster_idea(address: tuple[str, int], timeout_s: float) -> ClusterIdea:
    """What the broker at ``address`` tells clients about its peers."""
    answer = ask(address, request(ApiKey.METADATA, _IDEA_VERSION, topics=[]), timeout_s)
    return ClusterIdea(
        controller=int(answer.controller_id),
        brokers=frozenset(int(broker.node_id) for broker in answer.brokers),
    )
