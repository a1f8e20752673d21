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
epoch; how old it was); what is compared with that goes on in Spark by broker, partition and epoch.
A read that showed a higher epoch is evidence of its commit as well, which tightens what a late
watch says.

Epochs that a forger made a broker believe, with a lie that Kafka cannot see, are his until the
broker is told the truth (`checkers.facts.forgeries`), and counted. Blind: staleness of topics that
were deleted; going back on a namesake at brokers that had no replica of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps, hosts
from checkers.facts.calm import Debts
from checkers.facts.committed import committed
from checkers.facts.decisions import from_log
from checkers.facts.leadership import (
    NEVER,
    TP,
    black_boxes,
    key_of,
    last_sighting,
    leadership,
)
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.stale_metadata.propagation import PLACE, answered, applied, propagation
from checkers.promises.stale_metadata.staleness import READS, measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

WATCH_GRACE_NS: Final = 1_000_000_000
"""A commit may be seen so much after a broker shows it."""
UNJUDGED_SHARE: Final = 0.25
Row = Mapping[str, Any]
_ENDS: Final = ("converged", "behind", "not_judged")


def check(history: History) -> Outcome:
    outcome = Outcome()
    had = {"propagation_applied": applied(history)} if history.has("metadata_update") else {}
    if history.has("metadata"):
        seen = answered(history)
        had["propagation_shown"] = seen
        measure(history, outcome, seen)
        _violations(history, outcome, seen)
        _convergence(history, outcome, seen)
    if had:
        propagation(history, outcome, had)
    if outcome.looked_at and not history.has("leadership"):
        outcome.unknowns.append("no leadership was recorded to hold metadata against")
    for arm in black_boxes(history):
        outcome.unjudged(arm, "leaders that were shown and never committed: nobody saw commits")
        outcome.unjudged(arm, "how stale: ages count from when anybody was shown the newer leader")
    return outcome


# -- violations ---------------------------------------------------------------------------------


def _violations(history: History, outcome: Outcome, seen: DataFrame) -> None:
    """Each epoch that was asked for after a higher one had been shown; each that is higher than any
    that was committed."""
    rows = _never_committed(history, seen).unionByName(_went_back(history, outcome, seen))
    found = tally(rows, None, _sort)
    add(outcome, found, _finding)
    for (arm, trial, excused), n in found.in_order():
        if excused:
            because = ("metadata-never-committed", "the watch of commits ended just then")
            outcome.excuse(arm, trial, *because, of=READS, n=n)


_SUSPECT: Final = (*PLACE, "leader_epoch", "first_t", "last_invoke_t", "last_t", "n")


def _went_back(history: History, outcome: Outcome, seen: DataFrame) -> DataFrame:
    down = Window.partitionBy(*PLACE).orderBy(F.col("leader_epoch").desc())
    before = down.rowsBetween(Window.unboundedPreceding, -1)
    rows = seen.where("life is not null and era is not null")
    rows = _comparable(history, outcome, rows)
    rows = rows.withColumn("newer_t", F.min("first_t").over(before))
    rows = rows.where("newer_t < last_invoke_t").select(*_SUSPECT, "newer_t")
    none = F.lit(None)
    return rows.select("*", none.cast("int").alias("newest"), F.lit(False).alias("excused"))


def _sort(row: Row) -> Sort:
    """Newest first of those that went back, as they came of the others."""
    back = row["newer_t"] is not None
    place = tuple(-1 if row[name] is None else row[name] for name in PLACE)
    order = (not back, *place, -row["leader_epoch"] if back else row["first_t"])
    rule = "metadata-went-back" if back else "metadata-never-committed"
    label = (row["arm"], row["trial"], row["excused"])
    return Sort(label, order, None if row["excused"] else rule, row["n"])


