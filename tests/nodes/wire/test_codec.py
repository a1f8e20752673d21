"""Frames: our writer against kio's, round trips, build, headers, hostile bytes."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import struct
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from nodes.wire import codec
from nodes.wire.apis import SUPPORTED, ApiKey, request_class, response_class
from nodes.wire.codec import UnsupportedVersion, WireError, build
from nodes.wire.compiled import MAX_ITEMS, MAX_TEXT_BYTES, checker, read_varint, varint, writer
from nodes.wire.plan import FIXED, FieldPlan, fields_of

REQUESTS = [
    (api, version) for api, (low, high) in SUPPORTED.items() for version in range(low, high + 1)
]
CLASSES = [
    side(api, version) for api, version in REQUESTS for side in (request_class, response_class)
]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def primitive(kind: str) -> st.SearchStrategy[Any]:
    if kind in BITS:
        half = 1 << (BITS[kind] - 1)
        return st.integers(-half, half - 1)
    return {
        "uint16": st.integers(0, 65535),
        "bool": st.booleans(),
        "string": st.text(max_size=8),
        "bytes": st.binary(max_size=200),
        "records": st.binary(max_size=200),
        "uuid": st.none() | st.uuids().filter(lambda value: value.int != 0),
        "error_code": st.sampled_from(list(ErrorCode)),
        "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(
            lambda ms: timedelta(milliseconds=ms)
        ),
        "timedelta_i64": st.integers(-(2**40), 2**40).map(lambda ms: timedelta(milliseconds=ms)),
        "datetime_i64": st.integers(0, 2**31).map(lambda s: datetime.fromtimestamp(s, UTC)),
    }[kind]


def values(field: FieldPlan) -> st.SearchStrategy[Any]:
    one = entities(field.entity) if field.entity else primitive(field.primitive or "")
    if field.many:
        one = st.lists(one, max_size=3).map(tuple)
    # A tagged field's null is its absence: kio writes no null there.
    if field.nullable and field.tag is None:
        one = st.none() | one
    return one


def entities(entity_class: Any) -> st.SearchStrategy[Any]:
    return st.builds(entity_class, **{f.name: values(f) for f in fields_of(entity_class)})


def written(entity: Any) -> bytes:
    parts: list[bytes | memoryview] = []
    writer(type(entity))(parts.append, entity)
    return b"".join(parts)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.sampled_from(CLASSES).flatmap(entities))
def test_writer_agrees_with_kio_and_with_the_reader(entity: Any) -> None:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    body = buffer.getvalue()
    assert written(entity) == body
    assert checker(type(entity))(body, 0, len(body), []) == len(body)
    # Bytes after a body are tolerated, as Kafka tolerates them.
    assert codec._read(type(entity), body + b"more", 0) == entity


@pytest.mark.parametrize(("api", "version"), REQUESTS, ids=lambda value: str(int(value)))
def test_frames_round_trip(api: ApiKey, version: int) -> None:
    request = build(request_class(api, version))
    frame = codec.encode_request(request, 77, "cliént")
    assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
    header = codec.parse_header(frame[4:])
    expected_client = "" if (api, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0) else "cliént"
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
        api,
        version,
        77,
        expected_client,
    )
    assert codec.parse_body(header, frame[4:]) == request
    response = build(response_class(api, version))
    frame = codec.encode_response(api, version, 78, response)
    assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
    assert codec.decode_response(api, version, frame[4:]) == (78, response)


def test_build_writes_one_answer_for_all_versions() -> None:
    for version in range(13):
        answer = build(
            response_class(ApiKey.METADATA, version),
            throttle_time=5,
            cluster_id="c",
            controller_id=1,
            brokers=[{"node_id": 1, "host": "h", "port": 9, "rack": None}],
            topics=[
                {
                    "error_code": 3,
                    "name": "t",
                    "topic_id": uuid.UUID(int=5),
                    "partitions": [{"partition_index": 0, "leader_id": 1, "leader_epoch": 4}],
                }
            ],
        )
        assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
        assert answer.topics[0].partitions[0].replica_nodes == ()
        if version >= 3:
            assert answer.throttle_time == timedelta(milliseconds=5)
        frame = codec.encode_response(ApiKey.METADATA, version, 1, answer)
        assert codec.decode_response(ApiKey.METADATA, version, frame[4:])[1] == answer


def test_build_refuses_a_name_of_no_version() -> None:
    with pytest.raises(TypeError, match="leader_epok"):
        build(
            response_class(ApiKey.METADATA, 1),
            topics=[{"partitions": [{"leader_epok": 1}]}],
        )


def test_plain_integers_may_stand_for_durations_and_errors() -> None:
    answer = dataclasses.replace(build(response_class(ApiKey.HEARTBEAT, 4)), throttle_time=7)
    assert codec.decode_response(
        ApiKey.HEARTBEAT, 4, codec.encode_response(ApiKey.HEARTBEAT, 4, 1, answer)[4:]
    )[1].throttle_time == timedelta(milliseconds=7)


def test_unsupported_versions_name_themselves() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        codec.parse_header(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 5, -1))
    assert (caught.value.api_key, caught.value.version, caught.value.correlation_id) == (18, 99, 5)
    for api_key in (-1, 17, 9999):
        with pytest.raises(UnsupportedVersion):
            codec.parse_header(struct.pack(">hhih", api_key, 0, 5, -1))


def test_header_tags_are_skipped_and_client_id_may_be_null() -> None:
    body = written(build(request_class(ApiKey.METADATA, 9)))
    frame = struct.pack(">hhih", 3, 9, 5, -1) + b"\x01\x07\x02ab" + body
    header = codec.parse_header(frame)
    assert (header.client_id, header.body_offset) == ("", 15)
    codec.parse_body(header, frame)


def plain(entity_class: Any, tags: bytes) -> bytes:
    """A body by the schema: zeros, empty texts, lists of two; `tags` at the end of each entity."""
    parts = []
    for field in fields_of(entity_class):
        if field.tag is not None:
            continue
        if field.entity:
            one = plain(field.entity, tags)
        else:
            one = (
                bytes(struct.calcsize(">" + FIXED[field.primitive]))
                if (field.primitive in FIXED)
                else b"\1"
            )
        parts.append(b"\3" + one * 2 if field.many else one)
    return b"".join([*parts, tags])


FLEXIBLE = [row for row in REQUESTS if request_class(*row).__flexible__]


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_tags_that_nobody_knows_yet_are_passed_over(api: ApiKey, version: int) -> None:
    """KIP-482: who sends one does not know whether it is understood."""
    entity_class = request_class(api, version)

    def parsed(tags: bytes) -> Any:
        frame = struct.pack(">hhih", api, version, 1, -1) + b"\0" + plain(entity_class, tags)
        return codec.parse_body(codec.parse_header(frame), frame)

    assert parsed(b"\2\x63\0\xe4\7\3abc") == parsed(b"\0")
    for broken in (b"\1\x63\x7f", b"\1\x63", b"\2\x63\0", b"\xff\xff\xff\xff\x0f\x63\0"):
        with pytest.raises(WireError):
            parsed(broken)


def test_tags_cost_as_much_as_items() -> None:
    tags = varint(MAX_ITEMS + 1) + b"\x63\0" * (MAX_ITEMS + 1)
    parse(struct.pack(">hhih", ApiKey.LIST_GROUPS, 4, 1, -1) + b"\0\1" + tags)
    with pytest.raises(WireError, match="more than"):
        checker(request_class(ApiKey.LIST_GROUPS, 4))(b"\1" + tags, 0, len(tags) + 1, [])


def test_api_versions_response_header_never_has_tags() -> None:
    frame = codec.encode_response(
        ApiKey.API_VERSIONS, 3, 9, build(response_class(ApiKey.API_VERSIONS, 3))
    )
    assert frame[4:10] == struct.pack(">ih", 9, 0)


def parse(frame: bytes) -> None:
    """Must return or raise WireError, soon and without eating memory."""
    started = time.thread_time()
    with contextlib.suppress(WireError):
        codec.parse_body(codec.parse_header(frame), frame)
    assert time.thread_time() - started < 1.0


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(REQUESTS), st.binary(max_size=80))
def test_random_bodies_raise_only_wire_errors(request_: tuple[ApiKey, int], body: bytes) -> None:
    api, version = request_
    parse(struct.pack(">hhih", api, version, 1, -1) + body)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(REQUESTS).flatmap(lambda r: entities(request_class(*r))), st.data())
def test_damaged_frames_raise_only_wire_errors(entity: Any, data: st.DataObject) -> None:
    frame = bytearray(codec.encode_request(entity, 1, "c")[4:])
    at = data.draw(st.integers(4, len(frame)))
    damage = data.draw(
        st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x7f", b"\x80", b""])
    )
    frame[at : at + len(damage)] = damage
    parse(bytes(frame[: data.draw(st.integers(at, len(frame)))] if not damage else frame))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(REQUESTS), st.binary(max_size=80))
def test_random_responses_raise_only_wire_errors(
    api_version: tuple[ApiKey, int], body: bytes
) -> None:
    with contextlib.suppress(WireError):
        codec.decode_response(*api_version, body)


@pytest.mark.parametrize("count", [2**31 - 1, 2**30, 10**7, -2, -(2**31)])
def test_huge_array_costs_nothing(count: int) -> None:
    """kio's own reader would reserve 16 GiB here and abort the process."""
    frame = struct.pack(">hhihi", ApiKey.METADATA, 4, 1, -1, count) + b"\0" * 8
    with pytest.raises(WireError):
        codec.parse_body(codec.parse_header(frame), frame)


