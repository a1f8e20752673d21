"""The broker epoch that a broker holds for its own, against its registrations by ZooKeeper's log.

A broker registers, and takes the id of that write for its epoch (KIP-380); by it it refuses what is
meant for another life of it. Each control request that it tells of bears it. One that it never had
is a word that cannot be trusted, and neither can its refusals; nor one of before, `HEARD_NS` after
it registered anew: it has the answer long since.

Of brokers that number what they tell, and of registrations since the log begins. A request that
came before the broker had registered bears none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.registrations import registered_epochs

if TYPE_CHECKING:
    from checkers.history.frames import History

HEARD_NS: Final = 2_000_000_000


def never_registered(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words."""
    made = registered_epochs(history)
    if not made or not history.has("control_request"):
        return []
    rows = history.frame("control_request").where("seq is not null and own_broker_epoch >= 0")
    by = rows.groupBy("arm", "trial", "node", "own_broker_epoch")
    each = by.agg(F.count("*").alias("n"), F.max("receive_t").alias("last_t"))
    found = []
    for row in each.toArrow().to_pylist():
        of, own = made.get((row["arm"], row["trial"], row["node"])), row["own_broker_epoch"]
        if not of or own < min(of):
            continue
        says = f"node {row['node']} held {own} for its broker epoch in"
        late_ns = max((row["last_t"] - t for epoch, t in of.items() if epoch > own), default=0)
        if own not in of:
            why = f"{says} {row['n']} requests, and never registered with it"
            found.append(((row["arm"], row["trial"]), why))
        elif late_ns > HEARD_NS:
            why = f"{says} requests until {late_ns / 1e9:.1f} s after it had registered anew"
            found.append(((row["arm"], row["trial"]), why))
    return sorted(found)
