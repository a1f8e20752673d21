"""Leader elections that somebody asked for, and the periodic return to preferred leaders.

Asked for by an administrator's ElectLeaders request, or through the znode
`/admin/preferred_replica_election`, which is removed when done. By itself the controller looks
every `leader.imbalance.check.interval.seconds` whether some broker leads too few of the partitions
that prefer it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.partition_machine import (
    PREFERRED_REPLICA,
    ElectionStrategy,
    Occasion,
    Outcomes,
)
from nodes.controller.parts import Parts
from nodes.controller.results import ElectionType, Result, StateChangeFailed, why_unanswered
from nodes.coordination import znodes
from nodes.coordination.errors import ControllerMoved
from nodes.coordination.session import ChangeHandler
from nodes.core.election import elect_preferred
from nodes.core.errors import Errors
from nodes.core.leader_and_isr import LeaderAndIsr
from nodes.core.partition_state_machine import PartitionState
from nodes.core.types import TopicPartition

log = logging.getLogger("kafka.controller.KafkaController")

Respond = Callable[[Mapping[TopicPartition, Result]], None]


class Elections:
    """Event thread only, but for `elect_leaders` and the watch callback, which enqueue."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._handler = ChangeHandler(znodes.PREFERRED_REPLICA_ELECTION, created=self._put_from_zk)

    # ---- asked for by a request ------------------------------------------------------------------

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None,
        respond: Respond,
    ) -> None:
        """Any thread. None: all partitions, and no word about those that need no election."""

        def refuse(error: Errors) -> None:
            respond({tp: Result(error) for tp in partitions or ()})

        def run() -> None:
            if not self._parts.is_active():
                refuse(Errors.NOT_CONTROLLER)
                return
            wanted = self._parts.context.all_partitions if partitions is None else partitions
            try:
                results = self._elect(election_type, wanted)
            except Exception as error:
                # Kafka lets the request time out; who asked is better served by an answer.
                refuse(why_unanswered(error))
                raise
            if partitions is None:
                results = {
                    tp: r for tp, r in results.items() if r.error is not Errors.ELECTION_NOT_NEEDED
                }
            respond(results)

        self._parts.put(
            Event(
                f"ReplicaLeaderElection({election_type.name})",
                ControllerState.MANUAL_LEADER_BALANCE,
                run,
                lambda: refuse(Errors.NOT_CONTROLLER),
            )
        )

    def _elect(
        self, election_type: ElectionType, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Result]:
        context = self._parts.context
        known = set(context.all_partitions)
        results: dict[TopicPartition, Result] = {}
        electable = []
        for tp in partitions:
            if tp not in known:
                results[tp] = Result(
                    Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
                )
            elif context.is_topic_queued_up_for_deletion(tp.topic):
                results[tp] = Result(Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
            elif self._has_valid_leader(election_type, tp):
                results[tp] = Result(Errors.ELECTION_NOT_NEEDED)
            else:
                electable.append(tp)
        strategy = PREFERRED_REPLICA
        unavailable = Errors.PREFERRED_LEADER_NOT_AVAILABLE
        if election_type is ElectionType.UNCLEAN:
            strategy = ElectionStrategy(Occasion.OFFLINE, allow_unclean=True)
            unavailable = Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
        for tp, outcome in self._hold(electable, strategy).items():
            if isinstance(outcome, LeaderAndIsr):
                results[tp] = Result(leader=outcome.leader)
            elif isinstance(outcome, StateChangeFailed):
                results[tp] = Result(unavailable, str(outcome))
            else:
                results[tp] = Result(Errors.UNKNOWN_SERVER_ERROR, repr(outcome))
        return results

    def _has_valid_leader(self, election_type: ElectionType, tp: TopicPartition) -> bool:
        leader = self._parts.context.leader_of(tp)
        if election_type is ElectionType.PREFERRED:
            return leader == self._parts.context.partition_replica_assignment(tp)[0]
        return self._parts.context.is_live(leader)

    def _hold(self, partitions: Collection[TopicPartition], strategy: ElectionStrategy) -> Outcomes:
        return self._parts.partitions.handle_state_changes(
            partitions, PartitionState.ONLINE, strategy
        )

    # ---- asked for through ZooKeeper -------------------------------------------------------------

    def watch(self) -> None:
        """Watch for the znode to appear. It may be there already: `resume_from_zk` reads it."""
        self._parts.zk.register_znode_change_handler_and_check_existence(self._handler)

    def unwatch(self) -> None:
        self._parts.zk.unregister_znode_change_handler(znodes.PREFERRED_REPLICA_ELECTION)

    def _put_from_zk(self) -> None:
        self._parts.put(
            Event(
                "ReplicaLeaderElection(zookeeper)",
                ControllerState.MANUAL_LEADER_BALANCE,
                self._on_znode,
            )
        )

    def _on_znode(self) -> None:
        if self._parts.is_active():
            self.resume_from_zk()

    def resume_from_zk(self) -> None:
        """Hold the election that the znode asks for, if it is there; then remove it."""
        zk = self._parts.zk
        if not zk.register_znode_change_handler_and_check_existence(self._handler):
            return
        try:
            results = self._elect(ElectionType.PREFERRED, zk.get_preferred_replica_election())
            log.info("Preferred replica election through ZooKeeper: %s", results)
        finally:
            zk.delete_preferred_replica_election(self._parts.context.epoch_zk_version)
        # Arm the watch again for the next one.
        zk.register_znode_change_handler_and_check_existence(self._handler)

    # ---- the controller's own wish ---------------------------------------------------------------

    def rebalance(self) -> None:
        """Elect preferred leaders for brokers that lead too few of "their" partitions."""
        parts, context = self._parts, self._parts.context
        preferring: dict[int, list[TopicPartition]] = {}
        for tp in context.all_partitions:
            replicas = context.partition_replica_assignment(tp)
            if replicas and not context.is_topic_queued_up_for_deletion(tp.topic):
                preferring.setdefault(replicas[0], []).append(tp)
        threshold = parts.config.leader_imbalance_per_broker_percentage / 100
        for broker_id, partitions in preferring.items():
            # Who has never had a leader counts among all, and is nobody else's.
            elsewhere = [
                tp
                for tp in partitions
                if context.partition_leadership_info(tp) and context.leader_of(tp) != broker_id
            ]
            if len(elsewhere) / len(partitions) <= threshold:
                continue
            candidates = [tp for tp in elsewhere if self._can_lead(broker_id, tp)]
            for tp, outcome in self._hold(candidates, PREFERRED_REPLICA).items():
                if isinstance(outcome, ControllerMoved):
                    raise outcome
                log.info("Auto leader rebalance of %s: %s", tp, outcome)

    def _can_lead(self, broker_id: int, tp: TopicPartition) -> bool:
        context = self._parts.context
        live = [broker_id] if context.is_replica_online(broker_id, tp) else []
        state = context.leadership[tp].leader_and_isr
        return elect_preferred(state, context.partition_replica_assignment(tp), live) is not None
