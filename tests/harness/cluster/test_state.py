"""Kafka's znodes, as Kafka 3.9 writes them."""

from __future__ import annotations

import uuid

from harness.cluster import state


def test_a_registration_with_three_listeners() -> None:
    data = (
        b'{"features":{},"listener_security_protocol_map":{"CONTROLLER":"PLAINTEXT",'
        b'"CLIENT":"SASL_SSL","V6":"SSL"},"endpoints":["CONTROLLER://127.0.0.1:13000",'
        b'"CLIENT://host.example:13001","V6://[::1]:13002"],"jmx_port":-1,"port":-1,"host":null,'
        b'"version":5,"timestamp":"1795229018000"}'
    )
    found = state.parse_registration(3, data, 71)
    assert (found.node, found.broker_epoch, found.rack) == (3, 71, None)
    assert [(e.listener, e.host, e.port, e.security_protocol) for e in found.endpoints] == [
        ("CONTROLLER", "127.0.0.1", 13000, 0),
        ("CLIENT", "host.example", 13001, 3),
        ("V6", "::1", 13002, 1),
    ]


def test_a_topic_that_is_being_moved() -> None:
    data = (
        b'{"removing_replicas":{"0":[1]},"partitions":{"0":[4,2,3,1],"11":[1]},'
        b'"topic_id":"mXSGRXN5QWaFIyLQGRDnyA","adding_replicas":{"0":[4]},"version":3}'
    )
    topic = state.parse_topic("t", data)
    assert topic.moving
    assert topic.replicas == {0: (4, 2, 3, 1), 11: (1,)}
    assert state.topic_uuid(topic.topic_id) == uuid.UUID("99748645-7379-4166-8523-22d01910e7c8")
    assert state.topic_uuid(None) is None


def test_a_partition_state_and_its_path() -> None:
    path = state.state_path("a.b-c", 7)
    assert path == "/brokers/topics/a.b-c/partitions/7/state"
    assert state.parse_state_path("/kafka" + path) == ("a.b-c", 7)
    assert state.parse_state_path("/brokers/topics/t") is None
    data = b'{"controller_epoch":4,"leader":-1,"version":1,"leader_epoch":9,"isr":[3]}'
    found = state.parse_partition("a.b-c", 7, data, 12, (3, 1))
    assert (found.leader, found.leader_epoch, found.controller_epoch) == (-1, 9, 4)
    assert (found.isr, found.replicas, found.partition_epoch) == ((3,), (3, 1), 12)
