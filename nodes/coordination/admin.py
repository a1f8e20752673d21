"""Creates, grows and deletes topics by writing znodes (Kafka's ZkAdminManager and AdminZkClient).

The znodes are a wish; the controller's watches turn it into partitions, so success here means only
that the wish was accepted. These writes are, as in Kafka, not conditioned on the controller epoch:
any broker could make them, and a topic's znode is created once. The caller checks that this broker
is the controller and waits until the metadata shows the result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, Protocol
from uuid import UUID

from kazoo.exceptions import NodeExistsError

from nodes.coordination import znodes
from nodes.coordination.errors import RequestTooLarge
from nodes.coordination.requests import MAX_REQUEST_BYTES
from nodes.coordination.zk import KafkaZkClient
from nodes.core.assignment import ReplicaAssignment, assign_replicas_to_brokers
from nodes.core.errors import ApiError, Errors
from nodes.core.topic_names import collides, validate_topic_name
from nodes.core.types import TopicPartition

log = logging.getLogger("kafka.server.ZkAdminManager")

_DEFAULT = -1
_BYTES_A_PARTITION: Final = 8
"""Of a topic's znode, at the least: ``"0":[1],``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """One topic of a CreateTopics request; -1 stands for the broker's default."""

    name: str
    num_partitions: int = _DEFAULT
    replication_factor: int = _DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """What came of it. `assignment` has the partitions that there are now (creation only)."""

    error: Errors = Errors.NONE
    message: str | None = None
    topic_id: UUID | None = None
    assignment: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


class AdminDefaults(Protocol):
    """What is read of the broker's configuration."""

    @property
    def num_partitions(self) -> int: ...
    @property
    def default_replication_factor(self) -> int: ...
    @property
    def delete_topic_enable(self) -> bool: ...


