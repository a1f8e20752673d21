"""When the machine stood still: what was late then was late for everybody.

The harness ticks ten times a second while a trial lasts, and writes down when a tick came very late
(``standstill``, `harness.pulse`): a virtual machine was paused, or every process was stopped. Who
is held to a time by the clock of that machine cannot be blamed for it. A machine that is merely
busy is no such thing: on two cores with a load of 17 no tick was 30 ms late (with one of 35, now
and then 0.6 s).

It also writes down when the wall clock was set (``clock_set``): what logs and ZooKeeper had dated
before is off by as much, and a broker that counts time by that clock did as it was told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from checkers.history.frames import History

PATIENCE_NS: Final = 1_000_000_000
"""What stands still for less than that in all changes nothing for who was given five seconds."""
Trial = tuple[str, int]


def standstills(history: History, least_ns: int = 0) -> dict[Trial, str]:
    """By trial in which it did, for how long it stood still, in words; if for that long in all."""
    lasting_ns: dict[Trial, list[int]] = {}
    for row in history.rows("standstill"):
        lasting_ns.setdefault((row["arm"], row["trial"]), []).append(row["lasting_ns"])
    return {trial: _says(lasted) for trial, lasted in lasting_ns.items() if sum(lasted) >= least_ns}


def stood_still_ns(history: History, trial: Trial, from_t: int, to_t: int) -> int:
    """For how long it did between two moments (ns). A row is written as the machine goes on."""
    return sum(
        max(0, min(row["t"], to_t) - max(row["t"] - row["lasting_ns"], from_t))
        for row in history.rows("standstill")
        if (row["arm"], row["trial"]) == trial
    )


def _says(lasted: list[int]) -> str:
    times = f"{len(lasted)} times, " if len(lasted) > 1 else ""
    return f"the machine stood still: {times}{sum(lasted) / 1e9:.1f} s in all"


def clock_sets(history: History) -> dict[Trial, str]:
    """By trial in which the wall clock was set, by how much at most, in words."""
    by_ns: dict[Trial, list[int]] = {}
    for row in history.rows("clock_set"):
        by_ns.setdefault((row["arm"], row["trial"]), []).append(row["by_ns"])
    return {
        trial: f"the wall clock was set meanwhile, by {max(by, key=abs) / 1e9:+.1f} s"
        for trial, by in by_ns.items()
    }
