"""Rows about a broker of which nobody tells that it ever was: nobody asked it, and it said nothing.

Who ran is told by the harness and by ZooKeeper's registrations (`node_event`). A row that names
another, as who wrote, was asked, or was connected to, is of another cluster, or names one wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.calm import brokers
from checkers.facts.clients import sums
from checkers.facts.tellers import OF_BROKERS, tellers

if TYPE_CHECKING:
    from checkers.history.frames import History

Trial = tuple[str, int]
_DRIVER: Final = {
    **dict.fromkeys(("connection",), ("node", "to")),
    **dict.fromkeys(
        ("leader_change", "replica_stop", "truncation", "isr_change", "controller", "source"),
        ("node",),
    ),
    "exception": ("node",),
    **dict.fromkeys(("flood", "node_event", "final_state"), ("node",)),
    **dict.fromkeys(("log_end", "log_folder", "described"), ("node",)),
}
"""Columns that name brokers, of kinds that do not grow with the load."""


def unheard_of(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words."""
    known = brokers(history)
    named: dict[tuple[Trial, str], set[int]] = {}

    def name(key: Trial, kind: str, node: Any) -> None:
        if node is not None and known.get(key) and node not in known[key]:
            named.setdefault((key, kind), set()).add(node)

    for kind, columns in _DRIVER.items():
        for row in history.rows(kind):
            for column in columns:
                name((row["arm"], row["trial"]), kind, row[column])
    for kind in OF_BROKERS:
        for key, nodes in tellers(history, kind).items():
            for node in nodes:
                name(key, kind, node)
    for each in sums(history):
        name(each.key, each.kind, each.node)
    for (key, kind), nodes in sorted(named.items()):
        yield key, f"{kind}: there are rows of nodes {sorted(nodes)}, of which nobody else tells"
