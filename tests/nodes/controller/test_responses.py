"""What follows from brokers' answers (KafkaController.processLeaderAndIsrResponseReceived and
processTopicDeletionStopReplicaResponseReceived), without a cluster: which of them count at all."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from nodes.controller.context import ControllerContext, PartitionAndReplica
from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.parts import Parts
from nodes.controller.responses import Responses
from nodes.core.batching import StopReplicaEntry
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import build

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = UUID(int=7)
BROKER = 2


class Controller:
    """As much of one as answers meet. `events` are run by `run`; `done`: what followed."""

    def __init__(self) -> None:
        self.is_active = True
        self.context = ControllerContext()
        self.context.add_topic_id("t", ID)
        self.context.topics_to_be_deleted = {"t"}
        self.context.topics_with_deletion_started = {"t"}
        self.events: list[Event] = []
        self.done: dict[str, list[PartitionAndReplica]] = {}
        deletions = SimpleNamespace(fail=self._note("failed"), complete=self._note("deleted"))
        parts = SimpleNamespace(
            config=SimpleNamespace(broker_id=1),
            context=self.context,
            put=self.events.append,
            is_active=lambda: self.is_active,
            deletions=deletions,
        )
        self.responses = Responses(cast(Parts, parts), self._note("offline"))

    def _note(self, what: str) -> Any:
        def note(replicas: Any) -> None:
            if replicas:
                self.done.setdefault(what, []).extend(replicas)

        return note

    def stopped(self, errors: dict[TopicPartition, int], said: Any, error: int = 0) -> None:
        rows = [
            {"topic_name": tp.topic, "partition_index": tp.partition, "error_code": code}
            for tp, code in errors.items()
        ]
        entity = build(
            response_class(ApiKey.STOP_REPLICA, 4), error_code=error, partition_errors=rows
        )
        self.responses.on_response(ApiKey.STOP_REPLICA, BROKER, entity, said)

    def ordered(self, errors: dict[int, int], error: int = 0, topic_id: UUID = ID) -> None:
        rows = [{"partition_index": p, "error_code": code} for p, code in errors.items()]
        entity = build(
            response_class(ApiKey.LEADER_AND_ISR, 7),
            error_code=error,
            topics=[{"topic_id": topic_id, "partition_errors": rows}],
        )
        self.responses.on_response(ApiKey.LEADER_AND_ISR, BROKER, entity, {})

    def told(self, error: int) -> None:
        entity = build(response_class(ApiKey.UPDATE_METADATA, 8), error_code=error)
        self.responses.on_response(ApiKey.UPDATE_METADATA, BROKER, entity, {})

    def run(self) -> None:
        for event in self.events:
            event.run()
        self.events.clear()


@pytest.fixture
def controller() -> Controller:
    return Controller()


def on(*tps: TopicPartition) -> list[PartitionAndReplica]:
    return [PartitionAndReplica(tp, BROKER) for tp in tps]


DELETE, STOP = StopReplicaEntry(-2, True), StopReplicaEntry(5, False)

# ---- StopReplica ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [Errors.NONE, Errors.STALE_BROKER_EPOCH])
def test_each_replica_is_deleted_or_failed(controller: Controller, error: Errors) -> None:
    """By its own error; and all have failed where the whole request has."""
    storage = int(Errors.KAFKA_STORAGE_ERROR)
    controller.stopped({T0: 0, T1: storage}, {T0: DELETE, T1: DELETE}, int(error))
    (event,) = controller.events
    assert event.state is ControllerState.TOPIC_DELETION
    controller.run()
    expected = {"failed": on(T0, T1)} if error else {"deleted": on(T0), "failed": on(T1)}
    assert controller.done == expected


@pytest.mark.parametrize("queued", [True, False])
def test_a_replica_of_a_topic_whose_deletion_has_not_begun_is_no_deleted_one(
    controller: Controller, queued: bool
) -> None:
    """A reassignment deletes replicas, too, and the topic's own deletion may wait for its end
    (isTopicDeletionInProgress)."""
    controller.context.topics_with_deletion_started = set()
    if not queued:
        controller.context.topics_to_be_deleted = set()
    controller.stopped({T0: 0, T1: 1}, {T0: DELETE, T1: DELETE})
    controller.run()
    assert controller.done == {}


def test_what_was_only_stopped_is_not_deleted(controller: Controller) -> None:
    controller.stopped({T0: 0, T1: 0}, {T0: STOP, T1: DELETE})
    controller.run()
    assert controller.done == {"deleted": on(T1)}
    controller.stopped({T0: 0}, {T0: STOP})
    assert controller.events == [], "nobody waits for it"


def test_answers_after_the_office_was_lost_count_no_more(controller: Controller) -> None:
    """Also those that were queued while it was still held."""
    controller.stopped({T0: 0, T1: 1}, {T0: DELETE, T1: DELETE})
    controller.ordered({0: int(Errors.KAFKA_STORAGE_ERROR)})
    assert len(controller.events) == 2
    controller.is_active = False
    controller.run()
    assert controller.done == {}
    assert controller.context.replicas_on_offline_dirs == {}


# ---- LeaderAndIsr --------------------------------------------------------------------------------


@pytest.mark.parametrize("error", set(Errors) - {Errors.NONE}, ids=lambda error: error.name)
def test_only_a_broken_disk_makes_a_replica_offline(controller: Controller, error: Errors) -> None:
    """The routine STALE_CONTROLLER_EPOCH of a failover above all does not."""
    controller.ordered({0: int(error), 1: 0})
    (event,) = controller.events
    assert event.state is ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED
    controller.run()
    broken = error is Errors.KAFKA_STORAGE_ERROR
    assert controller.done == ({"offline": on(T0)} if broken else {})
    assert controller.context.replicas_on_offline_dirs[BROKER] == ({T0} if broken else set())


def test_a_replica_is_offline_once_and_until_it_is_well(
    controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    """And is said to be so each time that it becomes it, with those that do at once."""
    storage = int(Errors.KAFKA_STORAGE_ERROR)
    both = {0: storage, 1: storage}
    with caplog.at_level(logging.INFO, "state.change.logger"):
        for errors in ({0: storage, 1: 0}, both, {1: 11}, both, {0: 0, 1: 0}, {}, both):
            controller.ordered(errors)
            controller.run()
    says = "[Controller id=1] Mark replicas"
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", f"{says} {which} on broker {BROKER} as offline")
        for which in ("t-0", "t-1", "t-0,t-1")
    ]
    assert controller.done == {"offline": on(T0, T1, T0, T1)}
    assert controller.context.replicas_on_offline_dirs[BROKER] == {T0, T1}


def test_topics_that_are_gone_are_nobodys(controller: Controller) -> None:
    controller.ordered({0: int(Errors.KAFKA_STORAGE_ERROR)}, topic_id=UUID(int=8))
    controller.run()
    assert controller.done == {}


# ---- what is only said ---------------------------------------------------------------------------


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("api", ["LeaderAndIsr", "UpdateMetadata", "StopReplica"])
@pytest.mark.parametrize("error", [0, 11, 77, 57])
def test_a_refusal_is_logged_and_changes_nothing(
    controller: Controller, caplog: pytest.LogCaptureFixture, api: str, error: int, active: bool
) -> None:
    """ERROR, by name, with the answer as Kafka prints it: of the two that are not about a deletion,
    while the office is held. No error is not worth a line."""
    controller.is_active = active
    with caplog.at_level(logging.INFO, "state.change.logger"):
        if api == "LeaderAndIsr":
            controller.ordered({0: 0}, error)
        elif api == "StopReplica":
            controller.stopped({T0: 0}, {T0: STOP}, error)
        else:
            controller.told(error)
    lines = [(r.levelname, r.getMessage()) for r in caplog.records]
    if error:
        assert controller.events == []
    if not error or not active or api == "StopReplica":
        assert lines == []
        return
    ((level, text),) = lines
    assert level == "ERROR"
    names = {11: "STALE_CONTROLLER_EPOCH", 77: "STALE_BROKER_EPOCH"}
    start = f"[Controller id=1] Received error {names.get(error, error)} in {api} response "
    assert text.startswith(f"{start}{api}ResponseData(errorCode={error}")
    assert text.endswith(f") from broker {BROKER}")
