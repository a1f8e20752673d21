"""The zombie controller: cut off from ZooKeeper, it goes on until it reaches ZooKeeper again.

The old controller (1) has its way to ZooKeeper through a proxy that is cut.
"""

from __future__ import annotations

import threading

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey

T0 = TopicPartition("t", 0)
SESSION_S = 60


def test_short_cut_changes_nothing(world, wait_until, cuttable_proxy):
    node = world.node(1, cuttable_proxy.address)
    other = world.broker(2)
    node.controller.startup()
    wait_until(lambda: node.controller.is_active)
    cuttable_proxy.cut()
    wait_until(lambda: not node.zk.is_connected)
    world.create_topic("t", (2, 1))
    assert node.controller.is_active
    assert world.state(T0) is None
    cuttable_proxy.heal()
    wait_until(lambda: world.state(T0) == (2, 0, (2, 1)))
    wait_until(lambda: other.leader_and_isr(T0))
    assert node.controller.controller_epoch == 1
    assert [r["event"] for r in node.trace("controller")] == ["elected"]


def test_zombie_keeps_its_channels_and_old_epochs_until_it_reaches_zookeeper(
    world, wait_until, cuttable_proxy, end_session, ask
):
    old = world.node(1, cuttable_proxy.address)
    old.controller.startup()
    wait_until(lambda: old.controller.is_active)
    new = world.node(2)
    new.controller.startup()
    target = world.broker(3)
    world.create_topic("t", (3, 2, 1))
    wait_until(lambda: world.state(T0) == (3, 0, (3, 2, 1)))
    wait_until(lambda: len(target.metadata(T0)) == 1)
    old_broker_epoch = old.controller.broker_epoch

    # One LeaderAndIsr of the old controller is on its way and not answered when the cut comes.
    target.hold()
    second = TopicPartition("second", 0)
    world.create_topic("second", (3, 1))
    wait_until(lambda: target.leader_and_isr(second))
    cuttable_proxy.cut()
    end_session(old.zk)
    wait_until(lambda: new.controller.is_active)
    assert new.controller.controller_epoch == 2
    wait_until(lambda: world.state(second) == (3, 1, (3,)))

    # Both are active now; the old one repeats its request, with its old epoch.
    assert old.controller.is_active
    assert old.controller.controller_epoch == 1
    before = len(target.leader_and_isr(second))
    target.drop_connections()
    wait_until(lambda: len(target.leader_and_isr(second)) >= before + 1)
    target.release()
    wait_until(
        lambda: any(
            r.controller_id == 1 and r.controller_epoch == 1
            for r in target.of(ApiKey.LEADER_AND_ISR)
        )
    )
    wait_until(lambda: any(s.leader_epoch == 1 for s in target.leader_and_isr(second)))
    assert old.controller.is_active, "disconnection is no reason to resign"
    # It answers what needs no ZooKeeper.
    assert ask(old.controller.list_reassignments, None) == (Errors.NONE, {})

    cuttable_proxy.heal()
    wait_until(lambda: not old.controller.is_active)
    wait_until(lambda: old.controller.active_controller_id == 2)
    wait_until(lambda: old.controller.broker_epoch > old_broker_epoch)
    assert old.controller.controller_epoch == 0
    assert [r["event"] for r in old.trace("controller")] == ["elected", "resigned"]
    sent = len([r for r in target.of(ApiKey.UPDATE_METADATA) if r.controller_id == 1])
    wait_until(lambda: target.of(ApiKey.UPDATE_METADATA)[-1].live_brokers[0].id_ == 1)
    assert len([r for r in target.of(ApiKey.UPDATE_METADATA) if r.controller_id == 1]) == sent
    # The new controller takes it back as a broker, under its new epoch.
    wait_until(lambda: old.fake.of(ApiKey.UPDATE_METADATA)[-1].controller_id == 2)
    assert old.fake.of(ApiKey.UPDATE_METADATA)[-1].broker_epoch == old.controller.broker_epoch


