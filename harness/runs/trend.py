"""What changed over the runs of a store, and how sure that is.

Runs are compared that are *comparable*: same scenario, arm, system, plane mode, runtime, profile
(with its seconds and rounds), broker configs and host class, none with planted bugs or a plan of
its own. Releases and commits are not part of it: what they change is what is sought.

**Figures.** The newest 3, 4, 5, ... 20 runs (`WINDOWS`) are each held against up to `LAST` runs
before them by the exact rank-sum test (`rank_test`), towards worse and towards better. A figure is
flagged when the p-value, times the number of windows and of all series in which anything varies
(Bonferroni), is at most `ALPHA`: unchanged runs are flagged in at most one of a hundred calls,
*over all series together*, whatever the figures' spread. A change must also matter: the medians
differ by `LEAST` and by `FLOOR`, which only makes flags rarer. A figure that is no longer measured
is a change of its own, and so is a share of runs that end `unknown`.

**Verdicts.** Nothing is left to chance in a witness: a check that is invalid in the newest run and
was in fewer than half of the comparable ones before is flagged. What was invalid all along is
known, and is named without a flag.

With few runs nothing can be flagged: `Series.judged` says so, and who asks gets `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Final

from harness.runs.rank_test import p_larger
from harness.runs.rows import FIGURES, Row

LAST: Final = 30
ALPHA: Final = 0.01
LEAST: Final = 0.1
"""Of the earlier median."""
WINDOWS: Final = (3, 4, 5, 6, 8, 10, 12, 15, 20)
"""How many of the newest runs are taken together: what is large is seen in few, and what lies back
some while is not yet what is usual."""
MIN_BEFORE: Final = 8
"""Of fewer runs nobody knows what is usual."""
MOST_LAST: Final = 100
"""Counting takes its time."""
UNKNOWN: Final = "unknown"
"""The share of runs that end so, as a figure."""
MEASURED: Final = "not measured: "


@dataclass(frozen=True, slots=True)
class Comparable:
    """What runs must have in common."""

    scenario: str
    arm: str
    system: str
    planes: str
    runtime: str
    profile: str
    chaos_s: float | None
    rounds: int | None
    host_class: str
    overrides: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, row: Row) -> Comparable:
        return cls(
            row.scenario, row.arm, row.system, row.planes, row.runtime, row.profile, row.chaos_s,
            row.rounds, row.host_class, tuple(sorted(row.overrides.items())),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """A figure that is another than it was. ``newest``: how many runs show it, ``before``: how many
    they were held against; ``p``: by the rank test, ``chance``: that any series of this call shows
    as much although nothing changed."""

    figure: str
    worse: bool
    earlier: float
    now: float
    newest: int
    before: int
    p: float
    chance: float
    since: Row


@dataclass(frozen=True, slots=True)
class Broken:
    """A check that is invalid in the newest run. ``of``: comparable runs before it, ``earlier``: in
    how many of them it was, too."""

    check: str
    rules: tuple[str, ...]
    run: Row
    earlier: int
    of: int

    @property
    def new(self) -> bool:
        return self.earlier < self.of / 2 or self.of == 0


@dataclass(slots=True)
class Series:
    """Comparable runs, the oldest first, and what was found in them."""

    key: Comparable
    rows: list[Row]
    changes: list[Change] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)

    @property
    def judged(self) -> bool:
        """Whether there are runs enough for any change to be seen."""
        return len(self.rows) >= MIN_BEFORE + WINDOWS[0]

    @property
    def flagged(self) -> bool:
        return any(c.worse for c in self.changes) or any(b.new for b in self.broken)


@dataclass(slots=True)
class Trend:
    """All series of a store. ``tests``: how many there were, which is what chances were multiplied
    by; ``aside``: how many rows were not looked at (planted bugs, plans of their own)."""

    series: list[Series]
    tests: int
    alpha: float
    last: int
    aside: int

    @property
    def flagged(self) -> bool:
        return any(s.flagged for s in self.series)

    @property
    def judged(self) -> bool:
        return any(s.judged for s in self.series)

    @property
    def exit_code(self) -> int:
        """1: something is worse; 2: there are too few runs to tell; 0: neither."""
        return 1 if self.flagged else 0 if self.judged else 2


def trend(
    rows: Iterable[Row], *, last: int = LAST, alpha: float = ALPHA, least: float = LEAST
) -> Trend:
    """``rows`` of a table, in any order. ``last``: `MIN_BEFORE` to `MOST_LAST`."""
    found, aside = _series(rows)
    samples = [(s, name, values) for s in found for name, values in _samples(s, last)]
    varying = [(s, name, values) for s, name, values in samples if len({v for v, _ in values}) > 1]
    for one, name, values in varying:
        one.changes += _changes(name, values, last, alpha, least, len(varying))
    for one in found:
        one.broken = list(_broken(one.rows, last))
    return Trend(found, len(varying), alpha, last, aside)


def _series(rows: Iterable[Row]) -> tuple[list[Series], int]:
    by_key: dict[Comparable, list[Row]] = {}
    aside = 0
    for row in rows:
        if row.mutants or row.own_plan:
            aside += 1
        else:
            by_key.setdefault(Comparable.of(row), []).append(row)
    for own in by_key.values():
        own.sort(key=lambda row: (row.started_at_ms, row.path))
    keys = sorted(by_key, key=lambda k: (k.scenario, k.arm, k.profile, k.host_class, repr(k)))
    return [Series(key, by_key[key]) for key in keys], aside


Sample = list[tuple[float, Row]]


def _samples(series: Series, last: int) -> Iterator[tuple[str, Sample]]:
    """Everything that is watched in a series, as values by run."""
    if not series.judged:
        return
    rows = series.rows[-(last + WINDOWS[-1]) :]
    for name, figure in FIGURES.items():
        if not figure.watched:
            continue
        values = [(row.figures[name], row) for row in rows if name in row.figures]
        if values:
            yield name, values
        if values and len(values) < len(rows):
            yield MEASURED + name, [(float(name not in row.figures), row) for row in rows]
    yield UNKNOWN, [(float(row.verdict == "unknown"), row) for row in rows]


def _changes(
    name: str, sample: Sample, last: int, alpha: float, least: float, tests: int
) -> Iterator[Change]:
    """At most one towards worse and one towards better: the surest of all windows."""
    windows = [n for n in WINDOWS if len(sample) - n >= MIN_BEFORE]
    for sign in (1.0, -1.0):
        surest: Change | None = None
        for newest in windows:
            cut = len(sample) - newest
            now = [value for value, _ in sample[cut:]]
            before = [value for value, _ in sample[max(0, cut - last) : cut]]
            if not _matters(name, before, now, sign, least):
                continue  # asked first, for it is quick
            p = p_larger([sign * v for v in now], [sign * v for v in before])
            chance = min(1.0, p * len(windows) * tests)
            if chance > alpha:
                continue
            if surest is None or chance < surest.chance:
                surest = Change(
                    name, sign > 0, median(before), median(now), newest, len(before), p, chance,
                    sample[cut][1],
                )  # fmt: skip
        if surest is not None:
            yield surest


FLOOR: Final = 1.0
"""A millisecond, or one record: less is nothing."""


def _matters(
    name: str, before: Sequence[float], now: Sequence[float], sign: float, least: float
) -> bool:
    """Whether it went that way, and far enough. Of shares of runs (unknown, not measured) every
    step does."""
    if name not in FIGURES:
        return sign * (mean(now) - mean(before)) > 0
    earlier = median(before)
    size = sign * (median(now) - earlier)
    return size >= FLOOR and size >= least * abs(earlier)


def _broken(rows: Sequence[Row], last: int) -> Iterator[Broken]:
    newest, before = rows[-1], rows[-1 - last : -1]
    for check, verdict in newest.checks.items():
        if verdict == "invalid":
            rules = tuple(r.partition(": ")[2] for r in newest.broken if r.startswith(f"{check}: "))
            earlier = sum(row.checks.get(check) == "invalid" for row in before)
            yield Broken(check, rules, newest, earlier, len(before))
