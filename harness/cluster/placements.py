"""What a controller makes of a topic where it chooses itself, once the load has ended.

Whoever makes a topic says how many partitions and replicas it is to have, and hardly ever where:
the controller places them (AdminUtils.assignReplicasToBrokers). A topic with fewer replicas than
were asked for looks like any other until a disk is lost. Topics under test are placed by hand, so
the controller is asked for one of its own, to grow it, and to delete it by its id; ZooKeeper is
read before and after, and what the answers say of it is held against that. While it is there,
clients live through all versions of what changes something (`harness.cluster.client_lives`).

Rows: ``described``, like those of `harness.cluster.operations` (`checkers.promises.descriptions`
judges them).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from faults.protocol import Link
from harness.cluster.ask import (
    CLIENT_ID,
    NoAnswer,
    ask,
    error_name,
    request,
    served,
)
from harness.cluster.client_lives import MEMBERS, WHOLE, Elsewhere, member_lives, writer_lives
from harness.cluster.errors import StateUnreadable
from harness.cluster.final_read import PROCESS
from harness.cluster.operations import ASKED_FOR, ELSEWHERE
from harness.cluster.state import Topic, topic_id_of, topic_uuid
from harness.cluster.view import ZookeeperView
from nodes.wire.apis import ApiKey
from nodes.wire.client import Connection

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

TOPIC: Final = "placed-by-its-controller"
_TIMEOUT_S: Final = 20.0
_TIMEOUT_MS: Final = 15_000
_GONE_S: Final = 30.0
"""Nobody waits for so long but on a busy machine."""
_METADATA: Final = 4
"""The first in which nobody makes a topic by asking for it."""
_KNOWN_S: Final = 5.0
_LOOK_S: Final = 0.1
_PARTITIONS, _MORE = 3, 5
_MOST_REPLICAS: Final = 2
_OFFSETS_TOPIC: Final = "__consumer_offsets"
_GROUP: Final = "lived-through"
_FIND: Final = 1
_SETTING: Final = ("retention.ms", "7200000")
_WITH_WHAT_WAS_MADE: Final = 5
"""From this version on CreateTopics tells what was made (KIP-525), from 7 on its id (KIP-516)."""
_BY_ID: Final = 6
"""The first version of DeleteTopics that takes ids."""
_NEWEST: Final = {ApiKey.CREATE_TOPICS: 7, ApiKey.CREATE_PARTITIONS: 1, ApiKey.DELETE_TOPICS: 6}
Row = tuple[ApiKey, str, str, str]
"""What was asked for, by which API; what came of it, and what was to."""


@dataclass(frozen=True, slots=True)
class _Asker:
    """``at``: where a broker answers clients; ``controller``: which one is asked; ``served``: what
    brokers serve."""

    view: ZookeeperView
    at: Callable[[int], tuple[str, int]]
    controller: int
    served: Mapping[int, tuple[int, int]]

    def version(self, api: ApiKey) -> int:
        """The newest that is served, and that says all that is asked for here."""
        return min(_NEWEST[api], self.served[api][1])

    def ask(self, api: ApiKey, **fields: Any) -> Any:
        asked = request(api, self.version(api), **fields)
        return ask(self.at(self.controller), asked, _TIMEOUT_S)

    def connect(self, node: int) -> Connection:
        return Connection(*self.at(node), CLIENT_ID, _TIMEOUT_S)

    def coordinator(self, group: str) -> int:
        """Raises `Elsewhere`."""
        asked = request(ApiKey.FIND_COORDINATOR, _FIND, key=group, key_type=0)
        answer = ask(self.at(self.controller), asked, _TIMEOUT_S)
        if int(answer.error_code):
            raise Elsewhere
        return int(answer.node_id)

    def topic(self) -> Topic | None:
        return next((topic for topic in self.view.topics() if topic.name == TOPIC), None)


def record_placements(cluster: Cluster) -> None:
    """A row for each thing that was asked for; none without ZooKeeper, without a controller, or
    while somebody is away, or something else is to be done yet."""
    view = cluster.view
    if not isinstance(view, ZookeeperView):
        return
    try:
        live, controller = view.live_brokers(), view.controller()
        if (
            controller is None
            or controller not in live
            or set(live) != set(cluster.node_ids)
            or view.pending()
        ):
            return
        at = partial(cluster.address, link=Link.CLIENT, direct=True)
        asker = _Asker(view, at, controller, served(at(controller), _TIMEOUT_S))
        for api, key, told, truth in _placed(asker, live):
            cluster.record(
                "described",
                process=PROCESS,
                node=controller,
                api=api.display_name + ASKED_FOR,
                name=TOPIC,
                key=key,
                told=told,
                truth=truth,
                known=True,
            )
    except (NoAnswer, StateUnreadable, Elsewhere):
        return  # judged by those who ask all the while


def _placed(asker: _Asker, live: Sequence[int]) -> Iterator[Row]:
    replicas = min(_MOST_REPLICAS, len(live))
    name, value = _SETTING
    one = {"name": TOPIC, "num_partitions": _PARTITIONS, "replication_factor": replicas}
    one |= {"assignments": [], "configs": [{"name": name, "value": value}]}
    api = ApiKey.CREATE_TOPICS
    answer = asker.ask(api, topics=[one], timeout=_TIMEOUT_MS, validate_only=False)
    (made,) = answer.topics
    truth = placement(_PARTITIONS, replicas)
    key = "a topic, to be placed by the controller"
    refused = _refused(made.error_code)
    if refused:
        yield api, key, refused, truth
        return
    try:
        topic = asker.topic()
        if topic is None:
            yield api, key, "there is none", truth
            return
        yield api, key, placed(topic.replicas, live, _PARTITIONS, replicas), truth
        set_for = asker.view.settings(TOPIC)
        yield api, "its settings", str(dict(set_for)), str({name: value})
        if asker.version(api) >= _WITH_WHAT_WAS_MADE:
            yield api, "what it says that it made", *_said(made, topic, set_for)
        yield from _grown(asker, topic, live, replicas)
        yield from _lived_through(asker)
        yield from _deleted(asker, topic)
    finally:
        _leave_nothing(asker)


def placement(partitions: int, replicas: int) -> str:
    return f"{partitions} partitions, each on {replicas} that live, led by all as often"


def placed(
    assigned: Mapping[int, Sequence[int]], live: Sequence[int], partitions: int, replicas: int
) -> str:
    """What is assigned, in words if that is as it is to be: on as many brokers, by turns
    (AdminUtils), so that none is to lead two partitions more than another."""
    leads = Counter(dict.fromkeys(live, 0))
    leads.update(nodes[0] for nodes in assigned.values() if nodes)
    is_even = max(leads.values()) - min(leads.values()) <= 1
    if (
        sorted(assigned) == list(range(partitions))
        and all(len(nodes) == len(set(nodes)) == replicas for nodes in assigned.values())
        and all(set(nodes) <= set(live) for nodes in assigned.values())
        and is_even
    ):
        return placement(partitions, replicas)
    return str({partition: list(nodes) for partition, nodes in sorted(assigned.items())})


def _said(made: Any, topic: Topic, settings: Mapping[str, str]) -> tuple[str, str]:
    """By the answer, and by ZooKeeper."""
    name, _ = _SETTING
    values = [one.value for one in made.configs or () if one.name == name]
    told = [int(made.num_partitions), int(made.replication_factor), *values]
    truth: list[Any] = [len(topic.replicas), len(topic.replicas[0]), settings.get(name)]
    topic_id = getattr(made, "topic_id", None)
    if topic.topic_id is not None and hasattr(made, "topic_id"):
        told.append(None if topic_id is None else topic_id_of(topic_id))
        truth.append(topic.topic_id)
    return str(told), str(truth)


def _grown(asker: _Asker, topic: Topic, live: Sequence[int], replicas: int) -> Iterator[Row]:
    api, key = ApiKey.CREATE_PARTITIONS, "more partitions, to be placed by the controller"
    one = {"name": TOPIC, "count": _MORE, "assignments": None}
    answer = asker.ask(api, topics=[one], timeout=_TIMEOUT_MS, validate_only=False)
    truth = placement(_MORE, replicas)
    told = _refused(answer.results[0].error_code)
    grown = asker.topic()
    if not told and grown is not None:
        moved = {p: nodes for p, nodes in topic.replicas.items() if grown.replicas.get(p) != nodes}
        told = placed(grown.replicas, live, _MORE, replicas)
        told = f"those that there were are moved: {told}" if moved else told
    yield api, key, told or "there is no such topic", truth


def _lived_through(asker: _Asker) -> Iterator[Row]:
    """Of who writes to the topic, and of members of groups where some are coordinated already."""
    states = asker.view.partitions()
    leader = next(s.leader for s in states if (s.topic, s.partition) == (TOPIC, 0))
    _await_known(asker)
    writers = writer_lives(lambda: asker.connect(leader), asker.served, TOPIC)
    for api, version, told in writers:
        yield api, f"a record's life, in version {version}", told, WHOLE
    if not any(s.topic == _OFFSETS_TOPIC for s in states):
        return
    members = member_lives(
        lambda group: asker.connect(asker.coordinator(group)), asker.served, _GROUP, TOPIC
    )
    for version, told in members:
        yield MEMBERS, f"a member's life, in version {version}", told, WHOLE


def _await_known(asker: _Asker) -> None:
    """Whoever made it waited for one broker. Raises `Elsewhere`: one hears of it too late."""
    asked = request(ApiKey.METADATA, _METADATA, topics=[{"name": TOPIC}])
    until = time.monotonic() + _KNOWN_S
    for node in asker.view.live_brokers():
        while True:
            (told,) = ask(asker.at(node), asked, _TIMEOUT_S).topics
            if len([p for p in told.partitions if int(p.leader_id) >= 0]) == _MORE:
                break
            if time.monotonic() > until:
                raise Elsewhere
            time.sleep(_LOOK_S)


def _deleted(asker: _Asker, topic: Topic) -> Iterator[Row]:
    api = ApiKey.DELETE_TOPICS
    if asker.version(api) < _BY_ID or topic.topic_id is None:
        return
    before = {each.name for each in asker.view.topics()}
    asked = [{"name": None, "topic_id": topic_uuid(topic.topic_id)}]
    answer = asker.ask(api, topics=asked, timeout=_TIMEOUT_MS)
    (row,) = answer.responses
    told = _refused(row.error_code)
    if not told:
        left = {each.name for each in asker.view.topics()}
        going = {name for what, name in asker.view.pending() if what == "deletion"}
        told = f"{sorted(before - left | going)} goes, said to be {row.name}"
    yield api, "the end of a topic, by its id", told, f"{[TOPIC]} goes, said to be {TOPIC}"


def _refused(code: Any) -> str:
    """Raises `Elsewhere`."""
    error = int(code)
    if error in ELSEWHERE:
        raise Elsewhere
    return f"refused: {error_name(error)}" if error else ""


def _leave_nothing(asker: _Asker) -> None:
    """The load has ended, but the history goes on: it shall show a whole deletion."""
    if asker.topic() is None:
        return
    if not any(name == TOPIC for _, name in asker.view.pending()):
        ask(
            asker.at(asker.controller),
            request(ApiKey.DELETE_TOPICS, 1, topic_names=[TOPIC], timeout=_TIMEOUT_MS),
            _TIMEOUT_S,
        )
    until = time.monotonic() + _GONE_S
    while asker.topic() is not None and time.monotonic() < until:
        time.sleep(_LOOK_S)
