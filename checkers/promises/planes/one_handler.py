"""Whether a control plane handles one request at a time, for `checkers.promises.planes`.

It has one handler (KIP-291; KafkaServer makes its pool of one thread), so that of two controllers'
requests, of which one is of the past, each is judged by what the other has left. By brokers' own
word of when they began with a request, and when they had its answer.

- ``handled-together``: a control plane began with a request before it was done with another.

Of brokers that number what they tell: Apache Kafka's log has how long each part took, and is
written some time after the answer left, so that requests meet there that did not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.spans import earliest, latest
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "handled-together"
_BROKER: Final = ("arm", "trial", "node", "boot")


def handled_together(history: History) -> Iterator[tuple[Finding, int]]:
    """One finding for each broker's life, and how often."""
    if not history.has("control_request"):
        return
    rows = history.frame("control_request").where("plane = 'control' and seq is not null")
    each = rows.where("dequeue_t > 0 and handled_t > 0").select(
        *(*_BROKER, "t", "api"),
        latest(F.col("dequeue_t")).alias("begin_t"),
        earliest(F.col("handled_t")).alias("end_t"),
    )
    in_turn = Window.partitionBy(*_BROKER).orderBy("begin_t", "end_t")
    names = ("t", "api", "end_t")
    before = (F.lag(name).over(in_turn).alias(f"_{name}") for name in names)
    beside = each.select("*", *before).where("_end_t > begin_t")
    found = beside.groupBy(*_BROKER).agg(
        F.count("*").alias("n"),
        *(F.min_by(c, "begin_t").alias(c) for c in ("t", "api", "begin_t", "_t", "_api", "_end_t")),
    )
    for row in found.orderBy(*_BROKER).toArrow().to_pylist():
        early_ms = (row["_end_t"] - row["begin_t"]) / 1e6
        finding = Finding(
            RULE,
            f"node {row['node']}'s control plane began with {row['n']} requests before it was done "
            f"with others, first {row['api']} {early_ms:.2f} ms before the end of {row['_api']}",
            row["arm"],
            row["trial"],
            tuple(
                Pick("control_request", {"node": row["node"], "t": t}, rows=1)
                for t in (row["_t"], row["t"])
            ),
        )
        yield finding, row["n"]
