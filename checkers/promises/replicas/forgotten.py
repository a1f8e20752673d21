"""Who forgot how far records are committed, for `checkers.promises.replicas`.

A broker writes its high watermarks down (``replication-offset-checkpoint``) as it is stopped in
order, and every ``replica.high.watermark.checkpoint.interval.ms`` (5 s): its next life goes on from
there (ReplicaManager.checkpointHighWatermarks, Partition.createLogIfNotExists). One that begins
without any takes nothing for committed. Does it lead before others have fetched from it, consumers
get nothing of what they could have had; and without leader epochs it would cut its log there.

- ``high-watermark-forgotten``: the first role of a life begins with a high watermark of 0, though
  there are records, and in a life before that the broker had known a higher one, which was written
  down: it was stopped in order afterwards, or ran on for three times that interval.

Known is what it told as it took up a role; and that something is committed knows whoever has a
record that was sent after another one had been acknowledged with acks=all by the same leader, in
the same leader epoch: with records leaders tell how far they are committed.

Lawful, and similar: a broker that is killed begins with what was written last, which is lower, and
nothing where it had run for a few seconds only; a log that was deleted, cut to nothing, or taken
from the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.committed import committed
from checkers.facts.details import details
from checkers.facts.leadership import Key, key_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.replicas.agreement import Found

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "high-watermark-forgotten"
BEGUN: Final = "high watermarks with which brokers began anew"
_INTERVAL: Final = "replica.high.watermark.checkpoint.interval.ms"
_INTERVAL_MS: Final = 5_000
_INTERVALS: Final = 3
"""So many of these a life lasts in which it has surely been written down."""
_HEARD_NS: Final = 1_000_000_000
"""So long after an election the leader of before may still acknowledge."""
_ENDS: Final = {"stopped": True, "kill": False, "exited": False}
"""Whether a life that ends like that ends in order."""
_FOREVER: Final = 2**62
_SPAN: Final = "arm string, trial int, topic string, partition int, number int, from_t bigint, "
Row = Mapping[str, Any]
_Ends = Mapping[tuple[str, int, int], Sequence[tuple[int, bool]]]


@dataclass(frozen=True, slots=True)
class _Anew:
    """A life that begins: ``begun``, its first role; ``before``, the first one of the life before
    that in which it told more than 0, or its first; ``ended_t``, when that life ended (ns), and
    whether ``in_order``."""

    key: Key
    begun: Row
    before: Row
    ended_t: int
    in_order: bool
    writes_ns: int
    """How long after what it told that is surely written down."""

    @property
    def is_told(self) -> bool:
        """Whether what was told then was written down."""
        lasted_ns = self.ended_t - self.before["t"]
        return bool(self.before["high_watermark"] > 0) and (
            self.in_order or lasted_ns >= self.writes_ns
        )

    @property
    def is_forgotten(self) -> bool:
        return bool(self.begun["high_watermark"] <= 0)


def forgotten(history: History, outcome: Outcome) -> Iterator[Found]:
    """One finding for each log that began so."""
    untold = []
    for one in _begun(history):
        if one.is_told:
            outcome.saw(*one.key[:2], BEGUN)
            if one.is_forgotten:
                told = f"it had told {one.before['high_watermark']}"
                yield Found(one.key, _finding(one, told))
        elif one.is_forgotten and one.in_order:
            untold.append(one)
    for one, offset in _known(history, untold):
        outcome.saw(*one.key[:2], BEGUN)
        told = f"offset {offset}, which it has, was sent after another had been committed"
        yield Found(one.key, _finding(one, told))


def _begun(history: History) -> Iterator[_Anew]:
    ends = _ends(history)
    interval_ms = int(history.run.brokers.get(_INTERVAL, _INTERVAL_MS))
    writes_ns = _INTERVALS * interval_ms * 1_000_000
    told: dict[tuple[Key, int], list[tuple[str, Row]]] = {}
    for kind in ("leader_change", "truncation", "replica_stop"):
        for each in history.rows(kind):
            if None not in (each["boot"], each["topic"]):
                told.setdefault((key_of(each), each["node"]), []).append((kind, each))
    for (key, node), of in sorted(told.items()):
        before: Row | None = None
        boot = None
        for kind, row in sorted(of, key=lambda step: (step[1]["boot"], step[1]["t"])):
            if kind == "replica_stop":
                before = None if row["delete"] else before
            elif kind == "truncation":
                before = None if row["to_offset"] == 0 else before
            elif None not in (row["high_watermark"], row["log_end_offset"]):
                begins, boot = row["boot"] != boot, row["boot"]
                if begins and before is not None and row["log_end_offset"] > 0:
                    for ended in _ended(before, row, ends.get((*key[:2], node), ())):
                        yield _Anew(key, row, before, *ended, writes_ns)
                if before is None or begins or before["high_watermark"] <= 0:
                    before = row


def _ends(history: History) -> _Ends:
    """By arm, trial and node: when a life of it ended (ns), and whether in order."""
    found: dict[tuple[str, int, int], list[tuple[int, bool]]] = {}
    for row in history.rows("node_event"):
        if row["event"] in _ENDS and row["node"] is not None:
            of = found.setdefault((row["arm"], row["trial"], row["node"]), [])
            of.append((row["t"], _ENDS[row["event"]] and details(row).get("graceful", True)))
    return found


def _ended(before: Row, begun: Row, ends: Sequence[tuple[int, bool]]) -> Sequence[tuple[int, bool]]:
    """How the life before ended; empty where nobody knows."""
    return [end for end in ends if before["t"] < end[0] < begun["t"]][:1]


# -- what was committed as it fetched -------------------------------------------------------------


def _known(history: History, ones: Sequence[_Anew]) -> Iterator[tuple[_Anew, int]]:
    """Those that had a record by which they knew that something is committed, and its offset."""
    if not ones or not history.has("produce"):
        return
    from pyspark.sql import functions as F

    names = ["arm", "trial", "topic", "partition"]
    spans = []
    for number, one in enumerate(ones):
        known = committed(history).get(one.key)
        times = [] if known is None else [(s.t, s.row["leader_epoch"]) for s in known.states]
        for begin_t, end_t in _terms(times):
            about = dict(zip(names, one.key, strict=True))
            # Of a record from before that life nobody knows when it was fetched.
            from_t, to_t = max(begin_t + _HEARD_NS, one.before["t"]), min(end_t, one.ended_t)
            span = {"number": number, "from_t": from_t, "to_t": to_t}
            spans.append({**about, **span, "log_end": one.begun["log_end_offset"]})
    table = F.broadcast(history.table(spans, _SPAN + "to_t bigint, log_end bigint"))
    acked = history.frame("produce").where("type = 'ok' and acks != 0 and offset >= 0")
    acked = acked.select(*names, "acks", "offset", "invoke_t", "t").join(table, names)
    acked = acked.where("invoke_t > from_t and t < to_t")
    first = acked.where("acks = -1").groupBy("number", "from_t").agg(F.min("t").alias("acked_t"))
    later = acked.join(F.broadcast(first), ["number", "from_t"])
    later = later.where("invoke_t > acked_t and offset < log_end")
    found = later.groupBy("number").agg(F.max("offset").alias("offset")).orderBy("number")
    for row in found.toArrow().to_pylist():
        yield ones[row["number"]], row["offset"]


def _terms(states: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """From when to when (ns) each leader epoch was the last one committed."""
    begins = [states[:1], *([b] for a, b in pairwise(states) if a[1] != b[1])]
    times = [t for of in begins for t, _ in of]
    yield from pairwise([*times, _FOREVER])


def _finding(one: _Anew, told: str) -> Finding:
    arm, trial, topic, partition = one.key
    node = one.begun["node"]
    own = {"topic": topic, "partition": partition, "node": node}
    return Finding(
        RULE,
        f"node {node} began anew with a high watermark of 0 of {topic}-{partition}, its log ending "
        f"at {one.begun['log_end_offset']}; in the life before {told}, and it wrote that down",
        arm,
        trial,
        (
            Pick("leader_change", {**own, "t": one.before["t"]}, rows=1),
            Pick("node_event", {"node": node}, rows=9),
            Pick("leader_change", {**own, "t": one.begun["t"]}, rows=1),
        ),
    )
