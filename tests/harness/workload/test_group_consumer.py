"""What a member of a group writes down, and in which order: its client is stood in for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.workload.group_consumer import GroupConsumer, Params, comes_back_whole
from harness.workload.group_couple import GroupCouple
from harness.workload.group_couple import Params as OfCouple
from harness.workload.group_keeper import GroupKeeper
from harness.workload.group_keeper import Params as OfKeeper
from harness.workload.group_pair import GroupPair
from harness.workload.group_pair import Params as OfPair
from harness.workload.spec import WorkloadSpec
from harness.workload.values import Headers, encode_key, encode_value, headers_for


class Message(SimpleNamespace):
    def error(self) -> None: ...

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        offset: int = self.at
        return offset

    def key(self) -> bytes:
        return encode_key(0)

    def value(self) -> bytes:
        return encode_value(0, 8)

    def headers(self) -> Headers:
        return headers_for(8)

    def leader_epoch(self) -> int:
        return 0


class Client:
    """Its partition is taken from it and given to it again while it gathers."""

    def __init__(self, life: Any, gathered: list[Message]) -> None:
        self.life, self.gathered = life, gathered

    def subscribe(self, _topics: Any, **told: Any) -> None:
        self.told = told

    def poll(self, _timeout_s: float) -> Message:
        self.told["on_assign"](self, [SimpleNamespace(topic="t", partition=0)])
        return Message(at=5)

    def consume(self, _most: int, _timeout_s: float) -> list[Message]:
        self.life.over = True
        self.told["on_revoke"](self, [SimpleNamespace(topic="t", partition=0)])
        self.told["on_assign"](self, [SimpleNamespace(topic="t", partition=0)])
        return self.gathered


class Recorder:
    def __init__(self) -> None:
        self.rows: list[tuple[str, Any]] = []

    def event(self, kind: str, **fields: Any) -> None:
        self.rows.append((kind, fields["event"]))

    def complete(self, kind: str, op: int, *_: Any, **fields: Any) -> None:
        self.rows.append((kind, (op, fields.get("offset"))))


def taken(gathered: list[Message]) -> tuple[GroupConsumer, list[tuple[str, Any]]]:
    params = Params(group="g", topics={"t": 1}, gather_ms=10, commit_ms=3_600_000)
    spec = WorkloadSpec(role="group-consumer", process="m", output="unused", bootstrap={1: "h:1"})
    member, life, recorder = GroupConsumer(spec, params), SimpleNamespace(over=False), Recorder()
    member._committed_t = float("inf")
    member._take_part(Client(life, gathered), recorder, life)  # type: ignore[arg-type]
    return member, recorder.rows


def test_what_was_given_before_a_partition_was_taken_is_told_before_that() -> None:
    _, rows = taken([Message(at=5), Message(at=6)])
    assert rows == [
        ("assignment", "assigned"),
        ("fetch", (0, 5)),
        ("assignment", "revoked"),
        ("assignment", "assigned"),
        ("fetch", (1, 5)),
        ("fetch", (1, 6)),
    ]


def test_who_is_thrown_out_without_a_word_has_nothing_once_its_client_is_closed() -> None:
    member, _ = taken([])
    recorder = Recorder()
    for _ in range(2):
        member._let_go(recorder)  # type: ignore[arg-type]
    assert recorder.rows == [("assignment", "revoked")]


def test_a_position_of_before_is_not_committed_for_who_has_it_now() -> None:
    member, rows = taken([])
    assert member._following == {}
    assert [what for what, _ in rows] == ["assignment", "fetch", "assignment", "assignment"]
    member, _ = taken([Message(at=6)])
    assert member._following == {("t", 0): (7, 0)}


@pytest.mark.parametrize(
    ("offset", "metadata", "leader_epoch", "keeps_epochs", "whole"),
    [
        (7, "7 after 3", 3, True, True),
        (7, "7 after 3", None, False, True),  # of a release that keeps no leader epochs
        (7, "7 after 3", None, True, False),
        (7, "7 after -1", None, True, True),
        (7, "7 after 3", 2, True, False),
        (6, "7 after 3", 3, True, False),
        (7, "", 3, True, False),
        (7, None, None, False, False),
    ],
)
def test_a_position_comes_back_with_what_was_committed_with_it(
    offset: int, metadata: str | None, leader_epoch: int | None, keeps_epochs: bool, whole: bool
) -> None:
    kept = SimpleNamespace(offset=offset, metadata=metadata, leader_epoch=leader_epoch)
    assert comes_back_whole(kept, keeps_epochs) is whole


def test_where_two_coordinate_a_group_a_member_is_who_let_it_in_says_it_is() -> None:
    """The other one asks it to come back with another id, before the first answers."""
    where = {1: "h:1", 3: "h:3"}

    def spec(role: str) -> WorkloadSpec:
        return WorkloadSpec(role=role, process="p", output="unused", bootstrap=where)

    def id_of(node: int) -> Any:
        return SimpleNamespace(member_id=f"of-{node}", error_code=79)

    let_in = SimpleNamespace(
        member_id="of-1", generation_id=7, leader="of-1", error_code=0, protocol_name="range"
    )

    pair = GroupPair(spec("group-pair"), OfPair(group="g", topic="t"))
    for node, answer in ((1, id_of(1)), (3, id_of(3)), (1, let_in)):
        pair._hosts_turn(node, "enter", int(answer.error_code), answer)
    assert (pair._host.member_id, pair._host.leads) == ("of-1", True)

    keeper = GroupKeeper(spec("group-keeper"), OfKeeper(topic="t", leaves=True))
    for node, answer in ((1, id_of(1)), (3, id_of(3)), (1, let_in)):
        keeper._go_on_leaving(node, "enter", int(answer.error_code), answer)
    assert keeper._member == "of-1"

    couple = GroupCouple(spec("group-couple"), OfCouple(group="g"))
    first = couple._members[0]
    for node, answer in ((1, id_of(1)), (3, id_of(3)), (1, let_in)):
        couple._entered(first, node, answer)
    assert (first.member_id, first.leads, first.node) == ("of-1", True, 1)
