"""Dropped though it was there a moment ago, for `checkers.promises.departures`.

A leader drops a follower that was not at its log's end for replica.lag.time.max.ms, and nobody
sooner (KIP-16; ``dropped-too-soon``). Two moments prove that a follower had that time still before
it:

- the leader began a leader epoch with it in sync: nothing is known of followers then, and each is
  granted the limit (Replica.resetReplicaState);
- acks=all was acknowledged while it was in sync, to a record that was alone: nobody had sent this
  partition another that could have been appended before the answer. It had asked for what comes
  after that record then, and that was the log's end.

Who takes a broker that is gone out of a set is the controller, which begins a new leader epoch with
that (KafkaController.removeReplicasFromIsr): a smaller set in the same epoch is its leader's own.
The leader hears of an epoch after that was committed, so the time counts from too early, never too
late; a quarter of the limit is left for ZooKeeper's clock. Who came into sync and was never seen at
the log's end is not judged: whoever reaches the high watermark joins, and may lag all the same.
Nor is who is dropped as another controller comes into office: his leader may have asked for that
long before, and whoever was refused asks again.

The limit is run.json's: what the harness wrote into the brokers' configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.office import in_order, written
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "dropped-too-soon"
BEGUN: Final = "in-sync sets that a leader began with"
LIMIT: Final = "lag_max_ms"
"""In run.json, of an arm: replica.lag.time.max.ms of its brokers."""
_LOST_NS: Final = 10_000_000_000
"""So long what was never answered may still be appended."""
_ASKED_NS: Final = 10_000_000_000
"""So long after an election a controller may be asked for what another was asked for before."""
_SPANS: Final = (
    "arm string, trial int, topic string, partition int, _number int, _from bigint, _to bigint"
)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Dropped:
    """``since``: the state from which on ``node`` was in sync; ``limit_ns``: how long it is to stay
    after it was seen at the log's end."""

    key: Key
    node: int
    since: Row
    is_begun: bool
    row: Row
    limit_ns: int

    @property
    def t(self) -> int:
        """When it was dropped, at the latest (ns)."""
        return int(self.row["t"] + (self.row["error_ns"] or 0))

    @property
    def since_t(self) -> int:
        return int(self.since["t"] - (self.since["error_ns"] or 0))

    def is_early(self, seen_t: int) -> bool:
        return self.t - seen_t < self.limit_ns * 3 // 4

    def finding(self, seen_t: int, how: str, witness: Pick) -> Finding:
        topic, partition = self.key[2:]
        return Finding(
            RULE,
            f"leader {self.row['leader']} of {topic}-{partition} dropped node {self.node} "
            f"{(self.row['t'] - seen_t) / 1e9:.2f} s after {how}; it is to wait for "
            f"{self.limit_ns / 1e9:.2f} s",
            *self.key[:2],
            (witness, written(self.row)),
        )


def dropped_early(history: History, outcome: Outcome) -> Iterator[Finding]:
    seen_before: list[_Dropped] = []
    for one in _drops(history, outcome):
        if one.is_begun and one.is_early(one.since_t):
            epoch = one.row["leader_epoch"]
            how = f"it had begun leader epoch {epoch} with that one in sync"
            yield one.finding(one.since["t"], how, written(one.since))
        else:
            seen_before.append(one)
    for number, seen_t in _last_alone(history, seen_before).items():
        one = seen_before[number]
        if one.is_early(seen_t):
            how = "that one had been at the log's end, as acks=all was acknowledged"
            place = {"topic": one.key[2], "partition": one.key[3], "invoke_t": seen_t}
            yield one.finding(seen_t, how, Pick("produce", {**place, "acks": -1}, rows=1))


def _drops(history: History, outcome: Outcome) -> Iterator[_Dropped]:
    limits = {arm: facts.get(LIMIT) for arm, facts in history.run.arms.items()}
    last: dict[Key, Row] = {}
    since: dict[Key, dict[int, Row]] = {}
    begun: dict[Key, Row] = {}
    ruled: dict[tuple[str, int], int] = {}
    """By trial, when the office last changed hands; at first nobody had been asked for anything."""
    for row in in_order(history):
        if row["what"] == "controller":
            trial = row["arm"], row["trial"]
            ruled[trial] = row["t"] if trial in ruled else -_ASKED_NS
        limit_ms = limits.get(row["arm"])
        if row["what"] != "state" or row["topic"] is None or limit_ms is None:
            continue
        key, isr = key_of(row), frozenset(row["isr"] or ())
        before = last.pop(key, None)
        if row["step"] == "removed":
            continue
        if before is None or before["leader_epoch"] != row["leader_epoch"]:
            since[key], begun[key] = dict.fromkeys(isr, row), row
            outcome.saw(*key[:2], BEGUN)
        for node in sorted(since[key].keys() - isr):
            first = since[key].pop(node)
            is_begun = first is begun[key]
            if row["t"] - ruled.get(key[:2], -_ASKED_NS) < _ASKED_NS:
                outcome.unjudged(key[0], "a follower that was dropped after a succession")
                continue
            yield _Dropped(key, node, first, is_begun, row, limit_ms * 1_000_000)
        for node in isr - since[key].keys():
            since[key][node] = row
        last[key] = row


def _last_alone(history: History, drops: Sequence[_Dropped]) -> dict[int, int]:
    """By the number of a drop, when the last acks=all that was acknowledged alone was sent, while
    that one was in sync (ns)."""
    if not drops or not history.has("produce"):
        return {}
    rows = [
        {
            **dict(zip(TP, one.key, strict=True)),
            **{"_number": number, "_from": one.since["t"] + (one.since["error_ns"] or 0)},
            "_to": one.row["t"] - (one.row["error_ns"] or 0),
        }
        for number, one in enumerate(drops)
    ]
    spans = F.broadcast(history.table(rows, _SPANS))
    sent = history.frame("produce").where("type <> 'invoke'")
    sent = sent.join(F.broadcast(spans.select(*TP).distinct()), [*TP], "left_semi")
    until = F.col("t") + F.when(F.col("type") == "info", _LOST_NS).otherwise(0)
    in_turn = Window.partitionBy(*TP).orderBy("invoke_t", "t")
    earlier = in_turn.rowsBetween(Window.unboundedPreceding, -1)
    sent = sent.select(
        *TP, "type", "acks", "invoke_t", "t",
        F.max(until).over(earlier).alias("_before"),
        F.lead("invoke_t").over(in_turn).alias("_next"),
    )  # fmt: skip
    alone = sent.where(
        "type = 'ok' and acks = -1 and coalesce(_before < invoke_t, true) "
        "and coalesce(_next > t, true)"
    )
    seen = alone.join(spans, [*TP]).where("invoke_t > _from and t < _to")
    found = seen.groupBy("_number").agg(F.max("invoke_t").alias("_t")).toArrow().to_pylist()
    return {row["_number"]: row["_t"] for row in found}
