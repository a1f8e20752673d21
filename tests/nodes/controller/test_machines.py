"""Every move of a replica and of a partition, from every state: what becomes of it and what is said
(ReplicaStateMachine.doHandleStateChanges, PartitionStateMachine.doHandleStateChanges), against a
table of Kafka's own."""

from __future__ import annotations

import itertools

import pytest

from nodes.controller.context import PartitionAndReplica
from nodes.controller.partition_machine import OFFLINE
from nodes.core.partition_state_machine import PartitionState as P
from nodes.core.replica_state_machine import ReplicaState as R
from nodes.core.types import TopicPartition
from tests.nodes.controller.transcript import Office

T0 = TopicPartition("t", 0)
LED_BY = {"nobody": None, "it": 2, "another": 3}

LAWFUL = {
    R.NEW: {R.NON_EXISTENT},
    R.ONLINE: {R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE},
    R.OFFLINE: {R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE},
    R.DELETION_STARTED: {R.OFFLINE},
    R.DELETION_SUCCESSFUL: {R.DELETION_STARTED},
    R.NON_EXISTENT: {R.DELETION_SUCCESSFUL},
    R.DELETION_INELIGIBLE: {R.OFFLINE, R.DELETION_STARTED},
}
"""ReplicaState.validPreviousStates."""


def said_of(source: R, target: R, led_by: str) -> list[str]:
    """What Kafka says of a lawful move of replica 2; broker 3 has the other replica."""
    leader = LED_BY[led_by]
    role = f"t-0 leader {leader} epoch 0.0 by 1 isr 2,3 of 2,3"
    metadata = f"1.1 > 1,2,3 UpdateMetadata live 1,2,3: {role}"
    roles = f"1.1 > 2 LeaderAndIsr leaders {leader}: {role}"
    match target:
        case R.NEW if led_by == "another":
            return [roles + " new", metadata]
        case R.ONLINE if leader is not None and source is not R.NEW:
            return [roles, metadata]
        case R.OFFLINE if leader is None:
            return ["1.1 > 1,2,3 UpdateMetadata live 1,2,3", "1.1 > 2 StopReplica: t-0 epoch -1"]
        case R.OFFLINE:
            new = -1 if led_by == "it" else 3
            after = f"t-0 leader {new} epoch 1.1 by 1 isr 3 of 2,3"
            leaders = "" if new < 0 else new
            return [
                f"zk = t-0 @0 leader {new} epoch 1 isr 3 by 1",
                f"1.1 > 3 LeaderAndIsr leaders {leaders}: {after}",
                f"1.1 > 1,2,3 UpdateMetadata live 1,2,3: {after}",
                "1.1 > 2 StopReplica: t-0 epoch 0",
            ]
        case R.DELETION_STARTED:
            return [f"1.1 > 2 StopReplica: t-0 epoch {-1 if leader is None else 0} delete"]
        case _:
            return []


