"""The broker epoch that a broker holds for its own, against its registrations by ZooKeeper's log.

A broker registers, and takes the id of that write for its epoch (KIP-380); by it it refuses what is
meant for another life of it. Each control request that it tells of bears it. One that it never had
is a word that cannot be trusted, and neither can its refusals.

Of brokers that number what they tell, and of registrations since the log begins. A request that
came before the broker had registered bears none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.facts.registrations import registered_epochs

if TYPE_CHECKING:
    from checkers.history.frames import History


def never_registered(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words."""
    made = registered_epochs(history)
    if not made or not history.has("control_request"):
        return []
    rows = history.frame("control_request").where("seq is not null and own_broker_epoch >= 0")
    by = ("arm", "trial", "node", "own_broker_epoch")
    found = []
    for row in rows.groupBy(*by).count().toArrow().to_pylist():
        of, own = made.get((row["arm"], row["trial"], row["node"])), row["own_broker_epoch"]
        if of and own >= min(of) and own not in of:
            says = f"node {row['node']} held {own} for its broker epoch in"
            why = f"{says} {row['count']} requests, and never registered with it"
            found.append(((row["arm"], row["trial"]), why))
    return sorted(found)
