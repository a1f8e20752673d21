"""Who says where a partition begins, ends and changed hands: every broker asked, on a clock.

Three questions, in turn. ListOffsets: where is the end, the beginning, the first record at or
after a time (one of the last seconds; that of a record found before, lately or long ago, or of the
last one of a segment; one to come, when there is none).
OffsetForLeaderEpoch: where did a leader epoch of the past end, and where does the newest; consumers
and followers cut and begin again by that. Fetch: what is there, where the end was told to be; and a
little of what is before it: one byte in all, so that a batch comes all the same, a few batches,
fewer in all than of each partition (KIP-74), or all of them: an answer ends with its segment, and
so what came last is the last of one. Each goes to each broker by itself over one connection
a broker; who does not lead says so, and that is a failed operation like any other.

Epochs are those of answers before. Of two epochs of the past the newest and another one in turn are
asked for, by who believes in the newest epoch that it has heard of. Now and then a broker is asked
by somebody who believes in the epoch before, or in one that nobody has heard of yet: it must be
refused (KIP-320).

Over a second connection whoever leads is asked as a consumer asks that is up to date (`tails`): for
what is to come, and to answer when there is enough of it, or the time is up.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Any, Final

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.spec import WorkloadSpec
from harness.workload.tails import AT_ONCE, Tails
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request
from nodes.wire.records import iter_batches, whole_batches

LIST_VERSION: Final = 5  # since Kafka 2.2: with leader epochs, and OFFSET_NOT_AVAILABLE (KIP-207)
EPOCHS_VERSION: Final = 2  # since Kafka 2.1; what librdkafka asks with
FETCH_VERSION: Final = 10  # since Kafka 2.1: with the leader epoch that is believed in
LATEST, EARLIEST = -1, -2
_BACK_MS: Final = (300, 1000, 2500, 6000)
"""How long before now the times lie that are asked for, in turn."""
_AHEAD_MS: Final = 3_600_000
_GIVEN_BYTES: Final = 4096
_BEFORE: Final = 50
"""So many records before the end who asks for a little begins."""
_LITTLE_BYTES: Final = ((1, _GIVEN_BYTES), (400, _GIVEN_BYTES), (None, 32 * 1024))
"""In turn: of all partitions, and of each. The last is more than there is, of all together, too."""
_APART_MS: Final = 100
_REMEMBERED: Final = 1_000
_STRIDE: Final = 17
"""Now a late one, now an early one."""
_QUESTIONS: Final = (
    *("latest", "read", "epochs", "time", "again", "earliest", "read fenced", "read little"),
    *("latest", "read ahead", "epochs", "late", "again", "fenced", "ahead", "own", "read little"),
)
_KINDS: Final = {
    **dict.fromkeys(("epochs", "own"), "epoch_end"),
    **dict.fromkeys(("read", "read fenced", "read ahead", "read little"), "read_at"),
}
"""By question; of all others: ``listed_offset``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic; ``rate_per_s``: questions a second to each broker."""

    topics: dict[str, int]
    rate_per_s: float = 8.0
    timeout_ms: int = 5_000

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in flight: what it says of each partition. ``goes_on``: once it is answered, its
    broker is asked for what comes next, and waited for."""

    op: int
    invoke_t: int
    kind: str
    fields: dict[tuple[str, int], dict[str, int]]
    goes_on: bool = False


