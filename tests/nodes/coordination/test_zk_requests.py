"""What each question and each decision of a broker is in ZooKeeper: every request, in order, with
its path, its data and what it is conditioned on (Kafka's KafkaZkClient and ZkData). A write of the
controller's is a multi with a check of ``/controller_epoch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from kazoo.exceptions import NodeExistsError, NoNodeError

from nodes.coordination import zk as zk_module
from nodes.coordination.errors import ControllerMoved
from nodes.coordination.producer_ids import ProducerIdManager
from nodes.coordination.requests import Check, Create, Delete, GetChildren, Multi, Request, SetData
from nodes.coordination.session import ChangeHandler
from nodes.coordination.zk import KafkaZkClient
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker, EndPoint
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.types import TopicPartition
from tests.nodes.controller.memory import MemorySession, MemoryZooKeeper

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = UUID(int=1)
TOPIC = (
    '{"removing_replicas":{"0":[2]},"partitions":{"0":[3,1,2],"1":[2]},'
    '"adding_replicas":{"0":[3]},"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
)
ASSIGNMENT = {T0: ReplicaAssignment((3, 1, 2), (3,), (2,)), T1: ReplicaAssignment((2,))}
STATE = '{"controller_epoch":5,"leader":1,"version":1,"leader_epoch":3,"isr":[1,2]}'
RECOVERING = (
    '{"controller_epoch":5,"leader":1,"version":1,"leader_epoch":3,"isr":[1],'
    '"leader_recovery_state":1}'
)
REGISTRATION = (
    '{"features":{},"listener_security_protocol_map":{"A":"SSL","B":"PLAINTEXT"},'
    '"endpoints":["A://h:1","B://i:2"],"jmx_port":-1,"port":2,"host":"i","version":5,'
    '"timestamp":"7","rack":"r"}'
)
FENCE = "check /controller_epoch @9"


def line(request: Any) -> str:
    name = type(request).__name__
    match request:
        case Multi(operations):
            return "; ".join(line(o) for o in operations)
        case Create(path, data, ephemeral, sequential):
            kind = " ephemeral" * ephemeral + " sequential" * sequential
            return f"create{kind} {path} {data.decode()}".rstrip()
        case SetData(path, data, version):
            at = "" if version == -1 else f" @{version}"
            return f"set {path}{at} {data.decode()}"
        case Delete(path, version):
            return f"delete {path}" + ("" if version == -1 else f" @{version}")
        case Check(path, version):
            return f"check {path} @{version}"
        case GetChildren(path, watch):
            return f"children {path}" + (" watched" if watch else "")
        case _:
            return f"{'data' if name == 'GetData' else 'exists'} {request.path}"


class Recorded(MemorySession):
    """Writes down what is asked. `foreign`: what somebody else does just before a request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lines: list[str] = []
        self.asked_for = (args[1:], kwargs)
        self.foreign: dict[str, Callable[[], Any]] = {}

    def ensure_chroot(self) -> None:
        self.lines.append("chroot")

    def pipeline(self, requests: Any) -> Any:
        outcomes = []
        for request in requests:
            said = line(request)
            self.lines.append(said)
            for begin in [b for b in self.foreign if said.startswith(b)]:
                self.foreign.pop(begin)()
            outcomes += super().pipeline([request])
        return outcomes


@pytest.fixture
def tree() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def zk(tree: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch) -> KafkaZkClient:
    monkeypatch.setattr(zk_module, "ZooKeeperSession", lambda *_, **__: Recorded(tree))
    client = KafkaZkClient("zoo:1", 1000, now_ms=lambda: 7)
    client.start()
    other = MemorySession(tree)
    other.request(Create("/controller_epoch", b"5"))
    for _ in range(9):
        other.request(SetData("/controller_epoch", b"5"))
    lines(client).clear()
    return client


