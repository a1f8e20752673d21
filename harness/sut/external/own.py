"""Topics of the run's own, under a random name: nothing else of a cluster is written or moved.

A scenario names its topics as it likes; here each becomes ``biplane-<8 hex digits>-<name>``, and so
do they in its plan, its workloads and its groups. Faults that make topics name them after
themselves: their entries get the token into their ids. Pure but for `Own`, which remembers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Final

from faults.plan import Plan
from faults.protocol import FaultFailed, Links, PartitionState
from harness.cluster.admin import ClusterAdmin
from harness.cluster.record import Record
from harness.cluster.state import Registration, Topic
from harness.cluster.told_view import ToldView
from harness.cluster.view import StateView
from harness.scenarios.base import Role, Scenario, Stage
from harness.scenarios.base import Topic as TestedTopic
from harness.sut.external.owed import Owed

_OFFSETS: Final = "__consumer_offsets"
"""Kafka's own: faults aim at its leaders, and what they read of it they cannot change."""
_NAMED_AFTER_IDS: Final = ("flood-", "topic-churn", "delete-topic")
"""Faults whose topics are called after their ids begin so."""

_PLACE: Final = re.compile(
    r"(?P<role>(?:leader|follower|successor):)?(?P<topic>.+?)(?P<rest>-\d+|-\*)"
)


class Own:
    """What belongs to one life in a cluster. Thread-safe."""

    def __init__(self, token: str) -> None:
        self.token: Final = token
        self._lock = Lock()
        self._names: set[str] = set()

    @property
    def names(self) -> list[str]:
        """Of all topics that were made, those that are gone since among them."""
        with self._lock:
            return sorted(self._names)

    def made(self, topic: str) -> None:
        with self._lock:
            self._names.add(topic)

    def owns(self, topic: str) -> bool:
        return self.token in topic

    def reads(self, topic: str) -> bool:
        return self.owns(topic) or topic == _OFFSETS

    def check(self, topics: Collection[str], what: str) -> None:
        """Raises `FaultFailed` unless all are the run's own."""
        strange = sorted(topic for topic in topics if not self.owns(topic))
        if strange:
            raise FaultFailed(f"{what}: {strange[0]} is not this run's; allowed: its own topics")


# -- names ----------------------------------------------------------------------------------------


def apart(scenario: Scenario, plan: Plan, stage: Stage, token: str) -> tuple[Scenario, Plan]:
    """The same story with names of its own. ``stage``: where it will be played."""
    names = {topic.name: f"{token}-{topic.name}" for topic in scenario.topics(stage)}
    groups = {
        str(role.params["group"]): f"{token}-{role.params['group']}"
        for role in scenario.workloads(stage)
        if "group" in role.params
    }

    def topics(stage: Stage) -> Sequence[TestedTopic]:
        return [replace(t, name=names.get(t.name, t.name)) for t in scenario.topics(stage)]

    def workloads(stage: Stage) -> Sequence[Role]:
        return [
            replace(role, params=_renamed(role.params, names | groups))
            for role in scenario.workloads(stage)
        ]

    own = replace(scenario, topics=topics, workloads=workloads)
    ids = {e.id: f"{token}-{e.id}" for e in plan.entries if e.fault.startswith(_NAMED_AFTER_IDS)}
    entries = [
        replace(
            entry,
            id=ids.get(entry.id, entry.id),
            after=ids.get(entry.after, entry.after),
            params=_renamed(entry.params, names),
        )
        for entry in plan.entries
    ]
    return own, replace(plan, entries=tuple(entries))


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Topics and groups wherever a parameter names one: T, T-0, T-*, leader:T-0."""
    if isinstance(value, str):
        return _name(value, names)
    if isinstance(value, Mapping):
        return {_renamed(key, names): _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_renamed(one, names) for one in value)
    return value


def _name(text: str, names: Mapping[str, str]) -> str:
    if text in names:
        return names[text]
    match = _PLACE.fullmatch(text)
    if match is None or match["topic"] not in names:
        return text
    return f"{match['role'] or ''}{names[match['topic']]}{match['rest']}"


# -- what is seen, and what is done ---------------------------------------------------------------


class OwnToldView(ToldView):
    """What brokers tell of the run's own topics. Others are not even asked for."""

    def __init__(self, brokers: Mapping[int, tuple[str, int]], own: Own) -> None:
        super().__init__(brokers)
        self._own = own

    def wanted(self, topic: str | None) -> list[dict[str, Any]]:
        names = self._own.names if topic is None else [topic]
        return [{"name": name} for name in names if self._own.reads(name)]


class OwnView:
    """Implements `harness.cluster.view.StateView` over the whole cluster's: of topics the run's
    own."""

    def __init__(self, whole: StateView, own: Own) -> None:
        self._whole, self._own = whole, own

    def controller(self) -> int | None:
        return self._whole.controller()

    def controller_epoch(self) -> int:
        return self._whole.controller_epoch()

    def broker_epoch(self, node: int) -> int | None:
        return self._whole.broker_epoch(node)

    def live_brokers(self) -> Sequence[int]:
        return self._whole.live_brokers()

    def registrations(self) -> Mapping[int, Registration]:
        return self._whole.registrations()

    def partitions(self, topic: str | None = None) -> Sequence[PartitionState]:
        names = self._own.names if topic is None else [topic]
        return [s for n in names if self._own.reads(n) for s in self._whole.partitions(n)]

    def topics(self, topic: str | None = None) -> Sequence[Topic]:
        names = self._own.names if topic is None else [topic]
        return [t for n in names if self._own.reads(n) for t in self._whole.topics(n)]

    def pending(self) -> Sequence[tuple[str, str]]:
        return [(what, topic) for what, topic in self._whole.pending() if self._own.owns(topic)]

    def topic_id(self, topic: str) -> str | None:
        return self._whole.topic_id(topic) if self._own.reads(topic) else None


class OwnAdmin(ClusterAdmin):
    """Does what it is asked to with the run's own topics, and nothing else."""

    def __init__(
        self, view: StateView, links: Links, own: Own, owed: Owed, record: Record | None = None
    ) -> None:
        super().__init__(view, links, record=record)
        self._own, self._owed = own, owed

    def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        self._own.check([topic], "creating a topic")
        self._owed.topics()
        self._own.made(topic)
        super().create_topic(topic, assignment, configs)

    def add_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        self._own.check([topic], "adding partitions")
        super().add_partitions(topic, assignment)

    def delete_topic(self, topic: str) -> None:
        self._own.check([topic], "deleting a topic")
        super().delete_topic(topic)

    def delete_records(self, node: int, topic: str, partition: int, offset: int) -> None:
        self._own.check([topic], "deleting records")
        super().delete_records(node, topic, partition, offset)

    def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None:
        self._own.check([topic for topic, _ in partitions], "electing leaders")
        super().elect_preferred(partitions)

    def reassign(self, assignment: Mapping[tuple[str, int], Sequence[int]]) -> None:
        self._own.check([topic for topic, _ in assignment], "reassigning replicas")
        super().reassign(assignment)

    def begin_reassign(self, assignment: Mapping[tuple[str, int], Sequence[int] | None]) -> None:
        self._own.check([topic for topic, _ in assignment], "reassigning replicas")
        super().begin_reassign(assignment)

    def set_broker_config(self, node: int, name: str, value: str) -> None:
        raise FaultFailed(f"setting {name} of broker {node}: its settings are its owner's")
