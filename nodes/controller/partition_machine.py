"""Moves partitions between their states, and does what each move entails (ZkPartitionStateMachine).

    -> New       nothing
    New -> Online      first leader and ISR: the first live replica, and all live ones
    Online/Offline -> Online   an election (see nodes.core.election), by the strategy given
    -> Offline, -> NonExistent   nothing

A new leader is written to ZooKeeper first; only then are the replicas told, in one batch at the end
of the call. When the znode changed in between (a leader altered its ISR), the election is held
again over the new state.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from nodes.config import BrokerConfig
from nodes.controller.context import ControllerContext
from nodes.controller.request_batch import ControllerRequestBatch
from nodes.controller.results import StateChangeFailed
from nodes.controller.state_writer import PartitionStateWriter
from nodes.coordination.errors import ControllerMoved
from nodes.coordination.zk import KafkaZkClient
from nodes.core.election import (
    elect_for_reassignment,
)
from nodes.core.leader_and_isr import LeaderAndIsr
from nodes.core.partition_state_machine import PartitionState, is_valid_transition
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition

log = logging.getLogger("state.change.logger")

UNCLEAN_CONFIG: Final = "unclean.leader.election.enable"


class Occasion(Enum):
    """Why an election is held."""

    OFFLINE = "offline"
    REASSIGN = "reassign"
    PREFERRED_REPLICA = "preferred replica"
    CONTROLLED_SHUTDOWN = "controlled shutdown"


@dataclass(frozen=True, slots=True)
class ElectionStrategy:
    """`allow_unclean` overrides the topics' own configuration (an administrator asked for it)."""

    occasion: Occasion
    allow_unclean: bool = False


OFFLINE: Final = ElectionStrategy(Occasion.OFFLINE)
REASSIGN: Final = ElectionStrategy(Occasion.REASSIGN)
PREFERRED_REPLICA: Final = ElectionStrategy(Occasion.PREFERRED_REPLICA)
CONTROLLED_SHUTDOWN: Final = ElectionStrategy(Occasion.CONTROLLED_SHUTDOWN)

Outcomes = dict[TopicPartition, LeaderAndIsr | Exception]


@dataclass(frozen=True, slots=True)
class _Election:
    """A decision not yet written: the new state and whom to tell."""

    state: LeaderAndIsr
    recipients: tuple[int, ...]