def lines(client: KafkaZkClient) -> list[str]:
    session: Any = client._session
    return session.lines  # type: ignore[no-any-return]


def other(client: KafkaZkClient) -> Callable[[Request], Any]:
    session: Any = client._session
    return MemorySession(session.zookeeper).request


def make(client: KafkaZkClient, *requests: Request) -> None:
    ask = other(client)
    for request in requests:
        ask(request).get()


@pytest.mark.parametrize(
    ("connect", "hosts", "chroot"),
    [
        ("a:1,b:2", "a:1,b:2", False),
        ("a:1,b:2/", "a:1,b:2", False),
        ("a:1,b:2/x/y/", "a:1,b:2/x/y", True),
    ],
)
@pytest.mark.parametrize(("connection_ms", "patience_ms"), [(None, 7000), (3000, 3000)])
def test_a_session_is_asked_for_as_configured(
    tree: MemoryZooKeeper,
    monkeypatch: pytest.MonkeyPatch,
    connect: str,
    hosts: str,
    chroot: bool,
    connection_ms: int | None,
    patience_ms: int,
) -> None:
    """``zookeeper.connect`` may end with a path, which is made before anything below it."""
    monkeypatch.setattr(zk_module, "ZooKeeperSession", lambda *a, **k: Recorded(tree, *a, **k))
    client = KafkaZkClient(
        connect, 7000, connection_timeout_ms=connection_ms, max_in_flight_requests=5
    )
    session: Any = client._session
    options = {"session_timeout_ms": 7000, "connection_timeout_ms": patience_ms}
    assert session.asked_for == ((hosts,), {**options, "max_in_flight_requests": 5})
    client.start()
    assert (lines(client)[0] == "chroot") is chroot
    assert lines(client).count("chroot") == chroot


