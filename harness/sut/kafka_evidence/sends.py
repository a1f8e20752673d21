"""``control-sends.log``: what a controller sent to whom, when, and what came back.

The controller's network client writes a line just before a request goes to the socket and one when
its answer was read. Kafka gives every try a correlation id of its own; a try is called a retry here
when the one before it to the same broker was the same request and was never answered. A try without
an answer is ended by the channel's complaint in ``controller.log`` (the caller passes those on), or
stays without a `control_response`.

Left null: when the request entered the channel's queue (Kafka's ``RequestRateAndQueueTimeMs`` is a
histogram over all requests; no line ties a moment to a request).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.sut.kafka_evidence.lines import Tally, read_lines
from harness.sut.kafka_evidence.stamps import Stamps
from harness.sut.kafka_evidence.values import parse_data

_SENDING: Final = re.compile(
    r"\[Controller id=(\d+), targetBrokerId=(\d+)\] Sending ([A-Z_]+) request with header "
    r"RequestHeader\(.*?correlationId=(\d+)[^)]*\) and timeout \d+ to node -?\d+: (\w+\(.*\))$"
)
_ANSWERED: Final = re.compile(
    r"\[Controller id=(\d+), targetBrokerId=(\d+)\] Received ([A-Z_]+) response from node -?\d+ "
    r"for request with header RequestHeader\(.*?correlationId=(\d+)[^)]*\): \w+\(errorCode=(-?\d+)"
)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """One complaint of a send thread: a request to broker ``to`` came to nothing."""

    wall_ms: int
    to: int
    failure: str


@dataclass(slots=True)
class _Try:
    """The last request to one broker."""

    body: str
    attempt: int
    wall_ms: int
    row: Row
    answered: bool = False


def read_sends(
    path: Path, stamps: Stamps, tally: Tally, failures: Sequence[Failure]
) -> Iterator[Row]:
    """`control_send` and `control_response` rows of one node while it was controller."""
    last: dict[int, _Try] = {}
    for line in read_lines(path, tally):
        if found := _SENDING.match(line.message):
            to = int(found[2])
            before = last.get(to)
            if before is not None and not before.answered:
                yield from _failed(before, stamps, failures, line.wall_ms)
            body = found[5]
            retry = before is not None and not before.answered and before.body == body
            try:
                states = _states(parse_data(body))
            except (ValueError, KeyError, TypeError):
                tally.unknown(path.name, line.message)
                continue
            row = stamps.row(
                "control_send",
                line.wall_ms,
                to=to,
                api=found[3],
                correlation_id=int(found[4]),
                attempt=before.attempt + 1 if retry and before is not None else 1,
                **states,
            )
            last[to] = _Try(body, row["attempt"], line.wall_ms, row)
            tally.count(path.name, "known")
            yield row
        elif found := _ANSWERED.match(line.message):
            tally.count(path.name, "known")
            sent = last.get(int(found[2]))
            if sent is not None and sent.row["correlation_id"] == int(found[4]):
                sent.answered = True
                yield _response(sent, stamps, line.wall_ms, error=int(found[5]))
        elif "[Controller id=" in line.message:
            tally.unknown(path.name, line.message)
        else:
            tally.count(path.name, "ignored")  # another client of the broker
    for sent in last.values():
        if not sent.answered:
            yield from _failed(sent, stamps, failures, None)


def _states(data: dict[str, Any]) -> Row:
    """Epochs and partitions of a request of any of the three kinds."""
    partitions = [
        {
            "topic": topic.get("topicName"),
            "partition": state["partitionIndex"],
            "leader": state.get("leader"),
            "leader_epoch": state.get("leaderEpoch"),
        }
        for topic in data.get("topicStates") or []
        for state in topic["partitionStates"]
    ]
    return {
        "controller_epoch": data["controllerEpoch"],
        "broker_epoch": data["brokerEpoch"],
        "partitions": partitions,
    }


def _response(sent: _Try, stamps: Stamps, wall_ms: int, **outcome: Any) -> Row:
    return stamps.row(
        "control_response",
        wall_ms,
        to=sent.row["to"],
        api=sent.row["api"],
        correlation_id=sent.row["correlation_id"],
        send_t=sent.row["t"],
        **outcome,
    )


def _failed(
    sent: _Try, stamps: Stamps, failures: Sequence[Failure], until_ms: int | None
) -> Iterator[Row]:
    """The complaint that ended a try, if there was one before the next try."""
    for failure in failures:
        in_time = sent.wall_ms <= failure.wall_ms and (
            until_ms is None or failure.wall_ms <= until_ms
        )
        if failure.to == sent.row["to"] and in_time:
            yield _response(sent, stamps, failure.wall_ms, failure=failure.failure)
            return
