"""Given late: who waits for records, and is not given what is committed, for
`checkers.promises.polls`.

A fetch waits at its broker for `fetch.min.bytes` (one, unless a client says more), for as long as
the client wants, and is answered as soon as they are committed (Kafka's DelayedFetch: each move of
the high watermark looks at the fetches that wait). One that is not looked at is answered in the end
as well, when its time is up, so that nothing is lost by it but time.

Once all is calm (`checkers.facts.calm`) a consumer that had all that was there before is to be
given what acks=all acknowledged within `WAIT_NS`; a busy machine takes a tenth of that. With that
record all before it are committed, whatever their producers asked for, and one of them may be the
next that it is to be given.

Lawful, and looks similar: a consumer that did not poll meanwhile; one that had yet to be given
earlier records, or goes back to before what it had been given when all came to calm; a partition
whose leader has just changed; a member of a group, which may have lost the partition. Who was given
nothing since before all was calm may be waiting to connect anew, which is its own affair
(``reconnect.backoff.max.ms``): what is next to it has to be younger than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.facts.committed import committed
from checkers.facts.leadership import TP, key_of
from checkers.facts.unions import is_true
from checkers.judging.excuses import Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "given-late"
AWAITED: Final = "records that a consumer waited for"
WAIT_NS: Final = 1_500_000_000
_MOVED_NS: Final = 5_000_000_000
"""So long after another leader was committed a consumer may still be looking for it."""
_POLLS: Final = 2
_SINCE: Final = "arm string, trial int, _since bigint"
Row = Mapping[str, Any]


def given_late(history: History, outcome: Outcome, known: Excuses) -> Iterator[tuple[Finding, int]]:
    """Each finding, and of how many records it is so."""
    since = [
        {"arm": arm, "trial": trial, "_since": of.healed_t + of.needed_ns}
        for (arm, trial), of in calm(history).items()
    ]
    if not since or not history.has("produce"):
        return
    calm_since = history.table(since, _SINCE)
    acked = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    acked = acked.join(F.broadcast(calm_since), ["arm", "trial"]).where("t > _since")
    acked = acked.groupBy(*TP, "offset").agg(F.min("t").alias("_acked_t"))
    members = history.frame("assignment").select("arm", "trial", "process").distinct()
    reads = history.frame("fetch").where("type = 'ok'")
    reads = reads.join(F.broadcast(members), ["arm", "trial", "process"], "left_anti")
    awaited = history.keep(RULE, lambda: _counted(_awaited(reads, acked, calm_since)))
    own, many = F.when(F.col("_own"), F.col("n")), F.when(F.col("_late"), F.col("n"))
    found = awaited.groupBy("arm", "trial").agg(F.sum(own).alias("own"), F.sum(many).alias("late"))
    counts = found.toArrow().to_pylist()
    for row in counts:
        outcome.saw(row["arm"], row["trial"], AWAITED, row["own"] or 0)
    if not any(row["late"] for row in counts):
        return
    late = _with_first(awaited.where("_late").drop("n"), acked)
    between = "invoke_t > _acked_t and t < _t"
    polls = reads.select("arm", "trial", "process", "poll", "invoke_t", "t").distinct()
    polled = polls.join(F.broadcast(late), ["arm", "trial", "process"]).where(between)
    by = [*TP, "process", "offset", "_acked", "_acked_t", "_t"]
    found = polled.groupBy(*by).agg(F.count("*").alias("n"))
    told: dict[tuple[Any, ...], list[Row]] = {}
    for row in found.where(f"n >= {_POLLS}").orderBy(*TP, "offset").toArrow().to_pylist():
        if _moved(history, row):
            continue
        excuse = known.of(*key_of(row), row["_acked_t"])
        if excuse is not None:
            outcome.excuse(row["arm"], row["trial"], RULE, excuse, of=AWAITED)
            continue
        told.setdefault((*key_of(row), row["process"]), []).append(row)
    for rows in told.values():
        yield _finding(rows), len(rows)


def _awaited(reads: DataFrame, acked: DataFrame, since: DataFrame) -> DataFrame:
    """Records (`TP`, process, offset) given at ``_t`` to who waited for them: the first of those
    acknowledged from there on, in the calm, was so at ``_acked_t``; ``_own``: it was acknowledged
    so itself."""
    by = [*TP, "process"]
    given = reads.where("offset >= 0").join(F.broadcast(since), ["arm", "trial"])
    # The load's most was given before, and says no more than up to where.
    early = given.where("t <= _since").groupBy(*by).agg(F.max("offset").alias("_had"))
    given = given.where("t > _since").join(F.broadcast(early), by, "left")
    given = given.where("_had is null or offset > _had")
    given = given.groupBy(*by, "offset", "_since", "_had").agg(F.min("t").alias("_t"))
    before = F.lag("_t").over(Window.partitionBy(*by).orderBy("offset"))
    given = given.withColumn("_before_t", F.coalesce(before, F.expr("if(_had >= 0, _since, null)")))
    given = given.join(acked, [*TP, "offset"], "left")
    own = F.col("_acked_t").isNotNull()
    from_there = Window.partitionBy(*by).orderBy(F.desc("offset"))
    first = F.min("_acked_t").over(from_there.rowsBetween(Window.unboundedPreceding, 0))
    names = ["process", "offset", "_t", "_before_t", "_since"]
    given = given.select(*TP, *names, own.alias("_own"), first.alias("_acked_t"))
    return given.where("_before_t < _acked_t and (_own or _before_t > _since)")


def _with_first(late: DataFrame, acked: DataFrame) -> DataFrame:
    """With ``_acked``, the offset of what was acknowledged at ``_acked_t``."""
    by = [*TP, "process", "offset", "_acked_t", "_t"]
    known = acked.withColumnRenamed("offset", "_acked")
    both = F.broadcast(late).join(known, [*TP, "_acked_t"]).where("_acked >= offset")
    return both.groupBy(*by).agg(F.min("_acked").alias("_acked"))


def _counted(awaited: DataFrame) -> DataFrame:
    """Those that were given late (``_late``), and how many others there are: ``n``."""
    late = is_true(F.col("_t") > F.col("_acked_t") + WAIT_NS)
    rows = awaited.withColumn("_late", late).where("_own or _late")
    rest = [name for name in awaited.columns if name not in ("arm", "trial", "_own")]
    alike = (F.when(F.col("_late"), F.col(name)).alias(name) for name in rest)
    return rows.groupBy("arm", "trial", "_own", "_late", *alike).agg(F.count("*").alias("n"))


def _moved(history: History, row: Row) -> bool:
    """Whether who leads may have changed while it waited, or shortly before."""
    of = committed(history).get(key_of(row))
    if of is None:
        return False
    from_t, states = row["_acked_t"] - _MOVED_NS, of.states
    before = of.as_of(from_t)
    leaders = {s.row["leader"] for s in states if from_t < s.t <= row["_t"]}
    return bool(leaders - {before.row["leader"] if before is not None else None})


def _finding(rows: list[Row]) -> Finding:
    first = rows[0]
    waited_s = (first["_t"] - first["_acked_t"]) / 1e9
    at = {"topic": first["topic"], "partition": first["partition"]}
    return Finding(
        RULE,
        f"{first['process']} had polled all the while, and was given {first['topic']}-"
        f"{first['partition']} offset {first['offset']} {waited_s:.1f} s after offset "
        f"{first['_acked']} had been acknowledged ({len(rows)} such records)",
        first["arm"],
        first["trial"],
        (
            Pick("produce", {**at, "offset": first["_acked"]}, rows=1),
            Pick("fetch", {**at, "offset": first["offset"], "process": first["process"]}, rows=1),
        ),
    )
