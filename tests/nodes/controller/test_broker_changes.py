"""Which brokers are new, dead or back again, and who hears of an address that changed
(KafkaController.processBrokerChange and onBrokerUpdate), by the event handlers alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodes.controller.broker_changes import BrokerChanges
from nodes.controller.context import ControllerContext
from nodes.controller.parts import Parts
from nodes.core.brokers import Broker, EndPoint


def broker(broker_id: int, port: int = 9092) -> Broker:
    return Broker(broker_id, (EndPoint("CLIENT", "PLAINTEXT", f"h{broker_id}", port),))


class Office:
    """Brokers 1 to 3 are known, with broker epochs 71 to 73; 3 is shutting down."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []
        self.registered = {i: (broker(i), 70 + i) for i in (1, 2, 3)}
        self.context = context = ControllerContext()
        context.set_live_brokers(self.registered)
        context.shutting_down_broker_ids = {3}
        say = self.said.append
        parts = SimpleNamespace(
            config=SimpleNamespace(broker_id=1),
            context=context,
            is_active=lambda: True,
            zk=SimpleNamespace(
                get_all_broker_and_epochs_in_cluster=lambda: self.registered,
                get_broker=lambda broker_id: self.registered[broker_id][0],
            ),
            channels=SimpleNamespace(
                add_broker=lambda added: say(("dial", added.id)),
                remove_broker=lambda broker_id: say(("hang up", broker_id)),
            ),
            send_update_metadata=lambda to, partitions: say(("tell", *sorted(to))),
        )
        self.changes = BrokerChanges(cast(Parts, parts), cast(Any, None))
        self.changes._on_startup = lambda new: say(("up", *sorted(new)))  # type: ignore[method-assign]
        self.changes._on_failure = lambda dead: say(("down", *sorted(dead)))  # type: ignore[method-assign]


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.mark.parametrize(
    ("epoch", "follows"),
    [
        (71, []),
        (72, []),
        (73, [("hang up", 2), ("dial", 2), ("down", 2), ("up", 2)]),
    ],
)
def test_who_is_back_has_a_later_epoch(
    office: Office, epoch: int, follows: list[tuple[Any, ...]]
) -> None:
    """An earlier one is what a server of ZooKeeper shows that is behind: that life is over."""
    office.registered = {**office.registered, 2: (broker(2), epoch)}
    office.changes._on_change()
    assert office.said == follows
    assert office.context.broker_epochs[2] == max(epoch, 72)


def test_channels_are_made_and_ended_before_anybody_is_told(office: Office) -> None:
    """Of all at once: new ones first, then those that are back, then the dead."""
    office.registered = {1: (broker(1), 71), 2: (broker(2), 80), 4: (broker(4), 81)}
    office.changes._on_change()
    assert office.said == [
        *[("dial", 4), ("hang up", 2), ("dial", 2), ("hang up", 3)],
        *[("up", 4), ("down", 2), ("up", 2), ("down", 3)],
    ]
    assert office.context.broker_epochs == {1: 71, 2: 80, 4: 81}


@pytest.mark.parametrize("port", [9092, 9093])
def test_another_address_is_told_to_all_who_are_registered(office: Office, port: int) -> None:
    """Those that are shutting down answer clients, too."""
    office.registered = {**office.registered, 2: (broker(2, port), 72)}
    office.changes._on_modification(2)
    assert office.said == ([] if port == 9092 else [("tell", 1, 2, 3)])
    assert office.context.live_brokers[2].endpoints[0].port == port
