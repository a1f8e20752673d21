"""Partitions that are made while a broker is away, for `checkers.promises.departures`.

A new partition's first in-sync set is who lives of those that it is assigned to
(ZkPartitionStateMachine.initializeLeaderAndIsrForPartitions): who is away has nothing of it, and
with it in the set acks=all waits for it, or it is elected with an empty log when the others go.

- ``dead-made-in-sync``: the first in-sync set has a broker in it whose registration had been gone
  for `GONE_NS` when the partition was made, and still was.

Whatever held the controller up: ZooKeeper tells it of both in their order, and who is new in office
reads who lives. Times are used only as distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order, written
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "dead-made-in-sync"
MADE: Final = "partitions made while a broker that they are assigned to was away"
GONE_NS: Final = 500_000_000
"""Who watches registrations sees them a little late."""
Row = Mapping[str, Any]


def made_in_sync(history: History, outcome: Outcome) -> Iterator[Finding]:
    seen = [row for row in history.rows("node_event") if row["event"] in _SEEN]
    rows = [(row["t"], n, row) for n, row in enumerate(in_order(history))]
    rows += [(row["t"], -1, row) for row in seen]
    gone: dict[tuple[str, int, int | None], int] = {}
    made: dict[Key, Row] = {}
    for t, _, row in sorted(rows, key=lambda one: one[:2]):
        node = (row["arm"], row["trial"], row["node"])
        if row.get("event") == "unregistered" or _is(row, "broker", "removed"):
            gone.setdefault(node, t)
        elif row.get("event") == "registered" or row.get("what") == "broker":
            gone.pop(node, None)
        elif _is(row, "topic", "removed"):
            topic = (row["arm"], row["trial"], row["topic"])
            made = {key: of for key, of in made.items() if key[:3] != topic}
        elif row.get("what") == "topic" and row["partition"] is not None:
            made.setdefault(key_of(row), row)
        elif _is(row, "state", "created") and key_of(row) in made:
            yield from _first(outcome, gone, made[key_of(row)], row)


def _first(
    outcome: Outcome, gone: Mapping[tuple[str, int, int | None], int], made: Row, row: Row
) -> Iterator[Finding]:
    trial = (row["arm"], row["trial"])
    away = {
        node: t
        for node in made["replicas"] or ()
        if (t := gone.get((*trial, node))) is not None and t + GONE_NS <= made["t"]
    }
    if away:
        outcome.saw(*trial, MADE)
    for node in sorted(away.keys() & set(row["isr"] or ())):
        yield Finding(
            RULE,
            f"{row['topic']}-{row['partition']} was made with node {node} in sync, whose "
            f"registration had been gone for {(made['t'] - away[node]) / 1e9:.1f} s; in sync: "
            f"{list(row['isr'])}",
            *trial,
            (
                written(made),
                written(row),
                Pick("node_event", {"node": node}, to_t=row["t"], last=True),
            ),
        )


def _is(row: Row, what: str, step: str) -> bool:
    return row.get("what") == what and row.get("step") == step


_SEEN: Final = frozenset({"registered", "unregistered"})