def test_arrays_may_hold_only_so_many_items_in_all() -> None:
    """Every item would become an object: they would cost gigabytes before a handler saw them."""
    count = MAX_ITEMS + 1
    header = struct.pack(">hhih", ApiKey.METADATA, 1, 7, -1)
    flat = header + struct.pack(">i", count) + bytes(2 * count)
    header = struct.pack(">hhih", ApiKey.FETCH, 4, 7, -1)
    topic = struct.pack(">hi", 0, 100) + bytes(16 * 100)
    nested = header + struct.pack(">iiiibi", -1, 0, 0, 0, 0, count // 100 + 1)
    nested += topic * (count // 100 + 1)
    for frame in (flat, nested):
        with pytest.raises(WireError, match="items"):
            codec.parse_body(codec.parse_header(frame), frame)


def test_huge_varint_array_costs_nothing() -> None:
    frame = (
        struct.pack(">hhihb", ApiKey.METADATA, 9, 1, -1, 0) + b"\xff\xff\xff\xff\x0f" + b"\0" * 9
    )
    with pytest.raises(WireError):
        codec.parse_body(codec.parse_header(frame), frame)


@pytest.mark.parametrize("version", [3, 4])
def test_strings_may_be_as_long_as_16_bits_can_say(version: int) -> None:
    """What is written elsewhere with such a length, a group's record say, could not be."""
    for size in (MAX_TEXT_BYTES, MAX_TEXT_BYTES + 1):
        entity = codec.build(
            request_class(ApiKey.HEARTBEAT, version), group_id="g", member_id="m" * size
        )
        if size > MAX_TEXT_BYTES and not entity.__flexible__:
            continue
        frame = codec.encode_request(entity, 1, "x")[4:]
        header = codec.parse_header(frame)
        if size == MAX_TEXT_BYTES:
            assert codec.parse_body(header, frame) == entity
        else:
            with pytest.raises(WireError, match="member_id is longer than 32767 bytes"):
                codec.parse_body(header, frame)


def test_null_where_there_may_be_none() -> None:
    frame = struct.pack(">hhihhhii", ApiKey.PRODUCE, 7, 1, -1, -1, 1, 1000, -1)
    with pytest.raises(WireError, match="must not be null"):
        codec.parse_body(codec.parse_header(frame), frame)


@given(st.integers(0, 2**32 - 1))
def test_varints(value: int) -> None:
    assert read_varint(varint(value) + b"x", 0) == (value, len(varint(value)))


def test_long_varint_is_refused() -> None:
    with pytest.raises(WireError):
        read_varint(b"\xff" * 9, 0)