def test_the_first_start_makes_what_kafka_has(
    tree: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZkData.PersistentZkPaths, in their order."""
    monkeypatch.setattr(zk_module, "ZooKeeperSession", lambda *_, **__: Recorded(tree))
    client = KafkaZkClient("zoo:1", 1000)
    client.start()
    paths = [
        "/consumers", "/brokers/ids", "/brokers/topics", "/config/changes", "/admin/delete_topics",
        "/brokers/seqid", "/isr_change_notification", "/latest_producer_id_block",
        "/log_dir_event_notification", "/config/topics", "/config/clients", "/config/users",
        "/config/brokers", "/config/ips",
    ]  # fmt: skip
    assert [said for said in lines(client) if said.startswith("exists")] == [
        f"exists {path}" for path in paths
    ]
    assert set(paths) <= tree.nodes.keys()
    lines(client).clear()
    client.start()
    assert lines(client) == [f"exists {path}" for path in paths]


WRITES: dict[str, tuple[Callable[[KafkaZkClient], Any], list[str]]] = {
    "a broker registers": (
        lambda zk: zk.register_broker(
            Broker(4, (EndPoint("A", "SSL", "h", 1), EndPoint("B", "PLAINTEXT", "i", 2)), "r")
        ),
        [f"create ephemeral /brokers/ids/4; set /brokers/ids/4 @0 {REGISTRATION}"],
    ),
    "a broker is elected": (
        lambda zk: zk.register_controller(4),
        [
            "data /controller_epoch",
            'create ephemeral /controller {"version":2,"brokerid":4,"timestamp":"7",'
            '"kraftControllerEpoch":-1}; set /controller_epoch @9 6',
        ],
    ),
    "a controller gives up": (
        lambda zk: zk.delete_controller(9),
        [f"{FENCE}; delete /controller"],
    ),
    "a topic is made": (
        lambda zk: zk.create_topic_assignment("t", ID, ASSIGNMENT),
        [f"create /brokers/topics/t {TOPIC}"],
    ),
    "a topic grows": (
        lambda zk: (
            make(zk, Create("/brokers/topics/t")),
            zk.set_topic_assignment("t", ID, ASSIGNMENT),
        ),
        [f"set /brokers/topics/t {TOPIC}"],
    ),
    "a controller moves a topic": (
        lambda zk: (
            make(zk, Create("/brokers/topics/t")),
            zk.set_topic_assignment("t", ID, ASSIGNMENT, 9),
        ),
        [f"{FENCE}; set /brokers/topics/t {TOPIC}"],
    ),
    "a partition's first state": (
        lambda zk: (
            make(zk, Create("/brokers/topics/t")),
            zk.create_topic_partition_states(
                {
                    T0: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1, 2), 3), 5),
                    T1: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1,), 3, 0, 1), 5),
                },
                9,
            ),
        ),
        [
            f"{FENCE}; create /brokers/topics/t/partitions",
            f"{FENCE}; create /brokers/topics/t/partitions/0",
            f"{FENCE}; create /brokers/topics/t/partitions/1",
            f"{FENCE}; create /brokers/topics/t/partitions/0/state {STATE}",
            f"{FENCE}; create /brokers/topics/t/partitions/1/state {RECOVERING}",
        ],
    ),
    "a partition's next state": (
        lambda zk: zk.update_leader_and_isr(
            {T0: LeaderAndIsr(1, (1, 2), 3, 17), T1: LeaderAndIsr(1, (1,), 3, 0, 1)}, 5, 9
        ),
        [
            f"{FENCE}; set /brokers/topics/t/partitions/0/state @17 {STATE}",
            f"{FENCE}; set /brokers/topics/t/partitions/1/state @0 {RECOVERING}",
        ],
    ),
    "a topic is to go": (
        lambda zk: zk.create_delete_topic_path("t"),
        ["create /admin/delete_topics/t"],
    ),
    "it need not go": (
        lambda zk: zk.delete_topic_deletions(["t", "u"], 9),
        [f"{FENCE}; delete /admin/delete_topics/t", f"{FENCE}; delete /admin/delete_topics/u"],
    ),
    "a topic goes": (
        lambda zk: (
            make(
                zk,
                Create("/brokers/topics/t"),
                Create("/brokers/topics/t/partitions"),
                Create("/brokers/topics/t/partitions/0"),
            ),
            zk.delete_topic_znode("t", 9),
            zk.delete_topic_configs(["t"], 9),
        ),
        [
            "children /brokers/topics/t",
            "children /brokers/topics/t/partitions",
            "children /brokers/topics/t/partitions/0",
            f"{FENCE}; delete /brokers/topics/t/partitions/0",
            f"{FENCE}; delete /brokers/topics/t/partitions",
            f"{FENCE}; delete /brokers/topics/t",
            f"{FENCE}; delete /config/topics/t",
        ],
    ),
    "an election was held": (
        lambda zk: zk.delete_preferred_replica_election(9),
        [f"{FENCE}; delete /admin/preferred_replica_election"],
    ),
    "a move is done": (
        lambda zk: (
            make(zk, Create("/admin/reassign_partitions")),
            zk.set_or_delete_partition_reassignment({T1: (2, 3)}, 9),
            zk.set_or_delete_partition_reassignment({}, 9),
        ),
        [
            f'{FENCE}; set /admin/reassign_partitions {{"version":1,"partitions":'
            '[{"topic":"t","partition":1,"replicas":[2,3]}]}',
            f"{FENCE}; delete /admin/reassign_partitions",
        ],
    ),
    "a configuration": (
        lambda zk: zk.set_or_create_entity_configs("topics", "t", {"a": "b"}),
        [
            'set /config/topics/t {"version":1,"config":{"a":"b"}}',
            "exists /config/topics",
            'create /config/topics/t {"version":1,"config":{"a":"b"}}',
        ],
    ),
    "a configuration has changed": (
        lambda zk: zk.create_config_change_notification("topics/t"),
        ['create sequential /config/changes/config_change_ {"version":2,"entity_path":"topics/t"}'],
    ),
    "the cluster's name": (
        lambda zk: zk.create_or_get_cluster_id("x"),
        ["exists /cluster", "create /cluster", 'create /cluster/id {"version":"1","id":"x"}'],
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written(zk: KafkaZkClient, name: str) -> None:
    do, expected = WRITES[name]
    do(zk)
    assert lines(zk) == expected


FENCED = [name for name, (_, expected) in WRITES.items() if any(FENCE in e for e in expected)]


@pytest.mark.parametrize("name", FENCED)
def test_what_a_controller_writes_is_refused_once_there_is_another(
    zk: KafkaZkClient, tree: MemoryZooKeeper, name: str
) -> None:
    """Whichever of its requests it is that meets the other's epoch."""
    do, expected = WRITES[name]
    session: Any = zk._session
    writes = [e for e in expected if FENCE in e]
    for at in range(len(writes)):
        tree.nodes = {p: n for p, n in tree.nodes.items() if not p.startswith("/brokers/topics/")}
        tree.nodes.pop("/admin/reassign_partitions", None)
        epoch = tree.nodes["/controller_epoch"]
        raised = type(epoch)(b"6", epoch.czxid, epoch.mzxid, epoch.pzxid, 10)
        session.foreign = {
            writes[at]: lambda r=raised: tree.nodes.__setitem__("/controller_epoch", r)
        }
        before: dict[str, Any] = {}

        def remember(s: Any, r: Any, before: Any = before) -> None:
            if tree.nodes["/controller_epoch"].version == 10 and not before:
                before.update(tree.nodes)

        tree.before = remember
        with pytest.raises(ControllerMoved):
            do(zk)
        assert before
        assert tree.nodes == before, "nothing was changed"
        tree.nodes["/controller_epoch"] = epoch


READS: dict[str, tuple[Callable[[KafkaZkClient], Any], list[str], Any]] = {
    "who is controller": (lambda zk: zk.get_controller_id(), ["data /controller"], None),
    "its epoch": (lambda zk: zk.get_controller_epoch(), ["data /controller_epoch"], (5, 9)),
    "brokers": (
        lambda zk: zk.get_all_broker_and_epochs_in_cluster(),
        ["children /brokers/ids watched"],
        {},
    ),
    "a broker": (lambda zk: zk.get_broker(4), ["data /brokers/ids/4"], None),
    "topics": (
        lambda zk: zk.get_all_topics_in_cluster(register_watch=True),
        ["children /brokers/topics watched"],
        set(),
    ),
    "topics, once": (
        lambda zk: zk.get_all_topics_in_cluster(),
        ["children /brokers/topics"],
        set(),
    ),
    "whether there is a topic": (
        lambda zk: zk.topic_exists("t"),
        ["exists /brokers/topics/t"],
        False,
    ),
    "assignments": (
        lambda zk: zk.get_replica_assignment_and_topic_id_for_topics(["u", "t"]),
        ["data /brokers/topics/t", "data /brokers/topics/u"],
        [],
    ),
    "partitions": (
        lambda zk: zk.get_partition_ids("t"),
        ["children /brokers/topics/t/partitions"],
        set(),
    ),
    "states": (
        lambda zk: zk.get_topic_partition_states([T0, T1]),
        ["data /brokers/topics/t/partitions/0/state", "data /brokers/topics/t/partitions/1/state"],
        {},
    ),
    "deletions": (
        lambda zk: zk.get_topic_deletions(),
        ["children /admin/delete_topics watched"],
        set(),
    ),
    "whether a topic is to go": (
        lambda zk: zk.is_topic_marked_for_deletion("t"),
        ["exists /admin/delete_topics/t"],
        False,
    ),
    "an election to hold": (
        lambda zk: zk.get_preferred_replica_election(),
        ["data /admin/preferred_replica_election"],
        set(),
    ),
    "moves": (
        lambda zk: zk.get_partition_reassignment(),
        ["data /admin/reassign_partitions"],
        {},
    ),
    "a configuration": (lambda zk: zk.get_topic_configs("t"), ["data /config/topics/t"], {}),
    "changes of configurations": (
        lambda zk: zk.watch_config_changes(),
        ["children /config/changes watched"],
        [],
    ),
    "the cluster's name": (lambda zk: zk.get_cluster_id(), ["data /cluster/id"], None),
    "whether what is watched is there": (
        lambda zk: zk.register_znode_change_handler_and_check_existence(ChangeHandler("/x")),
        ["exists /x"],
        False,
    ),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_read_and_what_nothing_reads_as(zk: KafkaZkClient, name: str) -> None:
    do, expected, nothing = READS[name]
    assert do(zk) == nothing
    assert lines(zk) == expected


# ---- somebody was faster -------------------------------------------------------------------------


def test_an_election_that_another_won(zk: KafkaZkClient) -> None:
    make(zk, Create("/controller", b'{"brokerid":3}', ephemeral=True))
    with pytest.raises(ControllerMoved):
        zk.register_controller(4)
    assert lines(zk)[2:] == ["data /controller_epoch", "data /controller"]


def test_an_election_over_an_epoch_that_was_raised_meanwhile(zk: KafkaZkClient) -> None:
    """Between the look at it and the multi: nothing of the multi is done."""
    session: Any = zk._session
    session.foreign = {
        "create ephemeral /controller": lambda: make(zk, SetData("/controller_epoch", b"6"))
    }
    with pytest.raises(ControllerMoved):
        zk.register_controller(4)
    assert zk.get_controller_id() is None
    assert zk.get_controller_epoch() == (6, 10)


@pytest.mark.parametrize(("broker_id", "epoch", "won"), [(4, b"6", True), (4, b"7", False)])
def test_an_election_whose_answer_was_lost(
    zk: KafkaZkClient, broker_id: int, epoch: bytes, won: bool
) -> None:
    """It exists already: we ourselves, if the epoch is the one that we raised it to."""
    session: Any = zk._session
    data = b'{"brokerid":%d}' % broker_id
    session.foreign = {
        "create ephemeral /controller": lambda: make(
            zk, Create("/controller", data), SetData("/controller_epoch", epoch)
        )
    }
    if won:
        assert zk.register_controller(4) == (6, 10)
    else:
        with pytest.raises(ControllerMoved):
            zk.register_controller(4)


def test_the_first_epoch(zk: KafkaZkClient, tree: MemoryZooKeeper) -> None:
    """Made as 0, raised to 1 by the election; made by another meanwhile, that one is raised."""
    del tree.nodes["/controller_epoch"]
    assert zk.register_controller(4) == (1, 1)
    assert lines(zk)[:2] == ["data /controller_epoch", "create /controller_epoch 0"]
    del tree.nodes["/controller_epoch"], tree.nodes["/controller"]
    session: Any = zk._session
    session.foreign = {
        "create /controller_epoch": lambda: make(zk, Create("/controller_epoch", b"40"))
    }
    assert zk.register_controller(4) == (41, 1)


def test_states_that_were_written_meanwhile(zk: KafkaZkClient) -> None:
    """Of each what came of it: written, to be looked at again, or an error."""
    for topic in ("t", "u"):
        make(zk, Create(f"/brokers/topics/{topic}"))
        for path in ("partitions", "partitions/0", "partitions/0/state"):
            make(zk, Create(f"/brokers/topics/{topic}/{path}", b"x"))
    state = LeaderAndIsr(1, (1,), 3, 0)
    tps = [TopicPartition(topic, 0) for topic in ("t", "u", "v")]
    make(zk, SetData("/brokers/topics/u/partitions/0/state", b"y"))
    written = zk.update_leader_and_isr(dict.fromkeys(tps, state), 5, 9)
    of_t, of_u, of_v = (written[tp] for tp in tps)
    assert of_t.written == state.with_partition_epoch(1)
    assert (of_t.retry, of_t.error) == (False, None)
    assert (of_u.written, of_u.retry, of_u.error) == (None, True, None)
    assert (of_v.written, of_v.retry) == (None, False)
    assert isinstance(of_v.error, NoNodeError)


def test_first_states_that_are_there_already(zk: KafkaZkClient) -> None:
    make(zk, Create("/brokers/topics/t"))
    state = {T0: LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1,)), 5)}
    assert zk.create_topic_partition_states(state, 9)[T0].written == LeaderAndIsr(1, (1,))
    again = zk.create_topic_partition_states(state, 9)[T0]
    assert isinstance(again.error, NodeExistsError)
    assert (again.written, again.retry) == (None, False)


