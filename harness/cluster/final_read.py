"""The last look: every replica's log, read record by record once the cluster has come to rest.

Each replica is read by itself, past every proxy, with Fetch 11 as the *debugging replica* (-2): the
one reader that Kafka lets read any replica up to its log's end (a consumer sees a follower only up
to its high watermark, and a follower id would count as replication progress). The log's own bounds
come from ListOffsets in the same role. Old releases are asked with what they have
(`HasOldReleases`). A system that knows no such role (`Limits.read_as_consumer`) is read as any
consumer reads it: leaders alone, up to their high watermarks.

Rows: ``log_read`` a record, ``log_end`` a replica, whose ``error`` says why it could not be read.
Batches are fetched for all partitions of a node at once; a partition that yields nothing more
although its end was not reached (a high watermark that lags) is asked again until nothing at all
came for a while: however long logs are, they are read as long as there is progress.

Replicas are read one after the other, so nothing may be appended meanwhile. That the load has ended
does not say so: a busy broker appends what lay in its queue seconds after those who sent it have
given up and gone. So leaders' logs have to stand still first.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from faults.protocol import Link, PartitionState
from harness.cluster.ask import CLIENT_ID, error_name, request
from harness.cluster.record import Record
from harness.sut.protocol import HasOldReleases, SystemUnderTest, limits_of
from harness.workload.values import is_whole
from nodes.wire.apis import ApiKey
from nodes.wire.client import Connection, WireClientError
from nodes.wire.codec import WireError
from nodes.wire.records import iter_batches, iter_records, whole_batches

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

PROCESS: Final = "final-read"
_DEBUGGING_REPLICA: Final = -2
_CONSUMER: Final = -1
_FETCH_VERSION: Final = 11
_LIST_VERSION: Final = 1
_LATEST: Final = -1
_EARLIEST: Final = -2
_OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"
_PARTITION_BYTES: Final = 4 << 20
_REQUEST_BYTES: Final = 16 << 20
_TIMEOUT_S: Final = 30.0
_NO_PROGRESS_PAUSE_S: Final = 0.05
_CONSUMER_WAIT_MS: Final = 500
"""``fetch.max.wait.ms``, as Kafka's consumers have it."""
_CATCH_UP_S: Final = 10.0
"""Twenty times what a follower's fetch may wait (``replica.fetch.wait.max.ms``)."""
_STILL_S: Final = 0.5
_ASK_TIMEOUT_S: Final = 5.0
_APPENDING_S: Final = 20.0
"""How long a log may go on growing when nobody writes any more."""
_STALL_S: Final = 20.0
"""Without a record of any partition: what is left is behind a high watermark that stands still."""
_VALUE: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Who asks, and with which Fetch."""

    fetch_version: int = _FETCH_VERSION
    replica_id: int = _DEBUGGING_REPLICA

    @property
    def max_wait_ms(self) -> int:
        """A consumer waits: there are brokers (Tansu) that give nothing to one that does not,
        although it is there. Nobody waits for a follower's log, read past its high watermark."""
        return _CONSUMER_WAIT_MS if self.replica_id == _CONSUMER else 0

    @classmethod
    def of(cls, sut: SystemUnderTest) -> _Reader:
        limits = limits_of(sut)
        version = limits.fetch_version or _FETCH_VERSION
        if isinstance(sut, HasOldReleases):
            version = sut.fetch_version
        return cls(version, _CONSUMER if limits.read_as_consumer else _DEBUGGING_REPLICA)

    def reads(self, replica: _Replica) -> bool:
        return replica.is_leader or self.replica_id != _CONSUMER


_KAFKA: Final = _Reader()


@dataclass(slots=True)
class _Replica:
    """Reading progress of one replica."""

    topic: str
    partition: int
    is_leader: bool
    start: int | None = None
    end: int | None = None
    position: int = 0
    high_watermark: int | None = None
    error: str | None = None

    @property
    def done(self) -> bool:
        """An empty log is fetched once too: only a fetch tells the high watermark."""
        read = self.end is not None and self.position >= self.end
        return self.error is not None or (read and self.high_watermark is not None)


