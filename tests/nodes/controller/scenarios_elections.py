"""Elections that somebody asks for (KafkaController.processReplicaLeaderElection,
checkAndTriggerAutoLeaderRebalance, processTopicUncleanLeaderElectionEnable) and ISRs that leaders
ask for (processAlterPartition)."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from nodes.controller.controller import KafkaController
from nodes.controller.event_manager import ControllerState, Event
from nodes.core.types import TopicPartition
from tests.nodes.controller.transcript import Office

T0, T1, T2, T3 = (TopicPartition("t", p) for p in range(4))
PREFERRED, UNCLEAN = 0, 1


def led_elsewhere(o: Office, *replicas: tuple[int, ...]) -> None:
    """A topic "t" of which broker 2 leads nothing, since it was away, and all are in sync again."""
    o.topic("t", *replicas)
    o.run()
    o.leave(2)
    o.run()
    o.join(2)
    o.run()
    for partition, of in enumerate(replicas):
        if 2 in of and len(of) > 1:
            leader = next(r for r in of if r != 2)
            o.alter_isr(leader, f"t-{partition}", of)


def rebalance(made: KafkaController) -> None:
    """What happens every ``leader.imbalance.check.interval.seconds``."""
    state = ControllerState.AUTO_LEADER_BALANCE
    made._events.put(Event("AutoPreferredReplicaLeaderElection", state, made._rebalance))


def preferred(o: Office) -> Iterator[None]:
    """An answer for each partition; those that are elected keep their ISR.

    zk = t-0 @2 leader 2 epoch 2 isr 2,1 by 1
    zk = t-2 @2 leader 2 epoch 2 isr 2,3 by 1
    1.1 > 1 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.3 by 1 isr 2,1 of 2,1
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.3 by 1 isr 2,1 of 2,1; t-2 leader 2
        epoch 2.3 by 1 isr 2,3 of 2,3
    1.1 > 3 LeaderAndIsr leaders 2: t-2 leader 2 epoch 2.3 by 1 isr 2,3 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 2.3 by 1 isr 2,1 of 2,1; t-2
        leader 2 epoch 2.3 by 1 isr 2,3 of 2,3
    answer dying-0 INVALID_TOPIC_EXCEPTION, t-0 NONE leader 2, t-1 ELECTION_NOT_NEEDED, t-2 NONE
        leader 2, t-3 UNKNOWN_TOPIC_OR_PARTITION
    """
    made = o.start(2, 3)
    led_elsewhere(o, (2, 1), (1, 2), (2, 3))
    o.topic("dying", (1, 2))
    o.run()
    o.admin.create_delete_topic_path("dying")
    yield
    wanted = [T0, T1, T2, T3, TopicPartition("dying", 0)]
    o.ask(made.elect_leaders, PREFERRED, wanted)


def preferred_of_all(o: Office) -> Iterator[None]:
    """Those that need none are not named.

    zk = t-0 @2 leader 2 epoch 2 isr 2,1 by 1
    zk = t-2 @2 leader 2 epoch 2 isr 2,3 by 1
    1.1 > 1 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.3 by 1 isr 2,1 of 2,1
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.3 by 1 isr 2,1 of 2,1; t-2 leader 2
        epoch 2.3 by 1 isr 2,3 of 2,3
    1.1 > 3 LeaderAndIsr leaders 2: t-2 leader 2 epoch 2.3 by 1 isr 2,3 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 2.3 by 1 isr 2,1 of 2,1; t-2
        leader 2 epoch 2.3 by 1 isr 2,3 of 2,3
    answer t-0 NONE leader 2, t-2 NONE leader 2
    """
    made = o.start(2, 3)
    led_elsewhere(o, (2, 1), (1, 2), (2, 3))
    yield
    o.ask(made.elect_leaders, PREFERRED, None)


def preferred_that_cannot_be(o: Office) -> Iterator[None]:
    """One who is not in the ISR, or takes its leave.

    answer t-0 PREFERRED_LEADER_NOT_AVAILABLE, t-1 PREFERRED_LEADER_NOT_AVAILABLE
    """
    made = o.start(2, 3)
    o.topic("t", (2, 3), (2, 3))
    o.run()
    o.leave(2)
    o.run()
    o.join(2)
    o.run()
    o.alter_isr(3, "t-1", (2, 3))
    o.ask(made.controlled_shutdown, 2, -1)
    yield
    o.ask(made.elect_leaders, PREFERRED, [T0, T1])


def preferred_through_zookeeper(o: Office) -> Iterator[None]:
    """The znode goes when it is done, also when it names what is not there; twice.

    zk = t-0 @2 leader 2 epoch 2 isr 2,1 by 1
    1.1 > 1,2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.3 by 1 isr 2,1 of 2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 2.3 by 1 isr 2,1 of 2,1
    zk - /admin/preferred_replica_election
    zk - /admin/preferred_replica_election
    """
    o.start(2, 3)
    led_elsewhere(o, (2, 1), (1, 2))
    yield
    for wish in (b'[{"topic":"t","partition":0},{"topic":"t","partition":9}]', b"[]"):
        o.admin.set_or_create(
            "/admin/preferred_replica_election", b'{"version":1,"partitions":' + wish + b"}"
        )
        o.run()


def unclean(o: Office) -> Iterator[None]:
    """Only where no leader lives: whoever lives, alone in the ISR and recovering.

    zk = t-0 @2 leader 3 epoch 3 isr 3 by 1 recovering
    zk = t-3 @2 leader 3 epoch 3 isr 3 by 1 recovering
    1.1 > 3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3 recovering; t-3
        leader 3 epoch 3.3 by 1 isr 3 of 3,2 recovering
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3 offline 2; t-3
        leader 3 epoch 3.3 by 1 isr 3 of 3,2 offline 2
    answer t-0 NONE leader 3, t-1 ELIGIBLE_LEADERS_NOT_AVAILABLE, t-2 ELECTION_NOT_NEEDED, t-3
        NONE leader 3
    """
    made = o.start(2, 3)
    o.topic("t", (2, 3), (2,), (3, 1), (3, 2))
    o.run()
    for leaving in (3, 2):
        o.leave(leaving)
        o.run()
    o.join(3)
    yield
    o.ask(made.elect_leaders, UNCLEAN, [T0, T1, T2, T3])


def unclean_for_who_takes_its_leave(o: Office) -> Iterator[None]:
    """A leader that is shutting down is none that lives: who lives leads in its place.

    zk = t-0 @1 leader 3 epoch 1 isr 3 by 1 recovering
    1.1 > 3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 1.2 by 1 isr 3 of 2,3 recovering
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 1.2 by 1 isr 3 of 2,3 offline 2
    answer t-0 NONE leader 3
    """
    made = o.start(2, 3)
    o.topic("t", (2, 3))
    o.run()
    o.alter_isr(2, "t-0", (2,))
    o.ask(made.controlled_shutdown, 2, -1)
    yield
    o.ask(made.elect_leaders, UNCLEAN, [T0])


def unclean_where_it_is_allowed(o: Office) -> Iterator[None]:
    """By the topic's configuration, as soon as that says so. A leader that has recovered says so
    with its ISR.

    zk = t-0 @2 leader 3 epoch 3 isr 3 by 1 recovering
    1.1 > 3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3 recovering
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3 offline 2
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3 offline 2
    answer NONE, 0 leader 3 epoch 3.3 isr 3 recovering
    zk = t-0 @3 leader 3 epoch 3 isr 3 by 1
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 3 epoch 3.4 by 1 isr 3 of 2,3 offline 2
    answer NONE, 0 leader 3 epoch 3.4 isr 3
    channel + 2
    1.1 > 1,3 UpdateMetadata live 1,2,3
    1.1 > 2 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 3.4 by 1 isr 3 of 2,3; u-0 leader -1
        epoch 2.2 by 1 isr 2 of 2,3
    1.1 > 2 LeaderAndIsr leaders 3: t-0 leader 3 epoch 3.4 by 1 isr 3 of 2,3; u-0 leader -1
        epoch 2.2 by 1 isr 2 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 3.4 by 1 isr 3 of 2,3; u-0 leader
        -1 epoch 2.2 by 1 isr 2 of 2,3
    zk = u-0 @2 leader 2 epoch 3 isr 2 by 1
    1.1 > 2,3 LeaderAndIsr leaders 2: u-0 leader 2 epoch 3.3 by 1 isr 2 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: u-0 leader 2 epoch 3.3 by 1 isr 2 of 2,3
    zk = t-0 @4 leader 3 epoch 3 isr 3,2 by 1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 3.5 by 1 isr 3,2 of 2,3
    answer NONE, 0 leader 3 epoch 3.5 isr 3,2
    """
    made = o.start(2, 3)
    for topic in ("t", "u"):
        o.topic(topic, (2, 3))
    o.run()
    for leaving in (3, 2):
        o.leave(leaving)
        o.run()
    o.join(3)
    o.run()
    config = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
    o.admin.set_or_create("/config/topics/t", config)
    yield
    made.enable_topic_unclean_leader_election("t")
    o.run()
    o.alter_isr(3, "t-0", (3,), leader_recovery_state=1)
    o.alter_isr(3, "t-0", (3,))
    o.join(2)
    o.run()
    o.alter_isr(3, "t-0", (3, 2))


def unclean_by_the_brokers_configuration(o: Office) -> Iterator[None]:
    """Which a topic's overrides.

    channel + 3
    1.1 > 1 UpdateMetadata live 1,3
    1.1 > 3 UpdateMetadata live 1,3: t-0 leader -1 epoch 2.2 by 1 isr 2 of 2,3 offline 2; u-0
        leader -1 epoch 2.2 by 1 isr 2 of 2,3 offline 2
    1.1 > 3 LeaderAndIsr leaders : t-0 leader -1 epoch 2.2 by 1 isr 2 of 2,3; u-0 leader -1
        epoch 2.2 by 1 isr 2 of 2,3
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader -1 epoch 2.2 by 1 isr 2 of 2,3 offline 2; u-0
        leader -1 epoch 2.2 by 1 isr 2 of 2,3 offline 2
    zk = t-0 @2 leader 3 epoch 3 isr 3 by 1 recovering
    1.1 > 3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3 recovering
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3 offline 2
    """
    o.start(2, 3, **{"unclean.leader.election.enable": "true"})
    for topic in ("t", "u"):
        o.topic(topic, (2, 3))
    o.run()
    config = b'{"version":1,"config":{"unclean.leader.election.enable":"false"}}'
    o.admin.set_or_create("/config/topics/u", config)
    o.leave(3)
    o.run()
    o.leave(2)
    yield
    o.join(3)


def asked_of_another(o: Office) -> Iterator[None]:
    """Every question is answered NOT_CONTROLLER.

    answer t-0 NOT_CONTROLLER
    answer none
    answer NOT_CONTROLLER
    answer NOT_CONTROLLER, none
    answer NOT_CONTROLLER, none
    """
    o.start(2)
    other = o.candidate(3)
    o.topic("t", (2, 1))
    yield
    o.ask(other.elect_leaders, PREFERRED, [T0])
    o.ask(other.elect_leaders, PREFERRED, None)
    o.alter_isr(2, "t-0", (2,), by=3)
    o.ask(other.alter_reassignments, {T0: (1,)})
    o.ask(other.list_reassignments, None)


def by_itself(o: Office) -> Iterator[None]:
    """Where more than the limit of what prefers a broker is led elsewhere, what it can lead;
    nothing of dying topics.

    zk = half-0 @2 leader 3 epoch 2 isr 1,3 by 1
    1.1 > 1,3 LeaderAndIsr leaders 3: half-0 leader 3 epoch 2.3 by 1 isr 1,3 of 3,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: half-0 leader 3 epoch 2.3 by 1 isr 1,3 of 3,1
    """
    made = o.start(2, 3, **{"leader.imbalance.per.broker.percentage": "50"})
    led_elsewhere(o, (2, 1), (2, 3), (2,))
    o.topic("half", (3, 1), (3, 2))
    o.topic("dying", (2, 3))
    o.run()
    o.admin.create_delete_topic_path("dying")
    o.run()
    o.leave(3)
    o.run()
    o.join(3)
    o.run()
    o.alter_isr(1, "half-0", (1, 3))
    o.alter_isr(2, "half-1", (2,))
    yield
    rebalance(made)


def by_itself_up_to_the_limit(o: Office) -> Iterator[None]:
    """Not more than it."""
    made = o.start(2, **{"leader.imbalance.per.broker.percentage": "50"})
    led_elsewhere(o, (2, 1), (2,))
    yield
    rebalance(made)


# ---- AlterPartition ------------------------------------------------------------------------------


def isr_shrinks_and_grows(o: Office) -> Iterator[None]:
    """Written over the epoch that the leader saw, its leader epoch as it was; all brokers are told.
    What is the case already is confirmed, and told again.

    zk = t-0 @0 leader 2 epoch 0 isr 2 by 1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.1 by 1 isr 2 of 2,1
    answer NONE, 0 leader 2 epoch 0.1 isr 2
    zk = t-0 @1 leader 2 epoch 0 isr 2,1 by 1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.2 by 1 isr 2,1 of 2,1
    answer NONE, 0 leader 2 epoch 0.2 isr 2,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.2 by 1 isr 2,1 of 2,1
    answer NONE, 0 leader 2 epoch 0.2 isr 2,1
    """
    o.start(2)
    o.topic("t", (2, 1), (2, 1))
    yield
    o.alter_isr(2, "t-0", (2,))
    o.alter_isr(2, "t-0", (2, 1))
    o.alter_isr(2, "t-0", (2, 1), partition_epoch=0)


def isrs_that_are_refused(o: Office) -> Iterator[None]:
    """Each with its own error, of the partition or of the request.

    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.1 by 1 isr 2,1 of 2,1,3 offline 3
    answer NONE, 0 NOT_CONTROLLER
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.1 by 1 isr 2,1 of 2,1,3 offline 3
    answer NONE, 0 NOT_CONTROLLER
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.1 by 1 isr 2,1 of 2,1,3 offline 3
    answer NONE, 0 FENCED_LEADER_EPOCH
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.1 by 1 isr 2,1 of 2,1,3 offline 3
    answer NONE, 0 INVALID_UPDATE_VERSION
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.1 by 1 isr 2,1 of 2,1,3 offline 3
    answer NONE, 0 INELIGIBLE_REPLICA
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.1 by 1 isr 2,1 of 2,1,3 offline 3
    answer NONE, 0 INVALID_REQUEST
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.1 by 1 isr 2,1 of 2,1,3 offline 3
    answer NONE, 0 INVALID_REQUEST
    answer STALE_BROKER_EPOCH
    answer STALE_BROKER_EPOCH
    answer STALE_BROKER_EPOCH
    1.1 > 1,2 UpdateMetadata live 1,2
    answer NONE, 0 UNKNOWN_TOPIC_ID
    1.1 > 1,2 UpdateMetadata live 1,2
    answer NONE, 1 UNKNOWN_TOPIC_OR_PARTITION
    """
    o.start(2, 3)
    o.topic("t", (2, 1, 3))
    o.run()
    o.alter_isr(2, "t-0", (2, 1))
    o.leave(3)
    o.run()
    epoch = o.zookeeper.nodes["/brokers/ids/2"].czxid
    yield
    o.alter_isr(2, "t-0", (2,), leader_epoch=2)
    o.alter_isr(2, "t-0", (2,), partition_epoch=9)
    o.alter_isr(2, "t-0", (2,), leader_epoch=-1)
    o.alter_isr(2, "t-0", (2,), partition_epoch=0)
    o.alter_isr(2, "t-0", (2, 1, 3))
    o.alter_isr(2, "t-0", (2, 1), leader_recovery_state=1)
    o.alter_isr(2, "t-0", (2,), leader_recovery_state=1)
    o.alter_isr(2, "t-0", (2,), broker_epoch=epoch - 1)
    o.alter_isr(2, "t-0", (2,), broker_epoch=epoch + 1)
    o.alter_isr(9, "t-0", (2,))
    o.alter_isr(2, "t-0", (2,), topic_id=UUID(int=9))
    o.alter_isr(2, "t-1", (2,))


def isr_with_who_takes_its_leave(o: Office) -> Iterator[None]:
    """Only without it.

    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2,1 of 2,3,1 offline
        3
    answer NONE, 0 INELIGIBLE_REPLICA
    zk = t-0 @1 leader 2 epoch 1 isr 2 by 1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.2 by 1 isr 2 of 2,3,1 offline 3
    answer NONE, 0 leader 2 epoch 1.2 isr 2
    """
    made = o.start(2, 3)
    o.topic("t", (2, 3, 1))
    o.run()
    o.ask(made.controlled_shutdown, 3, -1)
    yield
    o.alter_isr(2, "t-0", (2, 3, 1))
    o.alter_isr(2, "t-0", (2,))


def isr_that_was_written_by_somebody_else(o: Office) -> Iterator[None]:
    """A znode of another version than the controller knew.

    zk = t-0 @0 leader 2 epoch 0 isr 2 by 1 -> BadVersionError
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    answer NONE, 0 INVALID_UPDATE_VERSION
    """
    o.start(2)
    o.topic("t", (2, 1))
    o.run()
    state = o.zookeeper.nodes["/brokers/topics/t/partitions/0/state"].data
    yield
    o.admin.set_or_create("/brokers/topics/t/partitions/0/state", state)
    o.alter_isr(2, "t-0", (2,), partition_epoch=0)
