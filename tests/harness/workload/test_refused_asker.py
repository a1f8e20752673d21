"""Requests for what cannot be done: what is sent, and what is made of the answers."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from crc32c import crc32c

from harness.workload.refused_asker import IMPOSSIBLE, LATER_NS, Params, RefusedAsker
from harness.workload.spec import WorkloadSpec
from harness.workload.values import MIN_BYTES
from nodes.api.parse import parse
from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.log.validation import validate_produced
from nodes.network.processor import AnswerAtOnce
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import WireError, build, encode_response, parse_body, parse_header
from nodes.wire.records import CRC_FROM, check_crc, iter_records, read_header

READABLE = [
    one for one in IMPOSSIBLE if not (one.lacks or one.behind or one.claims) and one.begins is None
]
SAYS = [one.says for one in READABLE]
NO_TIME = {"throttle_time": 0}


class _Rows:
    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []

    def invoke(self, *_: Any, **fields: Any) -> None:
        assert fields["wanted"]
        assert fields["about"]

    def complete(self, kind: str, _op: int, outcome: str, *_: Any, **fields: Any) -> None:
        assert kind == "admin_request"
        self.done.append((outcome, fields))


class _Sent:
    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, channel: Any, frame: bytes, tag: Any, *, answers: int) -> None:
        assert answers == (2 if tag.what.behind else 1)
        self.frames.append(frame)
        channel.tag = tag

    def send_more(self, channel: Any, frame: bytes) -> None:
        self.frames.append(frame)


@pytest.fixture
def asker() -> Any:
    return make()


def make(**more: Any) -> Any:
    spec = WorkloadSpec(
        role="refused-asker",
        process="refused-asker",
        output="x.jsonl",
        bootstrap={1: "127.0.0.1:9092"},
        params={"topic": "t", **more},
    )
    made = RefusedAsker(spec, spec.read_params(Params))
    made._recorder, made._links = _Rows(), _Sent()  # type: ignore[assignment]
    return made


def answer(api: ApiKey, version: int, code: int) -> bytes:
    """As the broker sends it, with that error wherever there is one for a thing."""
    text = {"error_message": None}
    rows: dict[ApiKey, dict[str, Any]] = {
        ApiKey.CREATE_TOPICS: {"topics": [{"name": "t", "error_code": code, **text}]},
        ApiKey.DELETE_TOPICS: {"responses": [{"name": "t", "error_code": code}]},
        ApiKey.CREATE_PARTITIONS: {"results": [{"name": "t", "error_code": code, **text}]},
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
            **{"error_code": 0, **text},
            "responses": [
                {
                    "name": "t",
                    "partitions": [{"partition_index": 0, "error_code": code, **text}],
                }
            ],
        },
        ApiKey.ELECT_LEADERS: {
            "error_code": 0,
            "replica_election_results": [
                {
                    "topic": "t",
                    "partition_result": [{"partition_id": 0, "error_code": code, **text}],
                }
            ],
        },
        ApiKey.PRODUCE: {
            "responses": [
                {
                    "name": "t",
                    "partition_responses": [
                        {"index": 0, "error_code": code, "base_offset": -1, "log_append_time": -1}
                    ],
                }
            ]
        },
        ApiKey.DELETE_RECORDS: {
            "topics": [
                {
                    "name": "t",
                    "partitions": [{"partition_index": 0, "low_watermark": -1, "error_code": code}],
                }
            ]
        },
        ApiKey.INCREMENTAL_ALTER_CONFIGS: {
            "responses": [
                {"error_code": code, **text, "resource_type": 2, "resource_name": "t"},
            ]
        },
        ApiKey.API_VERSIONS: {"error_code": code, "api_keys": []},
    }
    entity = build(response_class(api, version), **rows[api])
    return encode_response(api, version, 0, entity)[4:]


@pytest.mark.parametrize("number", range(len(READABLE)), ids=SAYS)
def test_each_is_asked_for_in_turn_and_its_refusal_told(asker: Any, number: int) -> None:
    wanted = READABLE[number]
    assert wanted == IMPOSSIBLE[number]
    channel = SimpleNamespace(node=1, tag=None)
    for _ in range(number + 1):
        asker.ask(channel)
    frame = asker._links.frames[-1][4:]
    header = parse_header(frame)
    assert (header.api_key, header.api_version) == (wanted.api, wanted.version)
    parse_body(header, frame)
    for code, outcome in ((wanted.wanted, "fail"), (41, "fail"), (0, "ok")):
        asker.answered(channel, answer(wanted.api, wanted.answered_in, code), 5)
        came_of, fields = asker.recorder.done[-1]
        assert (came_of, fields["error"], fields["node"]) == (outcome, code, 1)
        assert (fields["wanted"], fields["about"]) == (wanted.wanted, wanted.says)
        assert fields["api"] == wanted.api.name


def test_half_a_request_is_whole_by_its_size_and_cannot_be_read(asker: Any) -> None:
    channel = SimpleNamespace(node=1, tag=None)
    for _ in IMPOSSIBLE:
        asker.ask(channel)
    (half,) = (one for one in IMPOSSIBLE if one.lacks)
    assert channel.tag.what == half
    frame = asker._links.frames[-1]
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = parse_header(frame[4:])
    assert header.api_key == half.api
    with pytest.raises(WireError):
        parse_body(header, frame[4:])


def test_one_is_of_a_version_that_there_is_none_of_and_answered_in_the_first(asker: Any) -> None:
    (number,) = (n for n, one in enumerate(IMPOSSIBLE) if one.claims)
    channel = SimpleNamespace(node=1, tag=None)
    for _ in range(number + 1):
        asker.ask(channel)
    what, frame = channel.tag.what, asker._links.frames[-1]
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    with pytest.raises(AnswerAtOnce) as told:
        parse(frame[4:])
    asker.answered(channel, told.value.frame[4:], 5)
    assert asker.recorder.done[-1][0] == "fail"
    assert asker.recorder.done[-1][1]["error"] == what.wanted
    asker.answered(channel, answer(what.api, what.version, what.wanted), 5)
    came_of, fields = asker.recorder.done[-1]
    assert (came_of, fields["failure"]) == ("info", "unreadable")
    own = parse_header(frame[4:6] + what.version.to_bytes(2, "big") + frame[8:])
    assert own.api_version == what.version


def test_one_asks_for_no_answer(asker: Any) -> None:
    (number,) = (n for n, one in enumerate(IMPOSSIBLE) if "without an answer" in one.says)
    channel = SimpleNamespace(node=1, tag=None)
    for _ in range(number + 1):
        asker.ask(channel)
    frame = asker._links.frames[-1][4:]
    assert parse_body(parse_header(frame), frame).acks == 0


def test_one_sends_what_is_sound_beside_it() -> None:
    asker = make(aside={"aside": 2})
    channel = SimpleNamespace(node=1, tag=None)
    said = []
    for _ in range(len(IMPOSSIBLE) + 2):
        asker.ask(channel)
        said.append(channel.tag.what.says)
    says = [one.says for one in IMPOSSIBLE]
    assert said == [*says, "a damaged batch beside sound ones, without an answer", says[0]]
    frame = asker._links.frames[-2][4:]
    body = parse_body(parse_header(frame), frame)
    assert body.acks == 0
    found = [
        (topic.name, p.index, crc32c(p.records[CRC_FROM:]) == read_header(p.records).crc)
        for topic in body.topic_data
        for p in topic.partition_data
    ]
    assert found == [("t", 0, False), ("aside", 0, True), ("aside", 1, True)]
    (sound,) = {p.records for p in body.topic_data[1].partition_data}
    assert abs(read_header(sound).max_timestamp - time.time() * 1000) < 60_000
    # No workload's, nor what looks like it in the final read.
    assert all(record.value and len(record.value) < MIN_BYTES for record in iter_records(sound))


def _behind(asker: Any) -> Any:
    """The channel, after both were sent."""
    channel = SimpleNamespace(node=1, tag=None)
    while channel.tag is None or not channel.tag.what.behind:
        asker.ask(channel)
    return channel


FETCHED = (1).to_bytes(4, "big") + bytes(8)
"""An answer by its number; of the rest nobody asks."""


def test_two_requests_are_sent_at_once(asker: Any) -> None:
    what = _behind(asker).tag.what
    frames = asker._links.frames[-1]
    size = int.from_bytes(frames[:4], "big") + 4
    assert int.from_bytes(frames[size : size + 4], "big") == len(frames) - size - 4
    numbers = []
    for frame, api in ((frames[4:size], ApiKey.FETCH), (frames[size + 4 :], what.api)):
        header = parse_header(frame)
        parse_body(header, frame)
        assert header.api_key == api
        numbers.append(header.correlation_id)
    assert numbers == [1, 0]


@pytest.mark.parametrize("turn", ["in turn", "out of turn"])
def test_answers_come_in_the_order_of_the_requests(asker: Any, turn: str) -> None:
    channel = _behind(asker)
    what, before = channel.tag.what, len(asker.recorder.done)
    own = answer(what.api, what.version, what.wanted)
    for payload in (FETCHED, own) if turn == "in turn" else (own, FETCHED):
        asker.answered(channel, payload, 5)
    ((came_of, fields),) = asker.recorder.done[before:]
    if turn == "in turn":
        assert (came_of, fields["error"]) == ("fail", what.wanted)
    else:
        assert (came_of, fields["failure"]) == ("info", "out-of-turn")


def test_the_later_one_is_sent_a_moment_after_the_fetch(asker: Any) -> None:
    channel = SimpleNamespace(node=1, tag=None)
    while channel.tag is None or channel.tag.what.begins != 0:
        asker.ask(channel)
    frames, asked = asker._links.frames, channel.tag
    sent = len(frames)
    assert parse_header(frames[-1][4:]).api_key == ApiKey.FETCH
    asker.waits(channel, asked.invoke_t + LATER_NS - 1)
    assert len(frames) == sent
    for _ in range(2):  # once
        asker.waits(channel, asked.invoke_t + LATER_NS)
    assert [parse_header(f[4:]).api_key for f in frames[sent:]] == [asked.what.api]
    own = answer(asked.what.api, asked.what.version, asked.what.wanted)
    asker.answered(channel, own, 5)
    assert asker.recorder.done[-1][1]["failure"] == "out-of-turn"


@pytest.mark.parametrize("behind", [False, True])
def test_one_comes_in_two_pieces_neither_of_which_is_its_size(asker: Any, behind: bool) -> None:
    (number,) = (n for n, one in enumerate(IMPOSSIBLE) if one.begins and one.behind is behind)
    channel = SimpleNamespace(node=1, tag=None)
    for _ in range(number + 1):
        asker.ask(channel)
    sent = len(asker._links.frames)
    asker.waits(channel, channel.tag.invoke_t + LATER_NS)
    first, rest = asker._links.frames[sent - 1 :]
    size = int.from_bytes(first[:4], "big") + 4 if behind else 0
    assert 0 < len(first) - size < 4
    whole = first[size:] + rest
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert parse_header(whole[4:]).api_key == ApiKey.DELETE_TOPICS


def test_what_is_lost_behind_a_fetch_is_told_once(asker: Any) -> None:
    channel = _behind(asker)
    before = len(asker.recorder.done)
    asker.answered(channel, FETCHED, 5)
    asker.lost(channel, "disconnect", 6)
    ((came_of, fields),) = asker.recorder.done[before:]
    assert (came_of, fields["failure"]) == ("info", "disconnect")


def test_each_broker_is_asked_for_all_of_it(asker: Any) -> None:
    one, other = (SimpleNamespace(node=node, tag=None) for node in (1, 2))
    for channel in (one, one, other):
        asker.ask(channel)
    assert other.tag.what == IMPOSSIBLE[0]
    assert one.tag.what == IMPOSSIBLE[1]


def test_what_is_lost_or_is_no_answer_is_told(asker: Any) -> None:
    channel = SimpleNamespace(node=1, tag=None)
    asker.ask(channel)
    asker.lost(channel, "timeout", 5)
    asker.answered(channel, b"\0\0", 5)
    assert [came_of for came_of, _ in asker.recorder.done] == ["info", "info"]
    assert [fields["failure"] for _, fields in asker.recorder.done] == ["timeout", "unreadable"]


def _written(number: int) -> bytes:
    """The batch of the produce request of that number."""
    frame = PRODUCED[number].frames("t", "me")[0][4:]
    body = parse_body(parse_header(frame), frame)
    (topic,) = body.topic_data
    return bytes(topic.partition_data[0].records)


PRODUCED = [one for one in IMPOSSIBLE if one.api is ApiKey.PRODUCE]


@pytest.mark.parametrize("number", range(len(PRODUCED)))
def test_what_is_wrong_with_a_batch_is_that_alone(number: int) -> None:
    batch, what = _written(number), PRODUCED[number]
    config, at = LogConfig(), TopicPartition("t", 0)
    if what.wanted == Errors.INVALID_REQUIRED_ACKS:
        _, header = validate_produced(batch, at, config, lambda: 0)
        assert header.record_count == 2
        return
    with pytest.raises(ApiError) as refused:
        validate_produced(batch, at, config, lambda: 0)
    assert refused.value.error == what.wanted
    if what.wanted == Errors.INVALID_RECORD:
        assert check_crc(batch, 0, len(batch))
    if what.wanted == Errors.MESSAGE_TOO_LARGE:
        roomy = LogConfig(max_message_bytes=len(batch))
        assert validate_produced(batch, at, roomy, lambda: 0)[1].record_count == 1
        assert len(batch) > LogConfig().max_message_bytes
