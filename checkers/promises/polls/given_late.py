"""Given late: who waits for records, and is not given what is committed, for
`checkers.promises.polls`.

A fetch waits at its broker for `fetch.min.bytes` (one, unless a client says more), for as long as
the client wants, and is answered as soon as they are committed (Kafka's DelayedFetch: each move of
the high watermark looks at the fetches that wait). One that is not looked at is answered in the end
as well, when its time is up, so that nothing is lost by it but time.

Once all is calm (`checkers.facts.calm`) a consumer that had all that was there before is to be
given what acks=all acknowledged within `WAIT_NS`; a busy machine takes a tenth of that.

Lawful, and looks similar: a consumer that did not poll meanwhile; one that had yet to be given
earlier records; a partition whose leader has just changed; a member of a group, which may have lost
the partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.facts.committed import committed
from checkers.facts.leadership import TP, key_of
from checkers.judging.excuses import Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
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
    acked = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    acked = acked.join(F.broadcast(history.table(since, _SINCE)), ["arm", "trial"])
    acked = acked.where("t > _since").groupBy(*TP, "offset").agg(F.min("t").alias("_acked_t"))
    members = history.frame("assignment").select("arm", "trial", "process").distinct()
    reads = history.frame("fetch").where("type = 'ok'")
    reads = reads.join(F.broadcast(members), ["arm", "trial", "process"], "left_anti")
    given = reads.where("offset >= 0").groupBy(*TP, "process", "offset").agg(F.min("t").alias("_t"))
    in_order = Window.partitionBy(*TP, "process").orderBy("offset")
    given = given.withColumn("_before_t", F.lag("_t").over(in_order)).join(acked, [*TP, "offset"])
    awaited = given.where("_before_t < _acked_t")
    late = awaited.where(f"_t > _acked_t + {WAIT_NS}")
    counts = awaited.groupBy("arm", "trial").count()
    for row in counts.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], AWAITED, row["count"])
    between = "invoke_t > _acked_t and t < _t"
    polls = reads.select("arm", "trial", "process", "poll", "invoke_t", "t").distinct()
    polled = polls.join(F.broadcast(late), ["arm", "trial", "process"]).where(between)
    found = polled.groupBy(*TP, "process", "offset", "_acked_t", "_t").agg(F.count("*").alias("n"))
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
    place = {"topic": first["topic"], "partition": first["partition"], "offset": first["offset"]}
    return Finding(
        RULE,
        f"{first['process']} had polled all the while, and was given {first['topic']}-"
        f"{first['partition']} offset {first['offset']} {waited_s:.1f} s after it had been "
        f"acknowledged ({len(rows)} such records)",
        first["arm"],
        first["trial"],
        (
            Pick("produce", place, rows=1),
            Pick("fetch", {**place, "process": first["process"]}, rows=1),
        ),
    )