def _comparable(history: History, outcome: Outcome, rows: DataFrame) -> DataFrame:
    """Without those of which nobody knows whether they tell of the same topic."""
    steps = deletion_steps(history)
    untold = [
        dict(zip(TP, key, strict=True))
        for key, of in leadership(history).items()
        if of.incarnations > 1 and key[:3] not in steps
    ]
    if untold:
        table = history.table(untold, "arm string, trial int, topic string, partition int")
        for row in rows.join(F.broadcast(table), TP).select("arm").distinct().collect():
            what = "going back on topics whose deletion nobody told of"
            outcome.unjudged(row["arm"], what)
        rows = rows.join(F.broadcast(table), TP, "left_anti")
    if any(len(of) > 1 for of in steps.values()):
        hosted = [
            dict(zip(("arm", "trial", "topic"), topic, strict=True), era=era, node=node)
            for topic, of in steps.items()
            for era in range(2, len(of) + 1)
            for node in hosts(history, topic, era)
        ]
        names = ["arm", "trial", "topic", "era", "node"]
        table = history.table(hosted, "arm string, trial int, topic string, era int, node int")
        late = rows.where("era > 1")
        strange = late.join(F.broadcast(table), names, "left_anti")
        for row in strange.select("arm").distinct().collect():
            what = "going back on namesakes at brokers without a replica"
            outcome.unjudged(row["arm"], what)
        mine = late.join(F.broadcast(table), names, "left_semi")
        rows = rows.where("era <= 1").unionByName(mine)
    return rows


def _never_committed(history: History, seen: DataFrame) -> DataFrame:
    """``excused``: so soon before the watch's end that the commit may not have been seen."""
    known, certain, logged = leadership(history), committed(history), from_log(history)
    until = last_sighting(history)
    table = []
    for key, of in known.items():
        newest = max(certain[key].leaders, default=-1) if key in certain else -1
        row = dict(zip(TP, key, strict=True), newest=of.newest, _top=max(of.newest, newest))
        told_all = key[:2] in logged
        row["_until_t"] = NEVER if told_all else until.get(key[:2], 0) - WATCH_GRACE_NS
        table.append(row)
    newest_of = history.table(
        table,
        "arm string, trial int, topic string, partition int, newest int, _top int, _until_t bigint",
    )
    rows = seen.join(F.broadcast(newest_of), TP).where("leader_epoch > _top")
    excused = (F.col("first_t") >= F.col("_until_t")).alias("excused")
    none = F.lit(None).cast("long").alias("newer_t")
    return rows.select(*_SUSPECT, none, "newest", excused)


def _convergence(history: History, outcome: Outcome, seen: DataFrame) -> None:
    """Each broker's last answer about each partition: what was committed last, or something older;
    the latter is a violation when it came late enough, and cannot be judged otherwise."""
    last_one = F.struct("last_invoke_t", "leader_epoch", "first_t", "last_t", "n")
    places = seen.groupBy(*TP, "node").agg(
        F.max(last_one).alias("last"), F.max("last_t").alias("end_t")
    )
    ends: dict[tuple[str, int], int] = {}
    latest = sorted(places.toArrow().to_pylist(), key=lambda row: (*key_of(row), row["node"]))
    for row in latest:
        trial = (row["arm"], row["trial"])
        ends[trial] = max(ends.get(trial, 0), row["end_t"])
    known, debts, steps = committed(history), Debts(history, ends), deletion_steps(history)
    judged: Counter[tuple[str, int, str]] = Counter()
    for place in latest:
        key, row = key_of(place), {**place, **place["last"]}
        last = known[key].as_of(ends[key[:2]]) if key in known else None
        if last is None or key[:3] in steps:
            continue
        trial, final = key[:2], last.row["leader_epoch"]
        broker = (*trial, row["node"])
        owed_t = debts.owed_from(broker, last.t)
        end = "not_judged"
        if row["leader_epoch"] >= final:
            end = "converged"
        elif owed_t is not None and row["last_invoke_t"] > owed_t:
            end = "behind"
            if debts.deaf(broker, row["last_invoke_t"]):
                rule = "metadata-never-converged"
                outcome.excuse(*trial, rule, "forged", of=READS, n=row["n"])
            else:
                outcome.add(_never_converged({**row, "final": final}))
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


def _where(row: Any, **more: Any) -> dict[str, Any]:
    return {"topic": row["topic"], "partition": row["partition"], **more}


def _finding(rule: str, row: Row) -> Finding:
    return (_went_back_finding if rule == "metadata-went-back" else _never_committed_finding)(row)


def _went_back_finding(row: Row) -> Finding:
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


def _never_committed_finding(row: Row) -> Finding:
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
    evidence={READS: "answers about one partition by one broker"},
    unknown_when=(
        "no leadership was recorded to hold metadata against",
        "more than a quarter of brokers and partitions were behind when reads ended, too early",
    ),
    blind=(
        "going back on a topic whose deletion nobody told of",
        "going back on the namesake of a deleted topic at brokers that had no replica of that",
        "how stale reads of deleted topics are",
    ),
    timed=frozenset({"metadata-never-converged"}),
    check=check,
)
