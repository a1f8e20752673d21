"""What the controller decided, and told not all of whom it had to (``election-untold``,
``in-sync-untold``), or in the wrong order (``metadata-before-roles``): for
`checkers.promises.epochs`.

Whenever a controller has raised a leader epoch, it sends LeaderAndIsr to the replicas that live and
are in sync, and to who led until then and is still there (as is who stops in order:
Election.leaderForControlledShutdown), and UpdateMetadata to every broker that lives, in one batch
(ControllerBrokerRequestBatch.addLeaderAndIsrRequestForBrokers and sendRequestsToBrokers); each
broker's queue is taken in order. One that is passed over goes on by what was before: it leads in an
epoch that is over, or sends its clients to who does. That a later election is told to it mends
that, and is no excuse. An in-sync set that changes within a leader epoch is told by UpdateMetadata
alone, to all (KafkaController.processAlterPartition).

Judged by the controller's own word, which is numbered: it had sent that broker something in the
same life before the state was committed, and sent it what came into the queue after it was, and
before the partition's next one; none of what it ever sent there has the partition with that leader
epoch (of an in-sync set: that partition epoch). In a batch LeaderAndIsr comes before
UpdateMetadata, and that before StopReplica: who is sent both of an election is told what it is to
do before its clients can be told that it does.

Lawful, and looks similar: a state after which nothing more was sent, because the controller or the
broker was gone, or what is owed still waits in the queue; one that the next one overtook in the
same batch; topics that are being deleted, about which something else is told; replicas that are
moved away, to which StopReplica is sent instead; a broker that has come since, or a controller that
has, which tells all that there is first, and gives roles afterwards. Systems that do not number
what they tell are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order
from checkers.facts.unions import is_true, united
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

TOLD: Final = "elections and in-sync sets that brokers had to be told of"
IN_ORDER: Final = "elections told by both requests"
_ELECTION, _IN_SYNC = "election", "in-sync set"
_FOREVER: Final = 2**62
_CHANNEL: Final = ("arm", "trial", "controller_epoch", "to", "broker_epoch")
_SCHEMA: Final = (
    "arm string, trial int, topic string, partition int, leader_epoch int, controller_epoch int, "
    "of string, epoch int, to int, broker_epoch bigint, api string, begun_t bigint, "
    "from_t bigint, to_t bigint"
)
Row = Mapping[str, Any]


def told_elections(history: History, outcome: Outcome) -> Iterator[Finding]:
    if not history.has("control_send"):
        return
    each = _owed(history)
    first = next(each, None)
    if first is None:
        return
    owed = history.table(chain([first], each), _SCHEMA)
    for arm in sorted({key[0] for key in _moved(history)}):
        outcome.unjudged(
            arm, "whether the replicas of partitions that moved were told of elections"
        )
    numbered = history.frame("control_send").where("seq is not null and enqueue_t is not null")
    names = (*_CHANNEL, "node", "api", "enqueue_t", "partitions", "partition_epochs")
    sent = numbered.select(*names)
    judged = _due(sent, owed).join(
        _told(sent), [*_CHANNEL, "topic", "partition", "of", "epoch"], "left"
    )
    roles = F.col("api") == "LEADER_AND_ISR"
    came_t = F.when(roles, F.col("roles_t")).otherwise(F.col("metadata_t"))
    both = roles & F.col("roles_t").isNotNull() & F.col("metadata_t").isNotNull()
    says = {
        "behind": F.col("after_t").isNotNull(),
        "both": both,
        "untold": F.col("after_t").isNotNull() & came_t.isNull(),
        "disordered": is_true(both & F.expr("metadata_t < roles_t")),
    }
    judged = judged.select("*", *(what.alias(name) for name, what in says.items()))
    # What is as it should be comes as how many there are of it.
    wrong = F.col("untold") | F.col("disordered")
    rest = [name for name in judged.columns if name not in ("arm", "trial", *says)]
    alike = (F.when(wrong, F.col(name)).alias(name) for name in rest)
    counted = judged.groupBy("arm", "trial", *says, *alike).agg(F.count("*").alias("n"))
    for row in counted.toArrow().to_pylist():
        if row["behind"]:
            outcome.saw(row["arm"], row["trial"], TOLD, row["n"])
        if row["both"]:
            outcome.saw(row["arm"], row["trial"], IN_ORDER, row["n"])
        if row["untold"]:
            yield _untold(row)
        if row["disordered"]:
            yield _disordered(row)


def _due(sent: DataFrame, owed: DataFrame) -> DataFrame:
    """Of what is owed what its channel was open for, with its ``node``; ``after_t``: when that came
    into its queue which came behind, if anything did (ns)."""
    queue = sent.select(
        *_CHANNEL,
        *(F.col(name).alias(f"q_{name}") for name in ("node", "api", "enqueue_t")),
        F.col("partition_epochs").isNotNull().alias("q_tells"),
        F.col("enqueue_t").alias("_t"),
        F.lit(1).alias("_row"),
    ).dropna(subset=list(_CHANNEL))
    wanted = owed.distinct().withColumn("_t", F.col("from_t")).withColumn("_row", F.lit(0))
    # One look along each channel, from its end: what is behind is what was met so far.
    channel = Window.partitionBy(*_CHANNEL)
    down = channel.orderBy(F.desc("_t"), "_row")
    met = down.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    others = F.when(F.col("q_api") != "LEADER_AND_ISR", F.col("q_enqueue_t"))
    rows = united(wanted, queue).select(
        "*",
        F.min("q_enqueue_t").over(channel).alias("_first_t"),
        F.max("q_node").over(channel).alias("node"),
        F.max("q_tells").over(channel).alias("tells"),
        F.min("q_enqueue_t").over(met).alias("_next_t"),
        F.min(others).over(met).alias("_other_t"),
    )
    next_t = F.when(F.col("api") == "LEADER_AND_ISR", F.col("_next_t")).otherwise(F.col("_other_t"))
    due = rows.where("_row = 0 and _first_t < begun_t").where(
        (F.col("of") == _ELECTION) | F.col("tells")
    )
    in_time = F.when(next_t < F.col("to_t"), next_t)
    return due.select(*owed.columns, "node", in_time.alias("after_t"))


def _told(sent: DataFrame) -> DataFrame:
    """By channel, partition and what is told of it (`_ELECTION` and its leader epoch, `_IN_SYNC`
    and its partition epoch): when each request that does came into the queue first (ns)."""
    each = told_states(sent).select(*_CHANNEL, "api", "enqueue_t", "p")
    epochs = F.array(
        F.struct(F.lit(_ELECTION).alias("of"), F.col("p.partitions.leader_epoch").alias("epoch")),
        F.struct(F.lit(_IN_SYNC).alias("of"), F.col("p.epochs").alias("epoch")),
    )
    at = (F.col(f"p.partitions.{name}").alias(name) for name in ("topic", "partition"))
    each = each.select(*_CHANNEL, *at, "api", "enqueue_t", F.explode(epochs).alias("e"))
    by = (*_CHANNEL, "topic", "partition", "e.of", "e.epoch")
    return each.groupBy(*by).agg(
        F.min(F.when(F.col("api") == "LEADER_AND_ISR", F.col("enqueue_t"))).alias("roles_t"),
        F.min(F.when(F.col("api") == "UPDATE_METADATA", F.col("enqueue_t"))).alias("metadata_t"),
    )


def told_states(sent: DataFrame) -> DataFrame:
    """Rows of `control_send` once for each partition: ``p.partitions``, and of which state of it
    that tells, ``p.epochs`` (null where nobody says)."""
    none = F.array().cast("array<int>")
    rows = sent.withColumn("epochs", F.coalesce("partition_epochs", none))
    return rows.withColumn("p", F.explode(F.arrays_zip("partitions", "epochs")))


def _owed(history: History) -> Iterator[dict[str, Any]]:
    """By state and broker what it had to be sent, by ZooKeeper's log: `_SCHEMA`; from when the
    state was certainly committed until the next election of that partition can have been (of an
    in-sync set: the next state; ns)."""
    deleted, moved = deletion_steps(history), _moved(history)
    lives: dict[tuple[str, int], dict[int, int]] = {}
    last: dict[Key, tuple[Row, list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for row in in_order(history):
        registered = lives.setdefault((row["arm"], row["trial"]), {})
        if row["what"] == "broker" and row["node"] is not None:
            if row["step"] == "created":
                registered[row["node"]] = row["zxid"]
            elif row["step"] == "removed":
                registered.pop(row["node"], None)
        if row["what"] != "state" or row["isr"] is None or None in _epochs(row):
            continue
        key = key_of(row)
        if key[:3] in deleted:
            continue
        before, elected, in_sync = last.get(key, (None, [], []))
        raised = before is None or before["leader_epoch"] < row["leader_epoch"]
        over = [*in_sync, *(elected if raised else ())]
        for one in over:
            one["to_t"] = row["t"] - (row["error_ns"] or 0)
        yield from over
        in_sync = []
        if raised and (row["step"] == "created" or before is not None):
            concerned = {*row["isr"], *(() if before is None else (before["leader"],))}
            elected = [
                _one(row, _ELECTION, to, broker_epoch, api)
                for to, broker_epoch in sorted(registered.items())
                for api in ("LEADER_AND_ISR", "UPDATE_METADATA")
                if api == "UPDATE_METADATA" or (to in concerned and key not in moved)
            ]
        elif raised:
            elected = []
        else:
            in_sync = [
                _one(row, _IN_SYNC, to, broker_epoch, "UPDATE_METADATA")
                for to, broker_epoch in sorted(registered.items())
            ]
        last[key] = (row, elected, in_sync)
    for _, elected, in_sync in last.values():
        yield from (*elected, *in_sync)


def _moved(history: History) -> set[Key]:
    """Partitions that did not have the same replicas all the time."""
    had: dict[Key, set[frozenset[int]]] = {}
    for row in in_order(history):
        if row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
            had.setdefault(key_of(row), set()).add(frozenset(row["replicas"]))
    return {key for key, of in had.items() if len(of) > 1}


def _epochs(row: Row) -> tuple[Any, ...]:
    return (row["topic"], row["partition"], row["leader_epoch"], row["controller_epoch"])


def _one(row: Row, of: str, to: int, broker_epoch: int, api: str) -> dict[str, Any]:
    names = ("arm", "trial", "topic", "partition", "leader_epoch", "controller_epoch")
    error_ns = row["error_ns"] or 0
    return {
        **{name: row[name] for name in names},
        **{"of": of, "epoch": row["leader_epoch" if of == _ELECTION else "partition_epoch"]},
        **{"to": to, "broker_epoch": broker_epoch, "api": api},
        **{"begun_t": row["t"] - error_ns, "from_t": row["t"] + error_ns, "to_t": _FOREVER},
    }


def _untold(row: Row) -> Finding:
    election = row["of"] == _ELECTION
    what = f"leader epoch {row['epoch']}" if election else f"partition epoch {row['epoch']}"
    return _finding(
        "election-untold" if election else "in-sync-untold",
        f"{what} of {row['topic']}-{row['partition']}, and never sent node {row['to']} its "
        f"{row['api']}, though it sent other things there "
        f"{(row['after_t'] - row['from_t']) / 1e6:.1f} ms after",
        row,
        row["after_t"],
    )


def _disordered(row: Row) -> Finding:
    return _finding(
        "metadata-before-roles",
        f"leader epoch {row['epoch']} of {row['topic']}-{row['partition']}, and had its "
        f"UpdateMetadata to node {row['to']} before its LeaderAndIsr, by "
        f"{(row['roles_t'] - row['metadata_t']) / 1e6:.1f} ms",
        row,
        row["metadata_t"],
        row["roles_t"],
    )


def _finding(rule: str, says: str, row: Row, *sent_t: int) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "what": "state"}
    epoch = "leader_epoch" if row["of"] == _ELECTION else "partition_epoch"
    return Finding(
        rule,
        f"controller {row['node']} committed {says}",
        row["arm"],
        row["trial"],
        (
            Pick("zk_write", {**at, epoch: row["epoch"]}, rows=1),
            *(Pick("control_send", {"to": row["to"], "enqueue_t": t}, rows=1) for t in sent_t),
        ),
    )
