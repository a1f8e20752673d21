"""What becomes of what an operator asks for, once the load has ended, beside what was asked for.

``kafka-topics``, ``kafka-configs`` and every tool like them change a list by what is added to it,
and look first whether something could be done (``validate_only``). So the controller is asked for a
few such things, on a topic of the run's, and ZooKeeper is read before and after: it holds what was
asked for then, and nothing else. In the end all is as it was.

Rows: ``described``, one a thing (`checkers.promises.descriptions` judges them): what ZooKeeper
holds afterwards (``told``), and what it is to hold (``truth``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from faults.protocol import Link
from harness.cluster.ask import NoAnswer, ask, error_name, request, served
from harness.cluster.errors import StateUnreadable
from harness.cluster.final_read import PROCESS
from harness.cluster.view import ZookeeperView
from nodes.wire.apis import ApiKey

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

ASKED_FOR: Final = " asked for"
"""Behind the name of an API, in such rows."""
VALIDATED: Final = "validated-and-not-made"
"""A topic that nobody makes."""
POLICY: Final = "cleanup.policy"
_TIMEOUT_S: Final = 10.0
_TIMEOUT_MS: Final = 8_000
_TOPIC_RESOURCE: Final = 2
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_DEFAULT: Final = "delete"
"""Of `POLICY`, where a topic has none of its own (LogConfig)."""
ELSEWHERE: Final = frozenset({-1, 7, 14, 15, 41, 42, 56, 60})
"""Errors by which a controller says: not here, not now; and those of releases that cannot do it
(an INVALID_REQUEST, or a request that fails, of before 2.5)."""
Settings = dict[str, str]


@dataclass(frozen=True, slots=True)
class Held:
    """What ZooKeeper holds of it."""

    settings: Mapping[str, str]
    partitions: int
    is_made: bool
    """Whether there is a topic `VALIDATED`."""

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        made = f"; {VALIDATED}" if self.is_made else ""
        return f"{self.partitions} partitions; {settings or 'no settings'}{made}"

    def after(self, **changed: str | None) -> Held:
        """With other settings; None: without it."""
        new = {k.replace("_", "."): v for k, v in changed.items()}
        kept = {**self.settings, **{k: v for k, v in new.items() if v is not None}}
        gone = {k for k, v in new.items() if v is None}
        settings = {k: v for k, v in kept.items() if k not in gone}
        return Held(settings, self.partitions, self.is_made)


@dataclass(frozen=True, slots=True)
class Operation:
    """``fields``: of the request, given the topic and what is held; ``errors``: of its answer;
    ``then``: what is held afterwards."""

    says: str
    api: ApiKey
    version: int
    fields: Callable[[str, Held], Mapping[str, Any]]
    errors: Callable[[Any], Iterator[int]]
    then: Callable[[Held], Held] = lambda held: held


def record_operations(cluster: Cluster, topics: Sequence[str]) -> None:
    """A row for each thing that the controller was asked for; none where nobody tells what came of
    it: without ZooKeeper, without a controller, or where it could not do it just now."""
    view = cluster.view
    if not isinstance(view, ZookeeperView):
        return
    try:
        controller = view.controller()
        if controller is None or controller not in view.live_brokers():
            return
        address = cluster.address(controller, Link.CLIENT, direct=True)
        for topic in [t for t in _there(view, topics) if POLICY not in view.settings(t)][:1]:
            for operation, told, truth in _operate(view, topic, address):
                cluster.record(
                    "described",
                    process=PROCESS,
                    node=controller,
                    api=operation.api.display_name + ASKED_FOR,
                    name=topic,
                    key=operation.says,
                    told=told,
                    truth=truth,
                    known=True,
                )
    except (NoAnswer, StateUnreadable):
        return  # judged by those who ask all the while


def _operate(
    view: ZookeeperView, topic: str, address: tuple[str, int]
) -> Iterator[tuple[Operation, str, str]]:
    ranges = served(address, _TIMEOUT_S)
    for operation in OPERATIONS:
        low, high = ranges.get(operation.api, (0, -1))
        if not low <= operation.version <= high:
            continue
        told, truth = operate(operation, topic, lambda: _held(view, topic), address)
        if told is not None:
            yield operation, told, truth


def operate(
    operation: Operation, topic: str, held: Callable[[], Held], address: tuple[str, int]
) -> tuple[str | None, str]:
    """What is held afterwards, and is to be. None: it could not be done just now. Raises
    `NoAnswer`, `StateUnreadable`."""
    before = held()
    entity = request(operation.api, operation.version, **operation.fields(topic, before))
    error = next((e for e in operation.errors(ask(address, entity, _TIMEOUT_S)) if e), 0)
    wanted = str(operation.then(before))
    if error:
        return (None if error in ELSEWHERE else f"refused: {error_name(error)}"), wanted
    return str(held()), wanted


def _there(view: ZookeeperView, topics: Sequence[str]) -> list[str]:
    there = {state.topic for state in view.partitions()}
    return [topic for topic in topics if topic in there]


def _held(view: ZookeeperView, topic: str) -> Held:
    names = {each.name: each for each in view.topics()}
    partitions = len(names[topic].replicas) if topic in names else 0
    return Held(dict(view.settings(topic)), partitions, VALIDATED in names)


# ---- what is asked for ---------------------------------------------------------------------------


def _of_topics(answer: Any) -> Iterator[int]:
    return (int(one.error_code) for one in answer.topics)


def _of_results(answer: Any) -> Iterator[int]:
    return (int(one.error_code) for one in answer.results)


def _of_responses(answer: Any) -> Iterator[int]:
    return (int(one.error_code) for one in answer.responses)


def _grown(topic: str, held: Held) -> Mapping[str, Any]:
    one = {"name": topic, "count": held.partitions + 1, "assignments": None}
    return {"topics": [one], "timeout": _TIMEOUT_MS, "validate_only": True}


def _made(_topic: str, _held: Held) -> Mapping[str, Any]:
    one = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    return {
        **{"topics": [{"name": VALIDATED, **one}], "timeout": _TIMEOUT_MS},
        "validate_only": True,
    }


def _changed(
    operation: int, value: str | None, name: str = POLICY, *, validate_only: bool = False
) -> Callable[[str, Held], Mapping[str, Any]]:
    def fields(topic: str, _held: Held) -> Mapping[str, Any]:
        config = {"name": name, "config_operation": operation, "value": value}
        one = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configs": [config]}
        return {"resources": [one], "validate_only": validate_only}

    return fields


def _replaced(topic: str, _held: Held) -> Mapping[str, Any]:
    one = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configs": []}
    return {"resources": [one], "validate_only": True}


def _policy(held: Held) -> list[str]:
    return held.settings.get(POLICY, _DEFAULT).split(",")


_INCREMENTAL: Final = (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0)
OPERATIONS: Final = (
    Operation(
        "one partition more, to be validated",
        *(ApiKey.CREATE_PARTITIONS, 1, _grown, _of_results),
    ),
    Operation("a topic, to be validated", ApiKey.CREATE_TOPICS, 3, _made, _of_topics),
    Operation("no settings, to be validated", ApiKey.ALTER_CONFIGS, 0, _replaced, _of_responses),
    Operation(
        "another setting, to be validated",
        *_INCREMENTAL,
        _changed(_SET, "3600000", "retention.ms", validate_only=True),
        _of_responses,
    ),
    Operation(
        "one more in a list",
        *_INCREMENTAL,
        _changed(_APPEND, "compact"),
        _of_responses,
        lambda held: held.after(cleanup_policy=",".join([*_policy(held), "compact"])),
    ),
    Operation(
        "one less in a list",
        *_INCREMENTAL,
        _changed(_SUBTRACT, "compact"),
        _of_responses,
        lambda held: held.after(
            cleanup_policy=",".join(one for one in _policy(held) if one != "compact")
        ),
    ),
    Operation(
        "no list",
        *_INCREMENTAL,
        _changed(_DELETE, None),
        _of_responses,
        lambda held: held.after(cleanup_policy=None),
    ),
)
"""In this order; by the last all is as it was."""