def test_a_registration_that_is_ours_already(zk: KafkaZkClient) -> None:
    """The answer to the first try was lost: its epoch is that of its creation, whatever was written
    into it since."""
    own = Broker(4, (EndPoint("B", "PLAINTEXT", "i", 2),))
    epoch = zk.register_broker(own)
    make(zk, SetData("/brokers/ids/4", b"{}"))
    lines(zk).clear()
    assert zk.register_broker(own) == epoch
    assert [said.split(" {")[0] for said in lines(zk)] == [
        "create ephemeral /brokers/ids/4; set /brokers/ids/4 @0",
        "data /brokers/ids/4",
    ]


def test_a_registration_of_our_session_before(zk: KafkaZkClient, tree: MemoryZooKeeper) -> None:
    """KAFKA-7165: it is replaced, and the new one has an epoch of its own."""
    own = Broker(4, (EndPoint("B", "PLAINTEXT", "i", 2),))
    epoch = zk.register_broker(own)
    session: Any = zk._session
    session.renew()
    lines(zk).clear()
    assert zk.register_broker(own) > epoch
    assert [said.split(" {")[0] for said in lines(zk)] == [
        "create ephemeral /brokers/ids/4; set /brokers/ids/4 @0",
        "data /brokers/ids/4",
        "delete /brokers/ids/4",
        "create ephemeral /brokers/ids/4; set /brokers/ids/4 @0",
    ]
    assert tree.nodes["/brokers/ids/4"].owner == session.session_id


