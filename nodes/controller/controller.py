"""The controller of a broker: candidate, and sometimes the one (Kafka's KafkaController).

    candidate ──/controller was free, is ours──> active ──another's, or session over──> candidate

*Election.* One multi creates `/controller` and raises the controller epoch. The new controller
reads everything from ZooKeeper, opens its channels, tells all brokers who lives, every replica its
role, and elects leaders where there are none. Leader epochs of partitions that are in order stay as
they are, so brokers answer those LeaderAndIsr with error 11: routine.

*Zombie.* Cut off from ZooKeeper, the controller does not know whether it still is one. It does not
resign: send threads go on delivering (and repeating) what was queued, with the epochs of old;
answers are still processed; the event thread stands still at the first event that needs ZooKeeper.
Only when ZooKeeper is reached again does it learn: session alive, then nothing happened; expired,
then `Expire` empties the queue and it resigns before the next session begins. Two fences make this
safe: brokers refuse controller epochs older than one they have seen, and ZooKeeper refuses writes
that are conditioned on an old version of the controller epoch.

*Resignation* ends the channels (what they had not sent is dropped) and forgets everything.

All work is done by the event thread (`event_manager`); public methods only enqueue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from nodes.config import BrokerConfig
from nodes.controller.alter_partition import AlterPartitions
from nodes.controller.broker_changes import BrokerChanges
from nodes.controller.channel_manager import ControllerChannelManager
from nodes.controller.context import ControllerContext, PartitionAndReplica
from nodes.controller.controlled_shutdown import ControlledShutdowns
from nodes.controller.deletion import TopicDeletionManager
from nodes.controller.elections import Elections
from nodes.controller.event_manager import ControllerEventManager, ControllerState, Event
from nodes.controller.gauges import ControllerGauges
from nodes.controller.log_dirs import LogDirFailures
from nodes.controller.partition_machine import PartitionStateMachine
from nodes.controller.parts import Parts, send_update_metadata
from nodes.controller.reassignment import Reassignments
from nodes.controller.replica_machine import ReplicaStateMachine
from nodes.controller.request_batch import ControllerRequestBatch
from nodes.controller.responses import Responses
from nodes.controller.results import ElectionType, Result
from nodes.controller.state_writer import PartitionStateWriter
from nodes.controller.topic_changes import TopicChanges
from nodes.coordination import znodes
from nodes.coordination.errors import ControllerMoved, CoordinationError
from nodes.coordination.session import ChangeHandler, StateHandler
from nodes.coordination.zk import KafkaZkClient
from nodes.core.assignment import ReplicaAssignment
from nodes.core.batching import BatchNotEmpty
from nodes.core.brokers import Broker
from nodes.core.errors import Errors
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.metrics import Metrics
from nodes.trace import Trace

__all__ = ["ElectionType", "KafkaController", "Result"]

log = logging.getLogger("kafka.controller.KafkaController")

_FIRST_REBALANCE_S = 5.0
_NOBODY = -1


class KafkaController:
    """Every broker has one; at most one of them is active. All methods are thread-safe, none blocks
    on ZooKeeper but `shutdown`. `respond` callbacks are called exactly once: from the event thread
    or, when the event is dropped at the session's end, from the thread that noticed it."""

    def __init__(
        self,
        config: BrokerConfig,
        zk: KafkaZkClient,
        broker_info: Broker,
        trace: Trace,
        metrics: Metrics,
        rules: Rules = RULES,
        *,
        broker_epoch: int,
        now_ns: Callable[[], int],
    ) -> None:
        """`broker_epoch` is what the first registration answered; later ones are made here."""
        self._config = config
        self._zk = zk
        self._broker_info = broker_info
        self._trace = trace
        self._rules = rules
        self._broker_epoch = broker_epoch
        self._active_controller_id = _NOBODY
        self._rebalance_timer: threading.Timer | None = None
        self._context = ControllerContext()
        self._events = ControllerEventManager(self._process, metrics, now_ns=now_ns)
        self._gauges = ControllerGauges(metrics, lambda: self._events.state, lambda: self.is_active)
        self._parts = self._make_parts(metrics, now_ns)
        self._reassignments = Reassignments(self._parts, rules)
        self._elections = Elections(self._parts)
        self._brokers = BrokerChanges(self._parts, self._reassignments, rules)
        self._topics = TopicChanges(self._parts)
        self._log_dirs = LogDirFailures(self._parts)
        self._responses = Responses(self._parts, self._brokers.on_replicas_become_offline)
        self._alter_partitions = AlterPartitions(self._parts, self._reassignments)
        self._shutdowns = ControlledShutdowns(self._parts, rules)
        self._controller_handler = ChangeHandler(
            znodes.CONTROLLER,
            created=lambda: self._put_change("ControllerChange", self._maybe_resign),
            data_changed=lambda: self._put_change("ControllerChange", self._maybe_resign),
            deleted=lambda: self._put_change("Reelect", self._reelect),
        )

    def _make_parts(self, metrics: Metrics, now_ns: Callable[[], int]) -> Parts:
        config, context, zk, rules = self._config, self._context, self._zk, self._rules
        channels = ControllerChannelManager(config, self._trace, metrics, rules, now_ns=now_ns)

        def new_batch() -> ControllerRequestBatch:
            return ControllerRequestBatch(
                config,
                context,
                channels,
                self._on_response,
                rules,
                now_ns=now_ns,
            )

        def tell_all(tps: Iterable[TopicPartition]) -> None:
            send_update_metadata(batch, context.live_or_shutting_down_broker_ids, tps)

        batch = new_batch()
        states = PartitionStateWriter(context, zk, self._trace)
        partitions = PartitionStateMachine(config, context, zk, states, new_batch(), rules)
        replicas = ReplicaStateMachine(context, states, new_batch(), rules)
        return Parts(
            config=config,
            zk=zk,
            context=context,
            events=self._events,
            channels=channels,
            states=states,
            batch=batch,
            partitions=partitions,
            replicas=replicas,
            deletions=TopicDeletionManager(
                config,
                context,
                zk,
                replicas,
                partitions,
                rules,
                send_metadata=tell_all,
                mute=self._mute_topic,
            ),
            is_active=lambda: self.is_active,
        )

    def _on_response(
        self, api_key: int, broker_id: int, response: Any, said: Mapping[TopicPartition, Any]
    ) -> None:
        self._responses.on_response(api_key, broker_id, response, said)

    def _mute_topic(self, topic: str) -> None:
        self._topics.mute(topic)

    # ---- what others may ask ---------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return self._active_controller_id == self._config.broker_id

    @property
    def active_controller_id(self) -> int:
        """Who is the controller, as far as this broker knows; -1 for nobody."""
        return self._active_controller_id

    @property
    def controller_epoch(self) -> int:
        """Of this controller; 0 while it is not active."""
        return self._context.controller_epoch

    @property
    def broker_epoch(self) -> int:
        """Of this broker's current registration."""
        return self._broker_epoch

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        return self._context.is_topic_queued_up_for_deletion(topic)

    def controlled_shutdown(
        self,
        broker_id: int,
        broker_epoch: int,
        respond: Callable[[Errors, Collection[TopicPartition]], None],
    ) -> None:
        """respond(error, partitions that the broker still leads)."""
        self._shutdowns.shut_down(broker_id, broker_epoch, respond)

    def elect_leaders(
        self,
        election_type: int,
        partitions: Collection[TopicPartition] | None,
        respond: Callable[[Mapping[TopicPartition, Result]], None],
    ) -> None:
        """`partitions` None: all there are, leaving out those that need no election."""
        self._elections.elect_leaders(ElectionType(election_type), partitions, respond)

    def alter_partitions(self, request: Any, respond: Callable[[dict[str, Any]], None]) -> None:
        """`request`: AlterPartitionRequest v2 or v3. respond(fields of AlterPartitionResponse for
        ``codec.build``: throttle_time, error_code, topics)."""
        self._alter_partitions.alter(request, respond)

    def alter_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        respond: Callable[[Errors, Mapping[TopicPartition, Result]], None],
    ) -> None:
        """None cancels a reassignment. respond(top-level error, per partition)."""
        self._reassignments.alter(reassignments, respond)

    def list_reassignments(
        self,
        partitions: Collection[TopicPartition] | None,
        respond: Callable[[Errors, Mapping[TopicPartition, ReplicaAssignment]], None],
    ) -> None:
        """respond(top-level error, those that are being reassigned)."""
        self._reassignments.list(partitions, respond)

    def enable_topic_unclean_leader_election(self, topic: str) -> None:
        """Since now the topic's configuration allows it: elect where there is no leader."""

        def elect() -> None:
            if self.is_active and self._rules.heeds_what_is_allowed():
                self._parts.partitions.trigger_online_state_change(topic)

        state = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
        self._events.put(Event("TopicUncleanLeaderElectionEnable", state, elect))

    def set_unclean_leader_election(self, is_allowed: bool) -> None:
        """Of topics whose own configurations do not say."""

        def change() -> None:
            was_allowed = self._parts.partitions.unclean_by_default
            self._parts.partitions.unclean_by_default = is_allowed
            if is_allowed and not was_allowed and self.is_active:
                self._parts.partitions.trigger_online_state_change()

        state = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE
        self._events.put(Event("UncleanLeaderElectionEnable", state, change))

    # ---- life ------------------------------------------------------------------------------------

    def startup(self) -> None:
        """Stand for election. The broker is registered by now."""
        self._zk.register_state_change_handler(
            StateHandler(
                before_new_session=self._before_new_session,
                after_new_session=lambda: self._put_change(
                    "RegisterBrokerAndReelect", self._register_broker_and_reelect
                ),
            )
        )
        self._put_change("Startup", self._start)
        self._events.start()

    def shutdown(self) -> None:
        """Stop at the end of the current event; `/controller` goes with the session.

        An event that waits for ZooKeeper while it cannot be reached is given up.
        """
        self._zk.stop_waiting()
        self._events.close()
        self._active_controller_id, was_active = _NOBODY, self.is_active
        self._resign(was_active=was_active)
        self._gauges.close()

    def _put_change(self, name: str, run: Callable[[], None]) -> None:
        self._events.put(Event(name, ControllerState.CONTROLLER_CHANGE, run))

    def _before_new_session(self) -> None:
        """On ZooKeeper's connection thread: no new session before the old one's end is known."""
        expire = Event("Expire", ControllerState.CONTROLLER_CHANGE, self._expire)
        self._events.clear_and_put(expire).started.wait()

    # ---- events ----------------------------------------------------------------------------------

    def _process(self, event: Event) -> None:
        try:
            event.run()
        except ControllerMoved as moved:
            log.info("Controller moved to another broker when processing %s: %s", event.name, moved)
            self._maybe_resign()
        except BatchNotEmpty:
            log.exception("Forcing the controller to resign")
            self._trigger_controller_move()
        except CoordinationError as error:
            log.warning("Event %s was cut short: %s", event.name, type(error).__name__)
        except Exception:
            log.exception("Error processing event %s", event.name)
        finally:
            self._gauges.update(self._context, is_active=self.is_active)

    def _start(self) -> None:
        self._zk.register_znode_change_handler_and_check_existence(self._controller_handler)
        self._elect()

    def _reelect(self) -> None:
        self._maybe_resign()
        self._elect()

    def _expire(self) -> None:
        was_active, self._active_controller_id = self.is_active, _NOBODY
        self._resign(was_active=was_active)

    def _register_broker_and_reelect(self) -> None:
        if self._rules.registers_again():
            new_epoch = self._zk.register_broker(self._broker_info)
            self._broker_epoch = self._rules.known_broker_epoch(self._broker_epoch, new_epoch)
        self._reelect()

    # ---- election and resignation ----------------------------------------------------------------

    def _who_is_controller(self) -> int:
        controller_id = self._zk.get_controller_id()
        return _NOBODY if controller_id is None else controller_id

    def _maybe_resign(self) -> None:
        was_active = self.is_active
        self._zk.register_znode_change_handler_and_check_existence(self._controller_handler)
        self._active_controller_id = self._who_is_controller()
        if was_active and not self.is_active:
            self._resign(was_active=True)

    def _elect(self) -> None:
        self._active_controller_id = self._who_is_controller()
        if self._active_controller_id != _NOBODY:
            log.debug("Broker %d is the controller", self._active_controller_id)
            return
        broker_id = self._config.broker_id
        try:
            controller_epoch, epoch_zk_version = self._zk.register_controller(broker_id)
            self._context.controller_epoch = controller_epoch
            self._context.epoch_zk_version = epoch_zk_version
            self._active_controller_id = broker_id
            self._trace.event("controller", event="elected", controller_epoch=controller_epoch)
            log.info(
                "[Controller id=%d] %d successfully elected as the controller. Epoch incremented "
                "to %d and epoch zk version is now %d",
                broker_id,
                broker_id,
                controller_epoch,
                epoch_zk_version,
            )
            self._fail_over()
        except ControllerMoved as moved:
            log.info("Another broker was elected: %s", moved)
            self._maybe_resign()
        except CoordinationError:
            raise
        except Exception:
            log.exception("Error while electing or becoming controller")
            self._trigger_controller_move()

    def _trigger_controller_move(self) -> None:
        """Something is wrong with us: let another try."""
        self._active_controller_id = self._who_is_controller()
        if not self.is_active:
            log.warning("Controller has already moved when trying to trigger controller movement")
            return
        epoch_zk_version = self._context.epoch_zk_version
        self._active_controller_id = _NOBODY
        self._resign(was_active=True)
        try:
            self._zk.delete_controller(epoch_zk_version)
        except ControllerMoved:
            log.warning("Controller has already moved when trying to trigger controller movement")

    def _fail_over(self) -> None:
        """Learn everything, then tell everybody. Watches come first, so that nothing is missed."""
        parts, context = self._parts, self._context
        self._brokers.watch()
        self._topics.watch()
        self._log_dirs.watch()
        self._elections.watch()
        self._reassignments.watch()
        self._log_dirs.forget()
        self._load_context()
        deletions = self._zk.get_topic_deletions()
        parts.deletions.init(deletions, self._topics_ineligible_for_deletion())
        # Brokers need the list of live brokers before the roles that follow.
        parts.send_update_metadata(context.live_or_shutting_down_broker_ids, ())
        parts.replicas.startup()
        parts.partitions.startup()
        log.info(
            "[Controller id=%d] Ready to serve as the new controller with epoch %d",
            self._config.broker_id,
            context.controller_epoch,
        )
        started = self._reassignments.start_from_zk()
        self._reassignments.resume(lambda tp, _assignment: tp not in started)
        if self._rules.goes_on_with_deletions():
            parts.deletions.resume()
        self._elections.resume_from_zk()
        self._schedule_rebalance(_FIRST_REBALANCE_S)

    def _load_context(self) -> None:
        context, zk = self._context, self._zk
        context.set_live_brokers(zk.get_all_broker_and_epochs_in_cluster())
        context.all_topics = zk.get_all_topics_in_cluster(register_watch=True)
        for tp in self._topics.load(sorted(context.all_topics)):
            is_moving = context.partition_full_replica_assignment(tp).is_being_reassigned
            if is_moving and self._rules.goes_on_with_moves():
                context.partitions_being_reassigned.add(tp)
        self._brokers.watch_modifications(context.live_or_shutting_down_broker_ids)
        context.leadership.update(zk.get_topic_partition_states(context.all_partitions))
        self._parts.channels.startup(context.live_brokers.values())

    def _topics_ineligible_for_deletion(self) -> set[str]:
        context = self._context

        def is_offline(replica: PartitionAndReplica) -> bool:
            return not context.is_replica_online(replica.replica, replica.tp)

        with_offline_replicas = {r.tp.topic for r in context.all_replicas() if is_offline(r)}
        return with_offline_replicas | {tp.topic for tp in context.partitions_being_reassigned}

    def _resign(self, *, was_active: bool) -> None:
        """Stop watching, end the channels, forget. Harmless for one who was not active."""
        controller_epoch = self._context.controller_epoch
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
            self._rebalance_timer = None
        self._elections.unwatch()
        self._reassignments.unwatch()
        self._topics.unwatch()
        self._log_dirs.unwatch()
        self._brokers.unwatch()
        self._parts.channels.shutdown()
        self._parts.partitions.shutdown()
        self._parts.replicas.shutdown()
        self._parts.batch.clear()
        self._context.reset()
        if was_active:
            self._trace.event("controller", event="resigned", controller_epoch=controller_epoch)
            log.info("[Controller id=%d] Resigned", self._config.broker_id)

    # ---- auto.leader.rebalance -------------------------------------------------------------------

    def _schedule_rebalance(self, delay_s: float) -> None:
        if not self._config.auto_leader_rebalance_enable:
            return
        event = Event(
            "AutoPreferredReplicaLeaderElection",
            ControllerState.AUTO_LEADER_BALANCE,
            self._rebalance,
        )
        timer = threading.Timer(delay_s, lambda: self._events.put(event) and None)
        timer.daemon = True
        timer.name = "auto-leader-rebalance-task"
        self._rebalance_timer = timer
        timer.start()

    def _rebalance(self) -> None:
        if not self.is_active:
            return
        try:
            self._elections.rebalance()
        finally:
            if self.is_active:
                self._schedule_rebalance(self._config.leader_imbalance_check_interval_seconds)
