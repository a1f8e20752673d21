"""When a waiting fetch is answered: every condition of Kafka's DelayedFetch.tryComplete, alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes.core.errors import ApiError, Errors
from nodes.core.truncation import EpochEnd
from nodes.core.types import TopicPartition
from nodes.log.slices import OffsetPosition
from nodes.replication.delayed_fetch import DelayedFetch
from nodes.replication.model import FetchParams, FetchPartitionRequest
from tests.nodes.replication.desk import Desk, tp
from tests.nodes.replication.scenarios_roles import lead

OFFSET, LAST_EPOCH = 10, 4
MAX_BYTES = 60
BYTES = 10
"""Of each record."""


class Log:
    """Where each partition may be read to, and the end of the last fetched epoch in it. Segments
    have 100 records."""

    def __init__(self, *ends: Any) -> None:
        self.ends = {TopicPartition("t", p): end for p, end in enumerate(ends)}
        self.reads: list[bool] = []

    def readable(self, tp: TopicPartition, *_: Any) -> tuple[int, EpochEnd | None]:
        end = self.ends[tp]
        if isinstance(end, Errors):
            raise ApiError(end)
        return end if isinstance(end, tuple) else (end, None)

    def position_of(self, tp: TopicPartition, offset: int) -> OffsetPosition:
        base = offset // 100 * 100
        return OffsetPosition(offset, base, (offset - base) * BYTES)

    def read(self, _params: Any, partitions: Any, *, record_positions: bool) -> Any:
        self.reads.append(record_positions)
        return [(tp, "what is there now") for tp, _ in partitions]


def answered(log: Log, *, min_bytes: int = 1, offset: int = OFFSET) -> bool:
    answers: list[Any] = []
    request = FetchPartitionRequest(offset, 0, MAX_BYTES, 7, LAST_EPOCH)
    operation = DelayedFetch(
        0,
        FetchParams(min_bytes=min_bytes),
        [(tp, request) for tp in log.ends],
        log,
        answers.append,
    )
    done = operation.safe_try_complete()
    assert len(answers) == done
    assert log.reads == [False] * done, "looked up once, and no new sign of life"
    return done


@pytest.mark.parametrize(
    ("end", "is_answered"),
    [
        (OFFSET, False),
        (OFFSET + 1, True),
        (OFFSET - 1, True),
        (OFFSET - 9, True),
        ((OFFSET, EpochEnd(LAST_EPOCH, OFFSET)), False),
        ((OFFSET, EpochEnd(LAST_EPOCH, OFFSET + 5)), False),
        ((OFFSET, EpochEnd(LAST_EPOCH, OFFSET - 1)), True),
        ((OFFSET, EpochEnd(LAST_EPOCH - 1, OFFSET)), True),
        ((OFFSET, EpochEnd(-1, -1)), True),
        (Errors.NOT_LEADER_OR_FOLLOWER, True),
        (Errors.FENCED_LEADER_EPOCH, True),
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, True),
    ],
)
def test_one_byte_will_do(end: Any, is_answered: bool) -> None:
    """At the end it waits; not above a log that was cut, where it parts from its leader, nor where
    it cannot be served."""
    assert answered(Log(end)) == is_answered
    assert answered(Log(OFFSET, end)) == is_answered, "whichever partition it is"
    assert answered(Log(end, OFFSET)) == is_answered


@pytest.mark.parametrize(
    ("ends", "min_bytes", "is_answered"),
    [
        ([OFFSET + 3], 30, True),
        ([OFFSET + 3], 31, False),
        ([OFFSET + 2, OFFSET + 1], 30, True),
        ([OFFSET + 2, OFFSET], 30, False),
        ([OFFSET + 9], MAX_BYTES, True),
        ([OFFSET + 9], MAX_BYTES + 1, False),
        ([OFFSET + 9, OFFSET + 9], 2 * MAX_BYTES, True),
        ([OFFSET + 9, OFFSET + 9], 2 * MAX_BYTES + 1, False),
        ([101], 10_000, True),
        ([99], 10_000, False),
        ([OFFSET + 1, Errors.NOT_LEADER_OR_FOLLOWER], 10_000, True),
        ([OFFSET + 1, OFFSET - 1], 10_000, True),
        ([OFFSET + 3], 0, True),
        ([OFFSET], 0, False),
    ],
)
def test_so_many_bytes_are_waited_for(ends: list[Any], min_bytes: int, is_answered: bool) -> None:
    """Over all partitions, of each no more than its share; what lies in a later segment is not
    waited for."""
    assert answered(Log(*ends), min_bytes=min_bytes) == is_answered


@pytest.mark.parametrize(
    ("asked", "more", "is_answered"),
    [
        ((("t-0", 1),), {}, False),
        ((("t-0", 1),), {"max_wait_ms": 0}, True),
        ((("t-0", 1),), {"max_wait_ms": -1}, True),
        ((), {}, True),
        ((("t-0", 0),), {}, True),
        ((("t-0", 0),), {"min_bytes": 10_000}, False),
        ((("t-0", 1),), {"min_bytes": 0}, True),
        ((("t-0", 1), ("t-1", 0)), {}, True),
        ((("t-0", 1), ("t-0", 2)), {}, True),
        ((("t-0", 1), ("t-9", 0)), {"min_bytes": 10_000}, True),
    ],
)
def test_what_is_answered_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[tuple[str, int], ...],
    more: dict[str, int],
    is_answered: bool,
) -> None:
    """ReplicaManager.fetchMessages: who does not want to wait, who asks for nothing, who finds
    enough, who is refused anything. One record is in t-0 and one in t-1."""
    desk = Desk(tmp_path, monkeypatch)
    desk.leader_and_isr(lead(isr=[1]), lead(tp="t-1", isr=[1]))
    desk.produce("t-0", acks=1)
    desk.produce("t-1", acks=1)
    requests = [(tp(name), FetchPartitionRequest(at, 0, 1 << 20, -1, -1)) for name, at in asked]
    answers: list[Any] = []
    params = FetchParams(replica_id=2, **{"max_wait_ms": 1000, "min_bytes": 1, **more})
    desk.manager.fetch_messages(params, requests, answers.append)
    assert len(answers) == is_answered
    if is_answered:
        assert [found for found, _ in answers[0]] == [partition for partition, _ in requests]
    desk.close()
