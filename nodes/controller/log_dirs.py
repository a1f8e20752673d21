"""Brokers that lost a log directory say so below `/log_dir_event_notification` (KIP-112).

What lay there they do not say. So the controller sends them a LeaderAndIsr for all of their
replicas; their answers tell which of them are gone (`nodes.controller.responses`).
"""

from __future__ import annotations

import logging

from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.parts import Parts
from nodes.coordination import znodes
from nodes.coordination.session import ChildChangeHandler
from nodes.core.replica_state_machine import ReplicaState

log = logging.getLogger("kafka.controller.KafkaController")


class LogDirFailures:
    """Event thread only, but for the watch callback, which enqueues."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def watch(self) -> None:
        """The next read of the notifications arms it."""

        def changed() -> None:
            event = Event(
                "LogDirEventNotification", ControllerState.LOG_DIR_CHANGE, self._on_events
            )
            self._parts.put(event)

        self._parts.zk.register_znode_child_change_handler(
            ChildChangeHandler(znodes.LOG_DIR_EVENTS, changed)
        )

    def unwatch(self) -> None:
        self._parts.zk.unregister_znode_child_change_handler(znodes.LOG_DIR_EVENTS)

    def forget(self) -> None:
        """Who takes office asks everybody about everything anyway."""
        self._delete(self._parts.zk.get_log_dir_events())

    def _delete(self, names: list[str]) -> None:
        self._parts.zk.delete_log_dir_events(names, self._parts.context.epoch_zk_version)

    def _on_events(self) -> None:
        parts = self._parts
        if not parts.is_active():
            return
        names = parts.zk.get_log_dir_events()
        try:
            brokers = parts.zk.get_brokers_of_log_dir_events(names)
            log.info(
                "[Controller id=%d] Handling log directory failure for brokers %s",
                parts.config.broker_id,
                ",".join(map(str, sorted(brokers))),
            )
            replicas = parts.context.replicas_on_brokers(brokers)
            parts.replicas.handle_state_changes(replicas, ReplicaState.ONLINE)
        finally:
            self._delete(names)
