"""Topics that appear, grow and are to go: the watches on `/brokers/topics` and
`/admin/delete_topics`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from uuid import uuid4

from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.partition_machine import OFFLINE
from nodes.controller.parts import Parts
from nodes.coordination import znodes
from nodes.coordination.session import ChangeHandler, ChildChangeHandler
from nodes.core.partition_state_machine import PartitionState
from nodes.core.replica_state_machine import ReplicaState
from nodes.core.types import TopicPartition

log = logging.getLogger("kafka.controller.KafkaController")


class TopicChanges:
    """Event thread only, but for the watch callbacks, which enqueue."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._watched: set[str] = set()

    # ---- watches ---------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch the lists of topics and of deletions; the next reads arm them."""
        put = self._parts.put

        def topics_changed() -> None:
            put(Event("TopicChange", ControllerState.TOPIC_CHANGE, self._on_change))

        def deletions_changed() -> None:
            put(Event("TopicDeletion", ControllerState.TOPIC_DELETION, self._on_deletion))

        zk = self._parts.zk
        zk.register_znode_child_change_handler(ChildChangeHandler(znodes.TOPICS, topics_changed))
        zk.register_znode_child_change_handler(
            ChildChangeHandler(znodes.DELETE_TOPICS, deletions_changed)
        )

    def unwatch(self) -> None:
        zk = self._parts.zk
        zk.unregister_znode_child_change_handler(znodes.TOPICS)
        zk.unregister_znode_child_change_handler(znodes.DELETE_TOPICS)
        for topic in list(self._watched):
            self.mute(topic)

    def mute(self, topic: str) -> None:
        """Stop watching one topic's znode."""
        self._watched.discard(topic)
        self._parts.zk.unregister_znode_change_handler(znodes.topic_path(topic))

    def _watch_partitions(self, topics: Iterable[str]) -> None:
        for topic in topics:

            def changed(topic: str = topic) -> None:
                self._parts.put(
                    Event(
                        f"PartitionModifications({topic})",
                        ControllerState.TOPIC_CHANGE,
                        lambda: self._on_partition_modifications(topic),
                    )
                )

            self._watched.add(topic)
            self._parts.zk.register_znode_change_handler(
                ChangeHandler(znodes.topic_path(topic), data_changed=changed)
            )

    # ---- reading ---------------------------------------------------------------------------------

    def load(self, topics: Collection[str]) -> list[TopicPartition]:
        """Read topics into the context, and watch them. Topics without an id are given one."""
        context, zk = self._parts.context, self._parts.zk
        self._watch_partitions(topics)
        partitions = []
        for found in zk.get_replica_assignment_and_topic_id_for_topics(topics):
            topic_id = found.topic_id
            if topic_id is None:
                topic_id = uuid4()
                zk.set_topic_assignment(
                    found.topic, topic_id, found.assignment, context.epoch_zk_version
                )
            context.add_topic_id(found.topic, topic_id)
            for tp, assignment in found.assignment.items():
                context.update_assignment(tp, assignment)
                partitions.append(tp)
        return partitions

    # ---- events ----------------------------------------------------------------------------------

    def _on_change(self) -> None:
        if not self._parts.is_active():
            return
        context = self._parts.context
        topics = self._parts.zk.get_all_topics_in_cluster(register_watch=True)
        new, gone = topics - context.all_topics, context.all_topics - topics
        for topic in gone:
            context.remove_topic(topic)
        context.all_topics = topics
        partitions = self.load(sorted(new))
        log.info("New topics: %s, deleted topics: %s", sorted(new), sorted(gone))
        self._create_partitions(partitions)

    def _on_partition_modifications(self, topic: str) -> None:
        if not self._parts.is_active():
            return
        context, zk = self._parts.context, self._parts.zk
        assignment = zk.get_full_replica_assignment_for_topic(topic)
        added = [tp for tp in assignment if not context.partition_replica_assignment(tp)]
        if not added:
            return
        if context.is_topic_queued_up_for_deletion(topic):
            log.warning("Skipping adding partitions %s: their topic is being deleted", added)
            existing = zk.get_partition_ids(topic)
            kept = {
                tp: context.partition_full_replica_assignment(tp)
                for tp in assignment
                if tp.partition in existing
            }
            zk.set_topic_assignment(
                topic, context.topic_ids.get(topic), kept, context.epoch_zk_version
            )
            return
        for tp in added:
            context.update_assignment(tp, assignment[tp])
        self._create_partitions(added)

    def _create_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """NonExistent -> New -> Online, replicas in step."""
        if not partitions:
            return
        log.info("New partition creation callback for %s", ", ".join(map(str, partitions)))
        parts = self._parts
        replicas = parts.context.replicas_for_partitions(partitions)
        parts.partitions.handle_state_changes(partitions, PartitionState.NEW)
        parts.replicas.handle_state_changes(replicas, ReplicaState.NEW)
        parts.partitions.handle_state_changes(partitions, PartitionState.ONLINE, OFFLINE)
        parts.replicas.handle_state_changes(replicas, ReplicaState.ONLINE)

    def _on_deletion(self) -> None:
        if not self._parts.is_active():
            return
        context, parts = self._parts.context, self._parts
        asked = parts.zk.get_topic_deletions()
        unknown = asked - context.all_topics
        if unknown:
            log.warning("Ignoring request to delete non-existing topics %s", sorted(unknown))
            parts.zk.delete_topic_deletions(unknown, context.epoch_zk_version)
        topics = asked & context.all_topics
        if not topics:
            return
        log.info("Starting topic deletion for topics %s", sorted(topics))
        parts.deletions.enqueue(
            topics, moving={tp.topic for tp in context.partitions_being_reassigned}
        )
