"""A machine whose processors are wanted by many: what takes milliseconds elsewhere takes seconds.

It does not stand still (`checkers.facts.standstills`): who sleeps is woken in time, but who works
waits. The harness writes down each second how long its own threads ran, and how long they could
have and waited (``strain``, `harness.strain`), as the kernel counts it. What is under test may keep
processors busy as well, and so nothing is forgiven for it: what is late is waited for to an end,
and beyond that nobody can say (`unknown`). `checkers.promises.activity` names each such trial.

    slowness   in how many times as long as alone a thread's work is done: (ran + waited) / ran
    patience   by how much more is waited for what is late: the slowness of the worst
               `SECONDS` in a row, by what is `USUAL` where a run is alone; 1 at least, `MOST` at
               most, so that nothing is waited for without end
    busy       where it is worse than that, who is late proves nothing (`checkers.check`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from checkers.history.frames import History

SECONDS: Final = 5
BUSY: Final = 12.0
"""Where all takes as long as that, nobody who was given a second or two is blamed."""
VERY_BUSY: Final = 24.0
"""And there nobody who was given five seconds."""
USUAL: Final = 6.0
"""Three of Kafka's brokers alone on two cores: 3 to 6; one run beside another: 10 to 28."""
MOST: Final = 4.0
Trial = tuple[str, int]


class Strained(NamedTuple):
    """Of the second before ``t`` (ns): how long the harness's threads ran, and waited to (ns)."""

    t: int
    ran_ns: int
    waited_ns: int


def slowness(seconds: Sequence[Strained]) -> float:
    """Of the worst `SECONDS` in a row (of all, where there are fewer); 1 where nobody ran."""
    worst = 1.0
    for first in range(max(1, len(seconds) - SECONDS + 1)):
        those = seconds[first : first + SECONDS]
        ran_ns = sum(one.ran_ns for one in those)
        if ran_ns > 0:
            worst = max(worst, 1 + sum(one.waited_ns for one in those) / ran_ns)
    return worst


def patience(seconds: Sequence[Strained]) -> float:
    return min(MOST, max(1.0, slowness(seconds) / USUAL))


def patience_of(history: History) -> dict[Trial, float]:
    """By trial: for what is owed once its faults are healed, while its load lasts. Absent: as much
    as ever."""
    found: dict[Trial, float] = history.memo("patience", lambda: _patience_of(history))
    return found


def busy(history: History, least: float) -> dict[Trial, str]:
    """By trial whose worst seconds, from its first fault on, were as slow as that: in words."""
    load = _seconds(history, "chaos", "begin")
    slow = {trial: slowness(seconds) for trial, seconds in load.items()}
    return {
        trial: f"the machine was busy: in its worst seconds all took {times:.0f} times as long"
        for trial, times in slow.items()
        if times >= least
    }


def _patience_of(history: History) -> dict[Trial, float]:
    found = {trial: patience(of) for trial, of in _seconds(history, "heal", "end").items()}
    return {trial: times for trial, times in found.items() if times > 1}


def _seconds(history: History, name: str, event: str) -> dict[Trial, list[Strained]]:
    """From that row of ``phase`` on, while the load lasted."""
    from_t: dict[Trial, int] = {}
    to_t: dict[Trial, int] = {}
    for row in history.rows("phase"):
        trial = row["arm"], row["trial"]
        if (row["name"], row["event"]) == (name, event):
            from_t[trial] = max(row["t"], from_t.get(trial, 0))
        elif row["name"] in ("quiesce", "settle"):
            to_t[trial] = max(row["t"], to_t.get(trial, 0))
    by_trial: dict[Trial, list[Strained]] = {}
    for row in sorted(history.rows("strain"), key=lambda row: int(row["t"])):
        trial = row["arm"], row["trial"]
        if from_t.get(trial, row["t"]) < row["t"] <= to_t.get(trial, 0):
            one = Strained(row["t"], row["ran_ns"], row["waited_ns"])
            by_trial.setdefault(trial, []).append(one)
    return by_trial
