"""Stale metadata: who was told about a leader that was no longer one, for how long?

Guarantee: a live broker shows committed leadership, never goes back, and converges after healing.

A Metadata read is *stale* when it returned leader epoch e although a higher one had been committed
before the read was invoked; its staleness is the time since. That alone is lawful (propagation
takes time) and measured. Violations:

- ``metadata-went-back``: a broker answered with an older epoch than a read that had completed at
  the same broker, in the same life, before this one was invoked;
- ``metadata-never-committed``: an epoch higher than any committed, well before the watch ended;
- ``metadata-never-converged``: a broker that still answers, still behind, long after the last fault
  was healed and the last leader was committed.

No as-of join: epochs are dense, so "when was e over" is one small table, joined by equality (see
`checkers.leadership`). A read that showed a higher epoch is evidence of its commit as well, which
tightens what a late watch says.

No alarm: epochs that a forged UpdateMetadata with a lie that Kafka cannot see (``forged`` rows that
are no stale controller or broker epoch) put there; going back across topic incarnations.
Blind: going back on a topic that was deleted and created again; staleness of deleted topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.histogram import bucket_of, gather
from checkers.leadership import TP, epochs, last_sighting
from checkers.lives import with_life
from checkers.outcome import Outcome
from checkers.segments import settled, with_segment
from checkers.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.frames import History

WATCH_GRACE_NS: Final = 1_000_000_000
"""A commit may be seen so much after a broker shows it."""
CONVERGED_NS: Final = 5_000_000_000
"""After healing, when every in-sync set was seen full: metadata must have arrived by then."""
CONVERGED_UNSURE_NS: Final = 10_000_000_000
"""The same when nobody saw full in-sync sets."""
_CANDIDATES: Final = 10_000
_SEEN_LIES: Final = ("stale_controller_epoch", "stale_broker_epoch")


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("metadata"):
        _propagation(history, outcome, applied(history), "propagation_applied")
        outcome.looked_at = 0
        return outcome
    shown = _shown(history)
    over = _over(history, shown)
    _staleness(history, outcome, over)
    _propagation(history, outcome, shown, "propagation_shown")
    _propagation(history, outcome, applied(history), "propagation_applied")
    for finding in _violations(history, shown):
        outcome.add(finding)
    if outcome.looked_at and not history.has("leadership"):
        outcome.unknowns.append("no leadership was recorded to hold metadata against")
    return outcome


def _reads(history: History) -> DataFrame:
    """Answers that name a leader epoch, with ``life`` and ``tainted`` (a forger was there)."""
    rows = history.frame("metadata").where(
        "type = 'ok' and leader_epoch >= 0 and node is not null and topic is not null "
        "and invoke_t is not null"
    )
    rows = with_life(history, rows, F.col("invoke_t"), F.col("t"))
    forged = [
        {k: row[k] for k in ("arm", "trial", "node", "topic", "partition")}
        | {"_t": row["invoke_t"]}
        for row in history.rows("forged")
        if row["api"] == "UPDATE_METADATA"
        and (row["error"] == 0 or (row["error"] is None and row["type"] == "info"))
        and row["lie"] not in _SEEN_LIES
    ]
    if not forged:
        return rows.withColumn("tainted", F.lit(False))
    table = history.table(
        forged, "arm string, trial int, node int, topic string, partition int, _t bigint"
    )
    first = table.groupBy("arm", "trial", "node", "topic", "partition").agg(F.min("_t").alias("_t"))
    joined = rows.join(F.broadcast(first), ["arm", "trial", "node", "topic", "partition"], "left")
    tainted = F.coalesce(F.col("t") >= F.col("_t"), F.lit(False))
    return joined.withColumn("tainted", tainted).drop("_t")


def _shown(history: History) -> DataFrame:
    """What each broker showed in each life: per epoch the first completion, the last invocation."""
    keys = ["arm", "trial", "node", "life", "tainted", "topic", "partition", "leader_epoch"]
    return history.pin(
        _reads(history)
        .groupBy(*keys)
        .agg(
            F.count("*").alias("reads"),
            F.min("t").alias("first_t"),
            F.max("invoke_t").alias("last_invoke_t"),
            F.max("t").alias("last_t"),
        )
    )


def applied(history: History) -> DataFrame:
    """What each broker's metadata cache took in, in the columns of `_shown`."""
    rows = history.frame("metadata_update").where("leader_epoch >= 0 and leader >= -1")
    rows = with_life(history, rows, F.col("t"), F.col("t"))
    return (
        rows.groupBy("arm", "trial", "node", "life", "topic", "partition", "leader_epoch")
        .agg(F.min("t").alias("first_t"))
        .withColumn("tainted", F.lit(False))
    )


