"""The broker's view of ZooKeeper: one method a question or decision (Kafka's KafkaZkClient).

Two kinds of write. *Anybody's* (a broker's registration, a topic's creation) are conditioned at
most on the znode itself. *The controller's* take `epoch_zk_version`, the version of
`/controller_epoch` that its election left behind, and are refused with `ControllerMoved` once
another controller has been elected: a controller that was cut off cannot overwrite its successor.

Calls block until answered and wait out disconnections (see `nodes.coordination.session`); all are
thread-safe, none may be made from a watch callback. kazoo's NoNodeError and kin are raised where
the caller has to decide about them; reads of what may be absent answer None or leave it out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from nodes.coordination import znodes
from nodes.coordination.access import ZNodeAccess
from nodes.coordination.errors import ControllerMoved
from nodes.coordination.registration import EphemeralRegistration
from nodes.coordination.requests import (
    ANY_VERSION,
    Create,
    Exists,
    GetData,
    Multi,
    Outcome,
    SetData,
)
from nodes.coordination.session import (
    ChangeHandler,
    ChildChangeHandler,
    StateHandler,
    ZooKeeperSession,
)
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.topic_names import is_legal
from nodes.core.types import TopicPartition

log = logging.getLogger("kafka.zk.KafkaZkClient")


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class StateWrite:
    """What came of writing one partition's state: exactly one of the three is set.

    `retry` means that the znode had another version than the writer believed: read it again.
    """

    written: LeaderAndIsr | None = None
    commit_ms: int | None = None  # ZooKeeper's mtime of the znode
    error: Exception | None = None
    retry: bool = False


class KafkaZkClient(ZNodeAccess):
    """`start` before use, `close` at the end. One session a broker."""

    def __init__(
        self,
        connect: str,
        session_timeout_ms: int,
        *,
        connection_timeout_ms: int | None = None,
        max_in_flight_requests: int = 10,
        now_ms: Callable[[], int] = wall_clock_ms,
        checks_controller_znode: bool = True,
    ) -> None:
        """`connect` is zookeeper.connect: ``host:port,host:port/chroot``."""
        hosts, slash, chroot = connect.partition("/")
        self._chroot = (slash + chroot).rstrip("/")
        self._now_ms = now_ms
        super().__init__(
            ZooKeeperSession(
                hosts + self._chroot,
                session_timeout_ms=session_timeout_ms,
                connection_timeout_ms=connection_timeout_ms or session_timeout_ms,
                max_in_flight_requests=max_in_flight_requests,
            ),
            checks_controller_znode=checks_controller_znode,
        )
        self._registration = EphemeralRegistration(self._session)

    def start(self) -> None:
        """Connect, and make the chroot and the persistent paths that are missing."""
        self._session.start()
        if self._chroot:
            self._session.ensure_chroot()
        for path in znodes.PERSISTENT_PATHS:
            self.make_sure_persistent_path_exists(path)

    def close(self) -> None:
        """End the session; ephemeral znodes go with it. Idempotent."""
        self._session.close()

    def stop_waiting(self) -> None:
        """Do not wait out disconnections any more: this broker is shutting down."""
        self._session.stop_waiting()

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def is_connected(self) -> bool:
        return self._session.is_connected

    # ---- watches -------------------------------------------------------------------------------

    def register_znode_change_handler(self, handler: ChangeHandler) -> None:
        self._session.register_change_handler(handler)

    def register_znode_change_handler_and_check_existence(self, handler: ChangeHandler) -> bool:
        """Register, arm the watch and tell whether the znode exists."""
        self._session.register_change_handler(handler)
        return self._session.request(Exists(handler.path)).get() is not None

    def unregister_znode_change_handler(self, path: str) -> None:
        self._session.unregister_change_handler(path)

    def register_znode_child_change_handler(self, handler: ChildChangeHandler) -> None:
        self._session.register_child_handler(handler)

    def unregister_znode_child_change_handler(self, path: str) -> None:
        self._session.unregister_child_handler(path)

    def register_state_change_handler(self, handler: StateHandler) -> None:
        self._session.register_state_handler(handler)

    # ---- brokers -------------------------------------------------------------------------------

    def register_broker(self, broker: Broker, *, wait_ms: int = 0, jmx_port: int = -1) -> int:
        """Register for the life of this session; the broker epoch (the znode's czxid).

        A registration that an earlier session of this very client left behind is replaced
        (KAFKA-7165). One of a foreign session (this broker's previous life, killed a moment ago)
        raises NodeExistsError, as in Kafka, once `wait_ms` have not seen it expire.
        """
        data = znodes.encode_broker(broker, jmx_port=jmx_port, now_ms=self._now_ms())
        path = znodes.broker_id_path(broker.id)
        broker_epoch = self._registration.create(path, data, wait_ms=wait_ms)
        log.info(
            "Registered broker %d at path %s with broker epoch %d", broker.id, path, broker_epoch
        )
        return broker_epoch

    def get_all_broker_and_epochs_in_cluster(self) -> dict[int, tuple[Broker, int]]:
        """Broker id -> (registration, broker epoch). Arms the watch of the ids."""
        ids = sorted(int(name) for name in self._children(znodes.BROKER_IDS, watch=True))
        outcomes = self._session.pipeline([GetData(znodes.broker_id_path(i)) for i in ids])
        brokers = {}
        for broker_id, (data, stat) in _present(ids, outcomes):
            brokers[broker_id] = (znodes.decode_broker(broker_id, data), stat.czxid)
        return brokers

    def get_broker(self, broker_id: int) -> Broker | None:
        data, _ = self._data(znodes.broker_id_path(broker_id))
        return None if data is None else znodes.decode_broker(broker_id, data)

    # ---- controller ----------------------------------------------------------------------------

    def register_controller(self, broker_id: int) -> tuple[int, int]:
        """Become controller: (controller epoch, version of its znode), or raise ControllerMoved.

        One multi creates `/controller` and raises `/controller_epoch`. If its answer was lost and
        it is sent again, "exists already" may mean ourselves: the epoch tells.
        """
        current = self.get_controller_epoch() or self._create_controller_epoch()
        controller_epoch = current[0] + 1
        outcome = self._session.request(
            Multi(
                (
                    Create(
                        znodes.CONTROLLER,
                        znodes.encode_controller(broker_id, self._now_ms()),
                        ephemeral=True,
                    ),
                    SetData(
                        znodes.CONTROLLER_EPOCH,
                        znodes.encode_controller_epoch(controller_epoch),
                        current[1],
                    ),
                )
            )
        )
        created, stat = outcome.get()
        errors = [r for r in (created, stat) if isinstance(r, NodeExistsError | BadVersionError)]
        if errors:
            return self._check_elected(broker_id, controller_epoch)
        for result in (created, stat):
            if isinstance(result, Exception):
                raise result
        return controller_epoch, stat.version

    def _create_controller_epoch(self) -> tuple[int, int]:
        initial = znodes.INITIAL_CONTROLLER_EPOCH
        outcome = self._session.request(
            Create(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(initial))
        )
        if isinstance(outcome.error, NodeExistsError):
            current = self.get_controller_epoch()
            assert current is not None, "the controller epoch's znode is never deleted"
            return current
        outcome.get()
        return initial, 0

    def _check_elected(self, broker_id: int, controller_epoch: int) -> tuple[int, int]:
        current = self.get_controller_epoch()
        if self.get_controller_id() == broker_id and current and current[0] == controller_epoch:
            return current
        raise ControllerMoved("Another broker was elected; aborting controller startup")

    def get_controller_id(self) -> int | None:
        data, _ = self._data(znodes.CONTROLLER)
        return None if data is None else znodes.decode_controller(data)

    def get_controller_epoch(self) -> tuple[int, int] | None:
        """(controller epoch, version of its znode)."""
        data, stat = self._data(znodes.CONTROLLER_EPOCH)
        return None if data is None else (znodes.decode_controller_epoch(data), stat.version)

    def delete_controller(self, epoch_zk_version: int) -> None:
        self._delete([znodes.CONTROLLER], epoch_zk_version)

    # ---- topics --------------------------------------------------------------------------------

    def get_all_topics_in_cluster(self, *, register_watch: bool = False) -> set[str]:
        """Those whose name a topic may have. Whoever writes past the brokers can make any znode:
        such a one is no topic, and is left where it is."""
        names = set(self._children(znodes.TOPICS, watch=register_watch))
        illegal = {name for name in names if not is_legal(name)}
        if illegal:
            log.warning("Ignoring what cannot be topics: %r", sorted(illegal))
        return names - illegal

    def topic_exists(self, topic: str) -> bool:
        return self.path_exists(znodes.topic_path(topic))

    def get_replica_assignment_and_topic_id_for_topics(
        self, topics: Iterable[str]
    ) -> list[znodes.TopicIdReplicaAssignment]:
        """Topics without a znode are left out."""
        names = sorted(topics)
        outcomes = self._session.pipeline([GetData(znodes.topic_path(name)) for name in names])
        return [znodes.decode_topic(name, data) for name, (data, _) in _present(names, outcomes)]

    def get_full_replica_assignment_for_topic(
        self, topic: str
    ) -> dict[TopicPartition, ReplicaAssignment]:
        found = self.get_replica_assignment_and_topic_id_for_topics([topic])
        return dict(found[0].assignment) if found else {}

    def create_topic_assignment(
        self,
        topic: str,
        topic_id: UUID,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
    ) -> None:
        """Make the topic known; raises NodeExistsError. The controller's watch does the rest."""
        data = znodes.encode_topic(topic_id, assignment)
        self._session.request(Create(znodes.topic_path(topic), data)).get()

    def set_topic_assignment(
        self,
        topic: str,
        topic_id: UUID | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
        epoch_zk_version: int = ANY_VERSION,
    ) -> None:
        data = znodes.encode_topic(topic_id, assignment)
        self._write([SetData(znodes.topic_path(topic), data)], epoch_zk_version)[0].get()

    def get_partition_ids(self, topic: str) -> set[int]:
        """Partitions that have a znode of their own (their state was written)."""
        return {int(name) for name in self._children(znodes.partitions_path(topic))}

    # ---- partition states ----------------------------------------------------------------------

    def get_topic_partition_states_raw(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch | Exception]:
        """Each partition's state, NoNodeError when it has none yet."""
        outcomes = self._session.pipeline([GetData(znodes.state_path(tp)) for tp in partitions])
        states: dict[TopicPartition, LeaderIsrAndControllerEpoch | Exception] = {}
        for tp, outcome in zip(partitions, outcomes, strict=True):
            if outcome.error is not None:
                states[tp] = outcome.error
            else:
                data, stat = outcome.value
                states[tp] = znodes.decode_state(data, stat.version)
        return states

    def get_topic_partition_states(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """States of those that have one; other errors are raised."""
        states = {}
        for tp, state in self.get_topic_partition_states_raw(partitions).items():
            if isinstance(state, LeaderIsrAndControllerEpoch):
                states[tp] = state
            elif not isinstance(state, NoNodeError):
                raise state
        return states

    def create_topic_partition_states(
        self, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch], epoch_zk_version: int
    ) -> dict[TopicPartition, StateWrite]:
        """First states of new partitions, with the znodes above them."""
        parents = [
            *dict.fromkeys(znodes.partitions_path(tp.topic) for tp in states),
        ]
        self._write([Create(path) for path in parents], epoch_zk_version)
        self._write([Create(znodes.partition_path(tp)) for tp in states], epoch_zk_version)
        writes = [Create(znodes.state_path(tp), znodes.encode_state(s)) for tp, s in states.items()]
        results = {}
        for (tp, state), outcome in zip(
            states.items(), self._write(writes, epoch_zk_version), strict=True
        ):
            if outcome.error is not None:
                results[tp] = StateWrite(error=outcome.error)
            else:
                results[tp] = StateWrite(written=state.leader_and_isr.with_partition_epoch(0))
        return results

    def update_leader_and_isr(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        epoch_zk_version: int,
    ) -> dict[TopicPartition, StateWrite]:
        """Write each state over the version (`partition_epoch`) that it was derived from."""
        writes = [
            SetData(
                znodes.state_path(tp),
                znodes.encode_state(LeaderIsrAndControllerEpoch(state, controller_epoch)),
                state.partition_epoch,
            )
            for tp, state in states.items()
        ]
        results = {}
        for (tp, state), outcome in zip(
            states.items(), self._write(writes, epoch_zk_version), strict=True
        ):
            if outcome.error is None:
                stat = outcome.value
                results[tp] = StateWrite(
                    written=state.with_partition_epoch(stat.version), commit_ms=stat.mtime
                )
            elif isinstance(outcome.error, BadVersionError):
                results[tp] = StateWrite(retry=True)
            else:
                results[tp] = StateWrite(error=outcome.error)
        return results

    # ---- deletion ------------------------------------------------------------------------------

    def get_topic_deletions(self) -> set[str]:
        return set(self._children(znodes.DELETE_TOPICS, watch=True))

    def is_topic_marked_for_deletion(self, topic: str) -> bool:
        return self.path_exists(znodes.delete_topic_path(topic))

    def create_delete_topic_path(self, topic: str) -> None:
        """Ask the controller to delete a topic; raises NodeExistsError when that was asked."""
        self._session.request(Create(znodes.delete_topic_path(topic))).get()

    def delete_topic_deletions(self, topics: Iterable[str], epoch_zk_version: int) -> None:
        self._delete([znodes.delete_topic_path(topic) for topic in topics], epoch_zk_version)

    def delete_topic_znode(self, topic: str, epoch_zk_version: int) -> None:
        self.delete_recursive(znodes.topic_path(topic), epoch_zk_version)

    def delete_topic_configs(self, topics: Iterable[str], epoch_zk_version: int) -> None:
        self._delete([znodes.config_path("topics", topic) for topic in topics], epoch_zk_version)

    # ---- elections and reassignments asked for through ZooKeeper ---------------------------------

    def get_preferred_replica_election(self) -> set[TopicPartition]:
        data, _ = self._data(znodes.PREFERRED_REPLICA_ELECTION)
        return set() if not data else znodes.decode_partitions(data)

    def delete_preferred_replica_election(self, epoch_zk_version: int) -> None:
        self._delete([znodes.PREFERRED_REPLICA_ELECTION], epoch_zk_version)

    def get_partition_reassignment(self) -> dict[TopicPartition, tuple[int, ...]]:
        data, _ = self._data(znodes.REASSIGN_PARTITIONS)
        return {} if not data else znodes.decode_reassignment(data)

    def set_or_delete_partition_reassignment(
        self, reassignment: Mapping[TopicPartition, Sequence[int]], epoch_zk_version: int
    ) -> None:
        """What is left of `/admin/reassign_partitions`; the znode goes with the last of it."""
        if reassignment:
            data = znodes.encode_reassignment(reassignment)
            write = SetData(znodes.REASSIGN_PARTITIONS, data)
            self._write([write], epoch_zk_version)[0].get()
        else:
            self._delete([znodes.REASSIGN_PARTITIONS], epoch_zk_version)

    # ---- log directories that failed -------------------------------------------------------------

    def propagate_log_dir_event(self, broker_id: int) -> None:
        """Tell the controller that a log directory of this broker has failed."""
        prefix = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"
        data = znodes.encode_log_dir_event(broker_id)
        self._session.request(Create(prefix, data, sequential=True)).get()

    def get_log_dir_events(self) -> list[str]:
        """The notifications that there are; arms the watch of them."""
        return self._children(znodes.LOG_DIR_EVENTS, watch=True)

    def get_brokers_of_log_dir_events(self, names: Iterable[str]) -> set[int]:
        paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in names]
        outcomes = self._session.pipeline([GetData(path) for path in paths])
        found = {znodes.decode_log_dir_event(data) for _, (data, _) in _present(paths, outcomes)}
        return {broker_id for broker_id in found if broker_id is not None}

    def delete_log_dir_events(self, names: Iterable[str], epoch_zk_version: int) -> None:
        self._delete([f"{znodes.LOG_DIR_EVENTS}/{name}" for name in names], epoch_zk_version)

    # ---- configurations ------------------------------------------------------------------------

    def get_entity_configs(self, entity_type: str, name: str) -> dict[str, str]:
        """Overrides of a topic (``topics``), broker, client or user; empty without a znode."""
        data, _ = self._data(znodes.config_path(entity_type, name))
        return znodes.decode_config(data)

    def get_topic_configs(self, topic: str) -> dict[str, str]:
        return self.get_entity_configs("topics", topic)

    def set_or_create_entity_configs(
        self, entity_type: str, name: str, configs: Mapping[str, str]
    ) -> None:
        self.set_or_create(znodes.config_path(entity_type, name), znodes.encode_config(configs))

    def create_config_change_notification(self, entity_path: str) -> None:
        """Tell every broker that an entity's configs changed (``topics/T``)."""
        prefix = f"{znodes.CONFIG_CHANGES}/config_change_"
        data = znodes.encode_config_change(entity_path)
        self._session.request(Create(prefix, data, sequential=True)).get()

    def watch_config_changes(self) -> list[str]:
        """The notifications that there are; arms the watch of them."""
        return self._children(znodes.CONFIG_CHANGES, watch=True)

    def get_config_change(self, name: str) -> tuple[str, str] | None:
        """(entity type, name) of a notification; None when it is gone or cannot be read."""
        data, _ = self._data(f"{znodes.CONFIG_CHANGES}/{name}")
        return znodes.decode_config_change(data)

    def delete_old_config_changes(self, names: Iterable[str], before_ms: int) -> None:
        """Remove those of `names`, oldest first, that were made before `before_ms` by ZooKeeper's
        clock."""
        for name in names:
            path = f"{znodes.CONFIG_CHANGES}/{name}"
            _, stat = self._data(path)
            if stat is not None and stat.ctime >= before_ms:
                return
            self._delete([path], ANY_VERSION)

    # ---- cluster id ----------------------------------------------------------------------------

    def get_cluster_id(self) -> str | None:
        data, _ = self._data(znodes.CLUSTER_ID)
        return None if data is None else znodes.decode_cluster_id(data)

    def create_or_get_cluster_id(self, proposed: str) -> str:
        self.make_sure_persistent_path_exists("/cluster")
        outcome = self._session.request(
            Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(proposed))
        )
        if isinstance(outcome.error, NodeExistsError):
            existing = self.get_cluster_id()
            assert existing is not None, "the cluster id's znode is never deleted"
            return existing
        outcome.get()
        return proposed


def _present(keys: Sequence[Any], outcomes: Sequence[Outcome]) -> Iterable[tuple[Any, Any]]:
    """Pairs of those whose znode exists; other errors are raised."""
    for key, outcome in zip(keys, outcomes, strict=True):
        if not isinstance(outcome.error, NoNodeError):
            yield key, outcome.get()
