"""What an administrator would do: topics, preferred elections, reassignments.

Spoken to the controller, past its proxy: a fault on a link is aimed at brokers and clients, not at
the harness. The controller may move at any moment, so NOT_CONTROLLER and lost connections are tried
again until the deadline. After a lost answer an operation may have happened; therefore
TOPIC_ALREADY_EXISTS on a second try of a creation, and UNKNOWN_TOPIC_OR_PARTITION on a second try
of a deletion, count as done. Requests are of the oldest versions that say what is needed: they are
asked of every release. What the controller is asked for, and what came of it, is written down, one
row a thing (`admin_request`).

Errors raise `FaultFailed` with Kafka's name for them, as `faults.protocol.Admin` asks.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic_ns as _now_ns
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from faults.protocol import FaultFailed, Link, Links
from harness.cluster import state
from harness.cluster.ask import NoAnswer, ask, error_name, request
from harness.cluster.layout import CHROOT
from harness.cluster.record import Record
from harness.cluster.view import StateView
from nodes.wire.apis import ApiKey

_TIMEOUT_S: Final = 30.0
_REQUEST_MS: Final = 20_000
"""What a request allows the controller: it answers by then, before nobody listens any more."""
_PAUSE_S: Final = 0.1

NONE: Final = 0
_UNKNOWN_SERVER_ERROR: Final = -1
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_REQUEST_TIMED_OUT: Final = 7
_TOPIC_ALREADY_EXISTS: Final = 36
_INVALID_PARTITIONS: Final = 37
_NOT_CONTROLLER: Final = 41
_ELECTION_NOT_NEEDED: Final = 84
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_SET: Final = 0

Outcome = tuple[str, int, str | None]
"""What an answer says of one thing: (its name, error code, message)."""


class ClusterAdmin:
    """Implements `faults.protocol.Admin`. Thread-safe."""

    def __init__(
        self,
        view: StateView,
        links: Links,
        zookeeper: KazooClient | None = None,
        record: Record | None = None,
    ) -> None:
        """``zookeeper``: the harness's own connection, where the system keeps its state there."""
        self._view = view
        self._links = links
        self._zookeeper = zookeeper
        self._record = record
        self._next_op = itertools.count().__next__

    def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        """Returns once every partition has a state in ZooKeeper."""
        entity = request(
            ApiKey.CREATE_TOPICS,
            2,
            topics=[
                {
                    "name": topic,
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [
                        {"partition_index": partition, "broker_ids": list(replicas)}
                        for partition, replicas in sorted(assignment.items())
                    ],
                    "configs": [{"name": k, "value": v} for k, v in configs.items()],
                }
            ],
            timeout=_REQUEST_MS,
        )
        self._operate(
            f"creating topic {topic}",
            entity,
            lambda answer: [(t.name, t.error_code, t.error_message) for t in answer.topics],
            accept={_REQUEST_TIMED_OUT},
            accept_again={_TOPIC_ALREADY_EXISTS},
        )
        self._await(
            f"topic {topic} to have a leader election behind it",
            lambda: len(self._view.partitions(topic)) == len(assignment),
        )

    def add_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Returns once the controller has answered."""
        rows = [{"broker_ids": list(replicas)} for _, replicas in sorted(assignment.items())]
        grown = {"name": topic, "count": max(assignment) + 1, "assignments": rows}
        self._operate(
            f"adding partitions to topic {topic}",
            request(
                ApiKey.CREATE_PARTITIONS, 0, topics=[grown], timeout=10_000, validate_only=False
            ),
            lambda answer: [(r.name, r.error_code, r.error_message) for r in answer.results],
            accept={_REQUEST_TIMED_OUT},
            accept_again={_INVALID_PARTITIONS},
        )

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """These and no others (AlterConfigs). Brokers hear of it a moment later. A controller whose
        session has just ended knows no better than UNKNOWN_SERVER_ERROR (ZkAdminManager)."""
        rows = [{"name": name, "value": value} for name, value in configs.items()]
        resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configs": rows}
        self._operate(
            f"altering the configs of topic {topic}",
            request(ApiKey.ALTER_CONFIGS, 0, resources=[resource], validate_only=False),
            lambda answer: [
                (r.resource_name, r.error_code, r.error_message) for r in answer.responses
            ],
            again={_UNKNOWN_SERVER_ERROR},
        )

    def delete_topic(self, topic: str) -> None:
        """Returns once the controller has answered; a dead replica holds the deletion itself up."""
        self._operate(
            f"deleting topic {topic}",
            request(ApiKey.DELETE_TOPICS, 1, topic_names=[topic], timeout=10_000),
            lambda answer: [(t.name, t.error_code, None) for t in answer.responses],
            accept={_REQUEST_TIMED_OUT},
            accept_again={_UNKNOWN_TOPIC_OR_PARTITION},
        )

    def delete_records(self, node: int, topic: str, partition: int, offset: int) -> None:
        """Returns once every live replica has deleted them (DeleteRecords, KIP-107)."""
        rows = [{"partition_index": partition, "offset": offset}]
        entity = request(
            ApiKey.DELETE_RECORDS,
            0,
            topics=[{"name": topic, "partitions": rows}],
            timeout=_REQUEST_MS,
        )
        what = f"deleting records of {topic}-{partition}"
        self._ask_broker(
            node, entity, lambda answer: [p for t in answer.topics for p in t.partitions], what
        )

    def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None:
        grouped: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            grouped[topic].append(partition)
        entity = request(
            ApiKey.ELECT_LEADERS,
            2,
            election_type=0,
            topic_partitions=[{"topic": t, "partitions": p} for t, p in grouped.items()],
            timeout=_REQUEST_MS,
        )
        self._operate(
            "electing preferred leaders",
            entity,
            lambda answer: [
                ("", answer.error_code, None),
                *(
                    (f"{r.topic}-{p.partition_id}", p.error_code, p.error_message)
                    for r in answer.replica_election_results
                    for p in r.partition_result
                ),
            ],
            accept={_ELECTION_NOT_NEEDED},
        )

    def reassign(self, assignment: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Returns once the new replicas are committed and nothing is being moved any more."""
        self.begin_reassign(assignment)
        wanted = {key: tuple(replicas) for key, replicas in assignment.items()}
        self._await("the reassignment to finish", lambda: self._reassigned(wanted))

    def begin_reassign(self, assignment: Mapping[tuple[str, int], Sequence[int] | None]) -> None:
        """Returns once the controller has answered."""
        grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for (topic, partition), replicas in assignment.items():
            target = None if replicas is None else list(replicas)
            grouped[topic].append({"partition_index": partition, "replicas": target})
        entity = request(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            topics=[{"name": t, "partitions": p} for t, p in grouped.items()],
            timeout=_REQUEST_MS,
        )
        self._operate(
            "reassigning partitions",
            entity,
            lambda answer: [
                ("", answer.error_code, answer.error_message),
                *(
                    (f"{r.name}-{p.partition_index}", p.error_code, p.error_message)
                    for r in answer.responses
                    for p in r.partitions
                ),
            ],
        )

    def set_broker_config(self, node: int, name: str, value: str) -> None:
        """Any broker takes it for itself: no controller is asked."""
        entity = request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[
                {
                    "resource_type": _BROKER_RESOURCE,
                    "resource_name": str(node),
                    "configs": [{"name": name, "config_operation": _SET, "value": value}],
                }
            ],
            validate_only=False,
        )
        what = f"setting {name} of broker {node}"
        self._ask_broker(node, entity, lambda answer: answer.responses, what)

    def broker_config(self, node: int, name: str) -> str | None:
        """None for a config that it does not know or does not tell."""
        resource = {
            "resource_type": _BROKER_RESOURCE,
            "resource_name": str(node),
            "configuration_keys": [name],
        }
        entity = request(ApiKey.DESCRIBE_CONFIGS, 1, resources=[resource], include_synonyms=False)
        what = f"reading {name} of broker {node}"
        rows = self._ask_broker(node, entity, lambda answer: answer.results, what)
        values = [c.value for row in rows for c in row.configs if c.name == name]
        return values[0] if values else None

    def _ask_broker(
        self, node: int, entity: Any, rows_of: Callable[[Any], Sequence[Any]], what: str
    ) -> Sequence[Any]:
        """The rows of its answer, none of which has an error. A broker that has only just come back
        is asked again: it may not answer yet, or be between two sessions, of which it can say no
        better than UNKNOWN_SERVER_ERROR (ApiError, of ZooKeeper's SessionExpiredException)."""
        address = self._links.address(node, Link.CLIENT, direct=True)
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                rows = rows_of(ask(address, entity, _TIMEOUT_S))
            except NoAnswer as e:
                reason, for_good = str(e), False
            else:
                bad = [row for row in rows if int(row.error_code) != NONE]
                if not bad:
                    return rows
                code = int(bad[0].error_code)
                message = getattr(bad[0], "error_message", None)
                reason = error_name(code) + (f" ({message})" if message else "")
                for_good = code != _UNKNOWN_SERVER_ERROR
            if for_good or time.monotonic() > deadline:
                raise FaultFailed(f"{what}: {reason}")
            time.sleep(_PAUSE_S)

    def remove_controller(self) -> None:
        """As an operator does in ZooKeeper's shell when a controller hangs."""
        if self._zookeeper is None:
            raise FaultFailed("removing /controller: this system has no ZooKeeper")
        try:
            self._zookeeper.delete(CHROOT + state.CONTROLLER)
        except NoNodeError:
            return  # it went by itself
        except KazooException as e:
            raise FaultFailed(f"removing /controller: {e!r}") from e

    def write_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """As kafka-topics did with --zookeeper (until 3.0; AdminZkClient.addPartitions)."""
        if self._zookeeper is None:
            raise FaultFailed(f"writing partitions of {topic}: this system has no ZooKeeper")
        path = CHROOT + state.topic_path(topic)
        try:
            data, stat = self._zookeeper.get(path)
            znode = json.loads(data)
            znode["partitions"] |= {str(p): list(replicas) for p, replicas in assignment.items()}
            self._zookeeper.set(path, json.dumps(znode).encode(), version=stat.version)
        except KazooException as e:
            raise FaultFailed(f"writing partitions of {topic}: {e!r}") from e

    def _reassigned(self, wanted: Mapping[tuple[str, int], tuple[int, ...]]) -> bool:
        for name in {topic for topic, _ in wanted}:
            for topic in self._view.topics(name):
                targets = {p: r for (t, p), r in wanted.items() if t == name}
                if topic.moving or any(topic.replicas.get(p) != r for p, r in targets.items()):
                    return False
        return True

    def _operate(
        self,
        what: str,
        entity: Any,
        outcomes: Callable[[Any], Sequence[Outcome]],
        *,
        accept: set[int] | None = None,
        accept_again: set[int] | None = None,
        again: set[int] | None = None,
    ) -> None:
        """``accept``: what is as good as done; ``accept_again``: where a try before had no answer;
        ``again``: what is tried once more, as `NOT_CONTROLLER` is."""
        accepted = {NONE} | (accept or set())
        retried = {_NOT_CONTROLLER} | (again or set())
        deadline = time.monotonic() + _TIMEOUT_S
        reason = "no controller"
        while time.monotonic() < deadline:
            controller = self._view.controller()
            if controller is not None:
                address = self._links.address(controller, Link.CLIENT, direct=True)
                api = ApiKey(entity.__api_key__)
                told = partial(self._tell, controller, api, self._next_op(), _now_ns())
                try:
                    answer = ask(address, entity, _TIMEOUT_S)
                except NoAnswer as e:
                    reason = str(e)
                    accepted |= accept_again or set()
                    told("", failure=reason)
                else:
                    found = outcomes(answer)
                    for about, error, _ in found:
                        told(about, error=int(error))
                    bad = [each for each in found if int(each[1]) not in accepted]
                    if not bad:
                        return
                    name, code, message = bad[0]
                    name = name or "the request"
                    reason = f"{name}: {error_name(int(code))}" + (f" ({message})" * bool(message))
                    if int(code) not in retried:
                        raise FaultFailed(f"{what}: {reason}")
            time.sleep(_PAUSE_S)
        raise FaultFailed(f"{what}: {reason}")

    def tell_unformed(self, node: int, asked_t: int, told: str) -> None:
        """Write down that a node was asked for the cluster at that time (monotonic ns), long after
        it was started, and what it told, or why nothing: not all brokers, or not the controller."""
        self._tell(node, ApiKey.METADATA, self._next_op(), asked_t, "", failure=told)

    def _tell(
        self,
        node: int,
        api: ApiKey,
        op: int,
        invoke_t: int,
        about: str,
        *,
        error: int | None = None,
        failure: str | None = None,
    ) -> None:
        if self._record is None:
            return
        came_of = "info" if error is None or error == _REQUEST_TIMED_OUT else "fail"
        self._record(
            "admin_request",
            type="ok" if error == NONE else came_of,
            op=op,
            invoke_t=invoke_t,
            node=node,
            api=api.name,
            about=about,
            error=error,
            failure=failure,
        )

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise FaultFailed(f"waited {_TIMEOUT_S:g} s in vain for {what}")
            time.sleep(_PAUSE_S)
