"""KIP-291, Rejected Alternatives: a queue in which control requests overtake, with everything else
shared (``biplane.plane.mode=priority``). It is here so that it can be compared; these tests show
what it can do and why it was rejected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodes.config import BrokerConfig, ConfigError
from tests.kip291.parts import RunningBroker, eventually, unread_bytes
from tests.kip291.requests import metadata, update_metadata

Start = Callable[..., RunningBroker]


def held(start: Start, **properties: str) -> RunningBroker:
    broker = start("single", biplane_plane_mode="priority", **properties)
    broker.gate.hold("data")
    broker.client("stuck", "REPLICATION").send(metadata())
    eventually(lambda: broker.gate.running("data") == 1)
    return broker


def test_control_requests_overtake_what_waits_in_the_queue(start: Start) -> None:
    """What a priority queue gives: no waiting behind the backlog."""
    broker = held(start)
    before = len(broker.gate.seen)
    for i in range(1, 4):
        broker.client(f"data-{i}", "REPLICATION").send(metadata())
        eventually(lambda i=i: broker.queue_size("data") == i)
    controller = broker.controller().send(update_metadata({}))
    eventually(lambda: broker.queue_size("data") == 4)
    broker.gate.release()
    assert controller.answer().error_code == 0
    eventually(lambda: len(broker.gate.seen) == before + 4)
    order = [s.client_id for s in broker.gate.seen[before:]]
    assert order == ["controller", "data-1", "data-2", "data-3"]


def test_they_wait_for_the_handlers_all_the_same(start: Start) -> None:
    """Handlers are shared: while all of them are stuck, a control request waits."""
    broker = held(start)
    controller = broker.controller().send(update_metadata({}))
    eventually(lambda: broker.queue_size("data") == 1)
    assert not controller.has_answer()
    broker.gate.release()
    assert controller.answer().error_code == 0


def test_they_cannot_overtake_where_they_have_not_been_read(start: Start) -> None:
    """Why it was rejected: with the queue full the network thread is blocked, and who has not been
    read cannot overtake."""
    broker = held(start, queued_max_requests="2")
    for i in range(1, 3):
        broker.client(f"data-{i}", "REPLICATION").send(metadata())
        eventually(lambda i=i: broker.queue_size("data") == i)
    blocked = broker.client("data-3", "REPLICATION").send(metadata())
    eventually(lambda: unread_bytes(blocked) == 0)
    controller = broker.controller().send(update_metadata({}))
    eventually(lambda: unread_bytes(controller) > 0)
    for _ in range(20):
        assert broker.queue_size("data") == 2
        assert unread_bytes(controller) > 0
    broker.gate.release()
    assert controller.answer().error_code == 0


def test_it_is_an_alternative_not_an_addition() -> None:
    with pytest.raises(ConfigError, match=r"biplane\.plane\.mode"):
        BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "zookeeper.connect": "127.0.0.1:1",
                "listeners": "A://127.0.0.1:1,B://127.0.0.1:2",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
                "inter.broker.listener.name": "A",
                "control.plane.listener.name": "B",
                "biplane.plane.mode": "priority",
            }
        )
