"""Cut off: who sent a record and lost the connection instead of being answered, for
`checkers.promises.records`.

Raw producers keep their connections for as long as they run, and a broker closes none of them
unasked. One that closes a connection on which a record waits answers nobody: the client cannot tell
what became of it, and sends it again.

Lawful, and looks similar: whatever may cost a broker's connections (`checkers.facts.connections`),
which is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.connections import LOST, unasked
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.judging.outcome import Outcome

_ROLES: Final = frozenset({"direct-producer", "joint-producer"})
_SLOT_NS: Final = 100_000_000


def cut_off(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """One finding for each producer and broker, and how many records."""
    raw = [
        {"arm": arm, "trial": trial, "process": one.process}
        for (arm, trial), workloads in history.run.workloads.items()
        for one in workloads
        if one.role in _ROLES
    ]
    if not raw:
        return
    lost = history.frame("produce").where("type = 'info' and error is null and node is not null")
    lost = lost.where(F.col("failure") == LOST)
    names = ["arm", "trial", "process"]
    lost = lost.join(
        F.broadcast(history.table(raw, "arm string, trial int, process string")), names
    )
    # Many go at once, when a broker does.
    slots = lost.groupBy(*names, "node", F.expr(f"t div {_SLOT_NS}").alias("_slot")).agg(
        F.count("*").alias("n"),
        F.max("invoke_t").alias("from_t"),
        F.min("t").alias("t"),
        F.min_by("value", "t").alias("value"),
    )
    rows = slots.orderBy("t", *names).toArrow().to_pylist()
    found, others = unasked(history, rows, ("process", "node"), ("node",), ("client",))
    for arm, n in others.items():
        outcome.unjudged(arm, f"{n} records on connections that may have gone")
    for first, n in found:
        yield _finding(first, n), n


def _finding(row: dict[str, Any], n: int) -> Finding:
    own = {"process": row["process"], "node": row["node"]}
    return Finding(
        "cut-off",
        f"{row['process']} lost its connection to broker {row['node']}, to which nothing was done, "
        f"with {n} records that waited there",
        row["arm"],
        row["trial"],
        (
            Pick("node_event", {"node": row["node"]}, to_t=row["t"], last=True, rows=1),
            Pick("produce", {**own, "value": row["value"]}, rows=1),
        ),
    )
