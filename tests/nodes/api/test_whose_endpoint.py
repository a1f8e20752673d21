"""Whoever asks is told of brokers by the listener that it asked by, and no other (KIP-103, which
KIP-291 leaves as it is): every API that tells of endpoints, on every listener, whichever of them is
the brokers' own or the controllers'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodes.wire.apis import ApiKey

LISTENERS = ("CONTROL", "CLIENT", "BROKERS", "OTHER")
LACKING = {(3, "CONTROL"), (2, "OTHER"), (1, "CLIENT")}
"""(broker, listener) that there is not."""
NO_SUCH_LISTENER, NO_LEADER, NO_REPLICA, NO_COORDINATOR = 72, 5, 9, 15


def port_of(broker_id: int, listener: str) -> int:
    return 1000 * broker_id + LISTENERS.index(listener)


def expected(listener: str) -> dict[int, int]:
    return {i: port_of(i, listener) for i in (1, 2, 3) if (i, listener) not in LACKING}


@pytest.fixture(params=["dual", "single"])
def node(request: pytest.FixtureRequest, make_node: Callable[..., Any]) -> Any:
    """Broker 1 of three. Partition p of a topic is led by broker p + 1."""
    dual = {"control.plane.listener.name": "CONTROL"} if request.param == "dual" else {}
    listeners = [f"{name}://127.0.0.1:{i + 1}" for i, name in enumerate(LISTENERS)]
    made = make_node(
        **{
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(f"{n}:PLAINTEXT" for n in LISTENERS),
            "inter.broker.listener.name": "BROKERS",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "3",
            **dual,
        }
    )
    made.live_brokers = [
        {
            "id_": i,
            "rack": None,
            "endpoints": [
                {"port": port_of(i, n), "host": f"h{i}", "listener": n, "security_protocol": 0}
                for n in LISTENERS
                if (i, n) not in LACKING
            ],
        }
        for i in (1, 2, 3)
    ]
    return made


@pytest.mark.parametrize("version", [0, 5, 9, 12])
def test_metadata(node: Any, topic_state: Any, version: int) -> None:
    """Asked one after the other, twice each: what was kept for one listener is nobody else's."""
    led = [(p, p + 1, 0) for p in range(3)]
    node.update_metadata([topic_state("t", led), topic_state("other", led)])
    for listener in (*LISTENERS, *LISTENERS[::-1]):
        more = {"allow_auto_topic_creation": False} if version >= 4 else {}
        answer = node.call(
            ApiKey.METADATA, version, topics=[{"name": "t"}], listener=listener, **more
        )
        told = {b.node_id: (b.host, b.port) for b in answer.brokers}
        assert [topic.name for topic in answer.topics] == ["t"]
        assert told == {i: (f"h{i}", port) for i, port in expected(listener).items()}
        for partition in answer.topics[0].partitions:
            leader = int(partition.partition_index) + 1
            reached = leader in told
            error = 0 if reached else NO_SUCH_LISTENER if version >= 6 else NO_LEADER
            if not version and reached and not {1, leader} <= told.keys():
                error = NO_REPLICA
            assert partition.error_code == error
            replicas = {1, leader} & told.keys() if not version else {1, leader}
            assert set(partition.replica_nodes) == replicas
            assert partition.leader_id == (leader if reached else -1)


@pytest.mark.parametrize("controller_id", [1, 2, 3, 7, -1])
@pytest.mark.parametrize("listener", LISTENERS)
def test_who_the_controller_is(node: Any, listener: str, controller_id: int) -> None:
    """Metadata says what the controller said of itself, whoever that is; DescribeCluster leaves out
    whom its answer does not tell how to reach (AuthHelper.computeDescribeClusterResponse)."""
    node.update_metadata([], controller_id=controller_id)
    for version in range(1, 13):
        answer = node.call(ApiKey.METADATA, version, topics=[], listener=listener)
        assert answer.controller_id == controller_id
    for version in (0, 1):
        answer = node.call(ApiKey.DESCRIBE_CLUSTER, version, listener=listener)
        told = {b.broker_id: (b.host, b.port, b.rack) for b in answer.brokers}
        assert told == {i: (f"h{i}", port, None) for i, port in expected(listener).items()}
        assert answer.controller_id == (controller_id if controller_id in told else -1)
        assert answer.cluster_id == "c_-uSTeR_Id22characters"
        assert (answer.error_code, answer.error_message) == (0, None)


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("listener", LISTENERS)
def test_find_coordinator(node: Any, topic_state: Any, listener: str, version: int) -> None:
    node.update_metadata([topic_state("__consumer_offsets", [(p, p + 1, 0) for p in range(3)])])
    leaders = {f"g{i}": node.groups.partition_for(f"g{i}") + 1 for i in range(20)}
    assert set(leaders.values()) == {1, 2, 3}
    for group, leader in leaders.items():
        fields = {"key": group} if version < 4 else {"coordinator_keys": [group]}
        answer = node.call(
            ApiKey.FIND_COORDINATOR, version, key_type=0, listener=listener, **fields
        )
        row = answer if version < 4 else answer.coordinators[0]
        port = expected(listener).get(leader)
        assert row.error_code == (NO_COORDINATOR if port is None else 0)
        if port is not None:
            assert (row.node_id, row.host, row.port) == (leader, f"h{leader}", port)
