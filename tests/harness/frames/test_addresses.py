"""What clients are told of brokers' addresses, in every version of every answer that tells them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from harness.frames.addresses import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    METADATA,
    NEWEST,
    Unreadable,
    readdressed,
    tells_addresses,
)
from harness.frames.wire import Head
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import build, decode_response, encode_response

TOLD = {1: ("127.0.0.1", 31_001), 2: ("127.0.0.1", 31_002)}


def head(api: int, version: int) -> Head:
    return Head(api, version, 77, "client")


def through(api: int, version: int, entity: Any) -> Any:
    """What a client reads of such an answer."""
    frame = readdressed(head(api, version), encode_response(api, version, 77, entity)[4:], TOLD)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, answer = decode_response(api, version, frame[4:])
    assert correlation_id == 77
    return answer


@pytest.mark.parametrize("version", range(13))
def test_metadata(version: int) -> None:
    named = [{"node_id": n, "host": f"kafka-{n}.far", "port": 9092} for n in (1, 2, 3)]
    topics = [{"error_code": 0, "name": "orders", "partitions": []}]
    sent = build(response_class(METADATA, version), brokers=named, topics=topics)
    answer = through(METADATA, version, sent)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (1, "127.0.0.1", 31_001),
        (2, "127.0.0.1", 31_002),
        (3, "kafka-3.far", 9092),  # nobody said where else it is
    ]
    assert dataclasses.replace(answer, brokers=sent.brokers) == sent


@pytest.mark.parametrize("version", range(5))
def test_find_coordinator(version: int) -> None:
    one = {"node_id": 2, "host": "kafka-2.far", "port": 9092, "error_code": 0}
    fields = one if version < 4 else {"coordinators": [{**one, "key": "g", "error_message": None}]}
    answer = through(FIND_COORDINATOR, version, build(response_class(10, version), **fields))
    found = answer if version < 4 else answer.coordinators[0]
    assert (found.node_id, found.host, found.port) == (2, "127.0.0.1", 31_002)


@pytest.mark.parametrize("version", range(2))
def test_describe_cluster(version: int) -> None:
    brokers = [{"broker_id": 1, "host": "kafka-1.far", "port": 9092, "rack": "r"}]
    entity = build(response_class(60, version), brokers=brokers, cluster_id="c", controller_id=1)
    (found,) = through(DESCRIBE_CLUSTER, version, entity).brokers
    assert (found.broker_id, found.host, found.port, found.rack) == (1, "127.0.0.1", 31_001, "r")


@pytest.mark.parametrize("version", range(5))
def test_versions_whose_answers_tell_other_addresses_are_not_offered(version: int) -> None:
    keys = [{"api_key": k, "min_version": 0, "max_version": 17} for k in (0, 1, 3, 18)]
    answer = through(18, version, build(response_class(18, version), api_keys=keys, error_code=0))
    most = {int(key.api_key): int(key.max_version) for key in answer.api_keys}
    assert most == {0: NEWEST[0], 1: NEWEST[1], 3: 17, 18: 17}


def test_what_is_not_offered_is_all_that_tells_addresses() -> None:
    """Produce and Fetch up to the newest that is offered, in no field of theirs."""
    for api, newest in NEWEST.items():
        assert "node_endpoints" not in load_response_schema(api, newest).__dataclass_fields__
        assert "node_endpoints" in load_response_schema(api, newest + 1).__dataclass_fields__


def test_an_old_broker_refuses_in_version_0() -> None:
    """KIP-511: a client that asks in a version that is unknown is told which ones are known."""
    keys = [{"api_key": 0, "min_version": 0, "max_version": 17}]
    refusal = build(response_class(18, 0), error_code=35, api_keys=keys)
    sent = encode_response(API_VERSIONS, 0, 77, refusal)[4:]
    frame = readdressed(head(API_VERSIONS, 4), sent, TOLD)
    _, answer = decode_response(18, 0, frame[4:])
    assert (int(answer.error_code), answer.api_keys[0].max_version) == (35, NEWEST[0])


@pytest.mark.parametrize(
    ("api", "version", "answer"),
    [
        (METADATA, 12, b"\0\0\0\1\5rubbish"),
        (METADATA, 12, b"\0\0\0\1\0\0\0"),
        (METADATA, 1, b"\0\0\0\1\xff\xff\xff"),
        (METADATA, 99, b"\0\0\0\1\0"),
        (FIND_COORDINATOR, 0, b"\0\0\0\1"),
    ],
)
def test_what_cannot_be_read_is_not_passed_on(api: int, version: int, answer: bytes) -> None:
    """A client that was given it as it is would find its way past the proxies."""
    with pytest.raises(Unreadable):
        readdressed(head(api, version), answer, TOLD)


def test_nothing_else_is_read() -> None:
    assert {api for api in ApiKey if tells_addresses(head(int(api), 0))} == {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
    }


def test_newer_versions_than_our_own_brokers_have() -> None:
    """Kafka 4: Metadata 13."""
    kind: Any = load_response_schema(METADATA, 13)
    assert kind.__flexible__
    entity = build(
        kind, brokers=[{"node_id": 1, "host": "far", "port": 9092}], topics=[], controller_id=1
    )
    body = bytearray(b"\0\0\0\7\0")

    class Into:
        def write(self, data: bytes) -> None:
            body.extend(data)

    entity_writer(kind)(Into(), entity)  # type: ignore[arg-type]
    frame = readdressed(head(METADATA, 13), bytes(body), TOLD)
    answer, _ = entity_reader(kind)(frame[4:], 5)
    assert (answer.brokers[0].host, int(answer.brokers[0].port)) == TOLD[1]
