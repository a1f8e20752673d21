"""What brokers acknowledged to have been told of partitions, and do not show: for
`checkers.promises.shown_metadata`.

- ``metadata-not-taken-in``: a broker that answered an UpdateMetadata without an error has taken it
  in (KafkaApis.handleUpdateMetadataRequest, ZkMetadataCache.updateMetadata), and shows that state
  of a partition or a later one to whoever asks from then on. One that shows an older one forgot it,
  or never took it: that it is told the same again, or is right in the end, is no excuse.

The controller's word on what it told (`control_send`, which state of each partition by its
partition epoch) and when it was answered (`control_response`), against what clients were shown and
ZooKeeper's own log of what each state was. A state is known by its leader epoch and in-sync set;
where several states of one leader epoch have the same, any that can have been committed by the time
of the answer will do. In one life of the broker, which forgets.

Lawful, and looks similar: an answer that was asked for before the acknowledgement came; what a
forger told (`checkers.facts.forgeries`) or a prober. Topics that are deleted are not judged, nor
are systems that do not say which state they tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps, with_forged
from checkers.facts.leadership import TP, key_of
from checkers.facts.lives import with_life
from checkers.facts.office import in_order
from checkers.facts.spans import latest
from checkers.facts.unions import united
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.epochs.told_elections import told_states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "metadata-not-taken-in"
HELD: Final = "answers of brokers that had acknowledged a state"
_STATE: Final = (*TP, "leader_epoch", "isr")
_PLACE: Final = (*TP, "node", "life")
Row = Mapping[str, Any]


def not_taken_in(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """Each finding, and for how many answers it stands."""
    states = _states(history)
    if not states or not (history.has("control_send") and history.has("control_response")):
        return
    both = united(_shown(history, states), _told(history))
    before = Window.partitionBy(*_PLACE).orderBy("at_t", "told")
    before = before.rowsBetween(Window.unboundedPreceding, 0)
    rows = both.withColumn("had", F.max("told").over(before)).where("told is null")
    rows = rows.where("had is not null")
    old = F.col("newest") < F.col("had")
    sums = rows.groupBy("arm", "trial").agg(F.count("*").alias("n"), F.sum(old.cast("int")))
    for arm, trial, n, _ in sums.collect():
        outcome.saw(arm, trial, HELD, n)
    found = (
        rows.where(old)
        .groupBy(*TP, "node", "leader_epoch", "isr", "newest")
        .agg(F.count("*").alias("n"), F.min(F.struct("t", "had")).alias("first"))
    )
    for row in sorted(
        found.toArrow().to_pylist(), key=lambda row: (row["first"]["t"], row["node"])
    ):
        yield _finding(row), row["n"]


def _states(history: History) -> list[dict[str, Any]]:
    """By leader epoch and in-sync set of each partition, the states that were that: their partition
    epochs, and before when none of them was committed (ns); both ascending."""
    deleted = deletion_steps(history)
    found: dict[tuple[Any, ...], list[dict[str, int]]] = {}
    for row in in_order(history):
        if row["what"] != "state" or row["isr"] is None or row["partition_epoch"] is None:
            continue
        key = key_of(row)
        if key[:3] not in deleted and row["leader_epoch"] is not None:
            state = (*key, row["leader_epoch"], _words(row["isr"]))
            since_t = row["t"] - (row["error_ns"] or 0)
            of = found.setdefault(state, [])
            of.append({"epoch": row["partition_epoch"], "since_t": since_t})
    return [{**dict(zip(_STATE, state, strict=True)), "of": of} for state, of in found.items()]


def _shown(history: History, states: list[dict[str, Any]]) -> DataFrame:
    """What brokers showed: `_PLACE`, leader_epoch, isr, at_t (when it was asked for), t, and the
    ``newest`` state (its partition epoch) that it can have been."""
    each = [{**row, **one} for row in states for one in row["of"]]
    for row in each:
        del row["of"]
    schema = "arm string, trial int, topic string, partition int, leader_epoch int, isr string"
    table = history.table(each, f"{schema}, epoch int, since_t bigint")
    known = table.groupBy(*_STATE).agg(F.collect_list(F.struct("epoch", "since_t")).alias("of"))
    rows = history.frame("metadata").where(
        "type = 'ok' and leader_epoch >= 0 and isr is not null and node is not null"
    )
    ids = F.transform(F.array_sort("isr"), lambda one: one.cast("string"))
    rows = rows.withColumn("isr", F.array_join(ids, ","))
    rows = with_forged(history, rows).where("not forged")
    rows = with_life(history, rows, F.col("invoke_t"), F.col("t")).where("life is not null")
    rows = rows.join(F.broadcast(known), [*_STATE])
    newest = F.expr("array_max(transform(filter(of, s -> s.since_t <= t), s -> s.epoch))")
    rows = rows.withColumn("newest", newest).where("newest is not null")
    rows = rows.select(
        *_PLACE, "leader_epoch", "isr", "t", "newest", F.col("invoke_t").alias("at_t")
    )
    return _unprobed(history, rows).withColumn("told", F.lit(None).cast("int"))


def _unprobed(history: History, rows: DataFrame) -> DataFrame:
    """Without partitions of which a prober tells their broker: it reads ZooKeeper, and may be
    behind."""
    probers = {
        one.process for of in history.run.workloads.values() for one in of if one.role == "prober"
    }
    if not probers:
        return rows
    told = history.frame("control_request").where("api = 'UPDATE_METADATA'")
    told = told.where(F.col("client_id").isin(*sorted(probers)))
    told = told.select("arm", "trial", "node", F.explode("partitions").alias("p"))
    told = told.select("arm", "trial", "node", "p.topic", "p.partition").distinct()
    return rows.join(F.broadcast(told), [*TP, "node"], "left_anti")


def _told(history: History) -> DataFrame:
    """What brokers acknowledged: `_PLACE`, at_t (when the controller had the answer), told (the
    partition epoch)."""
    by = ("arm", "trial", "node", "boot", "to", "api", "correlation_id")
    sent = history.frame("control_send").where("api = 'UPDATE_METADATA' and seq is not null")
    sent = sent.select(*by, F.col("t").alias("send_t"), "partitions", "partition_epochs")
    got = history.frame("control_response").where("error = 0 and seq is not null")
    got = got.select(*by, "send_t", latest(F.col("t")).alias("at_t"))
    rows = told_states(sent.join(got, [*by, "send_t"]))
    rows = rows.select(
        *("arm", "trial", "send_t", "at_t", F.col("to").alias("node")),
        *(F.col(f"p.partitions.{name}").alias(name) for name in ("topic", "partition")),
        F.col("p.partitions.leader_epoch").alias("leader_epoch"),
        F.col("p.epochs").alias("told"),
    )
    rows = rows.where("told is not null and leader_epoch >= 0")
    # A controller that was stopped reads late what a broker said before it died.
    rows = with_life(history, rows, F.col("send_t"), F.col("at_t")).where("life is not null")
    return rows.select(*_PLACE, "at_t", "told")


def _words(isr: list[int]) -> str:
    return ",".join(str(node) for node in sorted(isr))


def _finding(row: Row) -> Finding:
    arm, trial, topic, partition = key_of(row)
    at = {"topic": topic, "partition": partition}
    first, isr = row["first"], row["isr"].replace(",", ", ")
    return Finding(
        RULE,
        f"node {row['node']} showed {topic}-{partition} with leader epoch {row['leader_epoch']} "
        f"and in-sync set [{isr}], which is partition epoch {row['newest']} at most, after it had "
        f"acknowledged that of partition epoch {first['had']}",
        arm,
        trial,
        (
            Pick("zk_write", {**at, "what": "state", "partition_epoch": first["had"]}, rows=1),
            Pick(
                "control_send",
                {"to": row["node"], "api": "UPDATE_METADATA"},
                to_t=first["t"],
                at=(topic, partition),
                rows=1,
                last=True,
            ),
            Pick("metadata", {**at, "node": row["node"], "t": first["t"]}, rows=1),
        ),
    )
