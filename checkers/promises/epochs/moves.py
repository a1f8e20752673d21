"""Moves by ZooKeeper's own log, for `checkers.promises.epochs`: does one end when it may, and as
it was asked for?

A reassignment first writes the old replicas and the new ones together, and drops the old ones when
all that it moves to are in sync (KIP-455; KafkaController.onPartitionReassignment): from then on
these are all that there is of the partition. In ZooKeeper's order that write comes when the
in-sync set has them all: the same controller commits in-sync sets, one decision after the other.

- ``moved-before-in-sync``: old replicas were dropped, and one that is to stay was not in sync;
- ``moved-while-in-sync``: old replicas were dropped, and one of them was in sync still: it is taken
  out of the in-sync set first, and nobody does so later;
- ``moved-otherwise``: those that stayed stand in another order than they had together with the old
  ones. Replicas are a list: the first is the preferred leader, the others lead in their order. Who
  asks for a move gives such a list, and it is written as it is, the old ones behind it.

Lawful, and looks similar: who was added is dropped again, which is a move that was called off, or
turned elsewhere. All of the old ones are there then: a move has ended when one of those is gone. Of
one that only adds replicas nobody sees the end there. Leaders before KIP-497 wrote in-sync sets
themselves: one that shrinks while the controller looks would be called a move too early. A move to
the same replicas in another order is all in its first write, and drops nobody. Before KIP-455 both
were written together as a set, of which more than four stand in any order (Scala's), and a move to
who was in sync already was one write: neither that many nor a move that adds nobody is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order, written
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding

if TYPE_CHECKING:
    from checkers.history.frames import History

MOVED: Final = "moves that ended"
_IN_ORDER: Final = 4
Row = Mapping[str, Any]


@dataclass(slots=True)
class _Partition:
    """``home``: its replicas when no move of it was known to be under way; ``now``: all that are
    assigned, in order; ``state``: what was committed of it last."""

    home: frozenset[int]
    now: tuple[int, ...]
    state: Row | None = None


def moves(history: History, outcome: Outcome) -> Iterator[Finding]:
    known: dict[Key, _Partition] = {}
    for row in in_order(history):
        if row["topic"] is None:
            continue
        if row["what"] == "topic" and row["step"] == "removed":
            topic = (row["arm"], row["trial"], row["topic"])
            for key in [key for key in known if key[:3] == topic]:
                del known[key]
        elif row["what"] == "topic" and row["partition"] is not None:
            yield from _assigned(outcome, known, row)
        elif row["what"] == "state" and key_of(row) in known:
            known[key_of(row)].state = row if row["step"] != "removed" else None


def _assigned(outcome: Outcome, known: dict[Key, _Partition], row: Row) -> Iterator[Finding]:
    key, order = key_of(row), tuple(row["replicas"] or ())
    replicas = frozenset(order)
    one = known.get(key)
    if one is None:
        known[key] = _Partition(replicas, order)
        return
    ended, adds = bool(one.home - replicas), not one.home >= set(one.now)
    before, one.now = one.now, order
    dropped = set(before) - replicas
    if not ended:
        return
    one.home = replicas
    stay = tuple(r for r in before if r in replicas)
    if adds and dropped and len(before) <= _IN_ORDER and set(stay) == replicas and stay != order:
        yield Finding(
            "moved-otherwise",
            f"{key[2]}-{key[3]} was on {list(before)} while it moved, and then on {list(order)}, "
            f"which is not their order: {stay[0]} was to be the preferred leader",
            *key[:2],
            (written(row),),
        )
    state = one.state
    if not dropped or state is None or state["isr"] is None:
        return
    outcome.saw(*key[:2], MOVED)
    left = sorted(set(state["isr"]) & dropped)
    if left:
        yield Finding(
            "moved-while-in-sync",
            f"{key[2]}-{key[3]} was left with replicas {sorted(replicas)} alone, and {left} stayed "
            f"in its in-sync set {list(state['isr'])}",
            *key[:2],
            (written(state), written(row)),
        )
    missing = sorted(replicas - set(state["isr"]))
    if missing:
        yield Finding(
            "moved-before-in-sync",
            f"{key[2]}-{key[3]} was left with replicas {sorted(replicas)} alone, of which "
            f"{missing} had not been in sync yet; its in-sync set was {list(state['isr'])}",
            *key[:2],
            (written(state), written(row)),
        )
