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
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

from checkers.facts.histogram import Histogram, bucket_number
from checkers.facts.leadership import NEVER, TP, Key, key_of, leadership
from checkers.facts.segments import QUIET, segments, windows
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_LEVELS: Final = {1: "acks_1", -1: "acks_all"}


class Late(NamedTuple):
    """How long after a commit something first happened."""

    key: Key
    committed_t: int
    late_ns: int


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
    found = joined.groupBy(*TP, "committed_t", "acks").agg(
        F.min(F.when(served, F.col("t"))).alias("first_t"),
        F.count(F.when(held, 1)).alias("held"),
        F.max(F.when(held, F.col("t") - F.col("invoke_t"))).alias("held_ns"),
    )
    by_acks: dict[tuple[Key, int], dict[int, int]] = {}
    for row in found.toArrow().to_pylist():
        if row["first_t"] is not None:
            firsts = by_acks.setdefault((key_of(row), row["committed_t"]), {})
            firsts[row["acks"]] = row["first_t"] - row["committed_t"]
        if kind == "produce":
            figures = outcome.arm(row["arm"])
            figures["held"] = figures.get("held", 0) + row["held"]
            longest = max(figures.get("held_longest_ms", 0.0), (row["held_ns"] or 0) / 1e6)
            figures["held_longest_ms"] = round(longest, 3)
    for (key, _), firsts in by_acks.items():
        outcome.saw(*key[:2], f"new leaders seen to serve ({kind})", int(bool(firsts)))
    soonest = [Late(key, t, min(of.values())) for (key, t), of in by_acks.items()]
    _summarise(history, outcome, name, soonest)
    if kind == "produce":
        for level, label in _LEVELS.items():
            late = [Late(k, t, of[level]) for (k, t), of in by_acks.items() if level in of]
            _summarise(history, outcome, f"{name}_{label}", late)


def _leader_ready(history: History, outcome: Outcome, spans: DataFrame) -> None:
    """From the commit to the new leader's own word that it leads in that epoch."""
    rows = history.frame("leader_change").where("role = 'leader'")
    rows = rows.select(*TP, "node", "leader_epoch", "t")
    spans = spans.select(*TP, "committed_t", "committed_epoch", F.col("leader").alias("led_by"))
    same = (F.col("node") == F.col("led_by")) & (F.col("leader_epoch") == F.col("committed_epoch"))
    found = (
        rows.join(F.broadcast(spans), TP)
        .where(same)
        .groupBy(*TP, "committed_t")
        .agg(F.min("t").alias("first_t"))
        .toArrow()
    )
    late = [
        Late(key_of(row), row["committed_t"], max(0, row["first_t"] - row["committed_t"]))
        for row in found.to_pylist()
    ]
    _summarise(history, outcome, "leader_ready", late)


def _summarise(history: History, outcome: Outcome, name: str, found: list[Late]) -> None:
    """A figure for each arm, for each arm and segment, and a small table of the histograms."""
    cuts = {place: segments(faults) for place, faults in windows(history).items()}
    arms: dict[str, Histogram] = {}
    parts: dict[tuple[str, str], Histogram] = {}
    for one in found:
        arm = one.key[0]
        here = (s for a, b, s in cuts.get(one.key[:2], ()) if a <= one.committed_t < b)
        segment = next(here, QUIET)
        for histogram in (
            arms.setdefault(arm, Histogram()),
            parts.setdefault((arm, segment), Histogram()),
        ):
            histogram.add(bucket_number(one.late_ns), 1, one.late_ns)
    for arm, histogram in arms.items():
        outcome.arm(arm)[name] = histogram.summary()
    for (arm, segment), histogram in parts.items():
        by_segment = outcome.arm(arm).setdefault(f"{name}_by_segment", {})
        by_segment[segment] = histogram.summary()
    outcome.figures[name] = [
        {"arm": arm, "segment": segment, "bucket": bucket, "n": n, "max_ns": histogram.max_ns}
        for (arm, segment), histogram in parts.items()
        for bucket, n in histogram.counts.items()
    ]


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
