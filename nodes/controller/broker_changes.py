"""Brokers that come, go and bounce.

The watch on `/brokers/ids` only says that something changed; what changed is the difference between
the registrations now and those last seen. A registration with a higher czxid for a known id is a
*bounce*: the broker died and returned between two looks. It is treated as a failure followed by a
startup, because its state is gone; the channel is rebuilt first, since requests in the old one
carry the old broker epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from nodes.controller.context import PartitionAndReplica
from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.parts import Parts
from nodes.controller.reassignment import Reassignments
from nodes.coordination import znodes
from nodes.coordination.session import ChangeHandler, ChildChangeHandler
from nodes.core.leader_and_isr import LeaderAndIsr
from nodes.core.partition_state_machine import PartitionState
from nodes.core.replica_state_machine import ReplicaState
from nodes.core.rules import RULES, Rules

log = logging.getLogger("kafka.controller.KafkaController")


class BrokerChanges:
    """Event thread only, but for the watch callbacks, which enqueue."""

    def __init__(self, parts: Parts, reassignments: Reassignments, rules: Rules = RULES) -> None:
        self._parts = parts
        self._rules = rules
        self._reassignments = reassignments
        self._watched: set[int] = set()

    # ---- watches ---------------------------------------------------------------------------------

    def watch(self) -> None:
        """Watch the registrations; the next read of them arms it."""

        def changed() -> None:
            self._parts.put(Event("BrokerChange", ControllerState.BROKER_CHANGE, self._on_change))

        self._parts.zk.register_znode_child_change_handler(
            ChildChangeHandler(znodes.BROKER_IDS, changed)
        )

    def watch_modifications(self, broker_ids: Iterable[int]) -> None:
        """Watch registrations for new endpoints."""
        for broker_id in broker_ids:
            path = znodes.broker_id_path(broker_id)

            def changed(broker_id: int = broker_id) -> None:
                self._parts.put(
                    Event(
                        f"BrokerModifications({broker_id})",
                        ControllerState.BROKER_CHANGE,
                        lambda: self._on_modification(broker_id),
                    )
                )

            self._parts.zk.register_znode_change_handler_and_check_existence(
                ChangeHandler(path, data_changed=changed)
            )
            self._watched.add(broker_id)

    def unwatch(self) -> None:
        self._unwatch_modifications(list(self._watched))
        self._parts.zk.unregister_znode_child_change_handler(znodes.BROKER_IDS)

    def _unwatch_modifications(self, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            self._watched.discard(broker_id)
            self._parts.zk.unregister_znode_change_handler(znodes.broker_id_path(broker_id))

    # ---- events ----------------------------------------------------------------------------------

    def _on_change(self) -> None:
        if not self._parts.is_active():
            return
        context, channels = self._parts.context, self._parts.channels
        now = self._parts.zk.get_all_broker_and_epochs_in_cluster()
        known = dict(context.broker_epochs)
        new = sorted(now.keys() - known.keys())
        dead = sorted(known.keys() - now.keys())
        bounced = sorted(i for i in now.keys() & known.keys() if now[i][1] > known[i])
        log.info(
            "[Controller id=%d] Newly added brokers: %s, deleted brokers: %s, bounced brokers: %s, "
            "all live brokers: %s",
            self._parts.config.broker_id,
            *(",".join(map(str, ids)) for ids in (new, dead, bounced, sorted(now))),
        )
        for broker_id in new:
            channels.add_broker(now[broker_id][0])
        for broker_id in bounced:
            channels.remove_broker(broker_id)
        for broker_id in bounced:
            channels.add_broker(now[broker_id][0])
        for broker_id in dead:
            channels.remove_broker(broker_id)
        if new:
            context.add_live_brokers({i: now[i] for i in new})
            self._on_startup(new)
        if bounced:
            if self._rules.fails_when_bounced():
                context.remove_live_brokers(bounced)
                self._on_failure(bounced)
            context.add_live_brokers({i: now[i] for i in bounced})
            self._on_startup(bounced)
        if dead:
            context.remove_live_brokers(dead)
            self._on_failure(dead)

    def _on_modification(self, broker_id: int) -> None:
        if not self._parts.is_active():
            return
        context = self._parts.context
        now = self._parts.zk.get_broker(broker_id)
        known = context.live_brokers.get(broker_id)
        if now is not None and known is not None and now.endpoints != known.endpoints:
            log.info("Updated broker metadata: %s -> %s", known, now)
            context.live_brokers[broker_id] = now
            self._parts.send_update_metadata(context.live_or_shutting_down_broker_ids, ())

    # ---- what follows ----------------------------------------------------------------------------

    def _on_startup(self, new: Collection[int]) -> None:
        """Everybody hears of the new brokers; those hear of everything, then get their roles."""
        parts, context = self._parts, self._parts.context
        for broker_id in new:
            context.replicas_on_offline_dirs.pop(broker_id, None)
        existing = [i for i in context.live_or_shutting_down_broker_ids if i not in new]
        parts.send_update_metadata(existing, ())
        all_partitions = context.partitions_with_leaders
        parts.send_update_metadata(
            new, all_partitions if self._rules.tells_all_to_who_comes() else ()
        )
        replicas = context.replicas_on_brokers(new)
        parts.replicas.handle_state_changes(replicas, ReplicaState.ONLINE)
        parts.partitions.trigger_online_state_change()
        self._reassignments.resume(
            lambda _tp, assignment: bool(set(assignment.target_replicas) & set(new))
        )
        if self._rules.goes_on_for_who_comes():
            parts.deletions.resume_for({r.tp.topic for r in replicas})
        self.watch_modifications(new)

    def _on_failure(self, dead: Collection[int]) -> None:
        context = self._parts.context
        for broker_id in dead:
            context.replicas_on_offline_dirs.pop(broker_id, None)
            context.shutting_down_broker_ids.discard(broker_id)
        self.on_replicas_become_offline(context.replicas_on_brokers(dead))
        self._unwatch_modifications(dead)

    def on_replicas_become_offline(self, replicas: Collection[PartitionAndReplica]) -> None:
        """Elect for what they led, then take them out of the ISRs, then halt deletions."""
        parts, context = self._parts, self._parts.context
        dying = [r for r in replicas if context.is_topic_queued_up_for_deletion(r.tp.topic)]
        others = [r for r in replicas if not context.is_topic_queued_up_for_deletion(r.tp.topic)]
        parts.partitions.handle_state_changes(
            context.partitions_with_offline_leader, PartitionState.OFFLINE
        )
        outcomes = parts.partitions.trigger_online_state_change()
        parts.replicas.handle_state_changes(others, ReplicaState.OFFLINE)
        parts.deletions.fail(dying)
        if not others and not any(isinstance(o, LeaderAndIsr) for o in outcomes.values()):
            # Nothing has told the brokers yet that some of them are gone.
            parts.send_update_metadata(context.live_or_shutting_down_broker_ids, ())
