"""KRaft's metadata log, read from a node's disk: what was committed, in its order.

The log is an ordinary partition (``__cluster_metadata-0``) of record batches. Each value is a
record of the controller's: three unsigned varints (frame version, type, version) and the message,
always in Kafka's flexible format. Four types and the quorum's own LeaderChange say all that is
needed (``metadata/src/main/resources/common/metadata`` in Kafka's sources):

    2 Topic                name, id
    3 Partition            a whole state, when a topic is created
    5 PartitionChange      what changed; naming a leader adds 1 to the leader epoch, and every
                           change adds 1 to the partition epoch (metadata.PartitionRegistration)
    9 RemoveTopic          id
    control batch          a new active controller; its epoch is the batch's leader epoch

A batch's time is when the active controller appended it: a few milliseconds *before* it was
committed by a majority, and before any broker could act upon it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nodes.wire.codec import WireError
from nodes.wire.records import iter_batches, iter_records

FOLDER: Final = "__cluster_metadata-0"
_CONTROL_BATCH: Final = 0x20
_LEADER_CHANGE: Final = 2
_TOPIC, _PARTITION, _PARTITION_CHANGE, _REMOVE_TOPIC = 2, 3, 5, 9
_NO_CHANGE: Final = -2
_TAG_ISR, _TAG_LEADER, _TAG_REPLICAS, _TAG_ELR, _TAG_LAST = 0, 1, 2, 6, 7


@dataclass(frozen=True, slots=True)
class Committed:
    """A partition's state after one record, which lies at ``offset`` of the log. Times are wall ms.
    ``controller_epoch`` is that of the active controller which appended it; ``topic_id`` tells a
    topic from one of the same name that was deleted. ``elr``: who may be elected though not in sync
    (KIP-966, from 4.0); a partition is made without any. ``last_known``: who led last, told when
    nobody is in sync any more."""

    wall_ms: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    offset: int = -1
    controller_epoch: int = -1
    topic_id: str | None = None
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    """Who is assigned, in order; those that are to be added and to be removed among them."""

    @property
    def eligible(self) -> tuple[int, ...]:
        """Who may be elected besides those in sync. Who died and comes back is struck off
        ``elr``; where that leaves nobody, the last leader may lead again, as the last of an in-sync
        set could before KIP-966 (PartitionChangeBuilder.canElectLastKnownLeader)."""
        if self.isr or self.elr or len(self.last_known) != 1:
            return self.elr
        return self.last_known


@dataclass(frozen=True, slots=True)
class Elected:
    """A new active controller."""

    wall_ms: int
    controller: int
    controller_epoch: int


def read_metadata_log(folder: Path) -> Iterator[Committed | Elected]:
    """Everything in the log's segments; a torn tail ends it. Raises `ValueError` for a record of a
    known type that cannot be read."""
    states = _States()
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        try:
            for batch in iter_batches(data):
                content = data[batch.position : batch.position + batch.size_bytes]
                header = batch.header
                for record in iter_records(content):
                    if header.attributes & _CONTROL_BATCH:
                        found = _election(record.key, record.value, header.leader_epoch)
                        if found is not None:
                            yield Elected(record.timestamp_ms, *found)
                    elif record.value:
                        state = states.apply(record.value, record.timestamp_ms)
                        if state is not None:
                            epoch = header.leader_epoch
                            yield replace(state, offset=record.offset, controller_epoch=epoch)
        except WireError:
            return  # preallocated zeros, or cut off by a kill


def _election(key: bytes | None, value: bytes | None, epoch: int) -> tuple[int, int] | None:
    """(controller, epoch) of a LeaderChangeMessage: version i16, leader id i32, voters."""
    if key is None or value is None or len(key) < 4 or len(value) < 6:
        return None
    if struct.unpack_from(">hh", key)[1] != _LEADER_CHANGE:
        return None
    return int(struct.unpack_from(">hi", value)[1]), epoch


class _States:
    """The states so far. One thread."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._states: dict[tuple[bytes, int], Committed] = {}

    def apply(self, value: bytes, wall_ms: int) -> Committed | None:
        """The partition's new state; None for a record that changes none."""
        try:
            reader = _Reader(value)
            reader.varint()  # frame version
            kind, version = reader.varint(), reader.varint()
            if kind == _TOPIC:
                name = reader.text()
                self._names[reader.take(16)] = name
            elif kind == _REMOVE_TOPIC:
                topic_id = reader.take(16)
                self._states = {k: s for k, s in self._states.items() if k[0] != topic_id}
            elif kind == _PARTITION:
                return self._whole(reader, version, wall_ms)
            elif kind == _PARTITION_CHANGE:
                return self._change(reader, wall_ms)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"a metadata record cannot be read: {value[:40]!r}") from error
        return None

    def _whole(self, reader: _Reader, version: int, wall_ms: int) -> Committed:
        partition, topic_id = reader.i32(), reader.take(16)
        replicas = reader.i32s() or ()
        isr = reader.i32s() or ()
        reader.i32s()  # removing
        reader.i32s()  # adding
        leader, leader_epoch, partition_epoch = reader.i32(), reader.i32(), reader.i32()
        name = self._names.get(topic_id, "?")
        epochs = (leader_epoch, partition_epoch)
        state = Committed(
            wall_ms,
            name,
            partition,
            leader,
            *epochs,
            isr,
            topic_id=topic_id.hex(),
            replicas=replicas,
        )
        self._states[topic_id, partition] = state
        return state

    def _change(self, reader: _Reader, wall_ms: int) -> Committed | None:
        partition, topic_id = reader.i32(), reader.take(16)
        before = self._states.get((topic_id, partition))
        if before is None:
            return None  # older than the log's start: a snapshot has it
        tags = reader.tags()
        isr, replicas, elr, last = (
            _Reader(tags[tag]).i32s() if tag in tags else None
            for tag in (_TAG_ISR, _TAG_REPLICAS, _TAG_ELR, _TAG_LAST)
        )
        leader = _Reader(tags[_TAG_LEADER]).i32() if _TAG_LEADER in tags else _NO_CHANGE
        elected = leader != _NO_CHANGE
        state = Committed(
            wall_ms,
            before.topic,
            partition,
            leader if elected else before.leader,
            before.leader_epoch + elected,
            before.partition_epoch + 1,
            before.isr if isr is None else isr,
            topic_id=before.topic_id,
            elr=_kept(elr, before.elr, _TAG_ELR in tags),
            last_known=_kept(last, before.last_known, _TAG_LAST in tags),
            replicas=before.replicas if replicas is None else replicas,
        )
        self._states[topic_id, partition] = state
        return state


def _kept(told: tuple[int, ...] | None, before: tuple[int, ...], is_told: bool) -> tuple[int, ...]:
    """A list after a change: told anew, a null as well, or as it was."""
    return (told or ()) if is_told else before


class _Reader:
    """Kafka's flexible format, as far as these records use it."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise IndexError("past the end")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def i32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def text(self) -> str:
        return self.take(self.varint() - 1).decode()

    def i32s(self) -> tuple[int, ...] | None:
        count = self.varint() - 1
        return None if count < 0 else tuple(self.i32() for _ in range(count))

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}
