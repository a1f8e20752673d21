"""Producer ids, unique in the cluster (Kafka's ZkProducerIdManager).

`/latest_producer_id_block` holds the last block of 1000 ids that any broker has claimed. A broker
claims the next one by writing it over the version that it read, so two brokers never hold the same
ids. A block is claimed when the first id is asked for, and again when it is used up; ids left in a
block when a broker stops are lost, which costs nothing.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, Protocol

import orjson
from kazoo.exceptions import KazooException

from nodes.coordination.errors import CoordinationError
from nodes.core.errors import ApiError, Errors

log = logging.getLogger("kafka.coordinator.transaction.ZkProducerIdManager")

PATH: Final = "/latest_producer_id_block"
BLOCK_SIZE: Final = 1000
_MAX_ID: Final = 2**63 - 1


class VersionedStore(Protocol):
    """What is needed of KafkaZkClient."""

    def get_data_and_version(self, path: str) -> tuple[bytes | None, int]: ...

    def conditional_update_path(
        self, path: str, data: bytes, expected_version: int
    ) -> int | None: ...


class ProducerIdManager:
    """Thread-safe. `generate` blocks its caller on ZooKeeper once in 1000 calls."""

    def __init__(self, broker_id: int, zk: VersionedStore) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._lock = threading.Lock()
        self._next_id = 0
        self._block_end = -1

    def generate(self) -> int:
        """A producer id that nobody has been given before."""
        with self._lock:
            if self._next_id > self._block_end:
                try:
                    self._next_id = self._claim_block()
                except (KazooException, CoordinationError) as error:
                    text = f"No block of producer ids could be claimed: {error}"
                    raise ApiError(Errors.COORDINATOR_NOT_AVAILABLE, text) from error
                self._block_end = self._next_id + BLOCK_SIZE - 1
            producer_id = self._next_id
            self._next_id += 1
            return producer_id

    def _claim_block(self) -> int:
        """The first id of a block that is now this broker's."""
        while True:
            data, version = self._zk.get_data_and_version(PATH)
            start = int(orjson.loads(data)["block_end"]) + 1 if data else 0
            if start > _MAX_ID - BLOCK_SIZE:
                raise ApiError(Errors.UNKNOWN_SERVER_ERROR, "All producer ids have been used")
            block = {
                "version": 1,
                "broker": self._broker_id,
                "block_start": str(start),
                "block_end": str(start + BLOCK_SIZE - 1),
            }
            written = self._zk.conditional_update_path(PATH, orjson.dumps(block), version)
            if written is not None:
                log.info(
                    "[ZK ProducerId Manager %d]: Acquired new producerId block %d to %d",
                    self._broker_id,
                    start,
                    start + BLOCK_SIZE - 1,
                )
                return start
