"""Writes over states that somebody else has changed meanwhile: a leader its in-sync set, or a later
controller (PartitionStateMachine.doElectLeaderForPartitions, ReplicaStateMachine
.doRemoveReplicasFromIsr, updateLeaderEpoch)."""

from __future__ import annotations

from collections.abc import Iterator

from nodes.core.types import TopicPartition
from tests.nodes.controller.transcript import Office

T0 = TopicPartition("t", 0)


def leader_changes_its_isr_before(o: Office, number: int, isr: str = "2,1") -> None:
    """Just before the controller's write: as of a leader whose AlterPartition an old controller
    had accepted."""

    def alters() -> None:
        state = f'{{"version":1,"leader":2,"leader_epoch":0,"isr":[{isr}],"controller_epoch":1}}'
        o.admin.set_or_create("/brokers/topics/t/partitions/0/state", state.encode())

    o.before_write(number, alters)


def an_election_over_a_changed_isr(o: Office) -> Iterator[None]:
    """It is held again over what stands there now.

    channel - 2
    zk = t-0 @0 leader 3 epoch 1 isr 3,1 by 1 -> BadVersionError
    zk = t-0 @1 leader 1 epoch 1 isr 1 by 1
    1.1 > 1,3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.2 by 1 isr 1 of 2,3,1
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 1 epoch 1.2 by 1 isr 1 of 2,3,1 offline 2
    1.1 > 1,3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.2 by 1 isr 1 of 2,3,1
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 1 epoch 1.2 by 1 isr 1 of 2,3,1 offline 2
    """
    o.start(2, 3)
    o.topic("t", (2, 3, 1))
    yield
    o.leave(2)
    leader_changes_its_isr_before(o, 1)


def a_replica_leaves_a_changed_isr(o: Office) -> Iterator[None]:
    """It is taken out of what stands there now.

    channel - 3
    zk = t-0 @0 leader 2 epoch 1 isr 2,1 by 1 -> BadVersionError
    zk = t-0 @1 leader 2 epoch 1 isr 2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.2 by 1 isr 2 of 2,3,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 1.2 by 1 isr 2 of 2,3,1 offline 3
    """
    o.start(2, 3)
    o.topic("t", (2, 3, 1))
    yield
    o.leave(3)
    leader_changes_its_isr_before(o, 1, "2,3")


def a_move_raises_the_epoch_of_a_changed_isr(o: Office) -> Iterator[None]:
    """What the leader wrote is kept.

    zk = /brokers/topics/t 0:2,3,1 adding 0:3 removing 0:1
    zk = t-0 @0 leader 2 epoch 1 isr 2,1 by 1 -> BadVersionError
    zk = t-0 @1 leader 2 epoch 1 isr 2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.2 by 1 isr 2 of 2,3,1 adding 3
        removing 1
    1.1 > 3 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.2 by 1 isr 2 of 2,3,1 adding 3 removing
        1 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.2 by 1 isr 2 of 2,3,1
    1.1 > 3 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.2 by 1 isr 2 of 2,3,1 adding 3 removing
        1 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.2 by 1 isr 2 of 2,3,1
    answer NONE, t-0 NONE
    """
    made = o.start(2, 3)
    o.topic("t", (2, 1))
    yield
    leader_changes_its_isr_before(o, 2, "2")
    o.ask(made.alter_reassignments, {T0: (2, 3)})


def a_later_controller_wrote_the_states(o: Office) -> Iterator[None]:
    """They are not touched, although ZooKeeper would let it.

    answer NONE, t-0
    zk = /brokers/topics/t 0:3,2
    zk = /brokers/topics/t 0:3,2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 0.0 by 1 isr 2,3 of 3,2 offline 2
    answer NONE, t-0 NONE
    channel - 3
    """
    made = o.start(2, 3)
    o.topic("t", (2, 3))
    o.run()
    state = b'{"version":1,"leader":2,"leader_epoch":3,"isr":[2,3],"controller_epoch":9}'
    o.admin.set_or_create("/brokers/topics/t/partitions/0/state", state)
    yield
    o.ask(made.controlled_shutdown, 2, -1)
    o.ask(made.alter_reassignments, {T0: (3, 2)})
    o.leave(3)
