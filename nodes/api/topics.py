"""CreateTopics, DeleteTopics and CreatePartitions.

Only the controller's broker does them (any other answers NOT_CONTROLLER per topic): ZooKeeper is
written by the calling thread, then the answer waits until this broker's own metadata shows every
partition with a leader, or the topic gone. A request that times out has been carried out all the
same; its client is told REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import answer, millis
from nodes.api.config_entries import Entry, topic_entries
from nodes.api.configs import created_topic_rows, entries_of_broker
from nodes.api.topic_names import METADATA_TOPIC
from nodes.coordination.admin import NewTopic, TopicResult
from nodes.core.errors import ApiError, Errors

if TYPE_CHECKING:
    from nodes.api.delayed import DelayedOperations
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

TOPIC_DELETION_DISABLED: Final = 73

Row = dict[str, Any]


class TopicApis:
    """Stateless; blocks its handler thread on ZooKeeper, as Kafka does."""

    def __init__(self, services: Services, delayed: DelayedOperations) -> None:
        self._services = services
        self._delayed = delayed

    # ---- CreateTopics ----------------------------------------------------------------------------

    def create_topics(self, request: Request) -> None:
        body = request.body
        if not self._services.controller.is_active:
            answer(request, topics=[_failed(t.name, Errors.NOT_CONTROLLER) for t in body.topics])
            return
        counts = Counter(str(topic.name) for topic in body.topics)
        refused: dict[str, TopicResult] = {}
        new: list[NewTopic] = []
        for topic in body.topics:
            name = str(topic.name)
            if name == METADATA_TOPIC:
                text = f"Creation of internal topic {name} is prohibited."
                refused[name] = TopicResult(error=Errors.INVALID_REQUEST, message=text)
            elif counts[name] > 1:
                text = "Found multiple entries for this topic."
                refused[name] = TopicResult(error=Errors.INVALID_REQUEST, message=text)
            else:
                new.append(_new_topic(topic))
        validate_only = bool(body.validate_only)
        made = self._services.admin.create_topics(new, validate_only=validate_only) if new else {}
        results = {**refused, **made}
        # Read now: whoever tells of the leaders finishes this, and may be the control plane.
        of_broker = entries_of_broker(self._services)

        def finish() -> None:
            rows = [
                _created_row(name, self._timed_out(name, result, validate_only), of_broker)
                for name, result in results.items()
            ]
            answer(request, topics=rows)

        if validate_only:
            finish()
        else:
            self._wait_for_leaders(made, millis(body.timeout), finish)

    # ---- CreatePartitions ------------------------------------------------------------------------

    def create_partitions(self, request: Request) -> None:
        body, controller = request.body, self._services.controller
        counts = Counter(str(topic.name) for topic in body.topics)
        validate_only = bool(body.validate_only)
        results: dict[str, TopicResult] = {}
        for topic in body.topics:
            name = str(topic.name)
            if not controller.is_active:
                results[name] = TopicResult(error=Errors.NOT_CONTROLLER)
            elif counts[name] > 1:
                text = "Duplicate topic in request."
                results[name] = TopicResult(error=Errors.INVALID_REQUEST, message=text)
            elif controller.is_topic_queued_for_deletion(name):
                text = "The topic is queued for deletion."
                results[name] = TopicResult(error=Errors.INVALID_TOPIC_EXCEPTION, message=text)
            else:
                results[name] = self._add_partitions(topic, validate_only)

        def finish() -> None:
            rows = [
                {
                    "name": name,
                    "error_code": (final := self._timed_out(name, result, validate_only)).error,
                    "error_message": final.message,
                }
                for name, result in results.items()
            ]
            answer(request, results=rows)

        if validate_only:
            finish()
        else:
            self._wait_for_leaders(results, millis(body.timeout), finish)

    def _add_partitions(self, topic: Any, validate_only: bool) -> TopicResult:
        given = topic.assignments
        assignments = None if given is None else [[int(b) for b in row.broker_ids] for row in given]
        try:
            return self._services.admin.create_partitions(
                str(topic.name), int(topic.count), assignments, validate_only=validate_only
            )
        except ApiError as error:
            return TopicResult(error=error.error, message=str(error))

    # ---- DeleteTopics ----------------------------------------------------------------------------

    def delete_topics(self, request: Request) -> None:
        targets = list(self._deletion_targets(request))
        error = self._deletion_refused(request.api_version)
        if error:
            answer(request, responses=[{**row, "error_code": error} for row in targets])
            return
        cache = self._services.metadata_cache
        for row in targets:
            if row["name"] is None:
                row["error_code"] = Errors.UNKNOWN_TOPIC_ID
            elif not cache.contains(row["name"]):
                row["error_code"] = Errors.UNKNOWN_TOPIC_OR_PARTITION
        names = list(dict.fromkeys(row["name"] for row in targets if "error_code" not in row))
        results = self._services.admin.delete_topics(names) if names else {}
        pending = [name for name, result in results.items() if not result.error]

        def finish() -> None:
            for row in targets:
                if row["name"] not in results or row.get("error_code"):
                    continue
                result = results[row["name"]]
                row["error_code"], row["error_message"] = result.error, result.message
                if not result.error and cache.contains(row["name"]):
                    row["error_code"] = Errors.REQUEST_TIMED_OUT
            answer(request, responses=targets)

        self._delayed.wait(
            pending,
            millis(request.body.timeout),
            lambda: not any(cache.contains(name) for name in pending),
            finish,
        )

    def _deletion_targets(self, request: Request) -> Iterable[Row]:
        """Name and id of each topic of the request; an id that nobody knows has no name."""
        if request.api_version < 6:
            yield from ({"name": str(n), "topic_id": None} for n in request.body.topic_names)
            return
        for topic in request.body.topics:
            has_id = topic.topic_id is not None and topic.topic_id.int != 0
            if has_id and topic.name is not None:
                text = "Topic name and topic ID can not both be specified."
                raise ApiError(Errors.INVALID_REQUEST, text)
            name = topic.name
            if has_id:
                name = self._services.metadata_cache.topic_name(topic.topic_id)
            yield {"name": None if name is None else str(name), "topic_id": topic.topic_id}

    def _deletion_refused(self, version: int) -> int:
        if not self._services.controller.is_active:
            return Errors.NOT_CONTROLLER
        if self._services.config.delete_topic_enable:
            return Errors.NONE
        return Errors.INVALID_REQUEST if version < 3 else TOPIC_DELETION_DISABLED

    # ---- waiting ---------------------------------------------------------------------------------

    def _wait_for_leaders(
        self, results: Mapping[str, TopicResult], timeout_ms: int, finish: Any
    ) -> None:
        pending = {name: r for name, r in results.items() if not r.error}
        self._delayed.wait(
            pending,
            timeout_ms,
            lambda: all(self._is_led(name, result) for name, result in pending.items()),
            finish,
        )

    def _is_led(self, topic: str, result: TopicResult) -> bool:
        """Whether every partition of the topic has a leader in this broker's metadata."""
        states = self._services.metadata_cache.topics().get(topic, {})
        return all(p in states and states[p].leader >= 0 for p in result.assignment)

    def _timed_out(self, name: str, result: TopicResult, validate_only: bool) -> TopicResult:
        """The result as it stands when the answer is written."""
        if result.error or validate_only or self._is_led(name, result):
            return result
        return TopicResult(error=Errors.REQUEST_TIMED_OUT)


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=str(topic.name),
        num_partitions=int(topic.num_partitions),
        replication_factor=int(topic.replication_factor),
        assignments={
            int(a.partition_index): tuple(int(b) for b in a.broker_ids) for a in topic.assignments
        },
        configs={str(c.name): c.value for c in topic.configs},
    )


def _created_row(name: str, result: TopicResult, of_broker: Mapping[str, Entry]) -> Row:
    if result.error:
        return _failed(name, result.error, result.message)
    return {
        "name": name,
        "topic_id": result.topic_id,
        "error_code": Errors.NONE,
        "error_message": None,
        "num_partitions": len(result.assignment),
        "replication_factor": len(next(iter(result.assignment.values()), ())),
        "configs": created_topic_rows(topic_entries(of_broker, result.configs)),
    }


def _failed(name: str, error: int, message: str | None = None) -> Row:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error,
        "error_message": message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }
