"""A slow machine: its brokers take longer to begin than brokers do, each of them.

A machine that is merely busy does not stand still (`checkers.facts.standstills`), and yet what
takes milliseconds elsewhere takes seconds on it. It shows where all brokers do the same work: from
their start until they are ready. No broker is believed about itself: the middle of all starts
counts, of two brokers at least, and the harness took the times.
"""

from __future__ import annotations

from itertools import chain
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from checkers.history.frames import History

BEGINS_NS: Final = 10_000_000_000
"""A machine on which brokers take longer than that to begin is slow: Kafka's take 5 to 8 s."""
_SLOWER: Final = 2
"""So many times as much as they took longer is waited longer."""
Trial = tuple[str, int]


def usual_starts(history: History) -> dict[Trial, int]:
    """By trial, how long its brokers took to begin (ns), in the middle; absent: of one broker
    alone, or of none, a start is known that came to an end."""
    found: dict[Trial, int] = history.memo("usual starts", lambda: _usual_starts(history))
    return found


def longer_ns(history: History) -> dict[Trial, int]:
    """By trial on a slow machine: how much longer (ns) is waited there for what is late."""
    return {
        trial: _SLOWER * (took_ns - BEGINS_NS)
        for trial, took_ns in usual_starts(history).items()
        if took_ns > BEGINS_NS
    }


def _usual_starts(history: History) -> dict[Trial, int]:
    began: dict[tuple[Trial, Any], int] = {}
    took: dict[Trial, dict[Any, list[int]]] = {}
    for row in sorted(history.rows("node_event"), key=lambda row: int(row["t"])):
        trial, node = (row["arm"], row["trial"]), row["node"]
        if row["event"] == "start":
            began[trial, node] = row["t"]
        elif row["event"] == "ready" and (trial, node) in began:
            lasted = row["t"] - began.pop((trial, node))
            took.setdefault(trial, {}).setdefault(node, []).append(lasted)
    return {
        trial: median_low(chain.from_iterable(by_node.values()))
        for trial, by_node in took.items()
        if len(by_node) > 1
    }