def test_a_registration_of_somebody_else(zk: KafkaZkClient, tree: MemoryZooKeeper) -> None:
    """It is his until his session is over."""
    make(zk, Create("/brokers/ids/4", b"{}", ephemeral=True))
    before = dict(tree.nodes)
    with pytest.raises(NodeExistsError):
        zk.register_broker(Broker(4, (EndPoint("B", "PLAINTEXT", "i", 2),)))
    assert tree.nodes == before


def block(first: int, broker_id: int) -> str:
    return (
        f'{{"version":1,"broker":{broker_id},"block_start":"{first}","block_end":"{first + 999}"}}'
    )


def test_a_block_of_producer_ids_that_another_claimed_meanwhile(
    zk: KafkaZkClient, tree: MemoryZooKeeper
) -> None:
    """ZkProducerIdManager: written over the version that was read, or read again; nobody else gets
    these ids, and ZooKeeper is asked once for a thousand."""
    path = "/latest_producer_id_block"
    session: Any = zk._session
    session.foreign = {f"set {path} @0": lambda: make(zk, SetData(path, block(0, 5).encode()))}
    ids = ProducerIdManager(4, zk)
    assert [ids.generate() for _ in range(1000)] == list(range(1000, 2000))
    assert lines(zk) == [
        f"data {path}",
        f"set {path} @0 {block(0, 4)}",
        f"data {path}",
        f"set {path} @1 {block(1000, 4)}",
    ]
    assert ids.generate() == 2000
    assert tree.nodes[path].data.decode() == block(2000, 4)
