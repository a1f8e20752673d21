"""The replicas that a broker shows of a partition, against those that it was ever given.

For `checkers.promises.shown_metadata`: ``metadata-replicas-never-assigned``. Brokers pass on what
the controller tells them of a partition's assignment (UpdateMetadata), which it reads from the
topic's znode; each set of replicas that a partition had is in ZooKeeper's log, those between two
steps of a reassignment as well. Old ones are lawful at any time: the next word may be under way. In
which order is not asked. What a forger told is the forger's (`checkers.facts.forgeries`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.answers import with_forged
from checkers.facts.leadership import TP, key_of
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "metadata-replicas-never-assigned"


def never_assigned(history: History) -> Iterator[tuple[Finding, int]]:
    """By broker, partition and set of replicas: the first answer, and how many there were."""
    given: dict[tuple[str, int, str, int], set[str]] = {}
    for row in history.rows("zk_write"):
        if row["what"] == "topic" and row["partition"] is not None and row["replicas"] is not None:
            given.setdefault(key_of(row), set()).add(_words(row["replicas"]))
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
    rows = rows.join(F.broadcast(known), [*TP])
    ids = F.transform(F.array_sort("replicas"), lambda one: one.cast("string"))
    shown = F.concat(F.lit("["), F.array_join(ids, ","), F.lit("]"))
    odd = rows.withColumn("shown", shown).where(~F.col("sets").contains(F.col("shown")))
    odd = with_forged(history, odd).where("not forged")
    found = odd.groupBy(*TP, "node", "shown").agg(F.min("t").alias("t"), F.count("*").alias("n"))
    for row in sorted(found.toArrow().to_pylist(), key=lambda row: row["t"]):
        arm, trial, topic, partition = key_of(row)
        at = {"topic": topic, "partition": partition}
        says = f"node {row['node']} showed {topic}-{partition} with replicas {row['shown']}"
        answer = Pick("metadata", {**at, "node": row["node"], "t": row["t"]}, rows=1)
        picks = (Pick("zk_write", {**at, "what": "topic"}, rows=2), answer)
        says = f"{says}, which it never was given"
        yield Finding(RULE, says, arm, trial, picks), row["n"]


def _words(replicas: list[int]) -> str:
    return f"[{','.join(str(node) for node in sorted(replicas))}]"