def final_read(
    cluster: Cluster,
    topics: Sequence[str],
    *,
    record: Record | None = None,
    quiesce_timeout_s: float = 0.0,
    stall_timeout_s: float = _STALL_S,
    over: Callable[[], bool] = lambda: False,
) -> bool:
    """Wait for full in-sync sets, then read; False when the sets did not fill up in time (what can
    be read is read all the same). ``record`` is the cluster's unless given. A node of whose logs
    nothing more comes for ``stall_timeout_s`` is given up. ``over``: whether there is nothing left
    to be waited for: then each replica is read as far as it goes at once."""
    sink = record or cluster.record
    reader = _Reader.of(cluster.sut)
    at_rest = cluster.wait_full_isr(topics, quiesce_timeout_s)
    partitions = [s for s in cluster.view.partitions() if s.topic in topics]
    if not _stand_still(cluster, partitions, over):
        reason = f"records were appended for {_APPENDING_S:.0f} s after the load had ended"
        sink("infra", component="load", reason=reason)
    read: dict[int, list[_Replica]] = {}
    for node in cluster.node_ids:
        mine = [_replica(s, node) for s in partitions if node in s.replicas]
        replicas = read[node] = [replica for replica in mine if reader.reads(replica)]
        if cluster.nodes.is_running(node):
            address = cluster.address(node, Link.CLIENT, direct=True)
            with Connection(*address, CLIENT_ID, _TIMEOUT_S) as connection:
                _read_node(connection, node, replicas, sink, stall_timeout_s, over, reader=reader)
        else:
            for replica in replicas:
                replica.error = "the node does not run"
    _catch_up(cluster, read, over)
    for node, replicas in read.items():
        for replica in replicas:
            _record_end(node, replica, sink)
    return at_rest


def _stand_still(
    cluster: Cluster, partitions: Sequence[PartitionState], over: Callable[[], bool]
) -> bool:
    """Wait until leaders' logs end where they did before; False when they go on growing."""
    led: dict[int, list[tuple[str, int]]] = {}
    for state in partitions:
        if cluster.nodes.is_running(state.leader):
            led.setdefault(state.leader, []).append((state.topic, state.partition))

    def ends() -> list[dict[tuple[str, int], int]]:
        return [log_ends(cluster, node, keys, _ASK_TIMEOUT_S) for node, keys in led.items()]

    deadline = time.monotonic() + _APPENDING_S
    before, now = None, ends()
    while before != now and not over():
        if time.monotonic() > deadline:
            return False
        time.sleep(_STILL_S)
        before, now = now, ends()
    return True


def _catch_up(
    cluster: Cluster, read: Mapping[int, Sequence[_Replica]], over: Callable[[], bool]
) -> None:
    """A follower learns its leader's high watermark with its next fetch, and a leader raises its
    own with its followers': ask again, for a while, those that are behind. Who stays behind is the
    checkers' business."""
    leaders = {
        (r.topic, r.partition): r.high_watermark for of in read.values() for r in of if r.is_leader
    }
    deadline = time.monotonic() + _CATCH_UP_S
    reader = _Reader.of(cluster.sut)
    for node, replicas in read.items():
        behind = [r for r in replicas if _is_behind(r, leaders)]
        if not behind:
            continue
        address = cluster.address(node, Link.CLIENT, direct=True)
        with (
            suppress(WireClientError, WireError, OSError),
            Connection(*address, CLIENT_ID, _TIMEOUT_S) as connection,
        ):
            while behind and time.monotonic() < deadline and not over():
                time.sleep(_NO_PROGRESS_PAUSE_S)
                _fetch(connection, node, behind, _forget, reader)
                behind = [r for r in behind if _is_behind(r, leaders)]


def _is_behind(replica: _Replica, leaders: Mapping[tuple[str, int], int | None]) -> bool:
    own, leader = replica.high_watermark, leaders.get((replica.topic, replica.partition))
    if replica.is_leader:
        leader = replica.end
    return replica.error is None and own is not None and leader is not None and own < leader


def _forget(kind: str, /, **fields: Any) -> None:
    """What was appended since is not part of the final read."""


def log_ends(
    cluster: Cluster, node: int, partitions: Sequence[tuple[str, int]], timeout_s: float
) -> dict[tuple[str, int], int]:
    """Where the logs of ``node`` end; of those that it does not tell in time, nothing."""
    reader = _Reader.of(cluster.sut)
    replicas = [_Replica(topic=t, partition=p, is_leader=False) for t, p in partitions]
    address = cluster.address(node, Link.CLIENT, direct=True)
    try:
        with Connection(*address, CLIENT_ID, timeout_s) as connection:
            return {
                (replica.topic, replica.partition): int(end)
                for replica, end in _offsets(connection, replicas, _LATEST, reader)
            }
    except (WireClientError, WireError, OSError):
        return {}


def _replica(s: PartitionState, node: int) -> _Replica:
    return _Replica(topic=s.topic, partition=s.partition, is_leader=s.leader == node)


def _read_node(
    connection: Connection,
    node: int,
    replicas: Sequence[_Replica],
    record: Record,
    stall_timeout_s: float,
    over: Callable[[], bool] = lambda: False,
    now_s: Callable[[], float] = time.monotonic,
    *,
    reader: _Reader = _KAFKA,
) -> None:
    try:
        for replica, offset in _offsets(connection, replicas, _EARLIEST, reader):
            replica.start = replica.position = offset
        for replica, offset in _offsets(connection, replicas, _LATEST, reader):
            replica.end = offset
        progress_s = now_s()
        while pending := [replica for replica in replicas if not replica.done]:
            read = _fetch(connection, node, pending, record, reader)
            if _begin_later(connection, pending, reader) or read:
                progress_s = now_s()
            elif over():
                raise WireError("not read to its end: the trial was being ended")
            elif now_s() - progress_s > stall_timeout_s:
                raise WireError(f"not read to its end: nothing came for {stall_timeout_s:.0f} s")
            else:
                time.sleep(_NO_PROGRESS_PAUSE_S)
    except (WireClientError, WireError, OSError) as e:
        for replica in replicas:
            if not replica.done:
                replica.error = str(e)