def test_zombies_write_is_never_applied(world, wait_until, cuttable_proxy, end_session):
    """An election that waits for ZooKeeper at the cut must not overwrite the successor's."""
    old = world.node(1, cuttable_proxy.address)
    old.controller.startup()
    wait_until(lambda: old.controller.is_active)
    new = world.node(2)
    new.controller.startup()
    world.broker(3)
    world.create_topic("t", (3, 2))
    wait_until(lambda: world.state(T0) == (3, 0, (3, 2)))
    answers = []
    cuttable_proxy.cut()
    wait_until(lambda: not old.zk.is_connected)
    old.controller.controlled_shutdown(3, -1, lambda *answer: answers.append(answer))
    end_session(old.zk)
    wait_until(lambda: new.controller.is_active)
    assert not answers
    cuttable_proxy.heal()
    wait_until(lambda: answers)
    wait_until(lambda: not old.controller.is_active)
    assert world.state(T0) == (3, 0, (3, 2))
    assert world.admin.get_topic_partition_states([T0])[T0].controller_epoch == 1


def test_soft_failure_is_noticed_by_the_first_write(world, wait_until, ask):
    """The controller's znode is removed under a healthy session: a second one is elected."""
    first = world.node(1)
    first.controller.startup()
    wait_until(lambda: first.controller.is_active)
    second = world.node(2)
    second.controller.startup()
    wait_until(lambda: second.controller.active_controller_id == 1)
    world.admin.delete_recursive("/controller")
    wait_until(lambda: first.controller.is_active != second.controller.is_active)
    wait_until(lambda: world.admin.get_controller_epoch()[0] == 2)
    winner = first if world.admin.get_controller_id() == 1 else second
    wait_until(lambda: winner.controller.is_active and winner.controller.controller_epoch == 2)
    expected = [("elected", 1), ("elected", 2), ("resigned", 1)]

    def events():
        rows = [r for n in (first, second) for r in n.trace("controller")]
        return sorted((r["event"], r["controller_epoch"]) for r in rows)

    wait_until(lambda: events() == expected)


@pytest.mark.parametrize("checks", [True, False])
def test_a_decision_that_was_due_when_the_office_was_lost(world, wait_until, ask, checks):
    """The session lives, and an election stands in the queue before the news of the successor. Only
    the check of the controller epoch's znode (without it: a planted bug) keeps it from counting."""
    old = world.node(1, checks_controller_znode=checks)
    old.controller.startup()
    wait_until(lambda: old.controller.is_active)
    new = world.node(2)
    new.controller.startup()
    wait_until(lambda: new.controller.active_controller_id == 1)
    world.broker(3)
    world.create_topic("t", (3, 2))
    wait_until(lambda: world.state(T0) == (3, 0, (3, 2)))
    assert ask(old.controller.alter_reassignments, {T0: [2, 3]})[0] == Errors.NONE
    wait_until(lambda: world.state(T0) == (3, 1, (3, 2)))

    held, answers = threading.Event(), []
    old.controller.list_reassignments(None, lambda *_: held.wait(120))  # on the event thread
    old.controller.elect_leaders(0, [T0], answers.append)
    world.admin.delete_recursive("/controller")
    wait_until(lambda: new.controller.is_active)
    assert old.controller.is_active
    held.set()
    wait_until(lambda: answers)
    wait_until(lambda: not old.controller.is_active)
    if checks:
        assert answers[0][T0].error is Errors.NOT_CONTROLLER
        assert world.state(T0) == (3, 1, (3, 2))
        answer = ask(new.controller.elect_leaders, 0, [T0])
        assert (answer[T0].error, answer[T0].leader) == (Errors.NONE, 2)
        assert world.admin.get_topic_partition_states([T0])[T0].controller_epoch == 2
    else:
        assert answers[0][T0].error is Errors.NONE
        assert world.state(T0) == (2, 2, (3, 2))
        assert world.admin.get_topic_partition_states([T0])[T0].controller_epoch == 1


def test_shutdown_of_a_cut_off_controller_does_not_hang(world, wait_until, cuttable_proxy):
    node = world.node(1, cuttable_proxy.address, session_timeout_ms=SESSION_S * 1000)
    node.controller.startup()
    wait_until(lambda: node.controller.is_active)
    cuttable_proxy.cut()
    wait_until(lambda: not node.zk.is_connected)
    answers = []
    node.controller.elect_leaders(0, [T0], answers.append)  # needs no ZooKeeper
    world.broker(2)
    node.controller.controlled_shutdown(1, -1, lambda *answer: answers.append(answer))

    def shut_down():
        node.controller.shutdown()
        node.zk.close()

    # Well before the session ends: that would release it, too.
    ending = threading.Thread(target=shut_down, daemon=True)
    ending.start()
    ending.join(SESSION_S / 2)
    assert not ending.is_alive()
