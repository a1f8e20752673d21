"""A client's life in each version: brokers that serve it whole, and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pytest

from harness.cluster.client_lives import WHOLE, Elsewhere, member_lives, versions, writer_lives
from nodes.wire.apis import SUPPORTED, ApiKey, response_class
from nodes.wire.build import build
from nodes.wire.client import ConnectionFailed, RequestTimedOut

SERVED = {int(api): bounds for api, bounds in SUPPORTED.items()}
Wrong = Callable[[ApiKey, int, dict[str, Any]], dict[str, Any]]
"""Given API, version and a sound answer: another one."""


class Broker:
    """Stands for connections to it. Coordinates groups of one member; its log begins empty."""

    def __init__(self, wrong: Wrong = lambda _api, _version, fields: fields) -> None:
        self.wrong = wrong
        self.asked: set[tuple[ApiKey, int]] = set()
        self.joined: set[str] = set()
        """Groups that have their member."""
        self.positions: dict[str, int] = {}
        self.end = self.start = 0

    def __call__(self, *_: Any) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def request(self, entity: Any) -> Any:
        api, version = ApiKey(entity.__api_key__), entity.__version__
        self.asked.add((api, version))
        fields = self.wrong(api, version, self.answer(api, version, entity))
        return build(response_class(api, version), **fields)

    def answer(self, api: ApiKey, version: int, entity: Any) -> dict[str, Any]:
        match api:
            case ApiKey.JOIN_GROUP:
                if version >= 4 and not entity.member_id:
                    return {"error_code": 79, "member_id": "m"}
                self.joined.add(entity.group_id)
                said = entity.protocols[0].metadata
                kind = {"protocol_type": "consumer", "protocol_name": "range"}
                members = [{"member_id": "m", "metadata": said}]
                return {"member_id": "m", "leader": "m", "members": members, **kind}
            case ApiKey.SYNC_GROUP:
                return {"assignment": entity.assignments[0].assignment}
            case ApiKey.HEARTBEAT:
                return {"error_code": 0 if entity.group_id in self.joined else 25}
            case ApiKey.OFFSET_COMMIT:
                (row,) = entity.topics[0].partitions
                self.positions[entity.group_id] = int(row.committed_offset)
                return {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
            case ApiKey.OFFSET_FETCH:
                group = entity.groups[0].group_id if version >= 8 else entity.group_id
                at = {"partition_index": 0, "metadata": "a note"}
                at |= {"committed_offset": self.positions[group]}
                topics = [{"name": "t", "partitions": [at]}]
                return {"groups": [{"topics": topics}]} if version >= 8 else {"topics": topics}
            case ApiKey.LEAVE_GROUP:
                self.joined.remove(entity.group_id)
                if version < 3:
                    return {}
                names = [str(one.member_id) for one in entity.members]
                return {"members": [_left(name, 0 if name == "m" else 25) for name in names]}
            case ApiKey.DELETE_GROUPS:
                return {"results": [{"group_id": entity.groups_names[0]}]}
            case ApiKey.PRODUCE:
                self.end += 1
                row = {"index": 0, "base_offset": self.end - 1, "log_start_offset": self.start}
                return {"responses": [{"name": "t", "partition_responses": [row]}]}
            case _:
                self.start = int(entity.topics[0].partitions[0].offset)
                row = {"partition_index": 0, "low_watermark": self.start}
                return {"topics": [{"name": "t", "partitions": [row]}]}


def _left(name: str, error: int) -> dict[str, Any]:
    return {"member_id": name, "error_code": error}


def members(broker: Broker) -> dict[int, str]:
    return dict(member_lives(broker, SERVED, "g", "t"))


def writers(broker: Broker) -> dict[tuple[ApiKey, int], str]:
    return {(api, version): told for api, version, told in writer_lives(broker, SERVED, "t")}


def only(api: ApiKey, version: int, **otherwise: Any) -> Wrong:
    return lambda of, at, sound: {**sound, **otherwise} if (of, at) == (api, version) else sound


def left_as(nobody: int, own: int) -> Wrong:
    gone = [_left("a-member-that-never-was", nobody), _left("m", own)]
    return only(ApiKey.LEAVE_GROUP, 5, members=gone)


def test_all_versions_are_lived_through() -> None:
    broker = Broker()
    assert members(broker) == dict.fromkeys(range(10), WHOLE)
    assert set(writers(broker).values()) == {WHOLE}
    lived = (
        *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP),
        *(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.DELETE_GROUPS),
        *(ApiKey.PRODUCE, ApiKey.DELETE_RECORDS),
    )
    assert broker.asked == {(api, version) for api in lived for version in versions(SERVED, api)}


@pytest.mark.parametrize(
    ("wrong", "version", "says"),
    [
        (only(ApiKey.JOIN_GROUP, 9, error_code=25), 9, "it joins, error: 'UNKNOWN_MEMBER_ID'"),
        (only(ApiKey.JOIN_GROUP, 6, leader="n"), 6, "it joins, leader: 'n'"),
        (only(ApiKey.JOIN_GROUP, 2, members=[]), 2, "it joins, members: []"),
        (only(ApiKey.JOIN_GROUP, 1, protocol_name=""), 1, "it joins, protocol"),
        (only(ApiKey.JOIN_GROUP, 7, protocol_type=None), 7, "it joins, type: 'None'"),
        (only(ApiKey.SYNC_GROUP, 5, assignment=b""), 9, "it is given something: b''"),
        (only(ApiKey.SYNC_GROUP, 4, error_code=23), 8, "it is given something, error"),
        (only(ApiKey.HEARTBEAT, 4, error_code=22), 9, "it lives, error: 'ILLEGAL_GENERATION'"),
        (only(ApiKey.LEAVE_GROUP, 5, members=[_left("m", 0)]), 9, "it leaves, members: ['m']"),
        (left_as(25, 25), 9, "it leaves, error: 'UNKNOWN_MEMBER_ID'"),
        (left_as(0, 0), 9, "nobody leaves, error: 'NONE'"),
        (only(ApiKey.LEAVE_GROUP, 2, error_code=25), 6, "it leaves, error"),
        (only(ApiKey.DELETE_GROUPS, 2, results=[{"error_code": 68}]), 9, "its group goes, error"),
    ],
)
def test_a_member_is_turned_away_in_one_version(wrong: Wrong, version: int, says: str) -> None:
    found = members(Broker(wrong))
    assert found.pop(version).startswith(says)
    assert set(found.values()) == {WHOLE}


def test_who_left_is_a_member_no_more() -> None:
    broker = Broker()
    sound = broker.answer

    def answer(api: ApiKey, version: int, entity: Any) -> dict[str, Any]:
        fields = sound(api, version, entity)
        if api == ApiKey.LEAVE_GROUP and version == 4:
            broker.joined.add(entity.group_id)
        return fields

    broker.answer = answer  # type: ignore[method-assign]
    assert members(broker)[8].startswith("it lives on, error: 'NONE'")


def test_what_is_kept_is_told() -> None:
    def wrong(api: ApiKey, version: int, sound: dict[str, Any]) -> dict[str, Any]:
        if (api, version) == (ApiKey.OFFSET_FETCH, 8):
            sound["groups"][0]["topics"][0]["partitions"][0]["metadata"] = ""
        return sound

    assert members(Broker(wrong))[9].startswith("it asks for its position: (7, '')")


@pytest.mark.parametrize(
    ("api", "version", "row", "says"),
    [
        (ApiKey.PRODUCE, 11, {"error_code": 2}, "it writes, error: 'CORRUPT_MESSAGE'"),
        (ApiKey.PRODUCE, 9, {"base_offset": 40}, "it writes, offset: 40, not 6"),
        (ApiKey.PRODUCE, 5, {"log_start_offset": 3}, "it writes, beginning: 3, not 0"),
        (ApiKey.DELETE_RECORDS, 2, {"low_watermark": 0}, "it deletes, beginning: 0, not 3"),
        (ApiKey.DELETE_RECORDS, 1, {"error_code": 1}, "it deletes, error"),
    ],
)
def test_a_writer_is_answered_otherwise_in_one_version(
    api: ApiKey, version: int, row: dict[str, int], says: str
) -> None:
    def wrong(of: ApiKey, at: int, sound: dict[str, Any]) -> dict[str, Any]:
        if (of, at) == (api, version):
            (topic,) = sound["responses" if api == ApiKey.PRODUCE else "topics"]
            rows = topic["partition_responses" if api == ApiKey.PRODUCE else "partitions"]
            rows[0] |= row
        return sound

    assert writers(Broker(wrong))[api, version].startswith(says)


@pytest.mark.parametrize("error", [ConnectionFailed("closed"), RequestTimedOut("late")])
def test_a_version_without_an_answer(error: Exception) -> None:
    """A connection that is closed is an answer; of one that is late nothing is known."""

    def wrong(api: ApiKey, version: int, sound: dict[str, Any]) -> dict[str, Any]:
        if (api, version) == (ApiKey.JOIN_GROUP, 7):
            raise error
        return sound

    broker = Broker(wrong)
    if isinstance(error, RequestTimedOut):
        with pytest.raises(Elsewhere):
            members(broker)
    else:
        assert members(broker)[7] == "no answer: ConnectionFailed"


def test_who_is_not_the_coordinator_just_now_is_not_judged() -> None:
    with pytest.raises(Elsewhere):
        members(Broker(only(ApiKey.HEARTBEAT, 3, error_code=15)))


def test_a_record_that_nobody_took_takes_no_offset() -> None:
    broker = Broker()
    sound = broker.answer

    def answer(api: ApiKey, version: int, entity: Any) -> dict[str, Any]:
        if (api, version) == (ApiKey.PRODUCE, 8):
            row = {"index": 0, "error_code": 10, "base_offset": -1}
            return {"responses": [{"name": "t", "partition_responses": [row]}]}
        return sound(api, version, entity)

    broker.answer = answer  # type: ignore[method-assign]
    found = writers(broker)
    assert {key: told for key, told in found.items() if told != WHOLE} == {
        (ApiKey.PRODUCE, 8): "it writes, error: 'MESSAGE_TOO_LARGE', not 'NONE'"
    }


@pytest.mark.parametrize(
    ("times", "took_ms", "joins", "says"),
    [
        (1, 5000, 2, WHOLE),
        (2, 5000, 3, WHOLE),
        (3, 5000, 3, "it is given something, error"),
        (1, 10, 1, "it is given something, error"),
    ],
)
def test_who_has_to_join_again_does_so_for_a_while(
    times: int, took_ms: int, joins: int, says: str
) -> None:
    """In its own name, as clients do: a group that was not written in time is rebalanced. What is
    said at once is not said of that."""
    broker, left, now = Broker(), times, iter(range(0, 10**15, took_ms * 10**6))
    sound, joined_as = broker.answer, []

    def answer(api: ApiKey, version: int, entity: Any) -> dict[str, Any]:
        nonlocal left
        if (api, version) == (ApiKey.JOIN_GROUP, 9):
            joined_as.append(entity.member_id)
        if (api, version) == (ApiKey.SYNC_GROUP, 5) and left:
            left -= 1
            return {"error_code": 27}
        return sound(api, version, entity)

    broker.answer = answer  # type: ignore[method-assign]
    newest = {**SERVED, int(ApiKey.JOIN_GROUP): (9, 9)}
    told = dict(member_lives(broker, newest, "g", "t", now.__next__))
    assert told.pop(9).startswith(says)
    assert not told
    assert joined_as == ["", *["m"] * joins]


@pytest.mark.parametrize(
    ("times", "version", "asked", "says"),
    [
        (1, 9, ["", "m", "", "m"], WHOLE),
        (2, 9, ["", "m", "", "m"], "it joins, error: 'UNKNOWN_MEMBER_ID'"),
        (1, 3, ["", ""], WHOLE),
        (2, 3, ["", ""], "it joins, error: 'UNKNOWN_MEMBER_ID'"),
    ],
)
def test_who_is_not_known_by_the_id_that_it_was_given_begins_anew_once(
    times: int, version: int, asked: list[str], says: str
) -> None:
    """Its group may have another coordinator by then."""
    broker, left = Broker(), times
    sound, joined_as = broker.answer, []

    def answer(api: ApiKey, spoken: int, entity: Any) -> dict[str, Any]:
        nonlocal left
        if api is ApiKey.JOIN_GROUP:
            joined_as.append(entity.member_id)
            if (entity.member_id or spoken < 4) and left:
                left -= 1
                return {"error_code": 25}
        return sound(api, spoken, entity)

    broker.answer = answer  # type: ignore[method-assign]
    one = {**SERVED, int(ApiKey.JOIN_GROUP): (version, version)}
    told = dict(member_lives(broker, one, "g", "t"))
    assert told[version].startswith(says)
    assert joined_as == asked