class AdminManager:
    """Thread-safe; blocks the calling handler thread on ZooKeeper, as Kafka's does.

    `alive_brokers` answers id -> rack of the brokers that new replicas may be put on (the metadata
    cache); `validate_configs(configs)` raises ApiError(INVALID_CONFIG) for bad topic configs.
    """

    def __init__(
        self,
        config: AdminDefaults,
        zk: KafkaZkClient,
        *,
        alive_brokers: Callable[[], Mapping[int, str | None]],
        validate_configs: Callable[[Mapping[str, str]], None],
        rng: Random,
        new_topic_id: Callable[[], UUID],
    ) -> None:
        self._config = config
        self._zk = zk
        self._alive_brokers = alive_brokers
        self._validate_configs = validate_configs
        self._rng = rng
        self._new_topic_id = new_topic_id

    # ---- topics --------------------------------------------------------------------------------

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicResult]:
        create = partial(self._create, validate_only=validate_only)
        return {topic.name: _guarded(partial(create, topic)) for topic in topics}

    def _create(self, topic: NewTopic, *, validate_only: bool) -> TopicResult:
        validate_topic_name(topic.name)
        self._check_is_new(topic.name)
        configs = _without_nulls(topic.configs)
        assignment = self._assign(topic)
        _check_assignment(assignment)
        self._validate_configs(configs)
        topic_id = self._new_topic_id()
        rows = _by_partition(topic.name, assignment)
        # Before the first of the two writes: a topic's configuration must not be left without it.
        _check_size(len(znodes.encode_topic(topic_id, rows)))
        if not validate_only:
            log.info("Creating topic %s with configuration %s", topic.name, configs)
            # Written first: whoever sees the topic must find its configuration.
            self._zk.set_or_create_entity_configs("topics", topic.name, configs)
            try:
                self._zk.create_topic_assignment(topic.name, topic_id, rows)
            except NodeExistsError:
                raise _exists(topic.name) from None
        return TopicResult(
            topic_id=None if validate_only else topic_id, assignment=assignment, configs=configs
        )

    def _check_is_new(self, name: str) -> None:
        if self._zk.is_topic_marked_for_deletion(name):
            raise ApiError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        topics = self._zk.get_all_topics_in_cluster()
        if name in topics:
            raise _exists(name)
        colliding = sorted(other for other in topics if collides(name, other))
        if colliding:
            raise ApiError(
                Errors.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
            )

    def _assign(self, topic: NewTopic) -> dict[int, tuple[int, ...]]:
        if topic.assignments:
            if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
                raise ApiError(
                    Errors.INVALID_REQUEST,
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time.",
                )
            return {p: tuple(replicas) for p, replicas in sorted(topic.assignments.items())}
        brokers = self._alive_brokers()
        partitions, factor = topic.num_partitions, topic.replication_factor
        _check_count(partitions)
        return assign_replicas_to_brokers(
            brokers,
            self._config.num_partitions if partitions == _DEFAULT else partitions,
            self._config.default_replication_factor if factor == _DEFAULT else factor,
            start_index=self._rng.randrange(max(1, len(brokers))),
            replica_shift=self._rng.randrange(max(1, len(brokers))),
        )

    def delete_topics(self, names: Sequence[str]) -> dict[str, TopicResult]:
        return {name: _guarded(partial(self._delete, name)) for name in names}

    def _delete(self, name: str) -> TopicResult:
        if not self._config.delete_topic_enable:
            raise ApiError(Errors.INVALID_REQUEST, "Topic deletion is disabled.")
        if not self._zk.topic_exists(name):
            raise ApiError(
                Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Topic `{name}` to delete does not exist"
            )
        try:
            self._zk.create_delete_topic_path(name)
        except NodeExistsError:
            log.info("Topic %s is already marked for deletion", name)
        return TopicResult()

    def create_partitions(
        self,
        topic: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
    ) -> TopicResult:
        """Grow a topic to `count` partitions; `assignments` are those of the new ones, in order."""
        return _guarded(
            lambda: self._create_partitions(topic, count, assignments, validate_only=validate_only)
        )

    def _create_partitions(
        self,
        topic: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool,
    ) -> TopicResult:
        validate_topic_name(topic)  # it becomes part of a path, perhaps of another znode's
        found = self._zk.get_replica_assignment_and_topic_id_for_topics([topic])
        if not found or not found[0].assignment:
            raise ApiError(
                Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
            )
        existing = dict(found[0].assignment)
        _check_growth(topic, existing.values(), count)
        added = self._assign_added(topic, existing, count, assignments)
        if not validate_only:
            log.info("Creating %d partitions for '%s': %s", len(added), topic, added)
            self._zk.set_topic_assignment(
                topic, found[0].topic_id, {**existing, **_by_partition(topic, added)}
            )
        before = {tp.partition: a.replicas for tp, a in existing.items()}
        return TopicResult(topic_id=found[0].topic_id, assignment={**before, **added})

    def _assign_added(
        self,
        topic: str,
        existing: Mapping[TopicPartition, ReplicaAssignment],
        count: int,
        assignments: Sequence[Sequence[int]] | None,
    ) -> dict[int, tuple[int, ...]]:
        _check_count(count)
        brokers = self._alive_brokers()
        added = count - len(existing)
        first = existing[TopicPartition(topic, 0)].replicas
        if assignments is None:
            ids = sorted(brokers)
            start = next((i for i, broker in enumerate(ids) if broker >= first[0]), 0)
            return assign_replicas_to_brokers(
                brokers,
                added,
                len(first),
                start_index=start,
                replica_shift=start,
                first_partition=len(existing),
            )
        unknown = sorted({broker for replicas in assignments for broker in replicas} - set(brokers))
        if unknown:
            raise _bad_assignment(f"Unknown broker(s) in replica assignment: {_listed(unknown)}.")
        if len(assignments) != added:
            raise _bad_assignment(
                f"Increasing the number of partitions by {added} but {len(assignments)} "
                "assignments provided."
            )
        wanted = {len(existing) + i: tuple(replicas) for i, replicas in enumerate(assignments)}
        _check_added(wanted, len(first))
        return wanted

    # ---- configurations ------------------------------------------------------------------------

    def topic_configs(self, topic: str) -> dict[str, str]:
        """The overrides in /config/topics/T; empty when there are none."""
        return self._zk.get_topic_configs(topic)

    def alter_topic_configs(
        self, topic: str, configs: Mapping[str, str], *, validate_only: bool = False
    ) -> TopicResult:
        """Replace the overrides, and notify the brokers through /config/changes."""

        def alter() -> TopicResult:
            if not self._zk.topic_exists(topic):
                raise ApiError(
                    Errors.UNKNOWN_TOPIC_OR_PARTITION, f'Topic "{topic}" does not exist.'
                )
            self._validate_configs(configs)
            return self._alter("topics", topic, configs, validate_only=validate_only)

        return _guarded(alter)

    def broker_configs(self, broker: str) -> dict[str, str]:
        """What was set on a running broker (its id, or ``<default>`` for all of them)."""
        return self._zk.get_entity_configs("brokers", broker)

    def alter_broker_configs(
        self, broker: str, configs: Mapping[str, str], *, validate_only: bool = False
    ) -> TopicResult:
        """Replace them; the caller has checked that each may be set."""
        return _guarded(
            lambda: self._alter("brokers", broker, configs, validate_only=validate_only)
        )

    def _alter(
        self, entity_type: str, name: str, configs: Mapping[str, str], *, validate_only: bool
    ) -> TopicResult:
        if not validate_only:
            log.info("Setting configuration of %s/%s to %s", entity_type, name, dict(configs))
            self._zk.set_or_create_entity_configs(entity_type, name, configs)
            self._zk.create_config_change_notification(f"{entity_type}/{name}")
        return TopicResult(configs=dict(configs))


