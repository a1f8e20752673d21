"""What a forger made a broker believe, where Kafka itself cannot see the lie.

A forged request with a stale epoch must be refused; what it does to a broker that takes it in is
that broker's fault. One whose epochs are as good as the controller's is lawfully believed, and what
the broker shows or does afterwards is the forger's doing, until the broker hears the truth again:

    told       an UpdateMetadata about a partition: until the broker's next update of that partition
    deafened   any request with a controller epoch of the future, which makes the broker refuse its
               true controller: until it takes in an update of anything again

Both end with the life of the broker, which forgets. The witness is the forger's own row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import NEVER, Key, key_of
from checkers.facts.lives import cuts

if TYPE_CHECKING:
    from checkers.history.frames import History

SEEN_LIES: Final = frozenset({"stale_controller_epoch", "stale_broker_epoch", "stale_leader_epoch"})
_FUTURE: Final = "future_controller_epoch"
Node = tuple[str, int, int]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """[from_t, to_t), ns."""

    from_t: int
    to_t: int

    def meets(self, from_t: int, to_t: int) -> bool:
        return from_t < self.to_t and self.from_t <= to_t


@dataclass(frozen=True, slots=True)
class Forgeries:
    told: Mapping[tuple[Key, int], tuple[Span, ...]]
    """By (partition, node)."""
    deafened: Mapping[Node, tuple[Span, ...]]
    """By (arm, trial, node)."""

    def __bool__(self) -> bool:
        return bool(self.told or self.deafened)

    def deaf(self, node: Node, from_t: int, to_t: int) -> bool:
        return any(span.meets(from_t, to_t) for span in self.deafened.get(node, ()))


def forgeries(history: History) -> Forgeries:
    """Gathered once a history."""
    found: Forgeries = history.memo("forgeries", lambda: _gather(history))
    return found


def believed(row: Row) -> bool:
    """Whether a `forged` row's request may have been taken in, lawfully: no answer, no denial."""
    accepted = row["error"] == 0 or (row["error"] is None and row["type"] == "info")
    return accepted and not row["partition_error"] and row["lie"] not in SEEN_LIES


def _gather(history: History) -> Forgeries:
    told: dict[tuple[Key, int], list[Span]] = {}
    deafened: dict[Node, list[Span]] = {}
    lies = [row for row in history.rows("forged") if row["node"] is not None and believed(row)]
    if not lies:
        return Forgeries({}, {})
    news = _news(history)
    for row in lies:
        node = (row["arm"], row["trial"], row["node"])
        died = next((t for t in sorted(cuts(history).get(node, ())) if t > row["t"]), NEVER)
        heard = [(key, t) for key, t in news.get(node, ()) if row["t"] < t < died]
        if row["api"] == "UPDATE_METADATA" and row["topic"] is not None:
            key = key_of(row)
            until = min((t for of, t in heard if of == key), default=died)
            told.setdefault((key, row["node"]), []).append(Span(row["invoke_t"], until))
        if row["lie"] == _FUTURE:
            # Later lies may come with updates of their own: only what no forger sent is the truth.
            until = min((t for _, t in heard), default=died)
            deafened.setdefault(node, []).append(Span(row["invoke_t"], until))
    return Forgeries(
        {place: tuple(spans) for place, spans in told.items()},
        {node: tuple(spans) for node, spans in deafened.items()},
    )


def _news(history: History) -> dict[Node, list[tuple[Key, int]]]:
    """When each broker took in what no forger sent, by partition. Read only where one lied."""
    forged = _forged_updates(history.rows("forged"))
    found: dict[Node, list[tuple[Key, int]]] = {}
    for row in history.rows("metadata_update"):
        key = key_of(row)
        lied = forged.get((key, row["node"]), ())
        if not any(a <= row["t"] <= b for a, b in lied):
            node = (row["arm"], row["trial"], row["node"])
            found.setdefault(node, []).append((key, row["t"] - (row["error_ns"] or 0)))
    return found


def _forged_updates(rows: Iterable[Row]) -> dict[tuple[Key, int], list[tuple[int, int]]]:
    """While a forged UpdateMetadata was under way, an update of its partition may be its own."""
    found: dict[tuple[Key, int], list[tuple[int, int]]] = {}
    for row in rows:
        if row["api"] == "UPDATE_METADATA" and row["topic"] is not None:
            place = (key_of(row), row["node"])
            found.setdefault(place, []).append((row["invoke_t"], row["t"]))
    return found
