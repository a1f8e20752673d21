"""What a forger made a broker believe, where Kafka itself cannot see the lie.

A forged request with a stale epoch must be refused; what it does to a broker that takes it in is
that broker's fault. One whose epochs are as good as the controller's is lawfully believed, and what
the broker shows or does afterwards is the forger's doing, until the broker hears the truth again:

    told       an UpdateMetadata about a partition: until the broker's next update of that partition
    deafened   any request with a controller epoch of the future, which makes the broker refuse its
               true controller: until it takes in an update of anything again

Both end with the life of the broker, which forgets. The witness is the forger's own row.

A stale controller or leader epoch is stale only to who has been told of a newer one: a broker that
a new controller has not reached yet lawfully obeys the one before (`taken_in`). That it had not
been told must be seen: by the answers that controllers were given, or by its own rows, which begin
to speak of a newer epoch only later. Where nobody says what it was told it is not let off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.control_requests import accepted_by, known_leader_epochs, requests
from checkers.facts.leadership import NEVER, TP, Key, key_of
from checkers.facts.lives import cuts
from checkers.facts.spans import earliest
from checkers.facts.timeline import FROM, TO, Timeline, merged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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


def accepted(row: Row) -> bool:
    """Whether a `forged` row's request may have been taken in: no answer, no denial."""
    answer = row["error"] == 0 or (row["error"] is None and row["type"] == "info")
    return answer and not row["partition_error"]


def taken_in(history: History) -> list[Row]:
    """The `forged` rows whose requests may lawfully have been taken in."""
    found: list[Row] = history.memo("lies taken in", lambda: _taken_in(history))
    return found


def _taken_in(history: History) -> list[Row]:
    rows = [r for r in history.rows("forged") if r["node"] is not None and accepted(r)]
    seen = [row for row in rows if row["lie"] in SEEN_LIES]
    unheard = {id(row) for row in _unheard(history, seen)} if seen else set()
    return [row for row in rows if row["lie"] not in SEEN_LIES or id(row) in unheard]


def _unheard(history: History, lies: Sequence[Row]) -> Iterator[Row]:
    """Those of lies with a stale epoch that came to a broker before it was told of a newer one."""
    for epoch, told in _TOLD.items():
        asked = [row for row in lies if row["lie"] == f"stale_{epoch}_epoch"]
        first = _first_told(history, asked, epoch, told(history)) if asked else {}
        for number, row in enumerate(asked):
            if first.get(number, -1) >= row["invoke_t"]:
                yield row


def _first_told(
    history: History, lies: Sequence[Row], epoch: str, told: DataFrame
) -> dict[int, int]:
    """By lie, when (ns, at the latest) its broker was first told of an epoch, in the life that the
    lie fell into, after which it had to refuse; only of those whose broker was told of a newer one
    in that life at all, by the word of anybody."""
    from pyspark.sql import functions as F

    name, place = f"{epoch}_epoch", ["arm", "trial", "node"]
    place += ["topic", "partition"] if epoch == "leader" else []
    rows = []
    for number, row in enumerate(lies):
        ends = cuts(history).get((row["arm"], row["trial"], row["node"]), [])
        life = bisect_right(ends, row["invoke_t"])
        # Kafka takes a StopReplica with the leader epoch that it knows, and no such LeaderAndIsr.
        equal = epoch == "leader" and row["api"] != "STOP_REPLICA"
        began, died = ends[life - 1] if life else -1, ends[life] if life < len(ends) else NEVER
        of = {"_lie": number, "_equal": int(equal), "_began": began, "_died": died}
        of |= {"_epoch": row[name]}
        rows.append({**{n: row[n] for n in place}, **of})
    types = {"arm": "string", "topic": "string", "_began": "bigint", "_died": "bigint"}
    schema = ", ".join(f"{n} {types.get(n, 'int')}" for n in rows[0])
    both = told.join(F.broadcast(history.table(rows, schema)), place)
    both = both.where("epoch >= _epoch + 1 - _equal and t > _began and t < _died")
    first = F.min(F.when(F.col("binding"), F.col("t"))).alias("t")
    by = both.groupBy("_lie").agg(first, F.expr("max(epoch > _epoch) as newer")).where("newer")
    return {row["_lie"]: NEVER if row["t"] is None else row["t"] for row in by.collect()}


def _controllers_told(history: History) -> DataFrame:
    """Controller epochs, by when each broker had accepted a request with one."""
    from pyspark.sql import functions as F

    epoch = F.col("controller_epoch").alias("epoch")
    own = requests(history).where("error = 0")
    own = own.select("arm", "trial", "node", epoch, F.col("end_t").alias("t"))
    both = own.unionAll(accepted_by(history).select("arm", "trial", "node", epoch, "t"))
    return both.withColumn("binding", F.lit(True))


def _leaders_told(history: History) -> DataFrame:
    """The same of leader epochs, by partition: in LeaderAndIsr requests, or by its own word."""
    from pyspark.sql import functions as F

    own = known_leader_epochs(history, in_one_life=False)
    own = own.selectExpr(*TP, "node", "newer as epoch", "known_t as t", "true as binding")
    sent = accepted_by(history).where("api = 'LEADER_AND_ISR'")
    each = sent.select("arm", "trial", "node", "t", F.explode("partitions").alias("p"))
    place = ("arm", "trial", "p.topic", "p.partition", "node")
    told = each.selectExpr(*place, "p.leader_epoch", "t", "p.leader >= 0 as binding")
    return own.unionAll(told)


_TOLD: Final = {"controller": _controllers_told, "leader": _leaders_told}


def _gather(history: History) -> Forgeries:
    told: dict[tuple[Key, int], list[Span]] = {}
    deafened: dict[Node, list[Span]] = {}
    lies = taken_in(history)
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
