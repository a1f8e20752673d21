"""What every row of a kind says."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.whole_rows import lacking, lacks
from checkers.history import KINDS
from checkers.promises.evidence.alike import unlike
from tests.checkers.conftest import Story


def told(story: Story, leader: int, leader_epoch: int | None) -> dict[str, Any]:
    return story.add("metadata_update", 10, process="node-1", node=1, boot=1, leader=leader,
                     leader_epoch=leader_epoch, controller_epoch=1, correlation_id=7)  # fmt: skip


@pytest.mark.parametrize(
    ("leader", "leader_epoch", "lacks_it"),
    [(1, 0, False), (1, None, True), (-1, None, True), (-2, None, False), (-2, 0, False)],
)
def test_only_of_what_is_deleted_an_update_may_tell_no_epoch(
    story: Any, spark: Any, leader: int, leader_epoch: int | None, lacks_it: bool
) -> None:
    row = told(story, leader, leader_epoch)
    assert list(lacks("metadata_update", row)) == (["leader_epoch"] if lacks_it else [])
    frame = story.history(spark).frame("metadata_update")
    assert frame.where(lacking("metadata_update")).count() == lacks_it


@pytest.mark.parametrize(("leader", "says"), [(-2, False), (2, True)])
def test_what_is_deleted_is_a_sort_of_its_own(
    story: Any, spark: Any, leader: int, says: bool
) -> None:
    told(story, 1, 0)
    told(story, leader, None)
    assert ["leader_epoch" in why for _, why in unlike(story.history(spark))] == [True] * says


REFUSED: dict[str, Any] = {"type": "fail", "error": 6, "offset": -1}
NAMED: dict[str, Any] = {"node": 1, "group": "g", "coordinator": 2}
ANSWERS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "a leader": ("metadata", {"leader": 1, "error": 0}, False),
    "a leader to the oldest clients": ("metadata", {"leader": 1, "error": 9}, False),
    "a leader, and that there is none": ("metadata", {"leader": 1, "error": 5}, True),
    "no leader": ("metadata", {"leader": -1, "error": 5}, False),
    "no leader's listener": ("metadata", {"leader": -1, "error": 72}, False),
    "no leader, and that all is well": ("metadata", {"leader": -1, "error": 0}, True),
    "a coordinator somewhere": ("coordinator", {**NAMED, "endpoint": "2@[::1]:9"}, False),
    "a coordinator that is nobody": ("coordinator", {**NAMED, "endpoint": "::1:9"}, True),
    "brokers somewhere": ("metadata", {"leader": 1, "endpoints": ["1@a:9", "-2@b:9"]}, False),
    "a broker that is nobody": ("metadata", {"leader": 1, "endpoints": ["1@a:9", "b:9"]}, True),
    "no error is told": ("metadata", {"leader": 1, "error": None}, False),
    "an error that is another request's": ("metadata", {"leader": -1, "error": 19}, True),
    "who was asked does not lead": ("listed_offset", REFUSED, False),
    "an end that is too far": ("listed_offset", {**REFUSED, "error": 1}, True),
    "too few in sync": ("produce", {**REFUSED, "type": "fail", "error": 19}, False),
    "a stale controller's write": ("produce", {**REFUSED, "type": "fail", "error": 11}, True),
    "a server that knows no more": ("produce", {**REFUSED, "type": "info", "error": -1}, False),
    "a group that moved": ("commit", {"type": "fail", "error": 16}, False),
    "a leader's error of a group": ("commit", {"type": "fail", "error": 6}, True),
    "a poll that tells what a coordinator said": (
        "fetch",
        {"type": "fail", "error": 27, "poll": 1},
        False,
    ),
    "a poll that tells a producer's error": ("fetch", {"type": "fail", "error": 19}, True),
    "refused, and told where": (
        "listed_offset",
        {"type": "fail", "error": 6, "offset": 4},
        True,
    ),
    "refused, and told when": (
        "listed_offset",
        {"type": "fail", "error": 6, "offset": -1, "found_ms": 400},
        True,
    ),
    "refused, and told nothing": (
        "listed_offset",
        {"type": "fail", "error": 6, "offset": -1, "found_ms": -1, "leader_epoch": -1},
        False,
    ),
    "a write that failed, and its place": ("produce", {"type": "fail", "error": 19}, True),
    "nobody answered, and told an end": (
        "epoch_end",
        {"type": "info", "failure": "timeout", "offset": 7},
        True,
    ),
    "of another life": ("forged", {"error": 77}, False),
    "a client's error of a controller": ("forged", {"error": 3}, True),
}


@pytest.fixture(scope="module")
def answers(spark: Any) -> set[str]:
    """Those of `ANSWERS` that cannot be, as a frame has them."""
    story, found = Story(), set[str]()
    for number, (kind, fields, _) in enumerate(ANSWERS.values()):
        needed = {"process": "p", "node": 1, "read": 1, "isr": [1], "value": 1, "acks": 1}
        needed |= {"group": "g", "offset": 1, "api": "STOP_REPLICA", "plane": "data"}
        needed |= dict.fromkeys(("controller_id", "controller_epoch", "broker_epoch"), 1)
        needed |= {"correlation_id": 1, "client_id": "f"}
        own = {k: v for k, v in needed.items() if k in KINDS[kind].all_columns}
        story.add(kind, 10, **{**own, "op": number, **fields})
    history = story.history(spark)
    for kind in {kind for kind, _, _ in ANSWERS.values()}:
        rows = history.frame(kind).where(lacking(kind)).select("op").collect()
        found |= {list(ANSWERS)[row["op"]] for row in rows}
    for kind, rows in story.rows.items():
        for row in rows:
            whole = {**dict.fromkeys(KINDS[kind].all_columns), **row}
            name = list(ANSWERS)[row["op"]]
            assert any(lacks(kind, whole)) == (name in found), name
    return found


@pytest.mark.parametrize("name", ANSWERS)
def test_with_which_errors_a_request_is_answered(answers: set[str], name: str) -> None:
    assert (name in answers) == ANSWERS[name][2]
