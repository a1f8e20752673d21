"""Availability: from the commit of a new leader to its first successful produce and fetch.

Measured from the commit, not from the fault: a session timeout dwarfs what control planes change.
For each commit of a leader: the first produce (acknowledged) and fetch (delivered) that completed
at the new leader before the next commit. Where a row does not say which broker it talked to, any
that was *invoked* after the commit counts.

``held``: acks=all produces under way across a commit of their partition, which is how long a
partition that was to move kept them in purgatory.

Violation ``never-available``: after every fault was healed (and in-sync sets were seen full again,
or longer after), a partition with a leader accepted not one of many produces, over seconds.
Exempt: trials with a fault that was never healed, partitions with an excuse.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.excuses import excuses
from checkers.histogram import bucket_of, gather
from checkers.leadership import NEVER, TP, Key, leadership
from checkers.outcome import Outcome
from checkers.segments import settled
from checkers.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.frames import History

SETTLED_NS: Final = 5_000_000_000
SETTLED_UNSURE_NS: Final = 15_000_000_000
ATTEMPTS: Final = 10
ATTEMPTS_OVER_NS: Final = 3_000_000_000
_SUSPECTS: Final = 10_000


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("produce") and not history.has("fetch"):
        return outcome
    if history.has("leadership"):
        spans = _spans(history)
        for kind, name in (("produce", "first_produce"), ("fetch", "first_fetch")):
            if history.has(kind):
                _first_success(history, outcome, spans, kind, name)
    if history.has("produce"):
        _never_available(history, outcome)
    return outcome


def _spans(history: History) -> DataFrame:
    """Each commit of another leader, until the next commit: [committed_t, until_t)."""
    rows = []
    for key, of in leadership(history).items():
        for before, epoch in pairwise(of.commits):
            moved = before.incarnation == epoch.incarnation and before.leader != epoch.leader
            if moved and epoch.leader is not None and epoch.leader >= 0:
                row = dict(zip(TP, key, strict=True), committed_epoch=epoch.leader_epoch)
                row |= {"leader": epoch.leader, "committed_t": epoch.committed_t}
                rows.append({**row, "until_t": epoch.superseded_t or NEVER})
    return history.table(
        rows,
        "arm string, trial int, topic string, partition int, committed_epoch int, leader int, "
        "committed_t bigint, until_t bigint",
    )


def _first_success(
    history: History, outcome: Outcome, spans: DataFrame, kind: str, name: str
) -> None:
    rows = history.frame(kind).where("type = 'ok' and offset >= 0")
    acks = F.col("acks") if kind == "produce" else F.lit(0)
    rows = rows.select(*TP, "node", "t", "invoke_t", acks.alias("acks"))
    joined = rows.join(F.broadcast(spans), TP).where("t >= committed_t and invoke_t < until_t")
    at_leader = F.when(F.col("node").isNotNull(), F.col("node") == F.col("leader")).otherwise(
        F.col("invoke_t") >= F.col("committed_t")
    )
    served = at_leader & (F.col("t") < F.col("until_t"))
    held = (F.col("acks") == -1) & (F.col("invoke_t") < F.col("committed_t"))
    first = joined.groupBy(*TP, "committed_epoch", "committed_t").agg(
        F.min(F.when(served, F.col("t"))).alias("first_t"),
        F.count(F.when(held, 1)).alias("held"),
        F.max(F.when(held, F.col("t") - F.col("invoke_t"))).alias("held_ns"),
    )
    first = first.withColumn("late_ns", F.col("first_t") - F.col("committed_t"))
    found = first.groupBy("arm", bucket_of(F.col("late_ns")).alias("bucket")).agg(
        F.count("*").alias("n"),
        F.max("late_ns").alias("max_ns"),
        F.sum("held").alias("held"),
        F.max("held_ns").alias("held_ns"),
    )
    rows_found = [row.asDict() for row in found.collect()]
    timed = [r for r in rows_found if r["bucket"] is not None]
    outcome.looked_at += sum(r["n"] for r in timed)
    for (arm,), histogram in gather(timed, "arm").items():
        outcome.arm(arm)[name] = histogram.summary()
    if kind == "produce":
        for row in rows_found:
            figures = outcome.arm(row["arm"])
            figures["held"] = figures.get("held", 0) + row["held"]
            longest = max(figures.get("held_longest_ms", 0.0), (row["held_ns"] or 0) / 1e6)
            figures["held_longest_ms"] = round(longest, 3)
    outcome.figures[name] = [{k: r[k] for k in ("arm", "bucket", "n", "max_ns")} for r in timed]


def _never_available(history: History, outcome: Outcome) -> None:
    calm = settled(history)
    if not calm:
        return
    table = history.table(
        [
            {
                "arm": arm,
                "trial": trial,
                "_calm_t": t + (SETTLED_NS if quiet else SETTLED_UNSURE_NS),
            }
            for (arm, trial), (t, quiet) in calm.items()
        ],
        "arm string, trial int, _calm_t bigint",
    )
    rows = (
        history.frame("produce")
        .where("topic is not null")
        .join(F.broadcast(table), ["arm", "trial"])
    )
    late = (
        rows.where("invoke_t >= _calm_t")
        .groupBy(*TP)
        .agg(
            F.count("*").alias("attempts"),
            F.count(F.when((F.col("type") == "ok") | (F.col("acks") == 0), 1)).alias("ok"),
            F.min("invoke_t").alias("from_t"),
            F.max("t").alias("to_t"),
        )
    )
    outcome.looked_at += 1
    stuck = late.where(f"ok = 0 and attempts >= {ATTEMPTS} and to_t - from_t >= {ATTEMPTS_OVER_NS}")
    known = excuses(history)
    leaderless = _leaderless(history)
    for row in stuck.limit(_SUSPECTS).collect():
        key = (row["arm"], row["trial"], row["topic"], row["partition"])
        if key in leaderless or known.of(*key, row["from_t"]) not in (None, "unclean", "compacted"):
            continue
        outcome.add(_stuck(row))


def _leaderless(history: History) -> set[Key]:
    """Partitions whose last committed state has no leader: no broker could have served them."""
    return {k for k, of in leadership(history).items() if (of.last.leader or 0) < 0}


def _stuck(row: Any) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    seconds = (row["to_t"] - row["from_t"]) / 1e9
    return Finding(
        "never-available",
        f"{row['topic']}-{row['partition']} accepted none of {row['attempts']} produces in "
        f"{seconds:.1f} s, long after the last fault was healed",
        row["arm"],
        row["trial"],
        (
            Pick("fault", {"phase": "healed"}, rows=1, last=True),
            Pick("leadership", at, rows=1, last=True),
            Pick("produce", at, from_t=row["from_t"], to_t=row["to_t"]),
        ),
    )
