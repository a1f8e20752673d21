"""The final read goes on while it makes progress, and gives up a node that gives nothing more."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from faults.protocol import PartitionState
from harness.cluster import final_read
from harness.cluster.final_read import _read_node, _Replica
from harness.sut.protocol import Limits
from nodes.wire.records import build_batch

RECORDS = 40


class Logs:
    """Answers as a broker of one partition would: one record a fetch, of ``served`` in all, and the
    beginning of the next, as Kafka's file is cut; now and then none. Each takes 25 s."""

    def __init__(self, served: int) -> None:
        self.served, self.fetches = served, 0

    def now_s(self) -> float:
        return 25.0 * self.fetches

    def request(self, entity: Any) -> Any:
        (topic,) = entity.topics
        (asked,) = topic.partitions
        if hasattr(asked, "timestamp"):
            offset = RECORDS if asked.timestamp == -1 else 0
            answer = SimpleNamespace(partition_index=0, error_code=0, offset=offset)
            return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[answer])])
        at = asked.fetch_offset
        batch = b""
        self.fetches += 1
        if at < self.served and self.fetches % 5:
            one, after = (
                build_batch([(None, struct.pack(">q", n), 1_000)], base_offset=n, leader_epoch=0)
                for n in (at, at + 1)
            )
            batch = one + after[: at * len(after) // RECORDS]
        part = SimpleNamespace(
            partition_index=0, error_code=0, high_watermark=RECORDS, records=batch
        )
        return SimpleNamespace(responses=[SimpleNamespace(topic="t", partitions=[part])])


@pytest.mark.parametrize("served", [RECORDS, RECORDS - 1, 0])
def test_as_long_as_something_comes(monkeypatch: pytest.MonkeyPatch, served: int) -> None:
    """The whole takes a quarter of an hour, no step a minute."""
    monkeypatch.setattr(final_read, "_NO_PROGRESS_PAUSE_S", 0)
    replica = _Replica(topic="t", partition=0, is_leader=True)
    rows: list[dict[str, Any]] = []
    logs = Logs(served)
    connection: Any = logs
    _read_node(connection, 1, [replica], lambda _, **row: rows.append(row), 60.0, now_s=logs.now_s)
    assert [row["value"] for row in rows] == list(range(served))
    if served == RECORDS:
        assert replica.error is None
    else:
        assert replica.error == "not read to its end: nothing came for 60 s"


class Expiring(Logs):
    """Its log begins at 0 when it is asked first, and at ``begins`` from the next time on."""

    def __init__(self, begins: int, at_fetch: int) -> None:
        super().__init__(RECORDS)
        self._starts, self._begins, self._at_fetch = iter([0]), begins, at_fetch

    def request(self, entity: Any) -> Any:
        ((asked,),) = (topic.partitions for topic in entity.topics)
        if getattr(asked, "timestamp", None) == -2:
            start = next(self._starts, self._begins)
            answer = SimpleNamespace(partition_index=0, error_code=0, offset=start)
            return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[answer])])
        at = getattr(asked, "fetch_offset", RECORDS)
        if self.fetches >= self._at_fetch and (at < self._begins or not self._begins):
            refused = SimpleNamespace(partition_index=0, error_code=1)
            return SimpleNamespace(responses=[SimpleNamespace(topic="t", partitions=[refused])])
        return super().request(entity)


@pytest.mark.parametrize("at_fetch", [0, 5])
@pytest.mark.parametrize("begins", [10, RECORDS])
def test_what_retention_takes_meanwhile_is_not_read(begins: int, at_fetch: int) -> None:
    logs: Any = Expiring(begins, at_fetch)
    replica, rows = _Replica("t", 0, is_leader=True), list[dict[str, Any]]()
    _read_node(logs, 1, [replica], lambda _, **row: rows.append(row), 60.0, now_s=logs.now_s)
    assert replica.error is None
    assert replica.start == begins
    before = [n for n in range(at_fetch) if n % 5 != 4]  # now and then there is none
    read = [row["value"] for row in rows]
    assert read == [*range(len(before)), *range(begins, RECORDS)]


def test_a_log_that_begins_where_it_did_has_all_to_be_read() -> None:
    logs: Any = Expiring(0, 5)
    replica = _Replica("t", 0, is_leader=True)
    _read_node(logs, 1, [replica], lambda _, **row: None, 60.0, now_s=logs.now_s)
    assert replica.error == "OFFSET_OUT_OF_RANGE"


class Listening(Logs):
    """Remembers who asked, and with which Fetch, and how long it was to wait."""

    def __init__(self) -> None:
        super().__init__(RECORDS)
        self.asked: set[tuple[int, int | None, float | None]] = set()

    def request(self, entity: Any) -> Any:
        fetch = hasattr(entity.topics[0].partitions[0], "fetch_offset")
        version = int(type(entity).__version__) if fetch else None
        wait_s = entity.max_wait.total_seconds() if fetch else None
        self.asked.add((int(entity.replica_id), version, wait_s))
        return super().request(entity)


@pytest.mark.parametrize(
    ("limits", "as_replica", "fetch_version"),
    [
        (Limits(), True, 11),
        (Limits(read_as_consumer=True), False, 11),
        (Limits(fetch_version=7), True, 7),
    ],
)
def test_a_system_is_read_as_it_can_be(
    monkeypatch: pytest.MonkeyPatch, limits: Limits, as_replica: bool, fetch_version: int
) -> None:
    monkeypatch.setattr(final_read, "_NO_PROGRESS_PAUSE_S", 0)
    sut: Any = SimpleNamespace(limits=limits)
    reader = final_read._Reader.of(sut)
    leader, follower = (_Replica(topic="t", partition=0, is_leader=is_) for is_ in (True, False))
    assert (reader.reads(leader), reader.reads(follower)) == (True, as_replica)
    logs: Any = Listening()
    _read_node(logs, 1, [leader], lambda _, **row: None, 60.0, now_s=logs.now_s, reader=reader)
    role, wait_s = (-2, 0.0) if as_replica else (-1, 0.5)
    assert logs.asked == {(role, None, None), (role, fetch_version, wait_s)}
    assert leader.error is None


@pytest.mark.parametrize(
    ("ends", "still", "asked"),
    [([7, 7], True, 2), ([7, 8, 9, 9], True, 4), ([*range(100)], False, 42)],
)
def test_logs_stand_still_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch, ends: list[int], still: bool, asked: int
) -> None:
    """What lay in a broker's queue when its senders ended is appended yet."""
    readings = iter(ends)
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    taken: list[int] = []

    def log_ends(_cluster: Any, node: int, keys: Any, _timeout_s: float) -> dict[Any, int]:
        assert (node, keys) == (1, [("t", 0)])
        taken.append(next(readings))
        return {("t", 0): taken[-1]}

    monkeypatch.setattr(final_read, "log_ends", log_ends)
    monkeypatch.setattr(final_read.time, "sleep", sleep)
    monkeypatch.setattr(final_read.time, "monotonic", lambda: now_s)
    nodes = SimpleNamespace(is_running=lambda node: node == 1)
    cluster: Any = SimpleNamespace(nodes=nodes)
    led, away = (
        PartitionState(
            topic="t",
            partition=partition,
            leader=leader,
            leader_epoch=0,
            isr=(1, 2),
            replicas=(1, 2),
            controller_epoch=1,
            partition_epoch=0,
        )
        for partition, leader in ((0, 1), (1, 2))
    )
    assert final_read._stand_still(cluster, [led, away], lambda: False) is still
    assert len(taken) == asked
