"""ApiVersions: what is offered to whom, in the numbers of Kafka 3.9's message definitions, not in
those of our code."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.api.api_versions import unsupported_version
from nodes.wire.apis import ApiKey
from nodes.wire.codec import decode_response

OFFERED = {
    # key: (our least, our most, Kafka's most; Kafka's least is 0)
    0: (3, 11, 11),  # Produce: 0 to 2 carry messages of before record batches
    1: (4, 13, 17),  # Fetch: likewise; 13 is the first by topic ids
    2: (1, 7, 9),  # ListOffsets; 8 and 9 ask for remote storage's offsets
    3: (0, 12, 12),  # Metadata
    4: (4, 7, 7),  # LeaderAndIsr: what controllers of this cluster's versions send
    5: (1, 4, 4),  # StopReplica
    6: (5, 8, 8),  # UpdateMetadata
    7: (0, 3, 3),  # ControlledShutdown
    8: (2, 8, 9),  # OffsetCommit
    9: (1, 8, 9),  # OffsetFetch
    10: (0, 4, 6),  # FindCoordinator
    11: (0, 9, 9),  # JoinGroup
    12: (0, 4, 4),  # Heartbeat
    13: (0, 5, 5),  # LeaveGroup
    14: (0, 5, 5),  # SyncGroup
    15: (0, 5, 5),  # DescribeGroups
    16: (0, 4, 5),  # ListGroups
    18: (0, 4, 4),  # ApiVersions
    19: (2, 7, 7),  # CreateTopics
    20: (1, 6, 6),  # DeleteTopics
    21: (0, 2, 2),  # DeleteRecords
    22: (0, 4, 5),  # InitProducerId
    23: (2, 4, 4),  # OffsetForLeaderEpoch
    29: (1, 3, 3),  # DescribeAcls
    30: (1, 3, 3),  # CreateAcls
    31: (1, 3, 3),  # DeleteAcls
    32: (1, 4, 4),  # DescribeConfigs
    33: (0, 2, 2),  # AlterConfigs
    35: (1, 4, 4),  # DescribeLogDirs
    37: (0, 3, 3),  # CreatePartitions
    42: (0, 2, 2),  # DeleteGroups
    43: (0, 2, 2),  # ElectLeaders
    44: (0, 1, 1),  # IncrementalAlterConfigs
    45: (0, 0, 0),  # AlterPartitionReassignments
    46: (0, 0, 0),  # ListPartitionReassignments
    47: (0, 0, 0),  # OffsetDelete
    56: (2, 3, 3),  # AlterPartition
    60: (0, 1, 1),  # DescribeCluster
    61: (0, 0, 0),  # DescribeProducers
}
NAMED = {"client_software_name": "test", "client_software_version": "1"}


def _fields(version: int) -> dict[str, str]:
    return NAMED if version >= 3 else {}


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_the_same_is_offered_in_every_version_and_on_every_plane(
    node: Any, version: int, listener: str
) -> None:
    """Kafka's ApiVersionManager is one for all listeners: KIP-291 refuses nothing by its plane."""
    reply = node.send(ApiKey.API_VERSIONS, version, listener=listener, **_fields(version))
    frame = reply.wait()
    answered, answer = decode_response(ApiKey.API_VERSIONS, version, frame[4:])
    assert answered == reply.correlation_id
    assert answer.error_code == 0
    rows = [(int(r.api_key), int(r.min_version), int(r.max_version)) for r in answer.api_keys]
    assert rows == [(key, low, high) for key, (low, high, _) in OFFERED.items()]
    if version >= 1:
        assert answer.throttle_time.total_seconds() == 0


def test_nothing_is_offered_that_kafka_has_not() -> None:
    assert [key for key, (low, high, most) in OFFERED.items() if not low <= high <= most] == []


def test_a_version_that_is_not_served_is_told_which_are() -> None:
    """In version 0, which every client reads; from it the client learns how to ask again."""
    correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, unsupported_version(-9)[4:])
    assert correlation_id == -9
    assert answer.error_code == 35
    (row,) = answer.api_keys
    assert (row.api_key, row.min_version, row.max_version) == (18, *OFFERED[18][:2])


WORDS = {
    "a": True, "A": True, "0": True, "a-b": True, "a.b": True, "apache-kafka-java": True,
    "3.9.0": True, "a--..b": True,
    "": False, "-a": False, "a-": False, ".a": False, "a.": False, "a b": False, "a_b": False,
    "a/b": False, "é": False, "a\n": False, "-": False,
}  # fmt: skip
"""ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN: letters, digits, and - and . between them."""


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("field", NAMED)
@pytest.mark.parametrize("version", [3, 4])
def test_software_has_a_sane_name_and_version(
    node: Any, version: int, field: str, word: str
) -> None:
    answer = node.call(ApiKey.API_VERSIONS, version, **{**NAMED, field: word})
    assert answer.error_code == (0 if WORDS[word] else 42)
    assert bool(answer.api_keys) == WORDS[word], "a refusal offers nothing"