class PartitionStateMachine:
    """Event thread only."""

    def __init__(
        self,
        config: BrokerConfig,
        context: ControllerContext,
        zk: KafkaZkClient,
        states: PartitionStateWriter,
        batch: ControllerRequestBatch,
        rules: Rules = RULES,
    ) -> None:
        self.unclean_by_default = config.unclean_leader_election_enable
        self._context = context
        self._zk = zk
        self._states = states
        self._batch = batch
        self._rules = rules

    def startup(self) -> None:
        """After a failover: find out each partition's state, elect where there is no leader."""
        context = self._context
        for tp in context.all_partitions:
            if context.partition_leadership_info(tp) is None:
                state = PartitionState.NEW
            elif context.is_replica_online(context.leader_of(tp), tp):
                state = PartitionState.ONLINE
            else:
                state = PartitionState.OFFLINE
            context.partition_states[tp] = state
        self.trigger_online_state_change()

    def shutdown(self) -> None:
        self._batch.clear()

    def trigger_online_state_change(self, topic: str | None = None) -> Outcomes:
        """Try to bring every new or offline partition online (of one topic, or of all), but for
        dying topics'."""
        waiting = self._context.partitions_in_states(PartitionState.OFFLINE)
        if self._rules.tries_new_ones():
            waiting += self._context.partitions_in_states(PartitionState.NEW)
        return self.handle_state_changes(
            [
                tp
                for tp in waiting
                if topic in (None, tp.topic)
                and not self._context.is_topic_queued_up_for_deletion(tp.topic)
            ],
            PartitionState.ONLINE,
            OFFLINE,
        )

    def handle_state_changes(
        self,
        partitions: Iterable[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy = OFFLINE,
    ) -> Outcomes:
        """Move partitions and tell the brokers. Answers what came of each election."""
        wanted = list(partitions)
        if not wanted:
            return {}
        try:
            self._batch.new_batch()
            outcomes = self._change(wanted, target, strategy)
            self._batch.send()
        except ControllerMoved:
            self._batch.clear()
            raise
        except Exception as error:
            log.exception("Error while moving some partitions to %s", target.name)
            self._batch.clear()
            return dict.fromkeys(wanted, error)
        return outcomes

    def _change(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        strategy: ElectionStrategy,
    ) -> Outcomes:
        states = self._context.partition_states
        valid = []
        for tp in partitions:
            current = states.setdefault(tp, PartitionState.NON_EXISTENT)
            if is_valid_transition(current, target):
                valid.append(tp)
            else:
                log.error("Partition %s cannot go from %s to %s", tp, current.name, target.name)
        if target is not PartitionState.ONLINE:
            for tp in valid:
                states[tp] = target
            return {}
        # Told apart beforehand: the first become Online by being initialised.
        new = [tp for tp in valid if states[tp] is PartitionState.NEW]
        elected = [tp for tp in valid if states[tp] is not PartitionState.NEW]
        self._initialize(new)
        return self._elect(elected, strategy)

    # ---- New -> Online ---------------------------------------------------------------------------

    def _initialize(self, partitions: Sequence[TopicPartition]) -> None:
        context = self._context
        first_states: dict[TopicPartition, LeaderAndIsr] = {}
        for tp in partitions:
            replicas = context.partition_replica_assignment(tp)
            live = tuple(r for r in replicas if context.is_replica_online(r, tp))
            if live:
                first_states[tp] = LeaderAndIsr(live[0], self._rules.first_in_sync(live, replicas))
            else:
                log.error("No assigned replica of %s is alive: %s", tp, replicas)
        if not first_states:
            return
        written = self._states.create(first_states)
        for tp, state in written.states.items():
            context.partition_states[tp] = PartitionState.ONLINE
            self._batch.add_leader_and_isr(
                state.leader_and_isr.isr,
                tp,
                state,
                context.partition_full_replica_assignment(tp),
                is_new=True,
            )
        for tp, error in written.errors.items():
            log.error("Partition %s stays New: %r", tp, error)

    # ---- elections -------------------------------------------------------------------------------

    def _elect(self, partitions: Sequence[TopicPartition], strategy: ElectionStrategy) -> Outcomes:
        outcomes: Outcomes = {}
        remaining = list(partitions)
        while remaining:
            current, errors = self._states.read(remaining)
            outcomes.update(
                (tp, StateChangeFailed(f"No state of {tp} in ZooKeeper: {error!r}"))
                if not isinstance(error, StateChangeFailed)
                else (tp, error)
                for tp, error in errors.items()
            )
            elections = self._decide(current, strategy)
            for tp in current.keys() - elections.keys():
                outcomes[tp] = StateChangeFailed(
                    f"Failed to elect leader for partition {tp} ({strategy.occasion.value})"
                )
            written = self._states.update({tp: e.state for tp, e in elections.items()})
            outcomes.update(written.errors)
            for tp, state in written.states.items():
                outcomes[tp] = state.leader_and_isr
                self._context.partition_states[tp] = PartitionState.ONLINE
                self._batch.add_leader_and_isr(
                    elections[tp].recipients,
                    tp,
                    state,
                    self._context.partition_full_replica_assignment(tp),
                    is_new=False,
                )
            remaining = written.retry
        for tp, outcome in outcomes.items():
            if isinstance(outcome, Exception):
                log.error("Partition %s: %s", tp, outcome)
        return outcomes

    def _decide(
        self, current: Mapping[TopicPartition, LeaderAndIsr], strategy: ElectionStrategy
    ) -> dict[TopicPartition, _Election]:
        elections = {}
        for tp, state in current.items():
            election = self._decide_one(tp, state, strategy)
            if election is not None:
                elections[tp] = election
        return elections

    def _decide_one(
        self, tp: TopicPartition, state: LeaderAndIsr, strategy: ElectionStrategy
    ) -> _Election | None:
        context = self._context
        assignment = context.partition_full_replica_assignment(tp)
        replicas = assignment.replicas
        live = tuple(r for r in replicas if context.is_replica_online(r, tp))
        recipients = live
        match strategy.occasion:
            case Occasion.OFFLINE:
                unclean = strategy.allow_unclean
                if not unclean and not set(state.isr) & set(live):
                    unclean = self._unclean_allowed(tp.topic)
                elected = self._rules.elect_for_offline(
                    state, replicas, live, unclean_allowed=unclean
                )
            case Occasion.REASSIGN:
                recipients = assignment.target_replicas
                elected = elect_for_reassignment(state, recipients, live)
            case Occasion.PREFERRED_REPLICA:
                recipients = replicas
                elected = self._rules.elect_preferred(state, replicas, live)
            case Occasion.CONTROLLED_SHUTDOWN:
                recipients = tuple(
                    r
                    for r in replicas
                    if context.is_replica_online(r, tp, include_shutting_down=True)
                )
                elected = self._rules.elect_for_controlled_shutdown(
                    state, replicas, recipients, context.shutting_down_broker_ids
                )
        if elected is None:
            return None
        leader_epoch = self._rules.elected_leader_epoch(state.leader_epoch, elected.leader_epoch)
        return _Election(dataclasses.replace(elected, leader_epoch=leader_epoch), recipients)

    def _unclean_allowed(self, topic: str) -> bool:
        configured = self._zk.get_topic_configs(topic).get(UNCLEAN_CONFIG)
        if configured is None:
            return self.unclean_by_default
        return configured.lower() == "true"
