"""What an answer to a produce means: ok, fail (certainly had no effect) or info (nobody knows).

NOT_LEADER_OR_FOLLOWER is `info` although the broker that says so did not append just now: with
acks=all it answers for a record that it had appended before it was demoted (KAFKA-13574), and a
client cannot tell the two apart. The same holds for whatever a delayed produce can end with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REFUSALS: Final[Mapping[int, str]] = {
    # answered before anything was appended
    2: "CORRUPT_MESSAGE",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    21: "INVALID_REQUIRED_ACKS",
    29: "TOPIC_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    42: "INVALID_REQUEST",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    44: "POLICY_VIOLATION",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    87: "INVALID_RECORD",
}
NOT_LEADER_OR_FOLLOWER: Final = 6


def produce_outcome(error: int, acks: int) -> str:
    """The type of a produce's completion row from its broker's error code."""
    if error == 0:
        return "ok" if acks != 0 else "info"
    return "fail" if error in REFUSALS else "info"
