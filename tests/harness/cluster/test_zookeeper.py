"""View and watcher against a real ZooKeeper; the test writes what a controller would."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from checkers.history import problem_with
from harness.clock import tie_clocks
from harness.cluster.txn_log import complete, deletion_steps, record_deletions, writes
from harness.cluster.view import ZookeeperView
from harness.cluster.watcher import LeadershipWatcher
from harness.cluster.zk_writes import record_writes, writes_of_office
from harness.cluster.znode_admin import ZnodeAdmin
from harness.runtime.process import ProcessRuntime
from harness.runtime.readiness import four_letter_word

pytestmark = pytest.mark.zookeeper
_ROOT = "/kafka"


class World:
    """A ZooKeeper, the harness's eyes on it, and a controller's hand."""

    def __init__(self, client: KazooClient, writer: KazooClient, folder: Path) -> None:
        self.writer = writer
        self.folder = folder / "data" / "version-2"
        self.rows: list[dict[str, Any]] = []
        self.view = ZookeeperView(client, _ROOT)
        self.watcher = LeadershipWatcher(client, _ROOT, self.record)

    def record(self, kind: str, /, **fields: Any) -> None:
        row = {"f": kind, **fields}
        assert problem_with(row) is None, problem_with(row)
        self.rows.append(row)

    def create_topic(self, name: str, partitions: int) -> None:
        assignment = {str(p): [1, 2] for p in range(partitions)}
        content = {"version": 3, "partitions": assignment, "topic_id": "mXSGRXN5QWaFIyLQGRDnyA"}
        path = f"{_ROOT}/brokers/topics/{name}"
        self.writer.create(path, json.dumps(content).encode(), makepath=True)
        for p in range(partitions):
            self.writer.create(f"{path}/partitions/{p}/state", state(1, 0), makepath=True)

    def lead(self, name: str, partition: int, leader: int, leader_epoch: int) -> None:
        path = f"{_ROOT}/brokers/topics/{name}/partitions/{partition}/state"
        self.writer.set(path, state(leader, leader_epoch))

    def versions(self, topic: str, partition: int) -> list[int]:
        """In the order in which they were written down."""
        return [
            row["partition_epoch"]
            for row in self.rows
            if row["f"] == "leadership" and (row["topic"], row["partition"]) == (topic, partition)
        ]

    def leaderships(self, topic: str) -> set[tuple[int, int, int]]:
        return {
            (row["partition"], row["leader_epoch"], row["leader"])
            for row in self.rows
            if row["f"] == "leadership" and row["topic"] == topic
        }

    def events(self) -> list[tuple[int, str]]:
        return [(r["node"], r["event"]) for r in self.rows if r["f"] == "node_event"]

    def register(self, node: int) -> int:
        content = {"endpoints": [f"CLIENT://127.0.0.1:{9000 + node}"], "version": 5}
        path = f"{_ROOT}/brokers/ids/{node}"
        self.writer.create(path, json.dumps(content).encode(), ephemeral=True, makepath=True)
        return int(self.writer.exists(path).czxid)


def state(leader: int, leader_epoch: int) -> bytes:
    content = {"leader": leader, "leader_epoch": leader_epoch, "isr": [1, 2], "controller_epoch": 1}
    return json.dumps({"version": 1, **content}).encode()


def wait_for(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int, Path]]:
    folder = tmp_path_factory.mktemp("zookeeper")
    with pytest.MonkeyPatch.context() as patch, closing(ProcessRuntime()) as runtime:
        patch.setenv("BIPLANE_HOME", str(folder / "home"))
        spec = runtime.zookeeper_spec("zookeeper", folder)
        runtime.spawn(spec).wait_ready()
        yield "127.0.0.1", spec.ports["client"], folder


@pytest.fixture
def world(server: tuple[str, int, Path]) -> Iterator[World]:
    host, port, folder = server
    clients = [KazooClient(hosts=f"{host}:{port}") for _ in range(2)]
    for client in clients:
        client.start(60)
    clients[0].delete(_ROOT, recursive=True)
    clients[0].ensure_path(_ROOT)
    yield World(clients[0], clients[1], folder)
    for client in clients:
        client.stop()
        client.close()


def test_the_server_is_ours_and_on_loopback(server: tuple[str, int, Path]) -> None:
    host, port, _ = server
    assert four_letter_word(host, port, "ruok") == "imok"


def test_the_view_reads_what_is_committed(world: World) -> None:
    assert world.view.controller() is None
    assert world.view.controller_epoch() == 0
    assert world.view.live_brokers() == []
    assert world.view.partitions() == []
    assert world.view.topic_id("t") is None
    broker_epoch = world.register(2)
    world.create_topic("t", 2)
    world.lead("t", 1, 2, 1)
    world.writer.create(f"{_ROOT}/controller", b'{"version":2,"brokerid":2}', ephemeral=True)
    world.writer.create(f"{_ROOT}/controller_epoch", b"7")
    assert (world.view.controller(), world.view.controller_epoch()) == (2, 7)
    assert world.view.live_brokers() == [2]
    assert world.view.broker_epoch(2) == broker_epoch
    assert world.view.broker_epoch(1) is None
    assert world.view.registrations()[2].endpoints[0].port == 9002
    assert [(s.partition, s.leader, s.partition_epoch) for s in world.view.partitions("t")] == [
        (0, 1, 0),
        (1, 2, 1),
    ]
    assert world.view.topic_id("t") == "mXSGRXN5QWaFIyLQGRDnyA"


def test_orders_of_old_are_given_in_znodes_and_waited_for(world: World) -> None:
    """What the controller of a release before 2.4 does with them, done by hand."""
    world.create_topic("t", 2)
    admin = ZnodeAdmin(world.view, None, world.watcher._client)  # type: ignore[arg-type]

    def order(give: Callable[[], None], path: str, then: Callable[[], None]) -> Any:
        giving = threading.Thread(target=give)
        giving.start()
        wait_for(lambda: world.writer.exists(f"{_ROOT}/admin/{path}") is not None)
        content = json.loads(world.writer.get(f"{_ROOT}/admin/{path}")[0])
        assert giving.is_alive(), "it is not done yet"
        then()
        world.writer.delete(f"{_ROOT}/admin/{path}")
        giving.join(30)
        assert not giving.is_alive()
        return content["partitions"]

    def move() -> None:
        assignment = {"version": 1, "partitions": {"0": [2, 1], "1": [1, 2]}}
        world.writer.set(f"{_ROOT}/brokers/topics/t", json.dumps(assignment).encode())

    ordered = order(lambda: admin.reassign({("t", 0): [2, 1]}), "reassign_partitions", move)
    assert ordered == [{"topic": "t", "partition": 0, "replicas": [2, 1]}]
    elected = order(
        lambda: admin.elect_preferred([("t", 0)]), "preferred_replica_election", lambda: None
    )
    assert elected == [{"topic": "t", "partition": 0}]


def test_what_was_asked_for_and_has_not_ended(world: World) -> None:
    assert world.view.pending() == []
    world.create_topic("t", 1)
    world.create_topic("moved", 1)
    assert world.view.pending() == []
    world.writer.create(f"{_ROOT}/admin/delete_topics/t", makepath=True)
    asked = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3]}]}
    world.writer.create(f"{_ROOT}/admin/reassign_partitions", json.dumps(asked).encode())
    content = {"version": 3, "partitions": {"0": [1, 2]}, "adding_replicas": {"0": [2]}}
    world.writer.set(f"{_ROOT}/brokers/topics/moved", json.dumps(content).encode())
    assert world.view.pending() == [
        ("deletion", "t"),
        ("reassignment", "moved"),
        ("reassignment", "t"),
    ]


def test_settings_without_their_topic(world: World) -> None:
    """Of a topic that is there, or that is about to be, nothing is left behind."""
    world.create_topic("kept", 1)
    for topic in ("kept", "gone"):
        world.writer.create(f"{_ROOT}/config/topics/{topic}", b"{}", makepath=True)
    assert world.view.pending() == [("settings", "gone")]
    world.create_topic("gone", 1)
    assert world.view.pending() == []


def test_every_leadership_is_written_down_once(world: World) -> None:
    world.create_topic("before", 1)
    world.watcher.start()
    world.create_topic("after", 2)
    wait_for(lambda: len(world.leaderships("after")) == 2)
    for leader_epoch in range(1, 6):
        world.lead("after", 1, leader_epoch % 2, leader_epoch)
        wait_for(lambda e=leader_epoch: (1, e, e % 2) in world.leaderships("after"))
    world.writer.delete(f"{_ROOT}/brokers/topics/after", recursive=True)
    world.create_topic("after", 3)  # a namesake: its versions begin again
    wait_for(lambda: (2, 0, 1) in world.leaderships("after"))
    world.lead("after", 2, 2, 1)
    wait_for(lambda: (2, 1, 2) in world.leaderships("after"))
    wait_for(lambda: len(world.versions("after", 1)) >= 7)
    assert world.versions("after", 1) == [0, 1, 2, 3, 4, 5, 0]
    assert world.leaderships("before") == {(0, 0, 1)}
    rows = [row for row in world.rows if row["f"] == "leadership" and row["topic"] == "after"]
    assert all(row["source"] == "zk" and row["commit_ms"] > 0 for row in rows)
    second = [row for row in rows if row["partition"] == 1]
    lives = [second[0]["incarnation"]] * 6 + [second[-1]["incarnation"]]
    assert [row["incarnation"] for row in second] == lives
    assert lives[0] != lives[-1]


def test_what_watches_coalesce_is_completed_from_the_log(world: World) -> None:
    world.watcher.start()
    world.create_topic("busy", 1)
    for leader_epoch in range(1, 200):
        path = f"{_ROOT}/brokers/topics/busy/partitions/0/state"
        world.writer.set_async(path, state(leader_epoch % 3, leader_epoch))
    wait_for(lambda: (0, 199, 1) in world.leaderships("busy"))
    seen = len(world.leaderships("busy"))
    assert seen + world.watcher.missed == 200
    filled = complete(world.watcher, world.folder, _ROOT)
    assert filled >= world.watcher.missed
    assert world.leaderships("busy") == {(0, e, e % 3 if e else 1) for e in range(200)}
    rows = [r for r in world.rows if r["f"] == "leadership" and r["topic"] == "busy"]
    by_version = sorted(rows, key=lambda r: r["partition_epoch"])
    assert [r["t"] for r in by_version] == sorted(r["t"] for r in rows)
    path = f"{_ROOT}/brokers/topics/busy/partitions/0/state"
    assert {r["incarnation"] for r in rows} == {str(world.writer.exists(path).czxid)}
    assert complete(world.watcher, world.folder, _ROOT) == 0


def test_the_log_knows_versions_of_multis_and_recreations(world: World) -> None:
    transaction = world.writer.transaction()
    transaction.create(f"{_ROOT}/x", b"0")
    transaction.set_data(f"{_ROOT}/x", b"1")
    transaction.delete(f"{_ROOT}/x")
    transaction.create(f"{_ROOT}/x", b"2")
    transaction.commit()
    stat = world.writer.exists(f"{_ROOT}/x")
    found = list(writes(world.folder, "/x"))
    assert [(w.data, w.version) for w in found] == [(b"0", 0), (b"1", 1), (b"2", 0)]
    assert found[-1].czxid == stat.czxid
    assert found[-1].mtime == stat.mtime


def test_deletions_are_told_by_the_log(world: World) -> None:
    earlier = len(list(deletion_steps(world.folder, _ROOT)))  # other tests share the server
    world.create_topic("kept", 1)
    world.create_topic("doomed", 2)
    request = f"{_ROOT}/admin/delete_topics/doomed"
    before = time.monotonic_ns()
    world.writer.create(request, makepath=True)
    world.writer.delete(f"{_ROOT}/brokers/topics/doomed", recursive=True)
    world.writer.delete(request)
    record_deletions(world.record, world.folder, _ROOT, tie_clocks())
    rows = [row for row in world.rows if row["f"] == "topic_deletion"][earlier:]
    assert [(r["topic"], r["step"]) for r in rows] == [("doomed", "requested"), ("doomed", "gone")]
    for row in rows:
        assert before - row["error_ns"] <= row["t"] <= time.monotonic_ns() + row["error_ns"]
    assert list(deletion_steps(world.folder, "/elsewhere")) == []


def test_registrations_come_and_go(world: World) -> None:
    world.watcher.start()
    first = world.register(1)
    wait_for(lambda: (1, "registered") in world.events())
    world.writer.delete(f"{_ROOT}/brokers/ids/1")
    wait_for(lambda: (1, "unregistered") in world.events())
    second = world.register(1)
    wait_for(lambda: world.events().count((1, "registered")) == 2)
    details = [json.loads(r["detail"]) for r in world.rows if r.get("event") == "registered"]
    assert details == [{"broker_epoch": first}, {"broker_epoch": second}]


def test_who_decided_what_is_told_by_the_log_in_its_order(world: World) -> None:
    earlier = len(list(writes_of_office(world.folder, _ROOT)))
    root, writer = _ROOT, world.writer
    writer.ensure_path(f"{root}/brokers/topics")
    epoch = f"{root}/controller_epoch"
    if writer.exists(epoch) is None:
        writer.create(epoch, b"0", makepath=True)
    office = writer.transaction()
    office.create(f"{root}/controller", b'{"version":2,"brokerid":7}', ephemeral=True)
    office.set_data(epoch, b"41")
    assert not [e for e in office.commit() if isinstance(e, Exception)]
    world.create_topic("ruled", 1)
    world.lead("ruled", 0, 2, 1)
    writer.set(f"{root}/brokers/topics/ruled/partitions/0/state", b"not JSON")
    world.register(9)
    writer.delete(f"{root}/brokers/ids/9")
    writer.delete(f"{root}/brokers/topics/ruled", recursive=True)
    writer.delete(f"{root}/controller")
    record_writes(world.record, world.folder, root, tie_clocks())
    rows = [row for row in world.rows if row["f"] == "zk_write"][earlier:]
    told = [
        (r["what"], r["step"], r.get("node"), r.get("partition"), r.get("leader")) for r in rows
    ]
    assert [r for r in told if r[:2] != ("controller_epoch", "created")] == [
        ("controller", "created", 7, None, None),
        ("controller_epoch", "set", None, None, None),
        ("topic", "created", None, 0, None),
        ("state", "created", None, 0, 1),
        ("state", "set", None, 0, 2),
        ("state", "set", None, 0, None),
        ("broker", "created", 9, None, None),
        ("broker", "removed", 9, None, None),
        ("state", "removed", None, 0, None),
        ("topic", "removed", None, None, None),
        ("controller", "removed", 7, None, None),
    ]
    assert [r["zxid"] for r in rows] == sorted(r["zxid"] for r in rows)
    by_what = {(r["what"], r["step"]): r for r in rows}
    assert by_what["controller_epoch", "set"]["controller_epoch"] == 41
    assert by_what["controller_epoch", "set"]["zxid"] == by_what["controller", "created"]["zxid"]
    assert by_what["topic", "created"]["replicas"] == [1, 2]
    assert by_what["topic", "removed"]["topic"] == "ruled"
    states = [r for r in rows if r["what"] == "state" and r["step"] != "removed"]
    assert [r.get("partition_epoch") for r in states] == [0, 1, None]
    assert list(writes_of_office(world.folder, "/elsewhere")) == []