def _over(history: History, shown: DataFrame) -> DataFrame:
    """`epochs` with ``superseded_t`` tightened by what brokers showed."""
    known = epochs(history)
    newest = known.groupBy(*TP).agg(F.max("leader_epoch").alias("_newest"))
    seen = shown.where(~F.col("tainted")).join(F.broadcast(newest), TP)
    seen = seen.where(F.col("leader_epoch") <= F.col("_newest"))
    seen = seen.groupBy(*TP, "leader_epoch").agg(F.min("first_t").alias("_shown_t"))
    joined = known.join(F.broadcast(seen), [*TP, "leader_epoch"], "left")
    later = (
        Window.partitionBy(*TP, "incarnation")
        .orderBy("leader_epoch")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    tighter = F.when(F.col("incarnations") == 1, F.min("_shown_t").over(later))
    return joined.withColumn("superseded_t", F.least("superseded_t", tighter))


def _staleness(history: History, outcome: Outcome, over: DataFrame) -> None:
    reads = with_segment(history, _reads(history), F.col("invoke_t"))
    table = over.select(*TP, "leader_epoch", "superseded_t", "valid_from", "valid_to")
    joined = reads.alias("r").join(
        F.broadcast(table).alias("e"),
        _equal(("r", "e"), [*TP, "leader_epoch"])
        & (F.col("r.t") >= F.col("e.valid_from"))
        & (F.col("r.t") < F.col("e.valid_to")),
        "left",
    )
    stale = F.coalesce(F.col("superseded_t") < F.col("invoke_t"), F.lit(False)) & ~F.col("tainted")
    age = F.when(stale, F.col("invoke_t") - F.col("superseded_t"))
    found = (
        joined.select("r.arm", "r.node", "segment", "tainted", age.alias("age_ns"))
        .groupBy("arm", "node", "segment", "tainted", bucket_of(F.col("age_ns")).alias("bucket"))
        .agg(F.count("*").alias("n"), F.max("age_ns").alias("max_ns"))
        .collect()
    )
    rows = [row.asDict() for row in found]
    outcome.looked_at += sum(r["n"] for r in rows)
    old = [r for r in rows if r["bucket"] is not None]
    _totals(outcome, rows)
    for (arm,), histogram in gather(old, "arm").items():
        outcome.arm(arm)["staleness"] = histogram.summary()
    for (arm, node), histogram in gather(old, "arm", "node").items():
        outcome.arm(arm).setdefault("staleness_by_node", {})[str(node)] = histogram.summary()
    for (arm, segment), histogram in gather(old, "arm", "segment").items():
        outcome.arm(arm).setdefault("staleness_by_segment", {})[segment] = histogram.summary()
    outcome.figures["staleness"] = [
        {k: r[k] for k in ("arm", "node", "segment", "bucket", "n", "max_ns")} for r in old
    ]


def _totals(outcome: Outcome, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        figures = outcome.arm(row["arm"])
        figures["reads"] = figures.get("reads", 0) + row["n"]
        old = row["n"] if row["bucket"] is not None else 0
        figures["stale_reads"] = figures.get("stale_reads", 0) + old
        if row["tainted"]:
            figures["forged_reads"] = figures.get("forged_reads", 0) + row["n"]
    for figures in outcome.arms.values():
        if figures.get("reads"):
            figures["stale_share"] = round(figures["stale_reads"] / figures["reads"], 6)


def _propagation(history: History, outcome: Outcome, shown: DataFrame, name: str) -> None:
    """From the commit of an epoch until each broker had it (or a higher one), in one life.

    A broker's first epoch of a life tells nothing: nobody asked it before. ``stale_time_ms`` is
    the sum: how long brokers, partition by partition, were behind.
    """
    life = Window.partitionBy("arm", "trial", "node", "life", "topic", "partition")
    order = life.orderBy("leader_epoch")
    rows = shown.where("life is not null and not tainted")
    rising = order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    rows = rows.withColumn("first_t", F.min("first_t").over(rising))
    rows = rows.withColumn("_before", F.lag("leader_epoch").over(order))
    rows = rows.where("_before is not null and leader_epoch - _before < 10000")
    rows = rows.withColumn(
        "leader_epoch", F.explode(F.sequence(F.col("_before") + 1, "leader_epoch"))
    )
    commits = epochs(history).where("committed_t is not null and leader >= 0 and incarnations = 1")
    joined = rows.join(commits.select(*TP, "leader_epoch", "committed_t"), [*TP, "leader_epoch"])
    late = F.greatest(F.col("first_t") - F.col("committed_t"), F.lit(0))
    collected = (
        joined.select("arm", "node", late.alias("late_ns"))
        .groupBy("arm", "node", bucket_of(F.col("late_ns")).alias("bucket"))
        .agg(
            F.count("*").alias("n"), F.max("late_ns").alias("max_ns"), F.sum("late_ns").alias("sum")
        )
        .collect()
    )
    found = [row.asDict() for row in collected]
    for (arm,), histogram in gather(found, "arm").items():
        outcome.arm(arm)[name] = histogram.summary()
        total = sum(r["sum"] for r in found if r["arm"] == arm)
        outcome.arm(arm)[name]["stale_time_ms"] = round(total / 1e6, 3)
    for (arm, node), histogram in gather(found, "arm", "node").items():
        outcome.arm(arm).setdefault(f"{name}_by_node", {})[str(node)] = histogram.summary()
    outcome.figures[name] = [
        {k: r[k] for k in ("arm", "node", "bucket", "n", "max_ns")} for r in found
    ]


# -- violations ---------------------------------------------------------------------------------


def _violations(history: History, shown: DataFrame) -> list[Finding]:
    """Candidates of all three rules in one query; what is left to decide is decided here."""
    life = Window.partitionBy("arm", "trial", "node", "life", "topic", "partition")
    higher = life.orderBy("leader_epoch").rowsBetween(1, Window.unboundedFollowing)
    node = Window.partitionBy("arm", "trial", "node", "topic", "partition")
    rows = shown.where(~F.col("tainted"))
    rows = rows.withColumn(
        "newer_t", F.when(F.col("life").isNotNull(), F.min("first_t").over(higher))
    )
    rows = rows.withColumn("_latest", F.max("last_invoke_t").over(node))
    known = (
        epochs(history)
        .groupBy(*TP)
        .agg(
            F.max("leader_epoch").alias("newest"),
            F.max_by("leader_epoch", F.struct("incarnation", "leader_epoch")).alias("final"),
            F.max("committed_t").alias("final_t"),
            F.max("incarnations").alias("incarnations"),
        )
    )
    rows = rows.join(F.broadcast(known), TP, "left")
    back = (F.col("newer_t") < F.col("last_invoke_t")) & (F.coalesce("incarnations", F.lit(1)) == 1)
    unknown = F.col("leader_epoch") > F.col("newest")
    behind = (F.col("last_invoke_t") == F.col("_latest")) & (F.col("leader_epoch") < F.col("final"))
    rows = rows.withColumn("back", F.coalesce(back, F.lit(False)))
    rows = rows.withColumn("unknown", F.coalesce(unknown, F.lit(False)))
    rows = rows.withColumn("behind", F.coalesce(behind, F.lit(False)))
    rows = rows.where("back or unknown or behind").orderBy("first_t").limit(_CANDIDATES)
    until, calm = last_sighting(history), settled(history)
    findings: list[Finding] = []
    for row in rows.collect():
        key = (row["arm"], row["trial"])
        if row["back"]:
            findings.append(_went_back(row))
        if row["unknown"] and row["first_t"] + WATCH_GRACE_NS < until.get(key, 0):
            findings.append(_never_committed(row))
        if row["behind"] and key in calm:
            healed_t, quiet = calm[key]
            since = max(healed_t, row["final_t"] or 0)
            since += CONVERGED_NS if quiet else CONVERGED_UNSURE_NS
            if row["last_invoke_t"] > since:
                findings.append(_never_converged(row))
    return findings


def _where(row: Any, **more: Any) -> dict[str, Any]:
    return {"topic": row["topic"], "partition": row["partition"], **more}


def _went_back(row: Any) -> Finding:
    older = row["leader_epoch"]
    at = _where(row, node=row["node"], type="ok")
    return Finding(
        "metadata-went-back",
        f"node {row['node']} showed leader epoch {older} of {row['topic']}-{row['partition']} "
        "after it had shown a newer one",
        row["arm"],
        row["trial"],
        (
            Pick("metadata", at, from_t=row["newer_t"], to_t=row["newer_t"], rows=1),
            Pick(
                "metadata",
                {**at, "leader_epoch": older, "invoke_t": row["last_invoke_t"]},
                from_t=row["newer_t"],
                rows=1,
            ),
            Pick("metadata_update", _where(row, node=row["node"]), to_t=row["last_t"], last=True),
        ),
    )


def _never_committed(row: Any) -> Finding:
    shown = _where(row, node=row["node"], leader_epoch=row["leader_epoch"])
    return Finding(
        "metadata-never-committed",
        f"node {row['node']} showed leader epoch {row['leader_epoch']} of "
        f"{row['topic']}-{row['partition']}; the highest ever committed is {row['newest']}",
        row["arm"],
        row["trial"],
        (
            Pick("leadership", _where(row, leader_epoch=row["newest"]), rows=1),
            Pick("metadata", shown, rows=1),
            Pick("metadata_update", shown, rows=1),
        ),
    )


def _never_converged(row: Any) -> Finding:
    return Finding(
        "metadata-never-converged",
        f"node {row['node']} still showed leader epoch {row['leader_epoch']} of "
        f"{row['topic']}-{row['partition']} at the end, {row['final']} being committed",
        row["arm"],
        row["trial"],
        (
            Pick("leadership", _where(row, leader_epoch=row["final"]), rows=1),
            Pick("fault", {"phase": "healed"}, rows=1, last=True),
            Pick(
                "metadata", _where(row, node=row["node"]), from_t=row["first_t"], last=True, rows=2
            ),
        ),
    )


def _equal(sides: tuple[str, str], names: list[str]) -> Any:
    left, right = sides
    condition = F.lit(True)
    for name in names:
        condition = condition & (F.col(f"{left}.{name}") == F.col(f"{right}.{name}"))
    return condition
