"""Connections that nothing was done to: a broker closes none of them unasked (SocketServer: only
idle ones, those over a limit, and all when it stops).

What may cost a broker's connections: its process ended, was stopped or paused, a moment before or
after; a fault that names it (or nobody), unless that does nothing to them: it asks the controller
for something, asks the broker for much (who comes too soon waits, RequestChannel.sendRequest),
forges controllers' requests, keeps followers from fetching, or hurts other links; what the run
stands on, the proxies in front of the broker among it, failed (``infra``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import all_details
from checkers.facts.faults import ASKING, FLOOD, Fault, faults_within
from checkers.facts.lives import runs, was_away
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

LOST: Final = "disconnect"
"""So a raw client calls it, and a controller (``failure``): it waited for an answer, and the other
side hung up."""
NEAR_NS: Final = 2_000_000_000
"""So long before it is told that a process ended, and after a fault, connections may go."""
INFRA_NS: Final = 10_000_000_000
"""What failed is noticed so much later, and stays so."""
_SPARING: Final = ASKING | {"forged-requests"}
_LAGS: Final = frozenset({"isr-lag", "isr-lag-succeeded"})
"""These keep followers from fetching by a link that they name, if they hurt any."""
_STORM: Final = "flood-connections"
"""Of new connections: a listener has places for so many that nobody has taken in yet."""
_HARMLESS: Final = frozenset({"registered", "unregistered", "ready"})


def unasked(
    history: History,
    lost: Iterable[dict[str, Any]],
    by: Sequence[str],
    ends: Sequence[str],
    links: Collection[str],
) -> tuple[list[tuple[dict[str, Any], int]], Counter[str]]:
    """Connections that went though nothing was done at their ``ends`` (columns of brokers): by the
    columns ``by`` of each trial the first, and how many; and, by arm, how many others went.

    ``lost``: in order of time; arm, trial, ``n`` connections that went from ``from_t`` to ``t``
    (ns), and those columns.
    """
    found: dict[tuple[Any, ...], tuple[dict[str, Any], int]] = {}
    others: Counter[str] = Counter()
    for row in lost:
        trial, span = (row["arm"], row["trial"]), (row["from_t"], row["t"])
        if any(may_go(history, trial, row[end], *span, links) for end in ends):
            others[row["arm"]] += row["n"]
        else:
            key = (*trial, *(row[name] for name in by))
            first, n = found.get(key, (row, 0))
            found[key] = (first, n + row["n"])
    return list(found.values()), others


def may_go(
    history: History,
    trial: tuple[str, int],
    node: int,
    from_t: int,
    to_t: int,
    links: Collection[str],
) -> bool:
    """Whether connections of a broker by any of ``links`` may have gone within a span (ns)."""
    since, until = from_t - NEAR_NS, to_t + NEAR_NS
    if was_away(runs(history).get((*trial, node), ()), to_t):
        return True
    if any(failed["t"] - INFRA_NS <= until for failed in rows_of(history, "infra", trial)):
        return True
    if any(
        since <= event["t"] <= until
        for event in rows_of(history, "node_event", trial)
        if event["node"] == node and event["event"] not in _HARMLESS
    ):
        return True
    return any(
        fault.concerns(node) and not _spares(fault, links)
        for fault in faults_within(history, trial, since, until + 1)
    )


def _spares(fault: Fault, links: Collection[str]) -> bool:
    if fault.name in _SPARING or (fault.name.startswith(FLOOD) and fault.name != _STORM):
        return True
    hurt = all_details(fault.rows).get("links") or []
    known = fault.name in _LAGS or (fault.name == "toxic" and bool(hurt))
    return known and not set(hurt) & set(links)