class OffsetReader(AskEach):
    connections = 2

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._partitions = [(t, p) for t, count in params.topics.items() for p in range(count)]
        self._newest: dict[tuple[str, int], int] = {}
        """The newest leader epoch that anybody told."""
        self._ends: dict[tuple[str, int], int] = {}
        """The farthest end that anybody told in that leader epoch."""
        self._times: dict[tuple[str, int], list[int]] = {}
        """Times of records that were found, of each tenth of a second one: what a broker knows of
        old ones it may have from its disk by now."""
        self._lasts: dict[tuple[str, int], list[int]] = {}
        """Times of records that are the last ones of their segments."""
        self._tails = Tails()
        self._asked = 0
        self._turn: dict[int, int] = {}

    def ask(self, channel: Channel) -> None:
        if self._links.channels.index(channel) % self.connections:
            self._send(channel, "read_at", self._tails.begin(channel.node), goes_on=True)
            return
        turn = self._turn[channel.node] = self._turn.get(channel.node, -1) + 1
        question = _QUESTIONS[turn % len(_QUESTIONS)]
        fields = self._fields(question, turn // len(_QUESTIONS), time.time_ns() // 10**6)
        self._send(channel, _KINDS.get(question, "listed_offset"), fields)

    def _send(
        self,
        channel: Channel,
        kind: str,
        fields: dict[tuple[str, int], dict[str, int]],
        *,
        goes_on: bool = False,
    ) -> None:
        if not fields:
            return
        if kind == "read_at":
            fields = {tp: {**AT_ONCE, **of} for tp, of in fields.items()}
        asked = Asked(self._asked, time.monotonic_ns(), kind, fields, goes_on)
        self._asked += 1
        self.recorder.invoke(asked.kind, asked.op, asked.invoke_t, node=channel.node)
        self._links.send(channel, _frame(asked, self._spec.process), asked)

    def _fields(
        self, question: str, turn: int, now_ms: int
    ) -> dict[tuple[str, int], dict[str, int]]:
        """What to ask of each partition that it can be asked of."""
        newest = self._newest
        match question:
            case "epochs":
                return {
                    tp: {
                        "believed_epoch": newest[tp],
                        "asked_epoch": newest[tp] - 1 - turn % min(newest[tp], 3),
                    }
                    for tp in self._partitions
                    if newest.get(tp, 0) > 0
                }
            case "own":
                return {tp: {"believed_epoch": e, "asked_epoch": e} for tp, e in newest.items()}
            case "fenced":
                return {
                    tp: {"believed_epoch": newest[tp] - 1, "asked_ms": LATEST}
                    for tp in self._partitions
                    if newest.get(tp, 0) > 0
                }
            case "ahead":
                return {
                    tp: {"believed_epoch": epoch + 1, "asked_ms": LATEST}
                    for tp, epoch in newest.items()
                }
            case "read" | "read fenced" | "read ahead":
                off = {"read": 0, "read fenced": -1, "read ahead": 1}[question]
                most = {"max_bytes": len(self._ends) * _GIVEN_BYTES}
                most["partition_max_bytes"] = _GIVEN_BYTES
                return {
                    tp: {"believed_epoch": newest[tp] + off, "offset": end, **most}
                    for tp, end in self._ends.items()
                    if newest[tp] + off >= 0
                }
            case "read little":
                in_all, each = _LITTLE_BYTES[turn % len(_LITTLE_BYTES)]
                most = {"max_bytes": in_all or len(self._ends) * each, "partition_max_bytes": each}
                return {
                    tp: {"believed_epoch": newest[tp], "offset": max(0, end - _BEFORE), **most}
                    for tp, end in self._ends.items()
                }
            case "again":
                back = self._asked * _STRIDE
                times = self._times | self._lasts if turn % 2 else self._times
                return {
                    tp: {"believed_epoch": -1, "asked_ms": found[-1 - back % len(found)]}
                    for tp, found in times.items()
                    if found
                }
            case "time":
                asked_ms = now_ms - _BACK_MS[turn % len(_BACK_MS)]
            case "late":
                asked_ms = now_ms + _AHEAD_MS if turn % 2 else now_ms - 50
            case _:
                asked_ms = LATEST if question == "latest" else EARLIEST
        return {tp: {"believed_epoch": -1, "asked_ms": asked_ms} for tp in self._partitions}

    # ---- answers -----------------------------------------------------------------------------

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        asked: Asked = channel.tag
        try:
            _, answer = decode_response(*_API[asked.kind], payload)
        except WireError as problem:
            self._end(channel, t, str(problem))
            return
        told = _by_place(asked.kind, answer)
        for tp, fields in asked.fields.items():
            one = told.get(tp)
            if one is None:
                self._row(channel, asked, tp, "info", t, failure="not told", **fields)
                continue
            error = int(one.error_code)
            found: dict[str, Any] = {"error": error}
            if asked.kind == "read_at":
                try:
                    found |= {} if error else self._given(tp, fields, one)
                except WireError as problem:
                    self._row(channel, asked, tp, "info", t, failure=str(problem), **fields)
                    continue
            elif asked.kind == "epoch_end":
                found |= {"leader_epoch": int(one.leader_epoch), "offset": int(one.end_offset)}
            else:
                found |= {"leader_epoch": int(one.leader_epoch), "offset": int(one.offset)}
                found["found_ms"] = int(one.timestamp)
                if found["found_ms"] >= 0:
                    self._remember(tp, found["found_ms"])
                if not error and fields["asked_ms"] == LATEST:
                    self._end_told(tp, found["leader_epoch"], found["offset"])
                    self._tails.told(tp, channel.node, found["leader_epoch"], found["offset"])
            self._row(channel, asked, tp, "fail" if error else "ok", t, **fields, **found)
            if asked.goes_on and not error:
                self._send(channel, "read_at", self._tails.go_on(tp, fields, found))

    def _end_told(self, tp: tuple[str, int], leader_epoch: int, end: int) -> None:
        newest = self._newest.get(tp, -1)
        if leader_epoch > newest:
            self._newest[tp], self._ends[tp] = leader_epoch, end
        elif leader_epoch == newest:
            self._ends[tp] = max(end, self._ends.get(tp, -1))

    def _remember(self, tp: tuple[str, int], found_ms: int) -> None:
        times = self._times.setdefault(tp, [])
        near = bisect_left(times, found_ms - _APART_MS)
        if near == len(times) or times[near] > found_ms + _APART_MS:
            insort(times, found_ms)
            del times[:-_REMEMBERED]

    def _given(self, tp: tuple[str, int], fields: dict[str, int], one: Any) -> dict[str, int]:
        """What a fetch gave. Raises WireError where that is no batch."""
        records, end = bytes(one.records or b""), int(one.high_watermark)
        given = [batch.header for batch in iter_batches(whole_batches(records))]
        found_end = given[-1].next_offset if given else -1
        # By far not all that may come, and not all that there is.
        may_come = min(fields["max_bytes"], fields["partition_max_bytes"])
        if given and found_end < end and 2 * len(records) < may_come:
            self._remember_last(tp, given[-1].max_timestamp)
        return {
            "high_watermark": end,
            "log_start_offset": int(one.log_start_offset),
            "found_end": found_end,
            "leader_epoch": given[-1].leader_epoch if given else -1,
            "given_bytes": len(records),
            "first_bytes": given[0].size_bytes if given else 0,
        }

    def _remember_last(self, tp: tuple[str, int], latest_ms: int) -> None:
        lasts = self._lasts.setdefault(tp, [])
        if latest_ms >= 0 and latest_ms not in lasts:
            lasts.append(latest_ms)
            del lasts[:-_REMEMBERED]

    def _row(
        self,
        channel: Channel,
        asked: Asked,
        tp: tuple[str, int],
        outcome: str,
        t: int,
        **fields: Any,
    ) -> None:
        place = {"node": channel.node, "topic": tp[0], "partition": tp[1]}
        self.recorder.complete(asked.kind, asked.op, outcome, asked.invoke_t, t, **place, **fields)

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._end(channel, t, reason)

    def _end(self, channel: Channel, t: int, failure: str) -> None:
        """Of a question that nobody answered one row is left."""
        asked: Asked = channel.tag
        node = channel.node
        self.recorder.complete(
            asked.kind, asked.op, "info", asked.invoke_t, t, node=node, failure=failure
        )


_API: Final = {
    "listed_offset": (ApiKey.LIST_OFFSETS, LIST_VERSION),
    "epoch_end": (ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCHS_VERSION),
    "read_at": (ApiKey.FETCH, FETCH_VERSION),
}


def _by_place(kind: str, answer: Any) -> dict[tuple[str, int], Any]:
    """What an answer says of each partition."""
    if kind == "epoch_end":
        return {(str(t.topic), int(p.partition)): p for t in answer.topics for p in t.partitions}
    if kind == "read_at":
        told = ((t.topic, p.partition_index, p) for t in answer.responses for p in t.partitions)
    else:
        told = ((t.name, p.partition_index, p) for t in answer.topics for p in t.partitions)
    return {(str(topic), int(partition)): one for topic, partition, one in told}


def _frame(asked: Asked, client_id: str) -> bytes:
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, partition), fields in asked.fields.items():
        row = {"current_leader_epoch": fields["believed_epoch"]}
        if asked.kind == "epoch_end":
            row |= {"partition": partition, "leader_epoch": fields["asked_epoch"]}
        elif asked.kind == "read_at":
            row |= {"partition": partition, "fetch_offset": fields["offset"]}
            row["partition_max_bytes"] = fields["partition_max_bytes"]
        else:
            row |= {"partition_index": partition, "timestamp": fields["asked_ms"]}
        topics.setdefault(topic, []).append(row)
    name = "name" if asked.kind == "listed_offset" else "topic"
    rows = [{name: topic, "partitions": each} for topic, each in topics.items()]
    more: dict[str, Any] = {}
    if asked.kind == "listed_offset":
        more = {"replica_id": -1, "isolation_level": 0}
    elif asked.kind == "read_at":
        of_all = next(iter(asked.fields.values()))
        more = {"replica_id": -1, "isolation_level": 0, "max_bytes": of_all["max_bytes"]}
        more |= {"max_wait": of_all["max_wait_ms"], "min_bytes": of_all["min_bytes"]}
    return encode_request(
        build(request_class(*_API[asked.kind]), topics=rows, **more), 0, client_id
    )
