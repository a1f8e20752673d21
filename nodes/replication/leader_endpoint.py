"""How a follower talks to a leader (Kafka's LeaderEndPoint).

The fetcher knows only the protocol, so that tests can join two brokers in memory. The real one
speaks Fetch 12 (which finds divergence by epoch and needs no topic ids) and ListOffsets 7 over one
connection. A leader's address is looked up whenever a connection is made: brokers come back with
other ports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from nodes.core.types import TopicPartition
from nodes.replication.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchPartitionRequest,
    FetchResult,
    ListOffsetResult,
)
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.build import build
from nodes.wire.client import Connection

if TYPE_CHECKING:
    from nodes.config import BrokerConfig

FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 7


class LeaderUnavailable(Exception):
    """There is no address for the leader, or it answered with an error as a whole."""


class LeaderEndPoint(Protocol):
    """One leader, as one fetcher thread sees it. Calls block and raise on any failure; `close` may
    come from another thread and makes a call that is under way fail."""

    def fetch(
        self, partitions: Sequence[tuple[TopicPartition, FetchPartitionRequest]]
    ) -> Sequence[tuple[TopicPartition, FetchResult]]: ...

    def latest_offset(self, tp: TopicPartition, current_leader_epoch: int) -> ListOffsetResult: ...

    def earliest_offset(
        self, tp: TopicPartition, current_leader_epoch: int
    ) -> ListOffsetResult: ...

    def close(self) -> None: ...


class RemoteLeader:
    """A leader behind a socket. Used by one thread, `close` excepted."""

    def __init__(
        self,
        config: BrokerConfig,
        leader_id: int,
        fetcher_id: int,
        resolve: Callable[[int], tuple[str, int] | None],
    ) -> None:
        self._config = config
        self._leader_id = leader_id
        self._client_id = f"broker-{config.broker_id}-fetcher-{fetcher_id}"
        self._resolve = resolve
        self._connection: Connection | None = None
        self._is_closed = False

    def fetch(
        self, partitions: Sequence[tuple[TopicPartition, FetchPartitionRequest]]
    ) -> Sequence[tuple[TopicPartition, FetchResult]]:
        topics: dict[str, list[dict[str, int]]] = {}
        for tp, request in partitions:
            topics.setdefault(tp.topic, []).append(
                {
                    "partition": tp.partition,
                    "current_leader_epoch": request.current_leader_epoch,
                    "fetch_offset": request.fetch_offset,
                    "last_fetched_epoch": request.last_fetched_epoch,
                    "log_start_offset": request.log_start_offset,
                    "partition_max_bytes": request.max_bytes,
                }
            )
        config = self._config
        response = self._ask(
            build(
                request_class(ApiKey.FETCH, FETCH_VERSION),
                replica_id=config.broker_id,
                max_wait=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                max_bytes=config.replica_fetch_response_max_bytes,
                isolation_level=0,
                topics=[{"topic": topic, "partitions": rows} for topic, rows in topics.items()],
            )
        )
        if int(response.error_code):
            raise LeaderUnavailable(f"fetch was refused: {response.error_code!r}")
        return [
            (TopicPartition(str(topic.topic), int(row.partition_index)), _fetch_result(row))
            for topic in response.responses
            for row in topic.partitions
        ]

    def latest_offset(self, tp: TopicPartition, current_leader_epoch: int) -> ListOffsetResult:
        return self._offset(tp, current_leader_epoch, LATEST_TIMESTAMP)

    def earliest_offset(self, tp: TopicPartition, current_leader_epoch: int) -> ListOffsetResult:
        return self._offset(tp, current_leader_epoch, EARLIEST_TIMESTAMP)

    def _offset(
        self, tp: TopicPartition, current_leader_epoch: int, timestamp: int
    ) -> ListOffsetResult:
        row = {
            "partition_index": tp.partition,
            "current_leader_epoch": current_leader_epoch,
            "timestamp": timestamp,
        }
        response = self._ask(
            build(
                request_class(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION),
                replica_id=self._config.broker_id,
                isolation_level=0,
                topics=[{"name": tp.topic, "partitions": [row]}],
            )
        )
        answer = response.topics[0].partitions[0]
        return ListOffsetResult(
            int(answer.error_code), -1, int(answer.offset), int(answer.leader_epoch)
        )

    def _ask(self, entity: Any) -> Any:
        connection = self._connection
        if connection is None:
            endpoint = self._resolve(self._leader_id)
            if endpoint is None or self._is_closed:
                raise LeaderUnavailable(f"no address for broker {self._leader_id}")
            timeout_s = self._config.replica_socket_timeout_ms / 1000
            connection = Connection(*endpoint, self._client_id, timeout_s)
            self._connection = connection
            if self._is_closed:
                connection.close()
        try:
            return connection.request(entity)
        except BaseException:
            # The next attempt asks for the address again.
            self._connection = None
            connection.close()
            raise

    def close(self) -> None:
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            connection.close()


def _fetch_result(row: Any) -> FetchResult:
    diverging = row.diverging_epoch
    return FetchResult(
        int(row.error_code),
        int(row.high_watermark),
        int(row.last_stable_offset),
        int(row.log_start_offset),
        row.records or b"",
        -1,
        None
        if diverging.epoch < 0 and diverging.end_offset < 0
        else (int(diverging.epoch), int(diverging.end_offset)),
    )