def _guarded(operation: Callable[[], TopicResult]) -> TopicResult:
    """An operation's result, errors as results too."""
    try:
        return operation()
    except ApiError as error:
        return TopicResult(error=error.error, message=str(error))
    except RequestTooLarge as error:
        return TopicResult(error=Errors.POLICY_VIOLATION, message=str(error))
    except Exception as error:
        log.exception("Administrative operation failed")
        return TopicResult(error=Errors.UNKNOWN_SERVER_ERROR, message=type(error).__name__)


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_REQUEST_BYTES:
        raise RequestTooLarge(size_bytes)


def _check_count(partitions: int) -> None:
    """Nobody need assign replicas to more partitions than a topic's znode can name."""
    if partitions > MAX_REQUEST_BYTES // _BYTES_A_PARTITION:
        raise ApiError(
            Errors.POLICY_VIOLATION, f"{partitions} partitions are more than a topic can have."
        )


def _exists(name: str) -> ApiError:
    return ApiError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _bad_assignment(message: str) -> ApiError:
    return ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, message)


def _without_nulls(configs: Mapping[str, str | None]) -> dict[str, str]:
    nulls = sorted(name for name, value in configs.items() if value is None)
    if nulls:
        raise ApiError(
            Errors.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    return {name: value for name, value in configs.items() if value is not None}


def _check_assignment(assignment: Mapping[int, Sequence[int]]) -> None:
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise _bad_assignment("All partitions should have the same number of replicas")
    if any(not replicas for replicas in assignment.values()):
        raise _bad_assignment("Cannot have replication factor of 0")
    if any(len(set(replicas)) != len(replicas) for replicas in assignment.values()):
        raise _bad_assignment(f"Duplicate replica assignment found: {dict(assignment)}")
    if set(assignment) != set(range(len(assignment))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")


def _check_added(assignment: Mapping[int, Sequence[int]], replication_factor: int) -> None:
    """AdminZkClient.validateReplicaAssignment."""
    for partition, replicas in assignment.items():
        if not replicas:
            raise _bad_assignment(
                f"Cannot have replication factor of 0 for partition id {partition}."
            )
        if len(set(replicas)) != len(replicas):
            raise _bad_assignment(
                f"Duplicate brokers not allowed in replica assignment: {_listed(replicas)} for "
                f"partition id {partition}."
            )
    bad = {p: len(replicas) for p, replicas in assignment.items()}
    bad = {p: factor for p, factor in bad.items() if factor != replication_factor}
    if bad:
        raise _bad_assignment(
            f"Inconsistent replication factor between partitions, partition 0 has "
            f"{replication_factor} while partitions [{_listed(bad)}] have replication factors "
            f"[{_listed(bad.values())}], respectively."
        )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _check_growth(topic: str, existing: Iterable[ReplicaAssignment], count: int) -> None:
    assignments = list(existing)
    if any(assignment.is_being_reassigned for assignment in assignments):
        raise ApiError(
            Errors.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{topic}'.",
        )
    if count < len(assignments):
        raise ApiError(
            Errors.INVALID_PARTITIONS,
            f"Topic currently has {len(assignments)} partitions, "
            f"which is higher than the requested {count}.",
        )
    if count == len(assignments):
        raise ApiError(Errors.INVALID_PARTITIONS, f"Topic already has {count} partitions.")


def _by_partition(
    topic: str, assignment: Mapping[int, tuple[int, ...]]
) -> dict[TopicPartition, ReplicaAssignment]:
    return {
        TopicPartition(topic, partition): ReplicaAssignment(replicas)
        for partition, replicas in assignment.items()
    }
