"""The replicas that a broker shows of a partition, against those that it was ever given, and in the
end against the last ones.

For `checkers.promises.shown_metadata`: ``metadata-replicas-never-assigned``,
``metadata-replicas-behind``. Brokers pass on what
the controller tells them of a partition's assignment (UpdateMetadata), which it reads from the
topic's znode; each set of replicas that a partition had is in ZooKeeper's log, those between two
steps of a reassignment as well. Old ones are lawful as long as the next word may be under way: up
to when all was healed and every broker had its time (`checkers.facts.calm`). In their order: the
first is the preferred leader (TopicPartitionInfo). Without ZooKeeper the metadata log has them, in
each state; of a history that does not tell them a partition has the replicas that its topic was
made with (run.json), if nobody asked for its move, or for its topic's deletion. What a forger told
is the forger's (`checkers.facts.forgeries`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps, with_forged
from checkers.facts.calm import Debts
from checkers.facts.committed import committed
from checkers.facts.decisions import from_copies
from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.office import in_order
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column

    from checkers.history.frames import History

Row = Mapping[str, Any]
RULE: Final = "metadata-replicas-never-assigned"
BEHIND: Final = "metadata-replicas-behind"
_CHANGES: Final = ("ALTER_PARTITION_REASSIGNMENTS", "DELETE_TOPICS")


def never_assigned(history: History) -> Iterator[tuple[Finding, int]]:
    """By broker, partition and set of replicas: the first answer, and how many there were."""
    given: dict[Key, set[str]] = {}
    for row in _assignments(history):
        given.setdefault(key_of(row), set()).add(_words(row["replicas"]))
    for key, replicas in _made_with(history).items():
        given.setdefault(key, {_words(list(replicas))})
    if not given:
        return
    known = history.table(
        [
            {**dict(zip(TP, key, strict=True)), "sets": "".join(sorted(of))}
            for key, of in given.items()
        ],
        "arm string, trial int, topic string, partition int, sets string",
    )
    rows = history.frame("metadata").where("type = 'ok' and size(replicas) > 0")
    rows = rows.join(F.broadcast(known), [*TP]).withColumn("shown", _shown())
    odd = rows.where(~F.col("sets").contains(F.col("shown")))
    odd = with_forged(history, odd).where("not forged")
    found = odd.groupBy(*TP, "node", "shown").agg(F.min("t").alias("t"), F.count("*").alias("n"))
    for row in sorted(found.toArrow().to_pylist(), key=lambda row: row["t"]):
        arm, trial, topic, partition = key_of(row)
        at = {"topic": topic, "partition": partition}
        says = f"node {row['node']} showed {topic}-{partition} with replicas {row['shown']}"
        answer = Pick("metadata", {**at, "node": row["node"], "t": row["t"]}, rows=1)
        picks = (*_writes(at), answer)
        says = f"{says}, which it never was given"
        yield Finding(RULE, says, arm, trial, picks), row["n"]


def _assignments(history: History) -> Iterator[Row]:
    """By partition in order, each state of its assignment: of ZooKeeper's log, or what copies of
    the metadata log agree on."""
    for row in in_order(history):
        if row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
            yield row
    for of in committed(history).values():
        for state in of.states:
            if state.row.get("replicas"):
                yield state.row


def _writes(at: dict[str, Any], *, last: bool = False) -> tuple[Pick, ...]:
    return (
        Pick("zk_write", {**at, "what": "topic"}, rows=2, last=last),
        Pick("leadership", at, rows=2, last=last),
    )


def _made_with(history: History) -> dict[Key, tuple[int, ...]]:
    """The replicas of partitions that nobody asked to have moved, or deleted, by run.json."""
    changed: set[tuple[str, int, str]] = {
        (row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")
    }
    for row in history.rows("admin_request"):
        # A request as a whole that was granted says what became of each by itself.
        if row["api"] in _CHANGES and (row["about"] or row["error"] != 0):
            changed.add((row["arm"], row["trial"], row["about"]))
    return {
        (arm, trial, topic, partition): tuple(replicas)
        for (arm, trial, topic), facts in history.run.topics.items()
        if (arm, trial) in from_copies(history) and (arm, trial, "") not in changed
        for partition, replicas in facts.assignment.items()
        if not {(arm, trial, topic), (arm, trial, f"{topic}-{partition}")} & changed
    }


def behind(history: History) -> Iterator[tuple[Finding, int]]:
    """By broker and partition: the last answer with other replicas than the last ones, of those
    that owed these."""
    ends = history.frame("metadata").groupBy("arm", "trial").agg(F.max("t").alias("t"))
    end_t = {(row["arm"], row["trial"]): row["t"] for row in ends.toArrow().to_pylist()}
    owed = list(_owed(history, Debts(history, end_t)))
    if not owed:
        return
    columns = "node int, owed_t bigint, last string"
    table = history.table(owed, f"arm string, trial int, topic string, partition int, {columns}")
    rows = history.frame("metadata").where("type = 'ok' and size(replicas) > 0")
    rows = rows.join(F.broadcast(table), [*TP, "node"]).withColumn("shown", _shown())
    odd = rows.where("invoke_t > owed_t and shown <> last")
    odd = with_forged(history, odd).where("not forged")
    found = odd.groupBy(*TP, "node", "last").agg(
        F.max_by("shown", "t").alias("shown"), F.max("t").alias("t"), F.count("*").alias("n")
    )
    for row in sorted(found.toArrow().to_pylist(), key=lambda row: (key_of(row), row["node"])):
        arm, trial, topic, partition = key_of(row)
        at = {"topic": topic, "partition": partition}
        answer = Pick("metadata", {**at, "node": row["node"], "t": row["t"]}, rows=1)
        picks = (*_writes(at, last=True), answer)
        says = f"node {row['node']} showed {topic}-{partition} with replicas {row['shown']}"
        says = f"{says} long after all was healed; it has {row['last']}"
        yield Finding(BEHIND, says, arm, trial, picks), row["n"]


def _owed(history: History, debts: Debts) -> Iterator[dict[str, Any]]:
    """By partition that was never deleted and broker, since when it owes which replicas."""
    last: dict[Key, dict[str, Any]] = {}
    for row in _assignments(history):
        known = last.get(key_of(row))
        if known is None or known["replicas"] != row["replicas"]:
            last[key_of(row)] = dict(row)
    nodes = {
        (row["arm"], row["trial"], row["node"])
        for row in history.rows("node_event")
        if row["node"] is not None
    }
    deleted = deletion_steps(history)
    for key, row in sorted(last.items()):
        own_nodes = sorted(node for node in nodes if node[:2] == key[:2])
        for node in own_nodes if key[:3] not in deleted else ():
            owed_t = debts.owed_from(node, row["t"] + (row["error_ns"] or 0))
            if owed_t is not None:
                own = {"node": node[2], "owed_t": owed_t, "last": _words(row["replicas"])}
                yield {**dict(zip(TP, key, strict=True)), **own}


def _shown() -> Column:
    ids = F.transform("replicas", lambda one: one.cast("string"))
    return F.concat(F.lit("["), F.array_join(ids, ","), F.lit("]"))


def _words(replicas: list[int]) -> str:
    return f"[{','.join(str(node) for node in replicas)}]"
