"""A machine whose processors are wanted by many: what takes milliseconds elsewhere takes seconds.

It does not stand still (`checkers.facts.standstills`): who sleeps is woken in time, but who works
waits. The harness writes down each second how long its own threads ran, and how long they could
have and waited (``strain``, `harness.strain`), as the kernel counts it: nothing that is under test
has a say.

    slowness   in how many times as long as alone a thread's work is done: (ran + waited) / ran
    patience   by how much more is waited for what is late: the slowness of the worst
               `SECONDS` in a row, by what is `USUAL` where a run is alone; 1 at least, `MOST` at
               most, so that nothing is waited for without end
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from checkers.facts.timeline import ALWAYS

if TYPE_CHECKING:
    from checkers.history.frames import History

SECONDS: Final = 5
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


def patience_throughout(history: History) -> dict[Trial, float]:
    """The same, for what is owed at any time of the load, in the midst of faults too."""
    return _patience(history, dict.fromkeys(history.trials, ALWAYS))


def _patience_of(history: History) -> dict[Trial, float]:
    from_t: dict[Trial, int] = {}
    for row in history.rows("phase"):
        if row["name"] == "heal":
            trial = row["arm"], row["trial"]
            from_t[trial] = max(row["t"], from_t.get(trial, 0))
    return _patience(history, from_t)


def _patience(history: History, from_t: Mapping[Trial, int]) -> dict[Trial, float]:
    to_t: dict[Trial, int] = {}
    for row in history.rows("phase"):
        if row["name"] in ("quiesce", "settle"):
            trial = row["arm"], row["trial"]
            to_t[trial] = max(row["t"], to_t.get(trial, 0))
    by_trial: dict[Trial, list[Strained]] = {}
    for row in sorted(history.rows("strain"), key=lambda row: int(row["t"])):
        trial = row["arm"], row["trial"]
        if from_t.get(trial, row["t"]) < row["t"] <= to_t.get(trial, 0):
            one = Strained(row["t"], row["ran_ns"], row["waited_ns"])
            by_trial.setdefault(trial, []).append(one)
    found = {trial: patience(seconds) for trial, seconds in by_trial.items()}
    return {trial: times for trial, times in found.items() if times > 1}
