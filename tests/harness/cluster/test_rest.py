"""What has not come to rest is named, for how long it has been so, and whether it moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.history import problem_with
from faults.protocol import Capability, PartitionState
from harness.cluster import rest as module
from harness.cluster.ask import NoAnswer
from harness.cluster.errors import StateUnreadable
from harness.cluster.rest import Rest, in_words


class World:
    """Three nodes; everything at rest until a test says otherwise."""

    node_ids = (1, 2, 3)

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.capabilities = {Capability.LOG_FILES}
        self.down: set[int] = set()
        self.deserted: set[int] = set()
        self.unregistered: set[int] = set()
        self.silent: set[int] = set()
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.leader = 1
        self.replicas: tuple[int, ...] = (1, 2, 3)
        self.gives_leaders_back = False
        self.waiting: list[tuple[str, str]] = []
        self.unreadable = False
        self.ends = {1: 100, 2: 100, 3: 100}
        self.t = 0
        self.rows: list[dict[str, Any]] = []
        self.view = SimpleNamespace(
            live_brokers=lambda: [n for n in self.node_ids if n not in self.unregistered],
            partitions=self.partitions,
            pending=lambda: self.waiting,
        )
        self.nodes = SimpleNamespace(
            is_running=lambda node: node not in self.down,
            has_deserted=lambda node: node in self.deserted,
            log_dir=lambda node: str(folder / f"node-{node}"),
        )
        for node in self.node_ids:
            (folder / f"node-{node}" / "t-0").mkdir(parents=True)
        monkeypatch.setattr(module, "cluster_idea", self.cluster_idea)
        monkeypatch.setattr(
            module, "log_ends", lambda _, node, keys, __: dict.fromkeys(keys, self.ends[node])
        )

    def owns(self, topic: str) -> bool:
        """Whose logs are somebody else's is nobody's leftover (`harness.cluster.external`)."""
        return topic != "orders"

    def partitions(self) -> list[PartitionState]:
        if self.unreadable:
            raise StateUnreadable("ZooKeeper did not answer")
        return [
            PartitionState(
                topic="t", partition=0, leader=self.leader, leader_epoch=4, isr=self.isr,
                replicas=self.replicas, controller_epoch=1, partition_epoch=9,
            )
        ]  # fmt: skip

    def move_to(self, *nodes: int) -> None:
        self.isr = self.replicas = nodes

    def address(self, node: int, _link: Any, *, direct: bool) -> int:
        assert direct
        return node

    def cluster_idea(self, node: int, _timeout_s: float) -> None:
        if node in self.silent:
            raise NoAnswer("timed out")

    def record(self, kind: str, **fields: Any) -> None:
        row = {"f": kind, "t": 1, **fields}
        assert problem_with(row) is None, problem_with(row)
        self.rows.append(row)

    def rest(self) -> Rest:
        return Rest(self, now_ns=lambda: self.t)  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_at_rest(world: World) -> None:
    rest = world.rest()
    assert rest.read()
    rest.record()
    assert [(r["what"], r.get("lasting_ns")) for r in world.rows] == [
        ("partition", None), ("node", None), ("node", None), ("node", None),
    ]  # fmt: skip


def test_a_leadership_that_is_to_be_given_back(world: World) -> None:
    world.leader = 2
    assert world.rest().read()  # nobody sees to it
    world.gives_leaders_back = True
    rest = world.rest()
    assert not rest.read()
    assert in_words(rest.lacking) == "t-0: in sync [1, 2, 3] of [1, 2, 3], led by 2"
    world.leader = 1
    assert rest.read()


def folder(world: World, name: str) -> None:
    (world.folder / "node-3" / name).mkdir()


LACKS: list[tuple[Callable[[World], None], str]] = [
    (lambda w: setattr(w, "isr", (1, 3)), "t-0: in sync [1, 3] of [1, 2, 3]"),
    (lambda w: setattr(w, "leader", -1), "t-0"),
    (lambda w: w.down.add(2), "node 2 does not run"),
    (lambda w: w.unregistered.add(2), "node 2"),
    (lambda w: w.silent.add(2), "node 2"),
    (lambda w: w.waiting.append(("deletion", "d")), "the deletion of d is under way"),
    (lambda w: w.waiting.append(("reassignment", "t")), "the reassignment of t is under way"),
    (
        lambda w: w.waiting.append(("settings", "d")),
        "the settings of d are there, and it is not",
    ),
    (lambda w: folder(w, "d.e-12"), "node 3 still has d.e-12"),
    (lambda w: w.move_to(1, 2), "node 3 still has t-0"),
    (lambda w: setattr(w, "unreadable", True), "ZooKeeper did not answer"),
]


@pytest.mark.parametrize(("what", "says"), LACKS)
def test_not_at_rest(world: World, what: Callable[[World], None], says: str) -> None:
    rest = world.rest()
    what(world)
    assert not rest.read()
    assert says in in_words(rest.lacking)
    world.t = 7
    rest.read()
    assert [row["lasting_ns"] for row in rest.lacking] == [7]
    rest.record()
    assert len(world.rows) >= 1


@pytest.mark.parametrize(
    "name",
    [
        *("t-1", "d-0.0123456789abcdef0123456789abcdef-delete", "__cluster_metadata-0", "d"),
        "orders-0",
    ],
)
def test_what_may_lie_in_a_log_directory(world: World, name: str) -> None:
    folder(world, name)
    assert world.rest().read()


def test_where_log_directories_cannot_be_reached_nobody_looks(world: World) -> None:
    world.capabilities = set()
    folder(world, "d-0")
    assert world.rest().read()


def test_a_lack_that_went_and_came_again_begins_anew(world: World) -> None:
    rest = world.rest()
    for t, isr in ((0, (1, 3)), (10, (1, 2, 3)), (20, (1, 3)), (25, (1, 3))):
        world.t, world.isr = t, isr
        rest.read()
    (lack,) = rest.lacking
    assert lack["lasting_ns"] == 5


def test_where_the_logs_ended_then_and_now(world: World) -> None:
    rest = world.rest()
    rest.read()
    world.isr, world.down = (1,), {3}
    for end in (100, 200, 300):
        world.ends = {1: end, 2: end // 2, 3: 0}
        rest.read()
    rest.record()
    replicas = [r for r in world.rows if r["what"] == "replica"]
    found = [(r["node"], r["earlier_end_offset"], r["log_end_offset"]) for r in replicas]
    assert found == [(1, 100, 300), (2, 50, 150)]


def test_waiting_ends_when_all_is_at_rest_or_in_vain(world: World) -> None:
    rest = Rest(world)  # type: ignore[arg-type]
    assert rest.wait(lambda: 0.0)
    world.silent = {2}
    assert not rest.wait(lambda: 0.0)
    assert not rest.wait(lambda: 60.0, stopped=lambda: True)


def test_how_long_is_long_may_turn_out_on_the_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.silent = {2}
    rest, begun, longer = world.rest(), world.t, iter((3.0, 3.0, 9.0, 3.0))

    def passes(_s: float) -> None:
        world.t += 2_000_000_000

    monkeypatch.setattr(module.time, "sleep", passes)
    assert not rest.wait(lambda: next(longer))
    assert world.t - begun == 6_000_000_000  # four would have been enough, and were not then


def desert(world: World) -> None:
    """Node 3 ended by itself, and the others have noticed."""
    world.down, world.deserted, world.unregistered, world.isr = {3}, {3}, {3}, (1, 2)


def test_nobody_waits_for_a_broker_that_ended_by_itself(world: World) -> None:
    desert(world)
    assert not Rest(world).wait(lambda: 3600.0)  # type: ignore[arg-type]


NOT_HOPELESS: list[Callable[[World], None]] = [
    lambda w: w.deserted.clear(),  # the plan took it down
    lambda w: setattr(w, "unregistered", set()),  # the others have yet to notice
    lambda w: setattr(w, "leader", 3),
    lambda w: setattr(w, "leader", -1),
    lambda w: setattr(w, "isr", (1,)),  # node 2 may still come back
    lambda w: w.silent.add(2),
    lambda w: w.waiting.append(("deletion", "d")),
    lambda w: setattr(w, "unreadable", True),
]


@pytest.mark.parametrize("what", NOT_HOPELESS)
def test_but_for_all_else(world: World, what: Callable[[World], None]) -> None:
    desert(world)
    what(world)
    rest = world.rest()
    assert not rest.read()
    assert not rest.hopeless
