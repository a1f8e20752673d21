"""What a controller would send, from what ZooKeeper says."""

from __future__ import annotations

import uuid

from faults.protocol import PartitionState
from harness.cluster.control_requests import (
    Sender,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from harness.cluster.state import Endpoint, Registration
from nodes.wire.codec import encode_request, parse_body, parse_header

SENDER = Sender(controller_id=3, controller_epoch=7, broker_epoch=55)
STATES = [
    PartitionState("a", 0, 1, 4, (1, 2), (1, 2, 9), 6, 11),
    PartitionState("b", 0, 9, 2, (9,), (9, 1), 6, 12),
    PartitionState("a", 1, 2, 5, (2,), (2, 1), 6, 13),
]
IDS = {"a": "AAAAAAAAAAAAAAAAAAAABQ", "b": None}
REGISTERED = {
    node: Registration(
        node=node,
        broker_epoch=50 + node,
        endpoints=(
            Endpoint(listener="CLIENT", host="h", port=90 + node, security_protocol=0),
            Endpoint(listener="REPLICATION", host="h", port=80 + node, security_protocol=1),
        ),
        rack="r",
    )
    for node in (2, 1)
}


def sent(entity: object) -> object:
    """As the broker reads it."""
    frame = encode_request(entity, 5, "x")[4:]
    return parse_body(parse_header(frame), frame)


def test_leader_and_isr_names_the_leaders_that_live() -> None:
    request = sent(leader_and_isr(SENDER, STATES, IDS, REGISTERED))
    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (3, 7, 55)
    assert [(t.topic_name, t.topic_id) for t in request.topic_states] == [
        ("a", uuid.UUID(int=5)),
        ("b", None),
    ]
    first, second = request.topic_states[0].partition_states
    assert (first.partition_index, first.leader, first.leader_epoch) == (0, 1, 4)
    assert (first.partition_epoch, first.controller_epoch) == (11, 6)
    assert second.partition_index == 1
    leaders = [(leader.broker_id, leader.port) for leader in request.live_leaders]
    assert leaders == [(1, 91), (2, 92)]  # 9 leads as well, and is not registered


def test_update_metadata_names_every_broker_and_what_is_offline() -> None:
    request = sent(update_metadata(SENDER, STATES, IDS, REGISTERED))
    offline = {
        (topic.topic_name, s.partition_index): tuple(s.offline_replicas)
        for topic in request.topic_states
        for s in topic.partition_states
    }
    assert offline == {("a", 0): (9,), ("a", 1): (), ("b", 0): (9,)}
    assert [(b.id_, b.rack, len(b.endpoints)) for b in request.live_brokers] == [
        (1, "r", 2),
        (2, "r", 2),
    ]


def test_stop_replica_carries_leader_epochs() -> None:
    request = sent(stop_replica(SENDER, STATES, delete=True))
    told = [
        (topic.topic_name, s.partition_index, s.leader_epoch, s.delete_partition)
        for topic in request.topic_states
        for s in topic.partition_states
    ]
    assert told == [("a", 0, 4, True), ("a", 1, 5, True), ("b", 0, 2, True)]
