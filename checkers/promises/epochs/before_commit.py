"""Leader epochs that somebody acted on before they were committed, for `checkers.promises.epochs`.

A controller writes a partition's state to ZooKeeper, and only what ZooKeeper took it tells
(ZkPartitionStateMachine.doElectLeaderForPartitions, then ControllerBrokerRequestBatch). So whoever
sends, leads, follows, takes into metadata or shows a leader epoch does so after ZooKeeper's own
time of the first write that has it. Who acts before acts on what may never be: had the write
failed, two leaders of one epoch could have been told.

Both clocks are one host's; the tie's error and the millisecond of ZooKeeper's time are on the
suspect's side. Of a topic that was made again, the first that any of its lives had of that epoch
counts. What a forger made a broker believe is his, and counted. Later than it could be is lawful.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import shown_rows
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.office import in_order
from checkers.facts.spans import latest
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

DATED: Final = "leader epochs acted on, by broker, that ZooKeeper dates"
_RULE: Final = "acted-before-commit"
_DID: Final = {
    "leader_change": "took up",
    "metadata_update": "took into its metadata",
    "metadata": "showed",
    "control_send": "sent",
}
Row = Mapping[str, Any]
Dated = tuple[Key, int]
"""A leader epoch of a partition."""


def before_commit(history: History, outcome: Outcome) -> Iterator[Finding]:
    first = _first_writes(history)
    if not first:
        return
    lied = {(key_of(row), row["node"]) for row in taken_in(history) if row["topic"]}
    for row in (*_roles(history, outcome, first), *_others(history, outcome, first)):
        key = key_of(row)
        if (key, row["node"]) in lied:
            outcome.excuse(*key[:2], _RULE, "forged", of=DATED)
        else:
            yield _finding(key, row)


def _first_writes(history: History) -> dict[Dated, int]:
    """When (ns, at the earliest) each leader epoch of a partition was first written. Only of those
    whose first write is certain: the state was made with it, or the one before it had another. A
    log that begins later than the cluster, or lacks a write, dates nothing else."""
    found: dict[Dated, int] = {}
    before: dict[Key, Row] = {}
    for row in in_order(history):
        if row["what"] != "state" or row["topic"] is None or row["leader_epoch"] is None:
            continue
        key = key_of(row)
        last, before[key] = before.get(key), row
        follows = (
            last is not None
            and None not in (last["partition_epoch"], row["partition_epoch"])
            and last["partition_epoch"] + 1 == row["partition_epoch"]
            and last["leader_epoch"] < row["leader_epoch"]
        )
        if row["step"] == "created" or follows:
            one, t = (key, row["leader_epoch"]), row["t"] - (row["error_ns"] or 0)
            found[one] = min(found.get(one, t), t)
    return found


def _roles(history: History, outcome: Outcome, first: Mapping[Dated, int]) -> Iterator[Row]:
    """Roles that were taken too early."""
    for row in history.rows("leader_change"):
        if row["topic"] is None or row["leader_epoch"] is None:
            continue
        committed_t = first.get((key_of(row), row["leader_epoch"]))
        if committed_t is not None:
            outcome.saw(row["arm"], row["trial"], DATED)
            t = row["t"] + (row["error_ns"] or 0)
            if t < committed_t:
                yield {**row, "t": t, "kind": "leader_change", "committed_t": committed_t}


def _others(history: History, outcome: Outcome, first: Mapping[Dated, int]) -> list[Row]:
    """By kind, broker and leader epoch the first act of those that came too early."""
    kinds: dict[str, Callable[[History], DataFrame]] = {
        "metadata_update": _cached,
        "metadata": lambda of: shown_rows(of).withColumnRenamed("first_t", "_t"),
        "control_send": _sent,
    }
    frames = [
        acts(history).select(*TP, "node", "leader_epoch", "_t", F.lit(kind).alias("kind"))
        for kind, acts in kinds.items()
        if history.has(kind)
    ]
    if not frames:
        return []
    table = history.table(
        [
            {**dict(zip(TP, key, strict=True)), "leader_epoch": epoch, "committed_t": t}
            for (key, epoch), t in first.items()
        ],
        "arm string, trial int, topic string, partition int, leader_epoch int, committed_t bigint",
    )
    acts = functools.reduce(lambda one, other: one.unionAll(other), frames)
    by = acts.groupBy(*TP, "node", "leader_epoch", "kind").agg(F.min("_t").alias("t"))
    dated = by.join(F.broadcast(table), [*TP, "leader_epoch"])
    early = F.col("t") < F.col("committed_t")
    one = F.struct("topic", "partition", "leader_epoch", "kind", "t", "committed_t")
    told = dated.groupBy("arm", "trial", "node").agg(
        F.count("*").alias("n"),
        F.sort_array(F.collect_list(F.when(early, one))).alias("early"),
    )
    found: list[Row] = []
    for row in told.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], DATED, row["n"])
        place = {name: row[name] for name in ("arm", "trial", "node")}
        found += [{**place, **act} for act in row["early"]]
    return found


def _cached(history: History) -> DataFrame:
    rows = history.frame("metadata_update").where("leader_epoch >= 0")
    return rows.withColumn("_t", latest(F.col("t")))


def _sent(history: History) -> DataFrame:
    rows = history.frame("control_send")
    at = F.coalesce("enqueue_t", "t") + F.coalesce("error_ns", F.lit(0))
    each = rows.select("arm", "trial", "node", at.alias("_t"), F.explode("partitions").alias("p"))
    each = each.select("arm", "trial", "node", "_t", "p.topic", "p.partition", "p.leader_epoch")
    return each.where("leader_epoch >= 0")


def _finding(key: Key, row: Row) -> Finding:
    committed_t: int = row["committed_t"]
    arm, trial, topic, partition = key
    at = {"topic": topic, "partition": partition}
    early_ms = (committed_t - row["t"]) / 1e6
    act = Pick(
        row["kind"],
        {"node": row["node"]},
        to_t=committed_t,
        last=True,
        rows=1,
        at=(topic, partition),
    )
    if row["kind"] != "control_send":
        own = {**at, "node": row["node"], "leader_epoch": row["leader_epoch"]}
        act = Pick(row["kind"], own, rows=1)
    state = {**at, "what": "state", "leader_epoch": row["leader_epoch"]}
    return Finding(
        _RULE,
        f"node {row['node']} {_DID[row['kind']]} leader epoch {row['leader_epoch']} of {topic}-"
        f"{partition} {early_ms:.1f} ms before ZooKeeper had it",
        arm,
        trial,
        (act, Pick("zk_write", state, rows=1)),
    )
