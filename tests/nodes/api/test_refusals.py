"""What is not there is refused so that a client understands: unknown topic ids, transactions."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from nodes.core.errors import Errors
from nodes.wire.apis import SUPPORTED, ApiKey, request_class
from nodes.wire.client import Connection, ConnectionFailed
from nodes.wire.codec import build
from tests.nodes.api.serving import ANY_PORT, serving

KNOWN, UNKNOWN, NOBODYS = uuid.UUID(int=7), uuid.UUID(int=8), uuid.UUID(int=0)
AUTHORIZATION_FAILED = 53  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED: fatal to its client, not retried
FIRST_FETCH_BY_ID = 13


@pytest.fixture
def connection(make_node: Callable[..., Any]) -> Iterator[Connection]:
    """To a node that leads topic t."""
    node = make_node(**ANY_PORT)
    with serving(node) as port, Connection("127.0.0.1", port) as made:
        node.lead("t", topic_id=KNOWN)
        yield made


def offered(connection: Connection) -> dict[int, tuple[int, int]]:
    asked = build(
        request_class(ApiKey.API_VERSIONS, 3),
        client_software_name="test",
        client_software_version="1",
    )
    rows = connection.request(asked).api_keys
    return {int(row.api_key): (int(row.min_version), int(row.max_version)) for row in rows}


def frame(api: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    header = struct.pack(">hhih", api, version, 5, 1) + b"c" + b"\0" * flexible
    return struct.pack(">i", len(header) + len(body)) + header + body


class TestTopicIds:
    @pytest.mark.parametrize(
        ("asked", "max_wait"),
        [([UNKNOWN, KNOWN, NOBODYS, uuid.UUID(int=9)], 0), ([UNKNOWN, NOBODYS], 3_600_000)],
    )
    def test_a_fetch_by_an_unknown_id(
        self, connection: Connection, asked: list[uuid.UUID], max_wait: int
    ) -> None:
        """Each is answered by its own id, at once where nothing else was asked for. An id of zeros
        is nobody's, as in Kafka."""
        assert offered(connection)[ApiKey.FETCH] == SUPPORTED[ApiKey.FETCH]
        part = {"fetch_offset": 0, "partition_max_bytes": 1000, "log_start_offset": -1}
        request = build(
            request_class(ApiKey.FETCH, FIRST_FETCH_BY_ID),
            replica_id=-1,
            max_wait=max_wait,
            min_bytes=1,
            max_bytes=1000,
            topics=[
                {"topic_id": each, "partitions": [part | {"partition": p} for p in (0, 3)]}
                for each in asked
            ],
        )
        answer = connection.request(request)
        assert answer.error_code == 0
        found = {
            topic.topic_id or NOBODYS: {p.partition_index: p.error_code for p in topic.partitions}
            for topic in answer.responses
        }
        nobodys = dict.fromkeys((0, 3), Errors.UNKNOWN_TOPIC_ID)
        known = {0: Errors.NONE, 3: Errors.UNKNOWN_TOPIC_OR_PARTITION}
        assert found == {each: known if each == KNOWN else nobodys for each in asked}

    def test_metadata_and_deletion_by_an_unknown_id(self, connection: Connection) -> None:
        topics = [{"topic_id": topic_id, "name": None} for topic_id in (KNOWN, UNKNOWN)]
        asked = build(request_class(ApiKey.METADATA, 12), topics=topics)
        found = {topic.topic_id: topic.error_code for topic in connection.request(asked).topics}
        assert found == {KNOWN: 0, UNKNOWN: Errors.UNKNOWN_TOPIC_ID}
        asked = build(request_class(ApiKey.DELETE_TOPICS, 6), topics=topics[1:], timeout=1000)
        (row,) = connection.request(asked).responses
        assert (row.name, row.error_code) == (None, Errors.UNKNOWN_TOPIC_ID)


class TestTransactions:
    @pytest.mark.parametrize("version", range(SUPPORTED[ApiKey.INIT_PRODUCER_ID][1] + 1))
    def test_no_id_for_a_transactional_producer(self, node: Any, version: int) -> None:
        def error_of(transactional_id: str | None) -> int:
            fields = {"transactional_id": transactional_id, "transaction_timeout": 1000}
            answer = node.call(ApiKey.INIT_PRODUCER_ID, version, **fields)
            assert (answer.producer_id >= 0) == (answer.error_code == 0)
            return int(answer.error_code)

        assert error_of("x") == AUTHORIZATION_FAILED
        assert error_of("") == Errors.INVALID_REQUEST
        assert error_of(None) == 0

    @pytest.mark.parametrize("version", range(1, 5))
    def test_no_coordinator_of_them(self, node: Any, version: int) -> None:
        fields: dict[str, Any] = {"key": "x"} if version < 4 else {"coordinator_keys": ["x"]}
        answer = node.call(ApiKey.FIND_COORDINATOR, version, key_type=1, **fields)
        row = answer if version < 4 else answer.coordinators[0]
        assert row.error_code == AUTHORIZATION_FAILED
        assert row.error_message == "Transactions are not served"

    @pytest.mark.parametrize(
        "api", [24, 25, 26, 27, 28, 65, 66]
    )  # AddPartitionsToTxn .. TxnOffsetCommit, Describe- and ListTransactions
    def test_their_apis_are_not_offered(self, connection: Connection, api: int) -> None:
        assert api not in offered(connection)
        body = b"\0\1x" + struct.pack(">qh", 1, 0) + struct.pack(">ih", 1, 1) + b"t"
        with pytest.raises(ConnectionFailed):
            connection.send_raw(frame(api, 0, body + struct.pack(">ii", 1, 0), flexible=False))

    def test_librdkafka_understands(self, make_node: Callable[..., Any]) -> None:
        """A fatal error, not one that it retries until its time is over; without a transactional id
        the same client produces."""
        node = make_node(**ANY_PORT)
        with serving(node) as port:
            node.lead("t")
            client = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
            with pytest.raises(KafkaException) as refused:
                Producer({**client, "transactional.id": "x"}).init_transactions(60)
            error = refused.value.args[0]
            assert (error.code(), error.fatal()) == (AUTHORIZATION_FAILED, True)
            lawful = Producer({**client, "enable.idempotence": True})
            delivered: list[Any] = []
            lawful.produce("t", b"v", on_delivery=lambda error, _: delivered.append(error))
            assert lawful.flush(60) == 0
            assert delivered == [None]
