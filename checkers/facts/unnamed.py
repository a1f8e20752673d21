"""When a broker told clients of live brokers without one that leads.

A broker that has just begun knows of nobody until its controller tells it. librdkafka takes an
answer that does not name a broker for the end of that broker: it gives up its connection there
(rd_kafka_metadata_decommission_unavailable_brokers), and sends again what was under way, however
few retries it is allowed, since it counts that as never sent (``_DESTROY_BROKER`` in
rd_kafka_handle_Produce_error). So a record that is under way to its leader in such a span may be
there twice, by nobody's fault but its client's.

A span of (asked broker, unnamed broker) begins where the harness started the asked one, or with the
last answer of it that named the other; it ends with the next answer that does; where there is
none, with the last answer of the asked one. Of whom nobody has an answer nothing is known, and
nothing is excused. What a broker says of itself is left out: a leader does not excuse itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.leadership import Key, leadership

if TYPE_CHECKING:
    from checkers.history.frames import History

Node = tuple[str, int, int]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Unnamed:
    """``spans``: by the broker that was not named, [from, to] in ns; ``leaders``: who led in which
    leader epoch. Plain data, so that it can be sent to where suspects are judged."""

    spans: Mapping[Node, Sequence[Span]]
    leaders: Mapping[tuple[Key, int], int]

    def leader(self, key: Key, leader_epoch: int, begin: int, end: int) -> bool:
        """Whether the leader of that epoch was unnamed at some moment of [``begin``, ``end``]."""
        node = self.leaders.get((key, leader_epoch))
        if node is None:
            return False
        return any(a <= end and begin <= b for a, b in self.spans.get((*key[:2], node), ()))


def unnamed(history: History) -> Unnamed:
    """Gathered once a history; what comes to the driver grows with starts, not with answers."""
    found: Unnamed = history.memo("unnamed", lambda: Unnamed(_spans(history), _leaders(history)))
    return found


def _leaders(history: History) -> dict[tuple[Key, int], int]:
    return {
        (key, epoch.leader_epoch): epoch.leader
        for key, of in leadership(history).items()
        for epoch in of.epochs
        if epoch.leader is not None
    }


def _spans(history: History) -> dict[Node, list[Span]]:
    nodes = sorted(set(_leaders(history).values()))
    if not nodes or not history.has("node_event"):
        return {}
    names = ("arm", "trial", "node", "t")
    none = F.array().cast("array<int>").alias("brokers")
    starts = history.frame("node_event").where("event = 'start'")
    said = starts.select(*names, F.col("t").alias("invoke_t"), none, F.lit(True).alias("began"))
    if history.has("metadata"):
        answers = history.frame("metadata").where("brokers is not null and node is not null")
        lists = answers.select(*names, "invoke_t", "brokers", F.lit(False).alias("began"))
        said = said.unionByName(lists)
    other = F.explode(F.array(*map(F.lit, nodes))).alias("other")
    rows = said.select("*", other).where("other <> node")
    rows = rows.withColumn("named", F.array_contains("brokers", F.col("other")))
    order = Window.partitionBy("arm", "trial", "node", "other").orderBy("t", "invoke_t")
    rows = rows.withColumn("before", F.lag("named").over(order))
    rows = rows.withColumn("before_t", F.lag("t").over(order))
    pair_of = Window.partitionBy("arm", "trial", "node", "other")
    rows = rows.withColumn("last_t", F.max(F.when(~F.col("began"), F.col("t"))).over(pair_of))
    turns = rows.where("began or before is null or named <> before").orderBy("t", "invoke_t")
    found: dict[Node, list[Span]] = {}
    begun: dict[tuple[str, int, int, int], int] = {}
    last_t: dict[tuple[str, int, int, int], int | None] = {}
    wanted = ("arm", "trial", "node", "other", "began", "named", "before_t", "t", "last_t")
    for row in turns.select(*wanted).collect():
        pair = (row["arm"], row["trial"], row["node"], row["other"])
        last_t[pair] = row["last_t"]
        if row["named"]:
            begin = begun.pop(pair, None)
            if begin is not None:
                found.setdefault((*pair[:2], pair[3]), []).append((begin, row["t"]))
        elif pair not in begun:
            last = row["t"] if row["began"] or row["before_t"] is None else row["before_t"]
            begun[pair] = last
    for pair, begin in begun.items():
        end = last_t[pair]
        if end is not None and end > begin:
            found.setdefault((*pair[:2], pair[3]), []).append((begin, end))
    return found
