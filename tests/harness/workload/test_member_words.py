"""What a coordinator says of members, held against what they said, both ways."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.workload.member_words import of_description, of_instances, of_join, of_sync
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.build import build

SAID = b"subscribes to t"
CLIENT = "pair"


def join(member: str = "a", leader: str = "a", members: dict[str, bytes] | None = None) -> Any:
    rows = {"a": SAID, "b": SAID} if members is None else members
    return build(
        response_class(ApiKey.JOIN_GROUP, 4),
        member_id=member,
        leader=leader,
        members=[{"member_id": one, "metadata": said} for one, said in rows.items()],
    )


def sync(given: bytes) -> Any:
    return build(response_class(ApiKey.SYNC_GROUP, 2), assignment=given)


def group(name: str = "a", protocol: str = "range", kind: str = "consumer", **own: Any) -> Any:
    row = {"member_id": name, "client_id": CLIENT, "client_host": "/h", "member_metadata": SAID}
    row |= {"member_assignment": name.encode()}
    other = {**row, "member_id": "b", "member_assignment": b""}
    answer = build(
        response_class(ApiKey.DESCRIBE_GROUPS, 1),
        groups=[
            {"protocol_type": kind, "protocol_data": protocol, "members": [other, {**row, **own}]}
        ],
    )
    return answer.groups[0]


@pytest.mark.parametrize(
    ("answer", "asked_as"),
    [
        (join(), "a"),
        (join(), ""),
        (join("b", "a", {}), "b"),
        (join(members={"a": SAID, "one of before": SAID}), "a"),
    ],
)
def test_who_joins_is_told_what_members_said(answer: Any, asked_as: str) -> None:
    assert of_join(answer, asked_as, SAID) == ""


@pytest.mark.parametrize(
    ("answer", "asked_as", "says"),
    [
        (join("b"), "a", "member a is called b"),
        (join(leader=""), "a", "nobody leads"),
        (join("b", "a"), "b", "member b is told who the members are, and a leads"),
        (join(members={}), "a", "member a leads, and is not among []"),
        (join(members={"b": SAID}), "a", "member a leads, and is not among ['b']"),
        (join(members={"a": SAID, "b": b""}), "a", "another subscription of b"),
        (join(members={"a": b"other", "b": SAID}), "a", "another subscription of a"),
    ],
)
def test_who_joins_is_told_otherwise(answer: Any, asked_as: str, says: str) -> None:
    assert of_join(answer, asked_as, SAID) == says


def test_each_is_given_what_the_leader_gave_it() -> None:
    assert of_sync(sync(b"a"), "a", leads=True) == ""
    assert of_sync(sync(b"a"), "a", leads=False) == ""
    assert of_sync(sync(b""), "a", leads=False) == "", "whom the leader did not know"
    assert of_sync(sync(b""), "a", leads=True) == "nothing is given to a"
    assert of_sync(sync(b"b"), "a", leads=True) == "b'b' is given to a"
    assert of_sync(sync(b"b"), "a", leads=False) == "b'b' is given to a"


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (group(), ""),
        (group("c"), ""),
        (group(client_id="/h"), "client '/h' of a"),
        (group(member_metadata=b""), "another subscription of a"),
        (group(member_assignment=b""), "nothing is given to a"),
        (group(member_assignment=b"b"), "b'b' is given to a"),
        (group("c", member_assignment=b"a"), "b'a' is given to c"),
        (group(protocol="other"), "protocol 'other' of type 'consumer'"),
        (group(kind=""), "protocol 'range' of type ''"),
    ],
)
def test_a_stable_group_is_described_as_its_members_said(told: Any, says: str) -> None:
    assert of_description(told, CLIENT, "a", SAID, ("sticky", "range")) == says


@pytest.mark.parametrize(
    ("instances", "says"),
    [
        (("i",), ""),
        (("i", "i"), ""),
        (("i", None), "instance None of m1"),
        (("j",), "instance 'j' of m0"),
    ],
)
def test_whose_instances_members_are_is_held_against_who_they_are(
    instances: tuple[str | None, ...], says: str
) -> None:
    members = [
        SimpleNamespace(member_id=f"m{n}", group_instance_id=one) for n, one in enumerate(instances)
    ]
    assert of_instances(SimpleNamespace(members=members), "i") == says
