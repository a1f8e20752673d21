"""Shown and lost: offsets that a coordinator told of before they were kept, for
`checkers.promises.groups`.

What OffsetFetch answers is committed (GroupMetadata takes an offset in when its append is): who
begins there must not be ahead of what the next coordinator will have. So what anybody was told
(role group-stranger asks every broker) is still there when a member asks later.

Lawful, and looks similar: an older offset that somebody committed after the newer one was told, or
may have; a coordinator that has just been elected tells what its log has, committed or not
(GroupMetadataManager loads up to the log's end): only what was first asked to be kept when it was
in office is held against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.decisions import lives
from checkers.facts.unions import united
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "shown-offset-lost"
SHOWN: Final = "kept offsets that others had been told of before"
OFFSETS_TOPIC: Final = "__consumer_offsets"
_AT: Final = ["arm", "trial", "topic", "partition", "group"]
_MS: Final = 1_000_000
Row = Mapping[str, Any]


def shown_and_lost(
    history: History, outcome: Outcome, told: DataFrame, asked: DataFrame
) -> Iterator[tuple[Finding, int]]:
    """Each finding, and how often it was so. ``told``: what strangers were answered; ``asked``:
    what members were, of the same columns."""
    shown = F.struct("offset", "invoke_t", "t", "node").alias("_shown")
    before = told.where("offset >= 0").select(*_AT, F.col("t").alias("_at"), shown)
    rows = asked.select(*_AT, "process", "offset", "t", F.col("invoke_t").alias("_at"))
    both = united(rows, before)
    order = Window.partitionBy(*_AT).orderBy("_at", F.col("_shown").isNotNull())
    so_far = F.max("_shown").over(order.rowsBetween(Window.unboundedPreceding, 0))
    found = both.withColumn("_newest", so_far).where("_shown is null and _newest is not null")
    counts = found.groupBy("arm", "trial").count()
    for row in counts.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], SHOWN, row["count"])
    lost = found.where("offset < _newest.offset").select(*_AT, "process", "offset", "t", "_newest")
    tries = history.frame("commit").where("type != 'fail'")
    came = F.max(F.when(F.col("type") == "info", F.lit(2**62)).otherwise(F.col("t")))
    again = tries.groupBy(*_AT, "offset").agg(came.alias("_again_t"))
    lost = lost.join(again, [*_AT, "offset"], "left")
    lost = lost.where("_again_t is null or _again_t < _newest.invoke_t")
    by_offset = history.frame("commit").groupBy(*_AT, F.col("offset").alias("_tried"))
    first = by_offset.agg(F.min("invoke_t").alias("tried_t"))
    lost = lost.withColumn("_tried", F.col("_newest.offset")).join(first, [*_AT, "_tried"])
    each = lost.groupBy(*_AT, "_newest", "tried_t").agg(
        F.count("*").alias("n"), F.min(F.struct("t", "offset", "process")).alias("first")
    )
    elected = _elected(history)
    for row in each.orderBy(*_AT, "_newest").toArrow().to_pylist():
        shown_by = row["_newest"]
        terms = elected.get((row["arm"], row["trial"], shown_by["node"]), ())
        if not any(row["tried_t"] <= t < shown_by["t"] for t in terms):
            yield _finding(row), row["n"]


def _elected(history: History) -> dict[tuple[str, int, int], list[int]]:
    """By broker, when it may have been given any partition of groups' offsets (ns), as late as
    that may have been."""
    offset_ns, error_ns = history.run.clock_offset_ns, history.run.clock_error_ns
    found: dict[tuple[str, int, int], list[int]] = {}
    for key, of in lives(history).items():
        for state in (s for life in of for s in life if key[2] == OFFSETS_TOPIC):
            if state.leader is not None and state.commit_ms is not None and offset_ns is not None:
                t = (state.commit_ms + 1) * _MS + offset_ns + error_ns
                found.setdefault((*key[:2], state.leader), []).append(t)
    return found


def _finding(row: Row) -> Finding:
    at = {name: row[name] for name in ("topic", "partition", "group")}
    shown, first = row["_newest"], row["first"]
    return Finding(
        RULE,
        f"node {shown['node']} told offset {shown['offset']} of {row['topic']}-{row['partition']} "
        f"as what group {row['group']} had kept; {first['process']}, asking afterwards, was told "
        f"{first['offset']}, which nobody can have committed since",
        row["arm"],
        row["trial"],
        (
            Pick("commit", {**at, "offset": shown["offset"]}, rows=1),
            Pick("committed", {**at, "offset": shown["offset"], "t": shown["t"]}, rows=1),
            Pick("committed", {**at, "offset": first["offset"], "t": first["t"]}, rows=1),
        ),
    )
