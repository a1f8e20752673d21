"""Deletes topics, for as long as that takes (Kafka's TopicDeletionManager).

A topic is queued by a child of `/admin/delete_topics`. Then, for all of its replicas:

    UpdateMetadata (leader -2) -> StopReplica -> StopReplica(delete) -> all answered: znodes removed

A replica that is down or answers with an error becomes DeletionIneligible and *halts* its topic; so
does a reassignment in progress. The topic is tried again when the broker is back, or when the
reassignment is over. The znodes go last, so that a controller that fails in the middle leaves
enough for its successor to continue.

Where this differs from Kafka 3.9: there KafkaController.processTopicDeletion halts a topic that is
being moved *before* it is queued, TopicDeletionManager.markTopicIneligibleForDeletion takes only
what is queued, and so the topic goes at once, while it moves. What is meant is done here; clients
see the same, a little later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from nodes.config import BrokerConfig
from nodes.controller.context import ControllerContext, PartitionAndReplica
from nodes.controller.partition_machine import PartitionStateMachine
from nodes.controller.replica_machine import ReplicaStateMachine
from nodes.coordination.zk import KafkaZkClient
from nodes.core.partition_state_machine import PartitionState
from nodes.core.replica_state_machine import ReplicaState
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition

log = logging.getLogger("kafka.controller.TopicDeletionManager")


class TopicDeletionManager:
    """Event thread only. `send_metadata` tells all brokers about partitions; `mute` stops watching
    a topic's znode, before it is removed."""

    def __init__(
        self,
        config: BrokerConfig,
        context: ControllerContext,
        zk: KafkaZkClient,
        replicas: ReplicaStateMachine,
        partitions: PartitionStateMachine,
        rules: Rules = RULES,
        *,
        send_metadata: Callable[[Iterable[TopicPartition]], None],
        mute: Callable[[str], None],
    ) -> None:
        self._enabled = config.delete_topic_enable
        self._context = context
        self._zk = zk
        self._replicas = replicas
        self._partitions = partitions
        self._rules = rules
        self._send_metadata = send_metadata
        self._mute = mute

    def init(self, queued: Collection[str], ineligible: Collection[str]) -> None:
        """After a failover."""
        if self._enabled:
            self._context.topics_to_be_deleted |= set(queued)
            self._context.topics_ineligible_for_deletion |= set(queued) & set(ineligible)
        else:
            self._zk.delete_topic_deletions(queued, self._context.epoch_zk_version)

    def enqueue(self, topics: Collection[str], *, moving: Collection[str]) -> None:
        """Topics that were asked to be deleted; those whose partitions are `moving` must wait."""
        if self._enabled:
            self._context.topics_to_be_deleted |= set(topics)
            self.halt(set(topics) & set(moving), "topic reassignment in progress")
            self.resume()
        else:
            self._zk.delete_topic_deletions(topics, self._context.epoch_zk_version)

    def resume_for(self, topics: Collection[str]) -> None:
        """What halted these topics is over."""
        resumable = set(topics) & self._context.topics_to_be_deleted
        if resumable:
            self._context.topics_ineligible_for_deletion -= resumable
            self.resume()

    def halt(self, topics: Collection[str], reason: str) -> None:
        """Do not try to delete these for now; nothing happens to topics that are not queued."""
        halted = set(topics) & self._context.topics_to_be_deleted
        self._context.topics_ineligible_for_deletion |= halted
        if halted:
            log.info("Halted deletion of topics %s due to %s", sorted(halted), reason)

    def fail(self, replicas: Iterable[PartitionAndReplica]) -> None:
        """These could not be deleted: their broker is down, or answered with an error."""
        failed = self._of_dying_topics(replicas)
        if failed:
            self._replicas.handle_state_changes(failed, ReplicaState.DELETION_INELIGIBLE)
            self.halt({r.tp.topic for r in failed}, "replica deletion failure")
            self.resume()

    def complete(self, replicas: Iterable[PartitionAndReplica]) -> None:
        """These have been deleted by their brokers."""
        deleted = self._of_dying_topics(replicas)
        self._replicas.handle_state_changes(deleted, ReplicaState.DELETION_SUCCESSFUL)
        self.resume()

    def _of_dying_topics(
        self, replicas: Iterable[PartitionAndReplica]
    ) -> list[PartitionAndReplica]:
        return [r for r in replicas if self._context.is_topic_queued_up_for_deletion(r.tp.topic)]

    def resume(self) -> None:
        """Take every queued topic as far as it gets."""
        context = self._context
        retry, eligible = [], []
        for topic in sorted(context.topics_to_be_deleted):
            deleted = len(context.replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL))
            if self._rules.deletion_is_complete(deleted, len(context.replicas_for_topic(topic))):
                self._complete_topic(topic)
                continue
            started = context.is_any_replica_in_state(topic, ReplicaState.DELETION_STARTED)
            if not started and context.is_any_replica_in_state(
                topic, ReplicaState.DELETION_INELIGIBLE
            ):
                retry.append(topic)
            if not started and topic not in context.topics_ineligible_for_deletion:
                eligible.append(topic)
        for topic in retry:
            ineligible = context.replicas_in_state(topic, ReplicaState.DELETION_INELIGIBLE)
            self._replicas.handle_state_changes(ineligible, ReplicaState.OFFLINE)
        if eligible:
            self._start(eligible)

    def _complete_topic(self, topic: str) -> None:
        context = self._context
        self._mute(topic)
        deleted = context.replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL)
        self._replicas.handle_state_changes(deleted, ReplicaState.NON_EXISTENT)
        self._zk.delete_topic_znode(topic, context.epoch_zk_version)
        if self._rules.deletes_settings():
            self._zk.delete_topic_configs([topic], context.epoch_zk_version)
        self._zk.delete_topic_deletions([topic], context.epoch_zk_version)
        context.remove_topic(topic)
        log.info("Deletion of topic %s successfully completed", topic)

    def _start(self, topics: Collection[str]) -> None:
        context = self._context
        unseen = set(topics) - context.topics_with_deletion_started
        partitions = [tp for topic in sorted(unseen) for tp in context.partitions_for_topic(topic)]
        self._partitions.handle_state_changes(partitions, PartitionState.OFFLINE)
        self._partitions.handle_state_changes(partitions, PartitionState.NON_EXISTENT)
        context.topics_with_deletion_started |= unseen
        self._send_metadata(tp for topic in topics for tp in context.partitions_for_topic(topic))
        dead, alive = [], []
        for topic in topics:
            for replica in context.replicas_for_topic(topic):
                if not context.is_replica_online(replica.replica, replica.tp):
                    dead.append(replica)
                elif context.replica_state(replica) is not ReplicaState.DELETION_SUCCESSFUL:
                    alive.append(replica)
        self._replicas.handle_state_changes(dead, ReplicaState.DELETION_INELIGIBLE)
        self._replicas.handle_state_changes(alive, ReplicaState.OFFLINE)
        self._replicas.handle_state_changes(alive, ReplicaState.DELETION_STARTED)
        self.halt({r.tp.topic for r in dead}, "offline replicas")
