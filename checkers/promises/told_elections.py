"""Elections that the controller told not all of whom it had to, for `checkers.promises.epochs`.

Whenever a controller has raised a leader epoch, it sends LeaderAndIsr to the replicas that live and
are in sync, and UpdateMetadata to every broker that lives, in one batch
(ControllerBrokerRequestBatch.addLeaderAndIsrRequestForBrokers and sendRequestsToBrokers); each
broker's queue is taken in order. One that is passed over goes on by what was before: it leads in an
epoch that is over, or sends its clients to who does. That a later election is told to it mends
that, and is no excuse.

Judged by the controller's own word, which is numbered: it had sent that broker something in the
same life before the election was committed, and sent it what came into the queue after it was, and
before the partition's next election; none of what it ever sent there has the partition with that
leader epoch. In a batch LeaderAndIsr comes before UpdateMetadata, and that before StopReplica.

Lawful, and looks similar: an election after which nothing more was sent, because the controller or
the broker was gone, or what is owed still waits in the queue; one that the next one overtook in the
same batch; topics that are being deleted, about which something else is told; replicas that are
moved away, to which StopReplica is sent instead. Systems that do not number what they tell are not
judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

TOLD: Final = "elections that brokers had to be told of"
_RULE: Final = "election-untold"
_FOREVER: Final = 2**62
_CHANNEL: Final = ("arm", "trial", "controller_epoch", "to", "broker_epoch")
_SCHEMA: Final = (
    "arm string, trial int, topic string, partition int, leader_epoch int, controller_epoch int, "
    "to int, broker_epoch bigint, api string, from_t bigint, to_t bigint"
)
Row = Mapping[str, Any]


def told_elections(history: History, outcome: Outcome) -> Iterator[Finding]:
    if not history.has("control_send"):
        return
    owed = list(_owed(history))
    if not owed:
        return
    for arm in sorted({key[0] for key in _moved(history)}):
        outcome.unjudged(
            arm, "whether the replicas of partitions that moved were told of elections"
        )
    numbered = history.frame("control_send").where("seq is not null and enqueue_t is not null")
    sent = numbered.select(*_CHANNEL, "node", "api", "enqueue_t", "partitions")
    queue = sent.select(*_CHANNEL, "node", F.col("api").alias("of"), "enqueue_t").alias("q")
    wanted = history.table(owed, _SCHEMA)
    # What came before, and what came behind: the queue was open, and was served that far.
    same = [F.col(f"q.{name}") == F.col(f"w.{name}") for name in _CHANNEL]
    early, late = F.col("q.enqueue_t") < F.col("w.from_t"), F.col("q.enqueue_t") > F.col("w.from_t")
    behind = (F.col("w.api") == "LEADER_AND_ISR") | (F.col("q.of") != "LEADER_AND_ISR")
    in_time = late & behind & (F.col("q.enqueue_t") < F.col("w.to_t"))
    open_ = queue.join(F.broadcast(wanted.alias("w")), same).groupBy(
        *(F.col(f"w.{name}").alias(name) for name in wanted.columns)
    )
    due = open_.agg(
        F.count(F.when(early, 1)).alias("before"),
        F.min(F.when(in_time, F.col("q.enqueue_t"))).alias("after_t"),
        F.max("q.node").alias("node"),
    ).where("before > 0 and after_t is not null")
    judged = due.join(_told(sent), [*_CHANNEL, "api", "topic", "partition", "leader_epoch"], "left")
    for row in judged.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], TOLD)
        if not row["told"]:
            yield _finding(row)


def _told(sent: DataFrame) -> DataFrame:
    each = sent.select(*_CHANNEL, "api", F.explode("partitions").alias("p"))
    names = ("topic", "partition", "leader_epoch")
    each = each.select(*_CHANNEL, "api", *(F.col(f"p.{name}").alias(name) for name in names))
    return each.distinct().withColumn("told", F.lit(True))


def _owed(history: History) -> Iterator[dict[str, Any]]:
    """By election and broker what it had to be sent, by ZooKeeper's log: `_SCHEMA`; from when the
    election was certainly committed until the next one of that partition can have been (ns)."""
    deleted, moved = deletion_steps(history), _moved(history)
    lives: dict[tuple[str, int], dict[int, int]] = {}
    last: dict[Key, tuple[Row, list[dict[str, Any]]]] = {}
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
        before, mine = last.get(key, (None, []))
        raised = before is None or before["leader_epoch"] < row["leader_epoch"]
        if raised and before is not None:
            for one in mine:
                one["to_t"] = row["t"] - (row["error_ns"] or 0)
            yield from mine
        if raised and (row["step"] == "created" or before is not None):
            mine = [
                _one(row, to, broker_epoch, api)
                for to, broker_epoch in sorted(registered.items())
                for api in ("LEADER_AND_ISR", "UPDATE_METADATA")
                if api == "UPDATE_METADATA" or (to in row["isr"] and key not in moved)
            ]
        last[key] = (row, mine if raised else last[key][1])
    for _, mine in last.values():
        yield from mine


def _moved(history: History) -> set[Key]:
    """Partitions that did not have the same replicas all the time."""
    had: dict[Key, set[frozenset[int]]] = {}
    for row in in_order(history):
        if row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
            had.setdefault(key_of(row), set()).add(frozenset(row["replicas"]))
    return {key for key, of in had.items() if len(of) > 1}


def _epochs(row: Row) -> tuple[Any, ...]:
    return (row["topic"], row["partition"], row["leader_epoch"], row["controller_epoch"])


def _one(row: Row, to: int, broker_epoch: int, api: str) -> dict[str, Any]:
    names = ("arm", "trial", "topic", "partition", "leader_epoch", "controller_epoch")
    return {
        **{name: row[name] for name in names},
        **{"to": to, "broker_epoch": broker_epoch, "api": api},
        **{"from_t": row["t"] + (row["error_ns"] or 0), "to_t": _FOREVER},
    }


def _finding(row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        _RULE,
        f"controller {row['node']} committed leader epoch {row['leader_epoch']} of {row['topic']}-"
        f"{row['partition']}, and never sent node {row['to']} its {row['api']}, though it sent "
        f"other things there {(row['after_t'] - row['from_t']) / 1e6:.1f} ms after",
        row["arm"],
        row["trial"],
        (
            Pick("zk_write", {**at, "what": "state", "leader_epoch": row["leader_epoch"]}, rows=1),
            Pick("control_send", {"to": row["to"], "enqueue_t": row["after_t"]}, rows=1),
        ),
    )
