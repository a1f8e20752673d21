"""Cut off: who sent a record and lost the connection instead of being answered, for
`checkers.promises.records`.

Raw producers keep their connections for as long as they run, and a broker closes none of them
unasked (SocketServer: only idle ones, those over a limit, and all when it stops). One that closes a
connection on which a record waits answers nobody: the client cannot tell what became of it, and
sends it again.

Lawful, and looks similar: a broker that ended, was stopped or paused, a moment before or after; a
fault that names it (or nobody), unless that does nothing to its clients: it asks the controller for
something, forges controllers' requests, keeps followers from fetching, or hurts other links; what
the run stands on, the proxies in front of the broker among it, failed (``infra``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.details import all_details
from checkers.facts.faults import ASKING, Fault, faults_within
from checkers.facts.lives import runs, was_away
from checkers.facts.trials import rows_of
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

NEAR_NS: Final = 2_000_000_000
"""So long before it is told that a process ended, and after a fault, connections may go."""
INFRA_NS: Final = 10_000_000_000
"""What failed is noticed so much later, and stays so."""
_LOST: Final = "disconnect"
_ROLES: Final = frozenset({"direct-producer", "joint-producer"})
_SPARING: Final = ASKING | {"isr-lag", "forged-requests"}
_HARMLESS: Final = frozenset({"registered", "unregistered", "ready"})
_SLOT_NS: Final = 100_000_000


def cut_off(history: History) -> Iterator[tuple[Finding, int]]:
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
    lost = lost.where(F.col("failure") == _LOST)
    names = ["arm", "trial", "process"]
    lost = lost.join(
        F.broadcast(history.table(raw, "arm string, trial int, process string")), names
    )
    # Many go at once, when a broker does.
    slots = lost.groupBy(*names, "node", F.expr(f"t div {_SLOT_NS}").alias("_slot")).agg(
        F.count("*").alias("n"),
        F.max("invoke_t").alias("invoke_t"),
        F.min("t").alias("t"),
        F.min_by("value", "t").alias("value"),
    )
    found: dict[tuple[Any, ...], tuple[dict[str, Any], int]] = {}
    for row in slots.orderBy("t", *names).toArrow().to_pylist():
        if not _troubled(history, row):
            key = (*(row[name] for name in names), row["node"])
            first, n = found.get(key, (row, 0))
            found[key] = (first, n + row["n"])
    for first, n in found.values():
        yield _finding(first, n), n


def _troubled(history: History, row: dict[str, Any]) -> bool:
    trial, node = (row["arm"], row["trial"]), row["node"]
    from_t, to_t = row["invoke_t"] - NEAR_NS, row["t"] + NEAR_NS
    if was_away(runs(history).get((*trial, node), ()), row["t"]):
        return True
    if any(failed["t"] - INFRA_NS <= to_t for failed in rows_of(history, "infra", trial)):
        return True
    if any(
        from_t <= event["t"] <= to_t
        for event in rows_of(history, "node_event", trial)
        if event["node"] == node and event["event"] not in _HARMLESS
    ):
        return True
    return any(
        fault.concerns(node) and not _spares(fault)
        for fault in faults_within(history, trial, from_t, to_t + 1)
    )


def _spares(fault: Fault) -> bool:
    if fault.name in _SPARING:
        return True
    links = all_details(fault.rows).get("links") or []
    return fault.name == "toxic" and bool(links) and "client" not in links


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
