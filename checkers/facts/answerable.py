"""With which errors Kafka answers each request: no other code is a broker's answer to it.

From the answers' own lists (ListOffsetsResponse, ProduceResponse, OffsetCommitResponse, ... and the
handlers in KafkaApis), of all versions, retriable or not. A code beyond them was changed, or is
given by a broker whose clients cannot know what to do.

Which of the possible ones it must be others say: who led (`checkers.promises.epochs.denials`), what
was stale (`checkers.promises.refusals`), how many were in sync
(`checkers.promises.records.refused_writes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ANY: Final = (-1, 0, 7, 29, 31, 35, 42, 56)
"""Whatever is asked: none; unknown, time-out, authorization, version, request, storage."""
_PARTITION: Final = (3, 6, 17, 100)
_EPOCH: Final = (74, 75)
_GROUP: Final = (14, 15, 16, 24, 30)
_MEMBER: Final = (22, 25, 27, 82, 110, 113)
_COMMIT: Final = (*_GROUP, *_MEMBER, 3, 12, 17, 28, 69)
_ASK: Final = (*_GROUP, *_MEMBER, 3, 69, 88)
_CONTROL: Final = (11, 77)
ERRORS: Final[Mapping[str, tuple[int, ...]]] = {
    kind: (*_ANY, *own)
    for kind, own in {
        "produce": (
            *(*_PARTITION, 2, 5, 10, 18, 19, 20, 21, 32, 43, 44, 45, 46, 47, 53, 59, 76, 87),
            *(89, 90),
        ),
        # To a member of a group a poll also tells what its coordinator said.
        "fetch": (
            *(*_PARTITION, *_EPOCH, 1, 2, 5, 9, 43, 70, 71, 76, 78, 103, 109),
            *(*_GROUP, *_MEMBER),
        ),
        "commit": _COMMIT,
        "committed": _ASK,
        "group_step": (*_COMMIT, *_ASK, 23, 26, 27, 68, 79, 81),
        "coordinator": (15, 24, 30, 53),
        "listed_offset": (*_PARTITION, *_EPOCH, 5, 9, 43, 78),
        "epoch_end": (*_PARTITION, *_EPOCH, 5, 9),
        "records_deleted": (*_PARTITION, 1, 5, 9, 44),
        "read_below": (*_PARTITION, 1, 5, 9),
        "read_at": (*_PARTITION, *_EPOCH, 1, 5, 9, 78),
        "metadata": (3, 5, 9, 17, 72, 100),
        **dict.fromkeys(("probe", "control_request", "control_response"), _CONTROL),
        "forged": (*_CONTROL, 8),
    }.items()
}
NAMES_LEADER: Final = (0, 9)
"""Of Metadata's answers about a partition those that name its leader: all is well, or (to the
oldest clients) a replica is away. With any other there is no leader to name."""
