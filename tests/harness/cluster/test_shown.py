"""What proves a black box's leaderships, and who its controller and members are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from checkers.history import KINDS
from faults.protocol import PartitionState
from harness.cluster.errors import StateUnreadable
from harness.cluster.quorum_view import QuorumView
from harness.cluster.shown import ShownWatch, shown_to_clients
from harness.cluster.told_view import ToldView

ADDRESSES = {node: ("127.0.0.1", node) for node in (1, 2, 3)}


def answer(controller: int, brokers: Iterable[int], leaders: Iterable[int] = ()) -> Any:
    partitions = [
        SimpleNamespace(
            partition_index=number,
            leader_id=leader,
            leader_epoch=4,
            isr_nodes=(1,),
            replica_nodes=(1, 2),
        )
        for number, leader in enumerate(leaders)
    ]
    return SimpleNamespace(
        controller_id=controller,
        brokers=[SimpleNamespace(node_id=node) for node in brokers],
        topics=[SimpleNamespace(name="t", partitions=partitions)],
    )


def view(
    monkeypatch: pytest.MonkeyPatch, answers: dict[int, Any], *, fixed_members: bool = False
) -> ToldView:
    def metadata(self: QuorumView, topics: Any) -> dict[int, Any]:
        if not answers:
            raise StateUnreadable("no broker answered")
        return answers

    monkeypatch.setattr(QuorumView, "_metadata", metadata)
    return ToldView(ADDRESSES, fixed_members=fixed_members)


def test_the_controller_is_whom_most_name(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {1: answer(1, []), 2: answer(3, []), 3: answer(3, [])}
    told = view(monkeypatch, answers)
    assert (told.controller(), told.controller_epoch()) == (3, 0)
    answers.clear()
    assert told.controller() is None
    answers[1] = answer(-1, [])
    assert told.controller() is None


def test_members_are_whom_most_list(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {1: answer(1, [1, 2]), 2: answer(1, [1, 2]), 3: answer(1, [1, 2, 3])}
    told = view(monkeypatch, answers)
    assert told.live_brokers() == [1, 2]
    assert (told.broker_epoch(2), told.broker_epoch(3)) == (0, None)


def test_where_all_are_listed_for_ever_those_live_that_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {1: answer(1, [1, 2, 3]), 3: answer(1, [1, 2, 3])}
    told = view(monkeypatch, answers, fixed_members=True)
    assert told.live_brokers() == [1, 3]
    assert told.broker_epoch(2) is None
    answers.clear()
    assert told.broker_epoch(1) is None


class Told:
    """A view whose answers are given."""

    def __init__(self) -> None:
        self.states: list[tuple[int, PartitionState]] | None = None

    def say(self, *said: tuple[int, int, int]) -> None:
        """(who says it, leader, leader epoch)."""
        rest = {"isr": (1,), "replicas": (1,), "controller_epoch": -1, "partition_epoch": -1}
        self.states = [
            (node, PartitionState("t", 0, leader, epoch, **rest))  # type: ignore[arg-type]
            for node, leader, epoch in said
        ]

    def told(self) -> list[tuple[int, PartitionState]]:
        if self.states is None:
            raise StateUnreadable("no broker answered")
        return self.states


def test_each_leadership_is_written_down_once_and_every_contradiction(
    wait_until: Callable[..., None],
) -> None:
    told, rows = Told(), []
    watch = ShownWatch(told, lambda kind, **fields: rows.append((kind, fields)))  # type: ignore[arg-type]
    watch.start()
    try:
        told.say((1, 1, 0), (2, 1, 0), (3, -1, 1), (3, 2, -1))
        wait_until(lambda: len(rows) == 1)
        told.say((1, 2, 1), (2, 3, 1))
        wait_until(lambda: len(rows) == 3)
        told.states = None
        told.say((1, 1, 0))  # known already
    finally:
        watch.stop()
    seen = [(row["node"], row["leader"], row["leader_epoch"]) for _, row in rows]
    assert seen == [(1, 1, 0), (1, 2, 1), (2, 3, 1)]
    assert {(kind, row["source"]) for kind, row in rows} == {("leadership", "shown")}
    assert set(rows[0][1]) <= {"t", "process", "node", *KINDS["leadership"].columns}


def test_what_clients_were_shown_counts_from_the_first_of_them(tmp_path: Path) -> None:
    def row(t: int, node: int, leader: int, epoch: int, **more: Any) -> bytes:
        fields = {"topic": "t", "partition": 0, "leader": leader, "leader_epoch": epoch}
        return orjson.dumps({"f": "metadata", "type": "ok", "t": t, "node": node, **fields, **more})

    lines = [row(9, 1, 1, 0), row(5, 2, 1, 0), row(7, 2, 3, 1), row(8, 2, -1, 2), row(8, 2, 1, -1)]
    lines += [row(1, 2, 1, 0, type="invoke"), row(2, 2, 1, 0, f="produce"), b'{"f":"metadata",']
    (tmp_path / "faults").mkdir()
    (tmp_path / "reader.jsonl").write_bytes(b"\n".join(lines))
    (tmp_path / "faults/flood.jsonl").write_bytes(row(6, 1, 3, 1))
    found = [
        (r["t"], r["node"], r["leader"], r["leader_epoch"]) for r in shown_to_clients(tmp_path)
    ]
    assert found == [(5, 2, 1, 0), (6, 1, 3, 1)]
