"""The cluster's state where there is no ZooKeeper: asked of the brokers, past every proxy.

A broker tells what it has read of the metadata log, which may be old; so everybody that answers is
asked, and of a partition the newest leader epoch counts. The active controller and its epoch come
from DescribeQuorum, asked of the controllers themselves: a broker passes it on, and waits 30 s for
a controller that is paused (controller.socket.timeout.ms). What nobody tells is -1: partition
epochs, and who wrote a state.

All are asked at once, and when most have answered the rest have a moment only: who is paused or cut
off does not answer at all, and a fault that waits for what the others make of it must not wait for
him.

Faults and the harness use this to aim and to wait. What was committed when is evidence of another
kind: the metadata log itself, read after the run.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from threading import Lock
from time import monotonic
from typing import Any, Final, TypeVar

from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.serial import entity_reader

from faults.protocol import PartitionState
from harness.cluster.ask import CLIENT_ID, METADATA_VERSION, NoAnswer, ask, request
from harness.cluster.errors import StateUnreadable
from harness.cluster.state import Registration, Topic
from nodes.wire.apis import ApiKey
from nodes.wire.client import Connection, WireClientError
from nodes.wire.codec import WireError

_TIMEOUT_S: Final = 3.0
_GRACE_S: Final = 0.1
_OWED_S: Final = 0.5
T = TypeVar("T")
_METADATA_TOPIC: Final = b"__cluster_metadata"
_UNKNOWN: Final = -1
_NOBODY: Final = (-1, -1)


def _describe_quorum_frame() -> bytes:
    """DescribeQuorum v0 for the metadata log. Nodes do not serve this API, so the wire layer has
    no place for it; the one frame that is ever needed is written out here."""
    client_id = CLIENT_ID.encode()
    header = struct.pack(">hhih", 55, 0, 1, len(client_id)) + client_id + b"\0"
    topic = bytes([len(_METADATA_TOPIC) + 1]) + _METADATA_TOPIC
    partition = struct.pack(">i", 0) + b"\0"
    body = b"\2" + topic + b"\2" + partition + b"\0" + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


_DESCRIBE_QUORUM: Final = _describe_quorum_frame()


class QuorumView:
    """Implements `faults.protocol.View` and what else the cluster asks of `ZookeeperView`.

    ``brokers`` and ``controllers``: each node's client and controller listener, past its proxies.
    Thread-safe; it remembers nothing but who still owes an answer.
    """

    def __init__(
        self,
        brokers: Mapping[int, tuple[str, int]],
        controllers: Mapping[int, tuple[str, int]],
    ) -> None:
        self._addresses = dict(brokers)
        self._controllers = dict(controllers)
        self._lock = Lock()
        self._owed: dict[int, tuple[Future[Any], float]] = {}

    def controller(self) -> int | None:
        quorum = self._quorum()
        return None if quorum is None else quorum[0]

    def controller_epoch(self) -> int:
        quorum = self._quorum()
        return 0 if quorum is None else quorum[1]

    def broker_epoch(self, node: int) -> int | None:
        """Not told by any answer: 0 for a broker that is registered and not fenced.

        Where nobody answers nobody serves: then it counts as not registered."""
        try:
            return 0 if node in self.live_brokers() else None
        except StateUnreadable:
            return None

    def live_brokers(self) -> Sequence[int]:
        """As most of those that answer say: a broker that was cut off believes old things."""
        answers = list(self._metadata([]).values())
        said = [{int(b.node_id) for b in answer.brokers} for answer in answers]
        return sorted(
            node for node in self._addresses if 2 * sum(node in s for s in said) > len(said)
        )

    def registrations(self) -> Mapping[int, Registration]:
        return {}

    def topics(self, topic: str | None = None) -> Sequence[Topic]:
        newest: dict[str, dict[int, PartitionState]] = {}
        for state in self.partitions(topic):
            newest.setdefault(state.topic, {})[state.partition] = state
        moving = self._moving(newest)
        return [
            Topic(
                name=name,
                topic_id=self.topic_id(name),
                replicas={p: state.replicas for p, state in sorted(states.items())},
                moving=name in moving,
            )
            for name, states in sorted(newest.items())
        ]

    def partitions(self, topic: str | None = None) -> Sequence[PartitionState]:
        found: dict[tuple[str, int], PartitionState] = {}
        for answer in self._metadata(self.wanted(topic)).values():
            for each in answer.topics:
                for partition in each.partitions:
                    state = _state(str(each.name), partition)
                    key = (state.topic, state.partition)
                    if key not in found or found[key].leader_epoch < state.leader_epoch:
                        found[key] = state
        return [found[key] for key in sorted(found)]

    def told(self) -> Sequence[tuple[int, PartitionState]]:
        """What each broker that answers says of each partition: (who says so, its state)."""
        return [
            (node, _state(str(topic.name), partition))
            for node, answer in self._metadata(self.wanted(None)).items()
            for topic in answer.topics
            for partition in topic.partitions
        ]

    def pending(self) -> Sequence[tuple[str, str]]:
        """A deleted topic is gone at once, whatever becomes of its logs."""
        names = {state.topic for state in self.partitions()}
        return [("reassignment", topic) for topic in sorted(self._moving(dict.fromkeys(names)))]

    def topic_id(self, topic: str) -> str | None:
        return None

    # -- asking ---------------------------------------------------------------------------------

    def wanted(self, topic: str | None) -> list[dict[str, Any]] | None:
        """Of which topics brokers are asked; None: of all."""
        return None if topic is None else [{"name": topic}]

    def _metadata(self, topics: list[dict[str, Any]] | None) -> dict[int, Any]:
        """By node, the answers of those that gave one; `StateUnreadable` when nobody did."""
        entity = request(
            ApiKey.METADATA, METADATA_VERSION, topics=topics, allow_auto_topic_creation=False
        )
        why = "no node is known"

        def answer(address: tuple[str, int]) -> Any:
            nonlocal why
            try:
                return ask(address, entity, _TIMEOUT_S)
            except NoAnswer as error:
                why = str(error)
                return None

        answers = self._each(self._addresses, answer)
        if not answers:
            raise StateUnreadable(f"no broker answered: {why}")
        return answers

    def _each(
        self,
        addresses: Mapping[int, tuple[str, int]],
        question: Callable[[tuple[str, int]], T | None],
    ) -> dict[int, T]:
        """By node, what those said that answered in time."""
        with self._lock:
            nodes = self._worth_asking()
            pool = ThreadPoolExecutor(len(nodes), thread_name_prefix="quorum-view")
            asked = {pool.submit(question, addresses[node]): node for node in nodes}
            self._owed |= {node: (future, monotonic()) for future, node in asked.items()}
        pool.shutdown(wait=False)
        found: dict[int, T] = {}
        pending: set[Future[T | None]] = set(asked)
        deadline = monotonic() + 2 * _TIMEOUT_S
        while pending and (left_s := deadline - monotonic()) > 0:
            done, pending = wait(pending, left_s, return_when=FIRST_COMPLETED)
            for future in done:
                said = future.result()
                if said is not None:
                    found[asked[future]] = said
            if 2 * len(found) > len(self._addresses):
                deadline = min(deadline, monotonic() + _GRACE_S)
        return found

    def _worth_asking(self) -> list[int]:
        """Not who has owed an answer for a while, as long as the others are most: connections would
        pile up where nobody reads."""
        since = monotonic() - _OWED_S
        prompt = [
            node
            for node in self._addresses
            if node not in self._owed or self._owed[node][0].done() or self._owed[node][1] > since
        ]
        return prompt if 2 * len(prompt) > len(self._addresses) else list(self._addresses)

    def _moving(self, topics: Mapping[str, Any]) -> set[str]:
        """Topics with a reassignment under way: replicas that are added or removed. Kafka lists no
        others; who lists all partitions, as Tansu does, has none under way by that."""
        entity = request(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=3000)

        def answer(address: tuple[str, int]) -> set[str] | None:
            try:
                listed = ask(address, entity, _TIMEOUT_S).topics
            except NoAnswer:
                return None
            return {str(topic.name) for topic in listed if any(map(_is_moving, topic.partitions))}

        return set().union(*self._each(self._addresses, answer).values()) & set(topics)

    def _quorum(self) -> tuple[int, int] | None:
        """(active controller, its epoch), of the newest answer; None when nobody is it."""
        answers = self._each(self._controllers, lambda at: describe_quorum(at, _TIMEOUT_S))
        newest = max(answers.values(), key=lambda answer: answer[1], default=_NOBODY)
        return None if newest == _NOBODY else newest


def _is_moving(partition: Any) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def describe_quorum(address: tuple[str, int], timeout_s: float) -> tuple[int, int] | None:
    """(leader, leader epoch) of the metadata log as one controller tells, `_NOBODY` when it is not
    the leader itself; None when it does not answer."""
    try:
        with Connection(*address, CLIENT_ID, timeout_s) as connection:
            payload = connection.send_raw(_DESCRIBE_QUORUM)
        # A correlation id and an empty tagged section come before the body.
        body, _ = entity_reader(DescribeQuorumResponse)(payload, 5)
        partition = body.topics[0].partitions[0]
    except (WireClientError, WireError, OSError, ValueError):
        return None
    except IndexError:
        return _NOBODY
    if int(body.error_code) or int(partition.error_code):
        return _NOBODY
    return int(partition.leader_id), int(partition.leader_epoch)


def _state(topic: str, partition: Any) -> PartitionState:
    return PartitionState(
        topic=topic,
        partition=int(partition.partition_index),
        leader=int(partition.leader_id),
        leader_epoch=int(partition.leader_epoch),
        isr=tuple(int(n) for n in partition.isr_nodes),
        replicas=tuple(int(n) for n in partition.replica_nodes),
        controller_epoch=_UNKNOWN,
        partition_epoch=_UNKNOWN,
    )
