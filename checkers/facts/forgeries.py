"""What a forger made a broker believe, where Kafka itself cannot see the lie.

A forged request with a stale epoch must be refused; what it does to a broker that takes it in is
that broker's fault. One whose epochs are as good as the controller's is lawfully believed, and what
the broker shows or does afterwards is the forger's doing, until the broker hears the truth again:

    told       an UpdateMetadata about a partition: until the broker's next update of that partition
    deafened   any request with a controller epoch of the future, which makes the broker refuse its
               true controller: until it takes in an update of anything again

Both end with the life of the broker, which forgets. The witness is the forger's own row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import NEVER, TP, Key, key_of
from checkers.facts.lives import cuts
from checkers.facts.spans import earliest
from checkers.facts.timeline import FROM, TO, Timeline, merged

if TYPE_CHECKING:
    from pyspark.sql import Column

    from checkers.history.frames import History

SEEN_LIES: Final = frozenset({"stale_controller_epoch", "stale_broker_epoch", "stale_leader_epoch"})
_FUTURE: Final = "future_controller_epoch"
Node = tuple[str, int, int]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """[from_t, to_t), ns."""

    from_t: int
    to_t: int

    def meets(self, from_t: int, to_t: int) -> bool:
        return from_t < self.to_t and self.from_t <= to_t


@dataclass(frozen=True, slots=True)
class Forgeries:
    told: Mapping[tuple[Key, int], tuple[Span, ...]]
    """By (partition, node)."""
    deafened: Mapping[Node, tuple[Span, ...]]
    """By (arm, trial, node)."""

    def __bool__(self) -> bool:
        return bool(self.told or self.deafened)

    def deaf(self, node: Node, from_t: int, to_t: int) -> bool:
        return any(span.meets(from_t, to_t) for span in self.deafened.get(node, ()))


def forgeries(history: History) -> Forgeries:
    """Gathered once a history."""
    found: Forgeries = history.memo("forgeries", lambda: _gather(history))
    return found


def believed(row: Row) -> bool:
    """Whether a `forged` row's request may have been taken in, lawfully: no answer, no denial."""
    accepted = row["error"] == 0 or (row["error"] is None and row["type"] == "info")
    return accepted and not row["partition_error"] and row["lie"] not in SEEN_LIES


def _gather(history: History) -> Forgeries:
    told: dict[tuple[Key, int], list[Span]] = {}
    deafened: dict[Node, list[Span]] = {}
    lies = [row for row in history.rows("forged") if row["node"] is not None and believed(row)]
    if not lies:
        return Forgeries({}, {})
    news = _news(history, lies)
    for number, row in enumerate(lies):
        node = (row["arm"], row["trial"], row["node"])
        ends = cuts(history).get(node, [])
        place = bisect_right(ends, row["t"])
        died = ends[place] if place < len(ends) else NEVER
        anything, of_partition = news.get(number, (NEVER, NEVER))
        if row["api"] == "UPDATE_METADATA" and row["topic"] is not None:
            span = Span(row["invoke_t"], min(of_partition, died))
            told.setdefault((key_of(row), row["node"]), []).append(span)
        if row["lie"] == _FUTURE:
            # Later lies may come with updates of their own: only what no forger sent is the truth.
            span = Span(row["invoke_t"], min(anything, died))
            deafened.setdefault(node, []).append(span)
    return Forgeries(
        {place: tuple(spans) for place, spans in told.items()},
        {node: tuple(spans) for node, spans in deafened.items()},
    )


def _news(history: History, lies: Sequence[Row]) -> dict[int, tuple[int, int]]:
    """By lie, when (ns) its broker next took in what no forger sent: anything, and of that
    partition; `NEVER` where it did not."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if not history.has("metadata_update"):
        return {}
    names = [*TP, "node"]
    told = [{**{n: row[n] for n in (*names, "t")}, "_lie": i} for i, row in enumerate(lies)]
    schema = "arm string, trial int, topic string, partition int, node int, t bigint, _lie int"
    asked = history.table(told, schema)
    liars = F.broadcast(asked.select("arm", "trial", "node").distinct())
    updates = history.frame("metadata_update").join(liars, ["arm", "trial", "node"], "left_semi")
    forged = _forged_updates(history.rows("forged"))
    true = forged.at(history, updates, F.col("t")).where(F.col(FROM).isNull())
    heard_t = earliest(F.col("t"))
    none = F.lit(None).cast("int")
    both = asked.select(*names, "_lie", "t", F.lit(None).cast("long").alias("_heard_t")).unionAll(
        true.select(*names, none, heard_t, heard_t)
    )
    # What was heard at that very moment came before it, as far as anybody can tell.
    order = (F.col("t").desc(), F.col("_heard_t").isNotNull())

    def later(*by: str) -> Column:
        window = Window.partitionBy(*by).orderBy(*order)
        heard = F.min("_heard_t").over(window.rowsBetween(Window.unboundedPreceding, -1))
        return F.coalesce(heard, F.lit(NEVER))

    found = both.withColumn("anything", later("arm", "trial", "node"))
    found = found.withColumn("of_partition", later(*names)).where("_lie is not null")
    rows = found.select("_lie", "anything", "of_partition").collect()
    return {row["_lie"]: (row["anything"], row["of_partition"]) for row in rows}


def _forged_updates(rows: Iterable[Row]) -> Timeline:
    """While a forged UpdateMetadata was under way, an update of its partition may be its own."""
    found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for row in rows:
        if row["api"] == "UPDATE_METADATA" and row["topic"] is not None:
            place = (*key_of(row), row["node"])
            found.setdefault(place, []).append((row["invoke_t"], row["t"] + 1))
    names = (*TP, "node")
    return Timeline(
        [
            {**dict(zip(names, place, strict=True)), FROM: begin, TO: end}
            for place, spans in found.items()
            for begin, end in merged(spans)
        ],
        names,
    )
