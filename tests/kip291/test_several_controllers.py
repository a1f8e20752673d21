"""KIP-291, footnote on the queue's size: a controller has one request in flight to a broker, so
that more than one waits only when there are several controllers, or connections of old ones."""

from __future__ import annotations

from collections.abc import Callable

from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import RunningBroker, eventually
from tests.kip291.requests import (
    Sender,
    leader_and_isr,
    metadata,
    produce,
    produce_error,
    update_metadata,
)

CONTROLLERS = 25


def test_more_controllers_than_the_queue_holds(
    start: Callable[..., RunningBroker], listener: Callable[[], ControlListener]
) -> None:
    """25 connections with one LeaderAndIsr each, while the handler is held: 1 + 20 are taken in,
    the rest waits in sockets; in the end all are answered, the newest controller epoch has won, and
    the data plane served its clients all the while."""
    broker = start("dual")
    follower = listener()
    brokers = {1: list(broker.ports.items()), 2: [(name, follower.port) for name in broker.ports]}
    setup = broker.controller("setup")
    assert setup.ask(update_metadata(brokers, "t", leader=1)).error_code == 0
    assert setup.ask(leader_and_isr("t", leader=1, leader_epoch=0)).error_code == 0
    broker.gate.hold("control")
    controllers = []
    for i in range(1, CONTROLLERS + 1):
        sender = Sender(controller_id=1, controller_epoch=10 + i)
        entity = leader_and_isr("t", leader=1, leader_epoch=i, sender=sender)
        controllers.append(broker.controller(f"c-{i:02}").send(entity))
        # In order, as far as they are taken in at all.
        eventually(lambda i=i: broker.queue_size("control") == min(i - 1, 20))
    for _ in range(10):
        assert produce_error(broker.client("p").ask(produce("t"))) == 0
        assert broker.client("m").ask(metadata("t")).topics[0].error_code == 0
    assert not any(c.has_answer() for c in controllers)
    broker.gate.release()
    answers = [c.answer() for c in controllers]
    # The last few were read in whatever order their connections became ready.
    handled = broker.gate.clients("control", "c-")
    assert handled[:21] == [f"c-{i:02}" for i in range(1, 22)]
    assert sorted(handled[21:]) == [f"c-{i:02}" for i in range(22, CONTROLLERS + 1)]
    newest = 0
    for client_id in handled:
        number = int(client_id.removeprefix("c-"))
        answer = answers[number - 1]
        fenced = number < newest
        assert answer.error_code == (11 if fenced else 0)
        newest = max(newest, number)
    assert produce_error(broker.client("p").ask(produce("t"))) == 0
    late = Sender(controller_id=1, controller_epoch=10 + CONTROLLERS - 1)
    refused = broker.controller("late").ask(update_metadata({}, sender=late))
    assert refused.error_code == 11, "the newest epoch is known"
