"""What was committed of each partition, state by state: by leader epoch, and at the end.

`checkers.facts.leadership` dates epochs; here is what was in them: every leader and every in-sync
set that ZooKeeper (its log, a watch) or the metadata log held with a leader epoch. A namesake of a
deleted topic shares the name's epochs: what one of them had, none is accused of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import SHOWN, Key, key_of
from checkers.facts.told_numbers import FURTHEST_MS

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
_UNNUMBERED: Final = -1
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class State:
    """``t``: when it was certainly committed (ns): by the store's clock, where that is known, for a
    row may have been written long after."""

    t: int
    row: Row


@dataclass(slots=True)
class Committed:
    """``leaders``, ``isrs``: by leader epoch, all that were committed (sets sorted); each set by
    the partition epochs in which it was, with when that can have been at the earliest (ns, by the
    store's clock; 0: nobody knows)."""

    leaders: dict[int, set[int]] = field(default_factory=dict)
    isrs: dict[int, dict[tuple[int, ...], dict[int | None, int]]] = field(default_factory=dict)
    first_t: int = 2**62
    states: list[State] = field(default_factory=list)
    """The proved ones (watched, shown, or in two copies of a metadata log), in their order."""

    def as_of(self, t: int) -> State | None:
        """What had been committed last at that time (ns)."""
        return next((state for state in reversed(self.states) if state.t <= t), None)


def committed(history: History) -> dict[Key, Committed]:
    """Gathered once a history."""
    found: dict[Key, Committed] = history.memo("committed", lambda: _gather(history))
    return found


def _gather(history: History) -> dict[Key, Committed]:
    found: dict[Key, Committed] = {}
    tellers: dict[tuple[Any, ...], set[str]] = {}
    for row in history.rows("leadership"):
        if row["topic"] is None or row["leader_epoch"] is None or row["leader_epoch"] < 0:
            continue
        of = found.setdefault(key_of(row), Committed())
        of.first_t = min(of.first_t, row["t"] + (row["error_ns"] or 0))
        _add(history, of, row)
        told = tellers.setdefault((*key_of(row), *_content(row)), set())
        told.add(row["process"])
        # The end of one copy of a metadata log alone may hold what was never committed.
        if row["source"] in ("zk", SHOWN) or len(told) > 1:
            of.states.append(State(_certain_t(history, row), row))
    for of in found.values():
        of.states.sort(key=lambda state: _order(state.row))
    for row in history.rows("zk_write"):
        if row["what"] == "state" and row["leader_epoch"] is not None and row["topic"] is not None:
            _add(history, found.setdefault(key_of(row), Committed()), row)
    return found


def _certain_t(history: History, row: Row) -> int:
    t: int = row["t"] + (row["error_ns"] or 0)
    offset_ns = history.run.clock_offset_ns
    if row["commit_ms"] is None or offset_ns is None:
        return t
    stored_t: int = (row["commit_ms"] + 1) * _MS + offset_ns + history.run.clock_error_ns
    return min(t, stored_t)


def _content(row: Row) -> tuple[Any, ...]:
    names = ("partition_epoch", "leader_epoch", "leader", "controller_epoch")
    return (*(row[name] for name in names), tuple(row["isr"] or ()))


def _add(history: History, of: Committed, row: Row) -> None:
    if row["leader"] is not None:
        of.leaders.setdefault(row["leader_epoch"], set()).add(row["leader"])
    if row["isr"] is not None:
        sets, isr = of.isrs.setdefault(row["leader_epoch"], {}), tuple(sorted(row["isr"]))
        known, at = sets.setdefault(isr, {}), row["partition_epoch"]
        told = [t for t in (known.get(at, 0), _earliest_t(history, row)) if t]
        known[at] = min(told, default=0)


def _earliest_t(history: History, row: Row) -> int:
    offset_ns = history.run.clock_offset_ns
    if row["commit_ms"] is None or offset_ns is None or not 0 <= row["commit_ms"] < FURTHEST_MS:
        return 0
    stored_t: int = row["commit_ms"] * _MS + offset_ns - history.run.clock_error_ns
    return stored_t


def _order(row: Row) -> tuple[int, int, int, int]:
    """The store's own clock first: only it tells a late row of a deleted topic from its namesake's.
    A writer's row may lack it, and then comes in the order of its epochs."""
    version = _UNNUMBERED if row["partition_epoch"] is None else row["partition_epoch"]
    return (row["commit_ms"] or 0, row["leader_epoch"], version, row["t"])