@pytest.mark.parametrize("led_by", LED_BY)
@pytest.mark.parametrize(("source", "target"), itertools.product(R, R))
def test_every_move_of_a_replica(
    source: R, target: R, led_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(monkeypatch)
    made = office.start(2, 3)
    order = (3, 2) if led_by == "another" else (2, 3)
    office.topic("t", order)
    office.run()
    context, replica = made._parts.context, PartitionAndReplica(T0, 2)
    context.assignments["t"][0] = type(context.assignments["t"][0])((2, 3))
    if led_by == "nobody":
        del context.leadership[T0]
    elif led_by == "another":
        isr = dict(office.zookeeper.nodes)["/brokers/topics/t/partitions/0/state"]
        assert b'"isr":[3,2]' in isr.data
        data = isr.data.replace(b"[3,2]", b"[2,3]")
        path = "/brokers/topics/t/partitions/0/state"
        office.zookeeper.nodes[path] = type(isr)(
            data, isr.czxid, isr.mzxid, isr.pzxid, isr.version, isr.cversion
        )
        context.leadership.update(made._zk.get_topic_partition_states([T0]))
    context.replica_states[replica] = source
    office.told()
    made._parts.replicas.handle_state_changes([replica], target)
    lawful = source in LAWFUL[target] and not (target is R.NEW and led_by == "it")
    assert office.told() == (said_of(source, target, led_by) if lawful else [])
    assert context.replica_state(replica) is (target if lawful else source)
    gone = lawful and target is R.NON_EXISTENT
    assert context.partition_replica_assignment(T0) == ((3,) if gone else (2, 3))


def test_a_dead_replica_begins_as_one_that_could_not_be_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ReplicaStateMachine.initializeReplicaState: whatever comes of taking it offline."""
    office = Office(monkeypatch)
    made = office.start(2)
    office.topic("t", (2, 9))
    office.run()
    moves: list[tuple[R, R]] = []
    context, replicas = made._parts.context, made._parts.replicas

    def note(changed: list[PartitionAndReplica], target: R) -> None:
        moves.extend((context.replica_state(r), target) for r in changed)

    monkeypatch.setattr(replicas, "handle_state_changes", note)
    replicas.startup()
    assert moves == [(R.ONLINE, R.ONLINE), (R.DELETION_INELIGIBLE, R.OFFLINE)]


LAWFUL_OF_PARTITIONS = {
    P.NEW: {P.NON_EXISTENT},
    P.ONLINE: {P.NEW, P.ONLINE, P.OFFLINE},
    P.OFFLINE: {P.NEW, P.ONLINE, P.OFFLINE},
    P.NON_EXISTENT: {P.OFFLINE},
}
"""PartitionState.validPreviousStates."""


@pytest.mark.parametrize(("source", "target"), itertools.product(P, P))
def test_every_move_of_a_partition(source: P, target: P, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who comes online is written and told: as new from New, by an election otherwise."""
    office = Office(monkeypatch)
    made = office.start(2, 3)
    office.topic("t", (2, 3))
    office.run()
    context = made._parts.context
    if source is P.NEW:
        made._zk.delete_recursive("/brokers/topics/t/partitions")
        del context.leadership[T0]
    context.partition_states[T0] = source
    office.told()
    made._parts.partitions.handle_state_changes([T0], target, OFFLINE)
    lawful = source in LAWFUL_OF_PARTITIONS[target]
    assert context.partition_state(T0) is (target if lawful else source)
    told = office.told()
    if not lawful or target is not P.ONLINE:
        assert told == []
        return
    epoch, new = ("0.0", " new") if source is P.NEW else ("1.1", "")
    role = f"t-0 leader 2 epoch {epoch} by 1 isr 2,3 of 2,3"
    assert told[-2:] == [
        f"1.1 > 2,3 LeaderAndIsr leaders 2: {role}{new}",
        f"1.1 > 1,2,3 UpdateMetadata live 1,2,3: {role}",
    ]


@pytest.mark.parametrize("machine", ["replicas", "partitions"])
def test_what_an_error_left_behind_goes_out_with_nothing_else(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that was cut short is dropped as a whole: nothing of it is said then, nor with the
    next one, which goes as if nothing had been."""
    office = Office(monkeypatch)
    made = office.start(2, 3)
    office.topic("t", (2, 3), (3, 2))
    office.run()
    office.told()
    replica = PartitionAndReplica(T0, 2)
    parts = made._parts
    of_machine = getattr(parts, machine)
    real = of_machine._batch.send

    def fail() -> None:
        assert of_machine._batch._batch
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(of_machine._batch, "send", fail)
    if machine == "replicas":
        parts.replicas.handle_state_changes([replica], R.ONLINE)
    else:
        outcomes = parts.partitions.handle_state_changes([T0], P.ONLINE, OFFLINE)
        assert isinstance(outcomes[T0], RuntimeError)
    monkeypatch.setattr(of_machine._batch, "send", real)
    assert all(line.startswith("zk ") for line in office.told())
    other = TopicPartition("t", 1)
    if machine == "replicas":
        parts.replicas.handle_state_changes([PartitionAndReplica(other, 3)], R.ONLINE)
    else:
        parts.partitions.handle_state_changes([other], P.ONLINE, OFFLINE)
    sent = [line for line in office.told() if ">" in line]
    assert sent
    assert all("t-1" in line and "t-0" not in line for line in sent)
    assert made.is_active


def test_the_znode_of_a_topic_that_is_gone_is_watched_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TopicDeletionManager.completeDeleteTopic, ``mutePartitionModifications``: before the znode
    goes, or its end would be taken for a change of its partitions."""
    office = Office(monkeypatch)
    office.start(2)
    office.topic("t", (2, 1))
    office.topic("kept", (2, 1))
    office.run()
    handlers = office.sessions[1].change_handlers
    assert {"/brokers/topics/t", "/brokers/topics/kept"} <= handlers.keys()
    watched: list[bool] = []
    office.before_write(4, lambda: watched.append("/brokers/topics/t" in handlers))
    office.admin.create_delete_topic_path("t")
    office.run()
    office.answer()
    assert watched == [False], "by the first of its znodes that goes"
    assert "/brokers/topics/kept" in handlers
