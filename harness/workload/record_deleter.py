"""Who lets logs begin later: every broker told, on a clock, to delete a partition's oldest records
(DeleteRecords, KIP-107), and asked where the log begins.

Each broker is asked by itself, in turn: where its logs end and begin (ListOffsets, `listed_offset`
rows), and to delete all but the newest ``kept`` records before the end that any broker has told
(`records_deleted` rows), unless nobody tells where the log begins: what came back with a broker is
to be seen before it goes. Who leads a partition does it, and answers when every live replica has
done it too; who does not lead it says so, and that is a failed operation like any other. Now and
then a broker is told to delete far beyond the end, what nobody has written: it must refuse. And
when it told the same end twice, as one does whose followers get nothing, a record more than that:
what it has there is not committed. Whoever told where a log begins is asked for the record before
that (Fetch, as consumers do, `read_below` rows): there is none any more. After ``until_ms``
(milliseconds), and a first deletion in each partition, however late, nobody is asked for more than
before: what is there then stays.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.offset_reader import EARLIEST, LATEST, LIST_VERSION
from harness.workload.spec import WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request

DELETE_VERSION: Final = 1
FETCH_VERSION: Final = 4
BEYOND: Final = 1_000_000
"""So far beyond the end nobody writes."""
QUESTIONS: Final = (
    *("latest", "earliest", "delete", "earliest", "next"),
    *("latest", "earliest", "below", "next", "beyond", "earliest", "below"),
)
"""Who leads anew is to tell where its log begins before it is told to let it begin later."""
_AT_ONCE_MS: Final = 1
"""Nobody waits for what is to be refused: its end is to be asked for while it is what it was."""
_INDEFINITE: Final = frozenset({-1, 7, 13, 56})
"""UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, KAFKA_STORAGE_ERROR: the log may
begin later all the same."""

Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic; ``rate_per_s``: questions a second to each broker;
    ``wait_ms``: how long a broker is to wait for the replicas."""

    topics: dict[str, int]
    rate_per_s: float = 20.0
    kept: int = 20
    wait_ms: int = 1_000
    timeout_ms: int = 5_000
    until_ms: int | None = None

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")
        if self.kept < 1:
            raise ValueError("field kept; allowed: at least 1")
        if self.until_ms is not None and self.until_ms < 0:
            raise ValueError("field 'params.until_ms': allowed: null, or at least 0")


@dataclass(frozen=True, slots=True)
class Asked:
    """In flight: its kind of row, and what it says of each partition."""

    op: int
    invoke_t: int
    kind: str
    fields: dict[Place, dict[str, int]]


