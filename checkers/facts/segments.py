"""Fault segments: a trial's time cut where a fault begins or ends.

Faults overlap. Cutting at every ``injected`` and ``healed`` gives disjoint segments, each named by
the faults that were in place ("flood", "flood+restart", "none"), so that an operation belongs to
one segment and figures of segments can be added up. A fault that was never healed lasts to the end.

What a fault leaves unjudgeable is its own time and place, and nothing else. Rules that say "in the
end" must know when that is. A fault that was healed is over, whether or not it had been put in
place as it was meant to: what failed is healed as well, and that is told. One that was never healed
may be in place to the end, on the nodes that it names; on any, where it names none. So

    unsettled    the faults that failed or lasted, with time and place
    settled_at   when the last fault was over that could concern a node, and whether every replica
                 then caught up; of two nodes (leader and follower) both must be settled
    settled      the same of whole trials: those without a lasting fault
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.faults import faults
from checkers.facts.timeline import FOREVER, FROM, TO, Timeline
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

Trial = tuple[str, int]
QUIET: Final = "none"
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """One fault's time in place, in ns."""

    id: str
    fault: str
    from_t: int
    to_t: int
    healed: bool


def windows(history: History) -> dict[Trial, list[Window]]:
    """Every fault that took place, by (arm, trial); gathered once a history."""
    found: dict[Trial, list[Window]] = history.memo("fault windows", lambda: _windows(history))
    return found


def _windows(history: History) -> dict[Trial, list[Window]]:
    opened: dict[tuple[str, int, str], dict[str, Any]] = {}
    found: dict[Trial, list[Window]] = {}
    for row in history.rows("fault"):
        key = (row["arm"], row["trial"], row["id"] or row["fault"] or "?")
        if row["phase"] == "injected":
            opened.setdefault(key, row)
        elif row["phase"] == "healed" and key in opened:
            begun = opened.pop(key)
            window = Window(key[2], begun["fault"] or "?", begun["t"], row["t"], True)
            found.setdefault(key[:2], []).append(window)
    for key, begun in opened.items():
        window = Window(key[2], begun["fault"] or "?", begun["t"], FOREVER, False)
        found.setdefault(key[:2], []).append(window)
    return found


def segments(faults: list[Window]) -> list[tuple[int, int, str]]:
    """(from_t, to_t, name): disjoint, ascending, only where some fault is in place."""
    changes: dict[int, Counter[str]] = {}
    for w in faults:
        if w.from_t < w.to_t:
            changes.setdefault(w.from_t, Counter())[w.fault] += 1
            changes.setdefault(w.to_t, Counter())[w.fault] -= 1
    active: Counter[str] = Counter()
    cut = []
    for begin, end in pairwise(sorted(changes)):
        active.update(changes[begin])
        names = sorted(name for name, n in active.items() if n > 0)
        if names:
            cut.append((begin, end, "+".join(names)))
    return cut


def with_segment(history: History, frame: DataFrame, at: Column) -> DataFrame:
    """Add ``segment``: the name of the segment that time ``at`` falls in."""
    from pyspark.sql import functions as F

    def make() -> Timeline:
        end_t = _end(history)
        rows = [
            {"arm": arm, "trial": trial, FROM: begin, TO: _until(end, end_t), "_segment": name}
            for (arm, trial), placed in windows(history).items()
            for begin, end, name in segments(placed)
        ]
        return Timeline(rows, ("arm", "trial"), {"_segment": "string"})

    timeline: Timeline = history.memo("segments", make)
    if not timeline.rows:
        return frame.withColumn("segment", F.lit(QUIET))
    found = timeline.at(history, frame, at)
    named = found.withColumn("segment", F.coalesce(F.col("_segment"), F.lit(QUIET)))
    return named.drop(FROM, TO, "_segment")


def _until(to_t: int, end_t: int) -> int:
    """A segment ends with its second at the latest in which the run ended."""
    return min(to_t, (min(to_t, end_t) // _SECOND_NS + 1) * _SECOND_NS)


def _end(history: History) -> int:
    """Where a fault that was never healed stops mattering: the run's last milestone."""
    times = [row["t"] for kind in ("phase", "fault", "node_event") for row in history.rows(kind)]
    return max(times, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """A fault that failed or was never healed. ``nodes``: where; None: anywhere. Times in ns: from
    its first step until it was healed, `FOREVER` when it was not."""

    id: str
    fault: str
    nodes: frozenset[int] | None
    from_t: int
    to_t: int

    def concerns(self, node: int | None, t: int | None = None) -> bool:
        """Whether it may touch that node (None: any node at all), at ``t`` or ever."""
        here = node is None or self.nodes is None or node in self.nodes
        return here and (t is None or self.from_t <= t <= self.to_t)


def unsettled(history: History) -> dict[Trial, list[Unsettled]]:
    """By (arm, trial); gathered once a history."""
    found: dict[Trial, list[Unsettled]] = history.memo("unsettled", lambda: _gather(history))
    return found


def _gather(history: History) -> dict[Trial, list[Unsettled]]:
    found: dict[Trial, list[Unsettled]] = {}
    for fault in faults(history):
        if "healed" in fault.phases and "failed" not in fault.phases:
            continue
        one = Unsettled(
            id=fault.id,
            fault=fault.name,
            nodes=fault.nodes or None,
            from_t=fault.from_t,
            to_t=fault.to_t,
        )
        found.setdefault(fault.trial, []).append(one)
    return found


_STANDS_ON: Final = ("toxiproxy", "zookeeper", "runtime", "disk")


def fallen(history: History) -> dict[Trial, str]:
    """By (arm, trial) in which something that brokers stand on failed: what. Nothing that did not
    come back there can be held against them; what they broke can."""
    return {
        (row["arm"], row["trial"]): f"{row['component']} failed: {row['reason']}"
        for row in history.rows("infra")
        if row["component"] in _STANDS_ON
    }


def settled_at(
    history: History, arm: str, trial: int, node: int | None = None
) -> tuple[int, bool] | None:
    """When (ns) the last fault of the trial was over, and whether every replica then caught up (the
    harness saw full in-sync sets: its quiesce phase ended without a ``timeout`` row). None where a
    fault may be in place to the end that concerns ``node`` (without one: anybody), or something
    that it stands on has `fallen`."""
    if (arm, trial) in fallen(history):
        return None
    faults = unsettled(history).get((arm, trial), [])
    if any(one.to_t == FOREVER and one.concerns(node) for one in faults):
        return None
    phases = rows_of(history, "phase", (arm, trial))
    quiesced = [r["event"] for r in phases if r["name"] == "quiesce"]
    quiet = "end" in quiesced and "timeout" not in quiesced
    chaos = [r["t"] for r in phases if r["name"] in ("chaos", "heal") and r["event"] == "end"]
    healed = [w.to_t for w in windows(history).get((arm, trial), ()) if w.healed]
    healed += [one.to_t for one in faults if one.to_t != FOREVER]
    return max(healed + chaos, default=0), quiet


def settled(history: History) -> dict[Trial, tuple[int, bool]]:
    """`settled_at` of whole trials; one with a fault that may be in place to the end is absent."""
    found = {key: settled_at(history, *key) for key in history.trials}
    return {key: at for key, at in found.items() if at is not None}
