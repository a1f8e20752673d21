"""Errors with which no coordinator answers a step of a group: by the step's request.

`checkers.facts.answerable` knows them by kind of row, and a `group_step` may be any request of a
group. From Kafka's own lists (JoinGroupResponse, SyncGroupResponse, HeartbeatResponse,
LeaveGroupResponse, OffsetCommitResponse, OffsetFetchResponse, OffsetDeleteResponse,
DeleteGroupsResponse, DescribeGroupsResponse), of the versions in which roles ask: OffsetFetch names
no member before version 9; who joins is told of a rebalance by the answer itself, and by no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from checkers.facts.answerable import ERRORS

if TYPE_CHECKING:
    from checkers.history.frames import History

_ANY: Final = (*(-1, 0, 7, 13, 29, 31, 35, 42, 56), *(14, 15, 16, 24, 30, 89))
"""Whatever is asked of whom: no coordinator, or not this one; no such group id; not allowed."""
_JOIN: Final = (*_ANY, 23, 25, 26, 79, 81, 82)
_BEAT: Final = (*_ANY, 22, 25, 27, 82)
_LEAVE: Final = (*_ANY, 25, 82)
_COMMIT: Final = (*_ANY, 3, 12, 17, 22, 25, 27, 28, 44, 69, 82, 100, 110, 113)
_FETCH: Final = (*_ANY, 3, 69, 88, 100)
_DESCRIBE: Final = (*_ANY, 69)
_DELETE: Final = (*_ANY, 68, 69)
_CLEAR: Final = (*_ANY, 3, 68, 69, 86)
STEPS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("join", "enter"), _JOIN),
    **dict.fromkeys(("live", "last", "beat"), _BEAT),
    "sync": (*_BEAT, 23),
    **dict.fromkeys(("leave", "part"), _LEAVE),
    **dict.fromkeys(("commit", "keep", "raise"), _COMMIT),
    **dict.fromkeys(("ask", "own", "see"), _FETCH),
    **dict.fromkeys(("look", "describe"), _DESCRIBE),
    "delete": _DELETE,
    **dict.fromkeys(("clear", "spare"), _CLEAR),
}


def misanswered(history: History) -> Iterator[tuple[tuple[str, int], str]]:
    """By trial, in words. What no row of the kind may bear is named by that."""
    if not history.has("group_step"):
        return
    by = ("arm", "trial", "process", "step", "error")
    rows = history.frame("group_step").where("error is not null and step is not null")
    for row in rows.groupBy(*by).count().orderBy(*by).toArrow().to_pylist():
        known = STEPS.get(row["step"])
        if known is None or row["error"] in known or row["error"] not in ERRORS["group_step"]:
            continue
        says = f"{row['process']}, group_step: {row['count']} steps ({row['step']}) bear error"
        yield (row["arm"], row["trial"]), f"{says} {row['error']}, which Kafka does not answer so"