class RecordDeleter(AskEach):
    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._params = params
        self._places = [(t, p) for t, count in params.topics.items() for p in range(count)]
        self._ends: dict[Place, int] = {}
        """The greatest that anybody told."""
        self._told: dict[int, dict[Place, int]] = {}
        """By broker: what it told last."""
        self._stuck: dict[int, set[Place]] = {}
        """By broker: of which partitions it told the same end again."""
        self._begins: dict[int, dict[Place, int]] = {}
        """By broker: the beginnings that it told last."""
        self._heard: dict[int, set[Place]] = {}
        """By broker: of which partitions it told a beginning, and refused nothing since."""
        self._deleted: dict[Place, int] = {}
        """Up to where anybody was asked to delete what is there."""
        self._began: int | None = None
        self._ops = 0
        self._turn: dict[int, int] = {}

    def ask(self, channel: Channel) -> None:
        turn = self._turn[channel.node] = self._turn.get(channel.node, -1) + 1
        question = QUESTIONS[turn % len(QUESTIONS)]
        kind, fields = self._fields(question, channel.node)
        if not fields:
            return
        asked = Asked(self._ops, time.monotonic_ns(), kind, fields)
        self._ops += 1
        self.recorder.invoke(asked.kind, asked.op, asked.invoke_t, node=channel.node)
        wait_ms = _AT_ONCE_MS if question == "next" else self._params.wait_ms
        self._links.send(channel, self._frame(asked, wait_ms), asked)

    def _fields(self, question: str, node: int) -> tuple[str, dict[Place, dict[str, int]]]:
        """The kind of row, and what to ask of each partition."""
        if question in ("latest", "earliest"):
            asked = {"believed_epoch": -1, "asked_ms": LATEST if question == "latest" else EARLIEST}
            return "listed_offset", {place: dict(asked) for place in self._places}
        if question == "below":
            begins = self._begins.get(node, {})
            return "read_below", {p: {"offset": at - 1} for p, at in begins.items() if at > 0}
        if question == "next":
            told = self._told.get(node, {})
            stuck = () if self._is_over() else self._stuck.get(node, ())
            ends = {place: told[place] + 1 for place in stuck}
        elif question == "beyond":
            ends = {place: end + BEYOND for place, end in self._ends.items()}
        else:
            kept, heard = self._params.kept, set().union(*self._heard.values())
            more = {p: end - kept for p, end in self._ends.items() if end > kept and p in heard}
            self._deleted = more | self._deleted if self._is_over() else self._deleted | more
            ends = {p: at for p, at in self._deleted.items() if p in heard}
        return "records_deleted", {place: {"offset": end} for place, end in ends.items()}

    def _is_over(self) -> bool:
        """Whether no more may be deleted than was."""
        now, until_ms = time.monotonic_ns(), self._params.until_ms
        self._began = now if self._began is None else self._began
        return until_ms is not None and now - self._began >= until_ms * 1_000_000

    def _frame(self, asked: Asked, wait_ms: int) -> bytes:
        topics: dict[str, list[dict[str, int]]] = {}
        if asked.kind == "read_below":
            return self._fetch(asked)
        deletes = asked.kind == "records_deleted"
        for (topic, partition), fields in asked.fields.items():
            row = {"partition_index": partition}
            if deletes:
                row |= fields
            else:
                row |= {"timestamp": fields["asked_ms"], "current_leader_epoch": -1}
            topics.setdefault(topic, []).append(row)
        rows = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        if deletes:
            request = request_class(ApiKey.DELETE_RECORDS, DELETE_VERSION)
            entity = build(request, topics=rows, timeout=wait_ms)
        else:
            request = request_class(ApiKey.LIST_OFFSETS, LIST_VERSION)
            entity = build(request, replica_id=-1, isolation_level=0, topics=rows)
        return encode_request(entity, 0, self._spec.process)

    def _fetch(self, asked: Asked) -> bytes:
        topics: dict[str, list[dict[str, int]]] = {}
        for (topic, partition), fields in asked.fields.items():
            at = {"partition": partition, "fetch_offset": fields["offset"]}
            topics.setdefault(topic, []).append({**at, "partition_max_bytes": 1})
        entity = build(
            request_class(ApiKey.FETCH, FETCH_VERSION),
            replica_id=-1,
            max_wait=0,
            min_bytes=0,
            max_bytes=1,
            isolation_level=0,
            topics=[{"topic": name, "partitions": each} for name, each in topics.items()],
        )
        return encode_request(entity, 0, self._spec.process)

    # ---- answers -----------------------------------------------------------------------------

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        asked: Asked = channel.tag
        deletes = asked.kind == "records_deleted"
        try:
            _, answer = decode_response(*_APIS[asked.kind], payload)
        except WireError as problem:
            self._end(channel, t, str(problem))
            return
        if asked.kind == "read_below":
            self._read(channel, asked, answer, t)
            return
        told = {
            (str(topic.name), int(one.partition_index)): one
            for topic in answer.topics
            for one in topic.partitions
        }
        for place, fields in asked.fields.items():
            one = told.get(place)
            if one is None:
                self._row(channel, asked, place, "info", t, failure="not told", **fields)
                continue
            error = int(one.error_code)
            outcome = "info" if error in _INDEFINITE else "fail" if error else "ok"
            if deletes:
                found = {"low_watermark": int(one.low_watermark)}
            else:
                outcome = "fail" if error else "ok"
                found = self._listed(channel.node, place, fields, one, error)
            if outcome != "ok" and fields.get("offset", -1) <= self._ends.get(place, -1):
                self._heard.get(channel.node, set()).discard(place)
            self._row(channel, asked, place, outcome, t, error=error, **fields, **found)

    def _read(self, channel: Channel, asked: Asked, answer: Any, t: int) -> None:
        for topic in answer.responses:
            for one in topic.partitions:
                place = str(topic.topic), int(one.partition_index)
                error = int(one.error_code)
                outcome = "fail" if error else "ok"
                self._row(channel, asked, place, outcome, t, error=error, **asked.fields[place])

    def _listed(
        self, node: int, place: Place, fields: dict[str, int], one: Any, error: int
    ) -> dict[str, int]:
        offset = int(one.offset)
        if fields["asked_ms"] == LATEST:
            self._note_end(node, place, -1 if error else offset)
        elif not error:
            self._begins.setdefault(node, {})[place] = offset
            self._heard.setdefault(node, set()).add(place)
        return {
            "offset": offset,
            "found_ms": int(one.timestamp),
            "leader_epoch": int(one.leader_epoch),
        }

    def _note_end(self, node: int, place: Place, end: int) -> None:
        """``end`` -1: it told none."""
        told, stuck = self._told.setdefault(node, {}), self._stuck.setdefault(node, set())
        if 0 <= end == told.get(place):
            stuck.add(place)
        else:
            stuck.discard(place)
        told[place] = end
        self._ends[place] = max(end, self._ends.get(place, -1))

    def _row(
        self, channel: Channel, asked: Asked, place: Place, outcome: str, t: int, **fields: Any
    ) -> None:
        at = {"node": channel.node, "topic": place[0], "partition": place[1]}
        self.recorder.complete(asked.kind, asked.op, outcome, asked.invoke_t, t, **at, **fields)

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._end(channel, t, reason)

    def _end(self, channel: Channel, t: int, failure: str) -> None:
        """What nobody answered: one row, or of a deletion one a partition, for it may have been
        done."""
        asked: Asked = channel.tag
        self._heard.pop(channel.node, None)
        if asked.kind == "records_deleted":
            for place, fields in asked.fields.items():
                self._row(channel, asked, place, "info", t, failure=failure, **fields)
            return
        self.recorder.complete(
            asked.kind, asked.op, "info", asked.invoke_t, t, node=channel.node, failure=failure
        )


_APIS: Final = {
    "listed_offset": (ApiKey.LIST_OFFSETS, LIST_VERSION),
    "records_deleted": (ApiKey.DELETE_RECORDS, DELETE_VERSION),
    "read_below": (ApiKey.FETCH, FETCH_VERSION),
}
