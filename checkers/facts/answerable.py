"""With which errors Kafka answers each request: no other code is a broker's answer to it.

From the answers' own lists (ListOffsetsResponse, ProduceResponse, OffsetCommitResponse, ... and the
handlers in KafkaApis), of all versions, retriable or not. A code beyond them was changed, or is
given by a broker whose clients cannot know what to do.

Which of the possible ones it must be others say: who led (`checkers.promises.epochs.denials`), what
was stale (`checkers.promises.refusals`), how many were in sync
(`checkers.promises.records.refused_writes`).

A `group_step` may be any request of a group: `STEPS` has the lists of each (JoinGroupResponse,
SyncGroupResponse, HeartbeatResponse, LeaveGroupResponse, OffsetCommitResponse, OffsetFetchResponse,
OffsetDeleteResponse, DeleteGroupsResponse, DescribeGroupsResponse), of the versions in which roles
ask: OffsetFetch names no member before version 9; who joins is told of a rebalance by the answer
itself, and by no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ANY: Final = (-1, 0, 29, 31, 35, 42, 56)
"""Whatever is asked: none; unknown, authorization, version, request, storage."""
_WAITED: Final = 7
"""REQUEST_TIMED_OUT: of what a broker waits for others with (DelayedProduce, which commits of
positions go by as well, and DelayedDeleteRecords). Whatever else coordinators write they call
COORDINATOR_NOT_AVAILABLE then, or REBALANCE_IN_PROGRESS (GroupMetadataManager.storeGroup,
GroupCoordinatorService.handleOperationException), and a fetch is answered with what there is."""
_PARTITION: Final = (3, 6, 17, 100)
_EPOCH: Final = (74, 75)
_GROUP: Final = (14, 15, 16, 24, 30)
_MEMBER: Final = (22, 25, 27, 82, 110, 113)
_COMMIT: Final = (*_GROUP, *_MEMBER, _WAITED, 3, 12, 17, 28, 69)
_ASK: Final = (*_GROUP, *_MEMBER, 3, 69, 88)
_CONTROL: Final = (11, 77)
ERRORS: Final[Mapping[str, tuple[int, ...]]] = {
    kind: (*_ANY, *own)
    for kind, own in {
        **dict.fromkeys(
            ("produce", "repeated"),
            (
                *(*_PARTITION, 2, 5, 10, 18, 19, 20, 21, 32, 43, 44, 45, 46, 47, 53, 59, 76, 87),
                *(89, 90, _WAITED),
            ),
        ),
        # To a member of a group a poll also tells what its coordinator said.
        "fetch": (
            *(*_PARTITION, *_EPOCH, 1, 2, 5, 9, 43, 70, 71, 76, 78, 103, 106, 109),
            *(*_GROUP, *_MEMBER),
        ),
        "commit": _COMMIT,
        "committed": _ASK,
        "group_step": (*_COMMIT, *_ASK, 23, 26, 27, 68, 79, 81),
        "coordinator": (14, 15, 24, 30, 53),
        "listed_offset": (*_PARTITION, *_EPOCH, 5, 9, 43, 78),
        "epoch_end": (*_PARTITION, *_EPOCH, 5, 9),
        "records_deleted": (*_PARTITION, 1, 5, 9, 44, _WAITED),
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

_TO_A_GROUP: Final = (*_ANY, *_GROUP, 13, 89)
"""Whatever is asked of whom: no coordinator, or not this one; no such group id; not allowed."""
_JOIN: Final = (*_TO_A_GROUP, 23, 25, 26, 79, 81, 82)
_BEAT: Final = (*_TO_A_GROUP, 22, 25, 27, 82)
_LEAVE: Final = (*_TO_A_GROUP, 25, 82)
_KEEP: Final = (*_TO_A_GROUP, _WAITED, 3, 12, 17, 22, 25, 27, 28, 44, 69, 82, 100, 110, 113)
_FETCH: Final = (*_TO_A_GROUP, 3, 69, 88, 100)
_DESCRIBE: Final = (*_TO_A_GROUP, 69)
_DELETE: Final = (*_TO_A_GROUP, 68, 69)
_CLEAR: Final = (*_TO_A_GROUP, 3, 68, 69, 86)
STEPS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("join", "enter"), _JOIN),
    **dict.fromkeys(("live", "last", "beat"), _BEAT),
    "sync": (*_BEAT, 23),
    **dict.fromkeys(("leave", "part"), _LEAVE),
    **dict.fromkeys(("commit", "keep", "raise"), _KEEP),
    **dict.fromkeys(("ask", "own", "see"), _FETCH),
    **dict.fromkeys(("look", "describe"), _DESCRIBE),
    "delete": _DELETE,
    **dict.fromkeys(("clear", "spare"), _CLEAR),
}
