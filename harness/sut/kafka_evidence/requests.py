"""``control-requests.log``: each control request as the broker lived it, from the request logger.

A line is written when the response was sent and gives durations in microseconds, counted by the
same monotonic clock that the history uses; only the end has a stamp, in milliseconds:

    receive --requestQueueTimeMs--> dequeue --localTimeMs--> handled ----> response left = the stamp

The time in which a network thread was blocked on a full queue is part of requestQueueTimeMs, so
``enqueue_t`` is null. Time unread in the socket is in no field.

The stamp comes after the text of the line was built, so that all four times err towards late, by
some 0.1 ms and more for large requests. Where the receipts are written as well
(``control-receipts.log``) they bound the first two from above.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harness.sut.kafka_evidence.lines import Tally, read_lines
from harness.sut.kafka_evidence.stamps import Stamps

_COMPLETED: Final = "Completed request:"
_RECEIPT: Final = re.compile(
    r"(?:Processor -?\d+ received|\[KafkaApi-\d+\] Handling) request: ?RequestHeader\("
    r"apiKey=(\w+), apiVersion=\d+, clientId=(.*?), correlationId=(\d+), headerVersion=\d+\)"
)
_HANDLING: Final = "] Handling request"
Row = dict[str, Any]
Receipts = dict[tuple[str, str, int, bool], list[int]]
"""(api, client, correlation id, whether it is the start of handling) -> wall ms, ascending."""


class BrokerEpochs:
    """Which broker epoch a node had at a time: from its registrations."""

    def __init__(self, registered: list[tuple[int, int]]) -> None:
        self._times = [wall_ms for wall_ms, _ in registered]
        self._epochs = [broker_epoch for _, broker_epoch in registered]

    def at(self, wall_ms: float) -> int | None:
        place = bisect_right(self._times, wall_ms)
        return self._epochs[place - 1] if place else None


def read_receipts(path: Path, tally: Tally) -> Receipts:
    receipts: Receipts = defaultdict(list)
    for line in read_lines(path, tally):
        if found := _RECEIPT.match(line.message):
            tally.count(path.name, "known")
            handling = _HANDLING in line.message[:40]
            receipts[found[1], found[2], int(found[3]), handling].append(line.wall_ms)
        else:
            tally.count(path.name, "ignored")
    return receipts


def read_requests(
    path: Path, stamps: Stamps, tally: Tally, epochs: BrokerEpochs, receipts: Receipts
) -> Iterator[Row]:
    """`control_request` rows of one node."""
    for line in read_lines(path, tally):
        if not line.message.startswith(_COMPLETED):
            tally.unknown(path.name, line.message)
            continue
        try:
            entry = json.loads(line.message[len(_COMPLETED) :])
            row = _row(entry, line.wall_ms, line.thread, stamps, epochs, receipts)
        except (ValueError, KeyError, TypeError):
            tally.unknown(path.name, line.message)
            continue
        tally.count(path.name, "known")
        yield row


def _row(
    entry: dict[str, Any],
    wall_ms: int,
    thread: str,
    stamps: Stamps,
    epochs: BrokerEpochs,
    receipts: Receipts,
) -> Row:
    header, request, response = entry["requestHeader"], entry["request"], entry["response"]
    api, client = header["requestApiKeyName"], header["clientId"]
    received_ms = wall_ms - entry["totalTimeMs"]
    dequeued_ms = received_ms + entry["requestQueueTimeMs"]
    handled_ms = dequeued_ms + entry["localTimeMs"]
    key = (api, client, header["correlationId"])
    received_ms = min(received_ms, _receipt(receipts.get((*key, False)), received_ms, wall_ms))
    dequeued_ms = min(dequeued_ms, _receipt(receipts.get((*key, True)), dequeued_ms, wall_ms))
    return stamps.row(
        "control_request",
        wall_ms,
        api=api,
        version=header["requestApiVersion"],
        correlation_id=header["correlationId"],
        client_id=client,
        plane="control" if thread.startswith("control-plane") else "data",
        listener=entry["listener"],
        controller_id=request["controllerId"],
        controller_epoch=request["controllerEpoch"],
        broker_epoch=request.get("brokerEpoch"),
        own_broker_epoch=epochs.at(dequeued_ms),
        receive_t=stamps.t(received_ms),
        dequeue_t=stamps.t(dequeued_ms),
        handled_t=stamps.t(handled_ms),
        error=response["errorCode"],
        partitions=_partitions(api, request, response),
    )


def _receipt(seen: list[int] | None, guess_ms: float, until_ms: int) -> float:
    """The receipt nearest to a computed time, among those that can be meant."""
    fit = [ms for ms in seen or () if ms <= until_ms and abs(ms - guess_ms) < 1000]
    return min(fit, key=lambda ms: abs(ms - guess_ms), default=guess_ms)


def _partitions(api: str, request: Row, response: Row) -> list[Row]:
    """What was asked of each partition, and its own error (UpdateMetadata has none: null)."""
    names = {
        str(topic.get("topicId")): topic.get("topicName")
        for topic in request.get("topicStates") or []
    }
    errors: dict[tuple[str, int], int] = {}
    for topic in response.get("topics") or []:
        for answer in topic["partitionErrors"]:
            name = topic.get("topicName") or names.get(str(topic.get("topicId")))
            errors[str(name), answer["partitionIndex"]] = answer["errorCode"]
    for answer in response.get("partitionErrors") or []:
        errors[answer["topicName"], answer["partitionIndex"]] = answer["errorCode"]
    asked = [
        (topic.get("topicName"), state)
        for topic in request.get("topicStates") or []
        for state in topic["partitionStates"]
    ]
    asked += [(s["topicName"], s) for s in request.get("ungroupedPartitionStates") or []]
    return [
        {
            "topic": name,
            "partition": state["partitionIndex"],
            "leader": state.get("leader"),
            "leader_epoch": state.get("leaderEpoch"),
            "error": errors.get((str(name), state["partitionIndex"])),
        }
        for name, state in asked
    ]
