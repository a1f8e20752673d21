"""Stale metadata: who was told about a leader that was no longer one, for how long?

Guarantee: a live broker shows committed leadership, never goes back, and converges after healing.

A Metadata read is *stale* when it returned leader epoch e although a higher one had been committed
before the read was invoked; its staleness is the time since. That alone is lawful (propagation
takes time) and measured. Violations:

- ``metadata-went-back``: a broker answered with an older epoch than a read that had completed at
  the same broker, in the same life of broker and topic, before this one was invoked. Of a topic's
  namesake that holds for those who had replicas of the topic, and so heard of its deletion before
  it was gone; another broker may show the old one first, and the new one from epoch 0 on later;
- ``metadata-never-committed``: an epoch higher than any committed. Where ZooKeeper's own log was
  read that needs no tolerance; otherwise a commit may be seen `WATCH_GRACE_NS` after it is shown,
  and what was shown so soon before the watch's end is excused, and counted;
- ``metadata-never-converged``: a broker that still answers, still behind, long after the last fault
  was healed and the last leader was committed (`checkers.facts.calm`). Where reads ended before
  that nothing is said; where that was so for more than `UNJUDGED_SHARE` of a trial's brokers and
  partitions, the trial is unknown.

No as-of join: epochs are dense, so "when was e over" is one small table, joined by equality (see
`checkers.facts.leadership`). Spark makes two passes over the reads (what each broker showed, per
epoch; how old it was); the rest is a matter of brokers, partitions and epochs, and is done on the
driver.
A read that showed a higher epoch is evidence of its commit as well, which tightens what a late
watch says.

Epochs that a forger made a broker believe, with a lie that Kafka cannot see, are his until the
broker is told the truth (`checkers.facts.forgeries`), and counted. Blind: staleness of topics that
were deleted; going back on a namesake at brokers that had no replica of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps, hosts, with_forged
from checkers.facts.calm import Debts
from checkers.facts.committed import committed
from checkers.facts.decisions import from_log
from checkers.facts.floods import floods
from checkers.facts.histogram import bucket_of, gather
from checkers.facts.leadership import TP, Epoch, Key, epochs_table, last_sighting, leadership
from checkers.facts.propagation import Shown, answered, applied, by_epoch, propagation
from checkers.facts.segments import with_segment
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

WATCH_GRACE_NS: Final = 1_000_000_000
"""A commit may be seen so much after a broker shows it."""
UNJUDGED_SHARE: Final = 0.25
_READS: Final = "metadata reads"
_ENDS: Final = ("converged", "behind", "not_judged")


def check(history: History) -> Outcome:
    outcome = Outcome()
    propagation(history, outcome, applied(history), "propagation_applied")
    if not history.has("metadata"):
        return outcome
    shown = answered(history)
    propagation(history, outcome, shown, "propagation_shown")
    _staleness(history, outcome, shown)
    _read_waits(history, outcome)
    for finding in _violations(history, outcome, shown):
        outcome.add(finding)
    for finding in _convergence(history, outcome, shown):
        outcome.add(finding)
    if outcome.looked_at and not history.has("leadership"):
        outcome.unknowns.append("no leadership was recorded to hold metadata against")
    return outcome


def _reads(history: History) -> DataFrame:
    """Answers that name a leader epoch, with ``forged``: a forger was there."""
    rows = history.frame("metadata").where(
        "type = 'ok' and leader_epoch >= 0 and node is not null and topic is not null "
        "and invoke_t is not null"
    )
    return with_forged(history, rows)


# -- figures ------------------------------------------------------------------------------------


def _tightened(history: History, shown: list[Shown]) -> dict[tuple[Key, Epoch], int]:
    """Earlier ends of epochs: whoever showed a higher one proves that it had been committed."""
    known = leadership(history)
    first: dict[Key, dict[int, int]] = {}
    for one in shown:
        of = known.get(one.key)
        if of is not None and of.incarnations == 1 and one.leader_epoch <= of.newest:
            epochs = first.setdefault(one.key, {})
            epochs[one.leader_epoch] = min(one.first_t, epochs.get(one.leader_epoch, one.first_t))
    over: dict[tuple[Key, Epoch], int] = {}
    for key, of in known.items():
        earliest: int | None = None
        for epoch in reversed(of.epochs):
            if earliest is not None and (epoch.superseded_t or earliest) >= earliest:
                over[key, epoch] = earliest
            here = first.get(key, {}).get(epoch.leader_epoch)
            if here is not None:
                earliest = here if earliest is None else min(earliest, here)
    return over


def _staleness(history: History, outcome: Outcome, shown: list[Shown]) -> None:
    table = epochs_table(history, _tightened(history, shown))
    reads = with_segment(history, _reads(history), F.col("invoke_t"))
    reads = reads.select(*TP, "leader_epoch", "node", "t", "invoke_t", "segment", "forged")
    same = F.lit(True)
    for name in (*TP, "leader_epoch"):
        same = same & (F.col(f"r.{name}") == F.col(f"e.{name}"))
    at = (F.col("r.t") >= F.col("e.valid_from")) & (F.col("r.t") < F.col("e.valid_to"))
    joined = reads.alias("r").join(F.broadcast(table).alias("e"), same & at, "left")
    stale = (F.col("superseded_t") < F.col("invoke_t")) & ~F.col("forged")
    age = F.when(stale, F.col("invoke_t") - F.col("superseded_t"))
    found = (
        joined.select("r.arm", "r.trial", "r.node", "segment", "forged", age.alias("age_ns"))
        .groupBy(
            "arm", "trial", "node", "segment", "forged", bucket_of(F.col("age_ns")).alias("bucket")
        )
        .agg(F.count("*").alias("n"), F.max("age_ns").alias("max_ns"))
        .toArrow()
    )
    rows = found.to_pylist()
    for row in rows:
        outcome.saw(row["arm"], row["trial"], _READS, row["n"])
        if row["forged"]:
            because = ("metadata-never-committed", "forged")
            outcome.excuse(row["arm"], row["trial"], *because, of=_READS, n=row["n"])
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


def _read_waits(history: History, outcome: Outcome) -> None:
    """How long reads of a flooded broker took. They are data requests and wait in its queue in
    every plane mode; in one queue they wait behind the update itself and come back fresh."""
    at_flooded = F.lit(False)
    for flood in floods(history):
        its = (F.col("arm") == flood.arm) & (F.col("trial") == flood.trial)
        during = F.col("invoke_t").between(flood.from_t, flood.to_t - 1)
        at_flooded = at_flooded | (its & (F.col("node") == flood.node) & during)
    if not floods(history):
        return
    reads = history.frame("metadata").where("type = 'ok' and invoke_t is not null")
    once = reads.where(at_flooded).groupBy("arm", "trial", "process", "read")
    took = once.agg((F.min("t") - F.min("invoke_t")).alias("took_ns"))
    found = (
        took.groupBy("arm", bucket_of(F.col("took_ns")).alias("bucket"))
        .agg(F.count("*").alias("n"), F.max("took_ns").alias("max_ns"))
        .toArrow()
    )
    for (arm,), histogram in gather(found.to_pylist(), "arm").items():
        outcome.arm(arm)["reads_flooded"] = histogram.summary()


def _totals(outcome: Outcome, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        figures = outcome.arm(row["arm"])
        figures["reads"] = figures.get("reads", 0) + row["n"]
        old = row["n"] if row["bucket"] is not None else 0
        figures["stale_reads"] = figures.get("stale_reads", 0) + old
        by_node = figures.setdefault("reads_by_node", {})
        by_node[str(row["node"])] = by_node.get(str(row["node"]), 0) + row["n"]
        if row["forged"]:
            figures["forged_reads"] = figures.get("forged_reads", 0) + row["n"]
    for figures in outcome.arms.values():
        if figures.get("reads"):
            figures["stale_share"] = round(figures["stale_reads"] / figures["reads"], 6)


# -- violations ---------------------------------------------------------------------------------


def _violations(history: History, outcome: Outcome, shown: list[Shown]) -> Iterator[Finding]:
    yield from _going_back(history, outcome, shown)
    known, certain = leadership(history), committed(history)
    until = last_sighting(history)
    for row in shown:
        of = known.get(row.key)
        newest = max(certain[row.key].leaders, default=-1) if row.key in certain else -1
        if of is None or row.leader_epoch <= max(of.newest, newest):
            continue
        trial = row.key[:2]
        told_all = trial in from_log(history)
        if told_all or row.first_t + WATCH_GRACE_NS < until.get(trial, 0):
            yield _never_committed(_describe(row, newest=of.newest))
        else:
            because = ("metadata-never-committed", "the watch of commits ended just then")
            outcome.excuse(*trial, *because, of=_READS, n=row.n)


def _going_back(history: History, outcome: Outcome, shown: list[Shown]) -> Iterator[Finding]:
    known, steps = leadership(history), deletion_steps(history)
    for (key, node, _, era), rows in sorted(by_epoch(shown).items()):
        of = known.get(key)
        told = key[:3] in steps
        if of is not None and of.incarnations > 1 and not told:
            outcome.unjudged(key[0], "going back on topics whose deletion nobody told of")
            continue
        if era > 1 and node not in hosts(history, key[:3], era):
            outcome.unjudged(key[0], "going back on namesakes at brokers without a replica")
            continue
        newer_t: int | None = None
        for row in reversed(rows):
            if newer_t is not None and newer_t < row.last_invoke_t:
                yield _went_back(_describe(row, newer_t=newer_t))
            newer_t = row.first_t if newer_t is None else min(newer_t, row.first_t)


def _convergence(history: History, outcome: Outcome, shown: list[Shown]) -> Iterator[Finding]:
    """Each broker's last answer about each partition: what was committed last, or something older;
    the latter is a violation when it came late enough, and cannot be judged otherwise."""
    ends: dict[tuple[str, int], int] = {}
    latest: dict[tuple[Key, int], Shown] = {}
    for row in shown:
        ends[row.key[:2]] = max(ends.get(row.key[:2], 0), row.last_t)
        place = (row.key, row.node)
        if place not in latest or row.last_invoke_t > latest[place].last_invoke_t:
            latest[place] = row
    known, debts, steps = committed(history), Debts(history, ends), deletion_steps(history)
    judged: Counter[tuple[str, int, str]] = Counter()
    for row in latest.values():
        last = known[row.key].as_of(ends[row.key[:2]]) if row.key in known else None
        if last is None or row.key[:3] in steps:
            continue
        trial, final = row.key[:2], last.row["leader_epoch"]
        broker = (*trial, row.node)
        owed_t = debts.owed_from(broker, last.t)
        end = "not_judged"
        if row.leader_epoch >= final:
            end = "converged"
        elif owed_t is not None and row.last_invoke_t > owed_t:
            end = "behind"
            if debts.deaf(broker, row.last_invoke_t):
                outcome.excuse(*trial, "metadata-never-converged", "forged", of=_READS, n=row.n)
            else:
                yield _never_converged(_describe(row, final=final))
        judged[*trial, end] += 1
    for trial in sorted({key[:2] for key in judged}):
        counts = {end: judged[*trial, end] for end in _ENDS}
        figures = outcome.arm(trial[0]).setdefault("convergence", dict.fromkeys(_ENDS, 0))
        for end, n in counts.items():
            figures[end] += n
        if counts["not_judged"] > UNJUDGED_SHARE * sum(counts.values()):
            outcome.unknown(
                *trial,
                f"{counts['not_judged']} of {sum(counts.values())} brokers and partitions were "
                "behind when reads ended, too early to judge them",
            )


def _describe(row: Shown, **more: int) -> dict[str, Any]:
    arm, trial, topic, partition = row.key
    return {
        "arm": arm,
        "trial": trial,
        "topic": topic,
        "partition": partition,
        "node": row.node,
        "leader_epoch": row.leader_epoch,
        "first_t": row.first_t,
        "last_t": row.last_t,
        "last_invoke_t": row.last_invoke_t,
        **more,
    }


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


PROMISE: Final = Promise(
    name="stale-metadata",
    says="A live broker shows committed leaders, never goes back, and converges after healing.",
    source="Kafka's MetadataCache and UpdateMetadata; KIP-291, motivation",
    rules={
        "metadata-went-back": "A broker never shows an older leader after a newer one.",
        "metadata-never-committed": "A broker shows only leaders that were committed.",
        "metadata-never-converged": "A live broker learns of the last leader once faults are "
        "healed.",
    },
    evidence={_READS: "answers about one partition by one broker"},
    unknown_when=(
        "no leadership was recorded to hold metadata against",
        "more than a quarter of brokers and partitions were behind when reads ended, too early",
    ),
    blind=(
        "going back on a topic whose deletion nobody told of",
        "going back on the namesake of a deleted topic at brokers that had no replica of that",
        "how stale reads of deleted topics are",
    ),
    check=check,
)