def _begin_later(connection: Connection, replicas: Sequence[_Replica], reader: _Reader) -> bool:
    """Whoever began to be read where its log begins no more, since retention goes on, is read from
    where it begins now; whether anybody is."""
    lost = [replica for replica in replicas if replica.error == _OUT_OF_RANGE]
    for replica in lost:
        replica.error = None
    starts = {
        id(replica): start for replica, start in _offsets(connection, lost, _EARLIEST, reader)
    }
    for replica in lost:
        start = starts.get(id(replica), -1)
        if start > replica.position:
            replica.start = replica.position = start
        else:
            replica.error = replica.error or _OUT_OF_RANGE
    return any(replica.error is None for replica in lost)


def _offsets(
    connection: Connection,
    replicas: Sequence[_Replica],
    timestamp: int,
    reader: _Reader = _KAFKA,
) -> Iterator[tuple[_Replica, int]]:
    wanted = [replica for replica in replicas if replica.error is None]
    if not wanted:
        return
    answer = connection.request(
        request(
            ApiKey.LIST_OFFSETS,
            _LIST_VERSION,
            replica_id=reader.replica_id,
            topics=_grouped(
                wanted, "name", lambda r: {"partition_index": r.partition, "timestamp": timestamp}
            ),
        )
    )
    by_key = {(r.topic, r.partition): r for r in wanted}
    for topic in answer.topics:
        for p in topic.partitions:
            replica = by_key[topic.name, p.partition_index]
            if p.error_code:
                replica.error = error_name(int(p.error_code))
            else:
                yield replica, p.offset


def _fetch(
    connection: Connection,
    node: int,
    pending: Sequence[_Replica],
    record: Record,
    reader: _Reader,
) -> bool:
    """One round for all; whether anything was read."""
    answer = connection.request(
        request(
            ApiKey.FETCH,
            reader.fetch_version,
            replica_id=reader.replica_id,
            max_wait=reader.max_wait_ms,
            min_bytes=min(reader.max_wait_ms, 1),
            max_bytes=_REQUEST_BYTES,
            topics=_grouped(
                pending,
                "topic",
                lambda r: {
                    "partition": r.partition,
                    "fetch_offset": r.position,
                    "partition_max_bytes": _PARTITION_BYTES,
                },
            ),
        )
    )
    by_key = {(r.topic, r.partition): r for r in pending}
    progress = False
    for topic in answer.responses:
        for p in topic.partitions:
            replica = by_key[topic.topic, p.partition_index]
            if p.error_code:
                replica.error = error_name(int(p.error_code))
                continue
            replica.high_watermark = p.high_watermark
            before = replica.position
            _take_in(node, replica, p.records or b"", record)
            progress |= replica.position > before
    return progress


def _take_in(node: int, replica: _Replica, records: Any, record: Record) -> None:
    data = whole_batches(bytes(records))
    for batch in iter_batches(data):
        header = batch.header
        if not header.is_control:
            whole = data[batch.position : batch.position + batch.size_bytes]
            for each in iter_records(whole):
                if each.offset < replica.position:
                    continue  # a fetch in the middle of a batch begins with the whole batch
                value = each.value
                told = each.key if value is None else value
                known = told is not None and len(told) >= _VALUE.size
                record(
                    "log_read",
                    process=PROCESS,
                    node=node,
                    topic=replica.topic,
                    partition=replica.partition,
                    offset=each.offset,
                    value=_VALUE.unpack_from(told)[0] if known and told is not None else None,
                    whole=is_whole(each.key, value, each.headers),
                    leader_epoch=header.leader_epoch,
                    append_time_ms=each.timestamp_ms,
                    producer_epoch=header.producer_epoch,
                )
        replica.position = max(replica.position, header.next_offset)


def _record_end(node: int, replica: _Replica, record: Record) -> None:
    record(
        "log_end",
        process=PROCESS,
        node=node,
        topic=replica.topic,
        partition=replica.partition,
        log_start_offset=replica.start,
        log_end_offset=replica.end,
        high_watermark=replica.high_watermark,
        is_leader=replica.is_leader,
        error=replica.error,
    )


def _grouped(replicas: Sequence[_Replica], key: str, entry: Any) -> list[Mapping[str, Any]]:
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for replica in replicas:
        topics.setdefault(replica.topic, []).append(entry(replica))
    return [{key: topic, "partitions": partitions} for topic, partitions in topics.items()]
