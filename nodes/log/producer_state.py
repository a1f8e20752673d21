"""What idempotent producers have written (Kafka's ProducerStateManager, KIP-98; no transactions).

Per producer id: its producer epoch and its last five batches. A batch with the sequences of one of
these is a duplicate and answered with the first one's offsets; any other must follow the last
sequence. The state is part of the log: it is rebuilt from batch headers, starting at a snapshot
(`<offset>.snapshot`, Kafka's layout) where there is one. The owner's lock guards it.

Snapshot: i16 version=1, u32 CRC-32C of what follows, i32 count, then per producer
i64 id, i16 producer epoch, i32 last sequence, i64 last offset, i32 offset delta, i64 timestamp,
i32 coordinator epoch (-1), i64 first offset of an open transaction (-1). It holds the last batch
only, so that after a restart older duplicates are out of order: as in Kafka.
"""

from __future__ import annotations

import struct
from collections import deque
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from nodes.core.errors import ApiError, Errors
from nodes.log.checkpoints import write_bytes_atomically
from nodes.wire.records import BatchHeader, add_sequence

KEPT_BATCHES = 5
NO_PRODUCER_EPOCH = -1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class WrittenBatch(NamedTuple):
    """One batch of a producer: sequences, offsets and its greatest timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ActiveProducer(NamedTuple):
    """What an operator may want to know of a producer; -1 where nothing is known."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    timestamp_ms: int


class _Producer:
    __slots__ = ("batches", "producer_epoch", "timestamp_ms")

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.batches: deque[WrittenBatch] = deque(maxlen=KEPT_BATCHES)
        self.timestamp_ms = -1


class ProducerState:
    """The producers of one partition."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self.tells_epochs_apart = True
        """False is a planted bug."""

    def __len__(self) -> int:
        return len(self._producers)

    def active(self) -> list[ActiveProducer]:
        """Every producer that is remembered."""
        return [
            ActiveProducer(
                producer_id,
                producer.producer_epoch,
                producer.batches[-1].last_sequence if producer.batches else -1,
                producer.timestamp_ms,
            )
            for producer_id, producer in self._producers.items()
        ]

    def last_offsets(self) -> set[int]:
        """The last offset of each producer's last batch."""
        return {p.batches[-1].last_offset for p in self._producers.values() if p.batches}

    def clear(self) -> None:
        """Forgets all producers."""
        self._producers.clear()

    def forget_older_batches(self) -> None:
        """Keeps the last batch of each producer, as a snapshot does."""
        for producer in self._producers.values():
            while len(producer.batches) > 1:
                producer.batches.popleft()

    def duplicate_of(self, header: BatchHeader) -> WrittenBatch | None:
        """The batch already written with these sequences, if it is one of the last five."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if producer.producer_epoch != header.producer_epoch and self.tells_epochs_apart:
            return None
        last_sequence = header.last_sequence
        for batch in producer.batches:
            if (
                batch.first_sequence == header.base_sequence
                and batch.last_sequence == last_sequence
            ):
                return batch
        return None

    def check(self, header: BatchHeader) -> None:
        """Whether a client's batch may be written now.

        Raises ApiError INVALID_PRODUCER_EPOCH for an older producer epoch and
        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap. An unknown producer may start anywhere, because
        its state may have expired, but in no epoch below "none".
        """
        producer = self._producers.get(header.producer_id)
        known = NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch
        if header.producer_epoch < known:
            raise ApiError(
                Errors.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} epoch {header.producer_epoch} is older than "
                f"{known}",
            )
        if producer is None:
            return
        sequence = header.base_sequence
        if header.producer_epoch > producer.producer_epoch:
            expected = 0
        else:
            if not producer.batches:
                return
            expected = add_sequence(producer.batches[-1].last_sequence, 1)
        if sequence != expected:
            raise ApiError(
                Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {sequence}, expected {expected}",
            )

    def record(self, header: BatchHeader, first_offset: int, timestamp_ms: int) -> None:
        """A batch was written (by a client, a leader we follow, or found on disk)."""
        if header.is_control:
            return
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.producer_epoch != header.producer_epoch:
            producer = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        producer.timestamp_ms = timestamp_ms
        producer.batches.append(
            WrittenBatch(
                header.base_sequence,
                header.last_sequence,
                first_offset,
                first_offset + header.last_offset_delta,
                timestamp_ms,
            )
        )

    def reaches(self, offset: int) -> bool:
        """Whether some producer's batch lies at or beyond an offset."""
        return any(
            producer.batches and producer.batches[-1].last_offset >= offset
            for producer in self._producers.values()
        )

    def expire(self, upto_ms: int) -> None:
        """Forgets producers whose last batch is of that time or older."""
        for producer_id, producer in list(self._producers.items()):
            if producer.timestamp_ms <= upto_ms:
                del self._producers[producer_id]

    def write_snapshot(self, path: Path) -> None:
        """Writes the snapshot file (see the module's text)."""
        entries = [
            _ENTRY.pack(
                producer_id,
                producer.producer_epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.first_offset,
                producer.timestamp_ms,
                -1,
                -1,
            )
            for producer_id, producer in self._producers.items()
            if (last := producer.batches[-1] if producer.batches else None)
        ]
        content = _COUNT.pack(len(entries)) + b"".join(entries)
        write_bytes_atomically(path, _HEAD.pack(1, crc32c(content)) + content)

    def read_snapshot(self, path: Path) -> bool:
        """Replaces the state by a snapshot's; False, and empty, when it is missing or broken."""
        self.clear()
        try:
            data = path.read_bytes()
            version, crc = _HEAD.unpack_from(data)
            content = data[_HEAD.size :]
            if version != 1 or crc32c(content) != crc:
                return False
            entries = list(_ENTRY.iter_unpack(content[_COUNT.size :]))
        except (OSError, struct.error):
            return False
        for producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, _, _ in entries:
            producer = self._producers[producer_id] = _Producer(epoch)
            producer.timestamp_ms = timestamp_ms
            first_sequence = (last_sequence - delta) & 0x7FFFFFFF
            producer.batches.append(
                WrittenBatch(
                    first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms
                )
            )
        return True
