"""Paths and JSON against what Kafka 3.9 brokers wrote (see the reference of its control plane)."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.coordination import znodes
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker, EndPoint, check_endpoints_are_free
from nodes.core.errors import ApiError
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.types import TopicPartition

T0 = TopicPartition("t", 0)
BROKER = Broker(
    1,
    (
        EndPoint("CONTROLLER", "SSL", "127.0.0.1", 9090),
        EndPoint("CLIENT", "PLAINTEXT", "::1", 9092),
    ),
    "r1",
)


def test_controller():
    assert json.loads(znodes.encode_controller(1, 5)) == {
        "version": 2,
        "brokerid": 1,
        "timestamp": "5",
        "kraftControllerEpoch": -1,
    }
    assert znodes.decode_controller(b'{"version":1,"brokerid":3,"timestamp":"0"}') == 3
    assert znodes.decode_controller_epoch(znodes.encode_controller_epoch(12)) == 12


def test_broker():
    assert json.loads(znodes.encode_broker(BROKER, jmx_port=-1, now_ms=7)) == {
        "features": {},
        "listener_security_protocol_map": {"CONTROLLER": "SSL", "CLIENT": "PLAINTEXT"},
        "endpoints": ["CONTROLLER://127.0.0.1:9090", "CLIENT://[::1]:9092"],
        "jmx_port": -1,
        "port": 9092,
        "host": "::1",
        "version": 5,
        "timestamp": "7",
        "rack": "r1",
    }
    assert znodes.decode_broker(1, znodes.encode_broker(BROKER, jmx_port=-1, now_ms=7)) == BROKER


def test_a_broker_of_before_listener_names():
    """Versions 2 and 3 have no map: a listener is called what it speaks (Broker.createBroker)."""
    data = json.dumps({"version": 2, "endpoints": ["SSL://h:1", "PLAINTEXT://h:2"]}).encode()
    found = znodes.decode_broker(1, data)
    assert [(e.listener, e.security_protocol) for e in found.endpoints] == [
        ("SSL", "SSL"),
        ("PLAINTEXT", "PLAINTEXT"),
    ]
    no_plaintext = Broker(1, BROKER.endpoints[:1])
    registration = json.loads(znodes.encode_broker(no_plaintext, jmx_port=-1, now_ms=7))
    assert (registration["host"], registration["port"]) == (None, -1)
    with pytest.raises(ValueError, match="endpoints"):
        znodes.decode_broker(1, b'{"endpoints":["nonsense"]}')


@pytest.mark.parametrize("names", [("CONTROLLER", "CLIENT"), ("CLIENT", "CONTROLLER")])
def test_who_knows_one_address_is_told_the_first_plaintext_one(names):
    """BrokerIdZNode.encode: whichever listener it is of, the control listener's as well; one of
    another protocol before it does not count."""
    plaintext = [EndPoint(name, "PLAINTEXT", name, 9 + i) for i, name in enumerate(names)]
    broker = Broker(1, (EndPoint("FIRST", "SSL", "ssl", 8), *plaintext))
    registration = json.loads(znodes.encode_broker(broker, jmx_port=-1, now_ms=7))
    assert (registration["host"], registration["port"]) == (names[0], 9)


def test_topic_by_kafka():
    data = (
        b'{"removing_replicas":{"0":[3]},"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[1]},'
        b'"topic_id":"AAAAAAAAAAAAAAAAAAAABw","version":3}'
    )
    topic = znodes.decode_topic("t", data)
    assert topic.topic_id == UUID(int=7)
    assert topic.assignment == {T0: ReplicaAssignment((1, 2, 3), (1,), (3,))}
    assert json.loads(znodes.encode_topic(topic.topic_id, topic.assignment)) == json.loads(data)
    old = znodes.decode_topic("t", b'{"version":1,"partitions":{"0":[1]}}')
    assert (old.topic_id, old.assignment) == (None, {T0: ReplicaAssignment((1,))})


@given(st.uuids())
def test_topic_ids(topic_id):
    text = znodes.encode_topic_id(topic_id)
    assert len(text) == 22
    assert znodes.decode_topic_id(text) == topic_id


@given(st.integers(-1, 9), st.lists(st.integers(0, 9)), st.integers(0, 99), st.integers(0, 1))
def test_state(leader, isr, leader_epoch, recovery):
    state = LeaderIsrAndControllerEpoch(
        LeaderAndIsr(leader, tuple(isr), leader_epoch, 4, recovery), 3
    )
    assert znodes.decode_state(znodes.encode_state(state), 4) == state


def test_state_by_kafka():
    data = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":5,"isr":[2,3]}'
    assert znodes.decode_state(data, 6) == LeaderIsrAndControllerEpoch(
        LeaderAndIsr(2, (2, 3), 5, 6), 1
    )


def test_small_ones():
    assert znodes.decode_partitions(znodes.encode_partitions([T0])) == {T0}
    assert znodes.decode_reassignment(znodes.encode_reassignment({T0: [1]})) == {T0: (1,)}
    assert znodes.decode_config(znodes.encode_config({"a": "b"})) == {"a": "b"}
    assert znodes.decode_config(b"") == {}
    assert znodes.decode_cluster_id(znodes.encode_cluster_id("x")) == "x"
    assert json.loads(znodes.encode_config_change("topics/t"))["version"] == 2


def test_endpoints_are_not_shared():
    check_endpoints_are_free(BROKER, [BROKER])
    with pytest.raises(ApiError, match=r"advertised\.listeners.*broker 2"):
        check_endpoints_are_free(BROKER, [Broker(2, BROKER.endpoints)])


@pytest.mark.parametrize(
    ("entity_path", "entity"),
    [
        ("topics/t", ("topics", "t")),
        ("brokers/<default>", ("brokers", "<default>")),
        ("users/a%2Fb/clients/c", ("users", "a%2Fb/clients/c")),
        ("topics/a/b", None),
        ("topics/..", None),
        ("topics/", None),
        ("topics", None),
        ("../brokers", None),
        ("users/../ids", None),
        ("users//x", None),
        ("users/a\0b", None),
    ],
)
def test_what_a_notification_names(entity_path, entity):
    assert znodes.decode_config_change(znodes.encode_config_change(entity_path)) == entity


def test_partitions_that_there_cannot_be():
    data = json.dumps({"partitions": {"0": [1], "-1": [1], "2147483648": [1]}}).encode()
    assert list(znodes.decode_topic("t", data).assignment) == [T0]
