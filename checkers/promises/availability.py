"""Availability: from the commit of a new leader to its first successful produce and fetch.

Measured from the commit, not from the fault: a session timeout dwarfs what control planes change.
For each commit of a leader: the first produce (acknowledged) and fetch (delivered) that completed
at the new leader before the next commit. Where a row does not say which broker it talked to, any
that was *invoked* after the commit counts. Produces with acks=1 and with acks=all apart as well:
the latter wait for followers, whose fetches no control plane carries.

``leader_ready``: until the new leader said that it leads. What comes between that and the first
produce is the client's way to find out, and the data plane. Every figure is told by segment as well
(which faults were in place at the commit), since leaders also move when nothing is wrong.

``held``: acks=all produces under way across a commit of their partition, which is how long a
partition that was to move kept them in purgatory.

This check has figures and no violations: whether a partition serves at all in the end, each level
of acks by itself, is judged by `recovery`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.histogram import bucket_of, gather, grouped
from checkers.facts.leadership import NEVER, TP, leadership
from checkers.facts.segments import with_segment
from checkers.facts.timeline import FROM, TO, Timeline
from checkers.facts.unions import BY_OTHERS, by_two
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_LEVELS: Final = {1: "acks_1", -1: "acks_all"}


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("produce") and not history.has("fetch"):
        return outcome
    if history.has("leadership"):
        spans = _spans(history)
        for kind, name in (("produce", "first_produce"), ("fetch", "first_fetch")):
            if history.has(kind):
                _first_success(history, outcome, spans, kind, name)
        if history.has("leader_change"):
            _leader_ready(history, outcome, spans)
    return outcome


def _spans(history: History) -> Timeline:
    """Each commit of another leader, until the next commit."""
    rows = []
    for key, of in leadership(history).items():
        for before, epoch in pairwise(of.commits):
            moved = before.incarnation == epoch.incarnation and before.leader != epoch.leader
            if moved and epoch.leader is not None and epoch.leader >= 0:
                row = dict(zip(TP, key, strict=True), committed_epoch=epoch.leader_epoch)
                row |= {"leader": epoch.leader, FROM: epoch.committed_t}
                rows.append({**row, TO: epoch.superseded_t or NEVER})
    return Timeline(rows, TP, {"committed_epoch": "int", "leader": "int"})


def _first_success(
    history: History, outcome: Outcome, spans: Timeline, kind: str, name: str
) -> None:
    rows = history.frame(kind).where("type = 'ok' and offset >= 0")
    acks = F.col("acks") if kind == "produce" else F.lit(0)
    rows = rows.select(*TP, "node", "t", "invoke_t", acks.alias("acks"))
    joined = spans.during(history, rows, F.col("invoke_t"), F.col("t"))
    at_leader = F.when(F.col("node").isNotNull(), F.col("node") == F.col("leader")).otherwise(
        F.col("invoke_t") >= F.col(FROM)
    )
    served = at_leader & (F.col("t") < F.col(TO))
    late = F.when(served, F.col("t") - F.col(FROM))
    held = (F.col("acks") == -1) & (F.col("invoke_t") < F.col(FROM))
    levels = {name: F.lit(True)}
    if kind == "produce":
        levels |= {f"{name}_{label}": F.col("acks") == acks for acks, label in _LEVELS.items()}
    commits = joined.groupBy(*TP, F.col(FROM).alias("committed_t")).agg(
        *(F.min(F.when(of, late)).alias(level) for level, of in levels.items()),
        F.count(F.when(held, 1)).alias("held"),
        F.max(F.when(held, F.col("t") - F.col("invoke_t"))).alias("held_ns"),
    )
    for row in _summarise(history, outcome, commits, list(levels)):
        outcome.saw(row["arm"], row["trial"], f"new leaders seen to serve ({kind})", row["n"])
        if kind == "produce":
            figures = outcome.arm(row["arm"])
            figures["held"] = figures.get("held", 0) + row["held"]
            longest = max(figures.get("held_longest_ms", 0.0), (row["held_ns"] or 0) / 1e6)
            figures["held_longest_ms"] = round(longest, 3)


def _leader_ready(history: History, outcome: Outcome, spans: Timeline) -> None:
    """From the commit to the new leader's own word that it leads in that epoch."""
    same = [*TP, "node", "leader_epoch"]
    table = history.table(
        [
            {
                **{name: row[name] for name in TP},
                "node": row["leader"],
                "leader_epoch": row["committed_epoch"],
                "committed_t": row[FROM],
            }
            for row in spans.rows
        ],
        "arm string, trial int, topic string, partition int, node int, leader_epoch int, "
        "committed_t bigint",
    )
    rows = history.frame("leader_change").where("role = 'leader'").select(*same, "t")
    by_commit = rows.join(F.broadcast(table), same).groupBy(*TP, "committed_t")
    ready = F.greatest(F.min("t") - F.col("committed_t"), F.lit(0))
    commits = by_commit.agg(
        ready.alias("leader_ready"), F.lit(0).alias("held"), F.lit(0).alias("held_ns")
    )
    _summarise(history, outcome, commits, ["leader_ready"])


def _summarise(
    history: History, outcome: Outcome, commits: DataFrame, names: list[str]
) -> list[dict[str, Any]]:
    """Of ``commits``, each with how late (ns) every one of ``names`` was: a figure for each arm,
    for each arm and segment, and a small table of the histograms. Gives the sums of each trial: in
    how many commits the first of ``names`` came (``n``), ``held`` and the longest ``held_ns``."""
    each = with_segment(history, commits, F.col("committed_t"))
    late = [F.struct(F.lit(name).alias("name"), F.col(name).alias("late")) for name in names]
    each = each.withColumn("_each", F.explode(F.array(*late)))
    each = each.select("*", "_each.name", "_each.late")
    each = each.withColumn("bucket", bucket_of(F.col("late")))
    main = F.col("name") == names[0]
    keys = ["arm", "segment", "name", "bucket"]
    found = by_two(
        each,
        keys,
        ["arm", "trial"],
        F.count("late").alias("n_late"),
        F.max("late").alias("max_ns"),
        F.count(F.when(main, F.col("late"))).alias("n"),
        F.sum(F.when(main, F.col("held"))).alias("held"),
        F.max("held_ns").alias("held_ns"),
    )
    rows = grouped(found)
    counted = [
        {**row, "n": row["n_late"]}
        for row in rows
        if not row[BY_OTHERS] and row["bucket"] is not None
    ]
    for (arm, name), histogram in gather(counted, "arm", "name").items():
        outcome.arm(arm)[name] = histogram.summary()
    parts = gather(counted, "arm", "segment", "name")
    for (arm, segment, name), histogram in parts.items():
        outcome.arm(arm).setdefault(f"{name}_by_segment", {})[segment] = histogram.summary()
    for name in names:
        outcome.figures[name] = [
            {"arm": arm, "segment": segment, "bucket": bucket, "n": n, "max_ns": histogram.max_ns}
            for (arm, segment, of), histogram in parts.items()
            if of == name
            for bucket, n in histogram.counts.items()
        ]
    return [row for row in rows if row[BY_OTHERS]]


PROMISE: Final = Promise(
    name="availability",
    says="A new leader is seen to serve, and how soon after its commit.",
    source="KIP-291, motivation; Kafka's purgatories",
    rules={},
    evidence={
        "new leaders seen to serve (produce)": "commits of another leader, then a success",
        "new leaders seen to serve (fetch)": "the same for consumers",
    },
    check=check,
)
