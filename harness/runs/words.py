"""A trend in words: for a terminal, as Markdown for a CI's summary, and as data for programs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from harness.report import units
from harness.runs.rows import FIGURES, Row
from harness.runs.trend import (
    LEAST,
    MEASURED,
    MIN_BEFORE,
    UNKNOWN,
    WINDOWS,
    Broken,
    Change,
    Series,
    Trend,
)


def figure_says(name: str) -> str:
    """What a figure is."""
    if name.startswith(MEASURED):
        return f"{FIGURES[name.removeprefix(MEASURED)].says}: not measured"
    return "runs that end unknown" if name == UNKNOWN else FIGURES[name].says


def written(name: str, value: float | None, *, ascii_only: bool = True) -> str:
    """A figure's value with its unit."""
    if name.endswith("_ms"):
        return units.ms(value, ascii_only=ascii_only)
    if name.endswith("_share"):
        return units.share(value, ascii_only=ascii_only)
    return units.count(value, ascii_only=ascii_only)


def change_says(change: Change) -> str:
    """One sentence, with what it rests on."""
    what = figure_says(change.figure)
    if change.figure not in FIGURES:
        went = "more often" if change.worse else "less often"
        says = f"{what}: {went}"
    else:
        earlier, now = (written(change.figure, v) for v in (change.earlier, change.now))
        ratio = f" ({change.now / change.earlier - 1:+.0%})" if change.earlier else ""
        says = f"{what}: {earlier} -> {now}{ratio}"
    return (
        f"{says}; the newest {change.newest} runs against {change.before} before, since "
        f"{day(change.since)}{_commit(change.since)}; chance {_chance(change.chance)}"
    )


def _chance(chance: float) -> str:
    return f"{chance:.1%}" if chance >= 0.001 else "below 0.1%"


def broken_says(broken: Broken) -> str:
    """One sentence."""
    rules = f" ({', '.join(broken.rules)})" if broken.rules else ""
    before = f"in {broken.earlier} of {broken.of} comparable runs before, too"
    if not broken.of:
        before = "there is no comparable run before"
    elif not broken.earlier:
        before = f"in none of {broken.of} comparable runs before"
    return (
        f"{broken.check} is invalid{rules} in {broken.run.path} (seed {broken.run.seed}); {before}"
    )


def day(row: Row) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(row.started_at_ms / 1000))


def _commit(row: Row) -> str:
    return f" ({row.commit[:10]})" if row.commit else ""


def verdicts(rows: Sequence[Row]) -> str:
    """28 valid, 2 unknown."""
    found = Counter(row.verdict for row in rows)
    order = ("valid", "invalid", "unknown")
    return ", ".join(f"{found[name]} {name}" for name in order if found[name])


def title(series: Series) -> str:
    key = series.key
    with_ = "".join(f", {k}={v}" for k, v in key.overrides)
    return f"{key.scenario}, {key.arm} ({key.profile}, {key.runtime}, {key.host_class}{with_})"


def lines(found: Trend, *, everything: bool = False) -> Iterator[str]:
    """For a terminal. ``everything``: series in which nothing changed, too."""
    for series in found.series:
        says = list(findings(series))
        if not says and not everything:
            continue
        yield f"{title(series)}: {verdicts(series.rows)}"
        yield from (f"  {sign} {text}" for sign, text in says)
        if everything:
            yield from _figures(series)
    yield from closing(found)


def findings(series: Series) -> Iterator[tuple[str, str]]:
    """(WORSE, better or known; a sentence) of all that was found in a series."""
    for broken in series.broken:
        yield ("WORSE " if broken.new else "known ", broken_says(broken))
    for change in series.changes:
        yield ("WORSE " if change.worse else "better", change_says(change))


def _figures(series: Series) -> Iterator[str]:
    for name, figure in FIGURES.items():
        values = [row.figures[name] for row in series.rows if name in row.figures]
        if values:
            shown = ", ".join(written(name, v) for v in values[-5:])
            yield f"  {figure.says}: ... {shown}"
    if not series.judged:
        yield f"  too few runs: {len(series.rows)} of {MIN_BEFORE + WINDOWS[0]}"


def closing(found: Trend) -> Iterator[str]:
    """What it amounts to, and by which test."""
    flagged = sum(s.flagged for s in found.series)
    few = sum(not s.judged for s in found.series)
    total = len(found.series)
    yield f"{total} series, {flagged} worse, {few} with fewer than {MIN_BEFORE + WINDOWS[0]} runs"
    if found.aside:
        yield f"{found.aside} rows of runs with planted bugs or plans of their own were left out"
    yield (
        f"test: the newest {WINDOWS[0]} to {WINDOWS[-1]} runs against up to {found.last} before, "
        f"exact rank sums, {found.tests} figures that vary; unchanged runs are flagged in at most "
        f"{found.alpha:.0%} of calls; changes below {LEAST:.0%} are not looked at"
    )


def markdown(found: Trend) -> str:
    """For a CI's summary."""
    rows = [
        f"| {s.key.scenario} | {s.key.arm} | {sign.strip()} | {_cell(text)} |"
        for s in found.series
        for sign, text in findings(s)
    ]
    table = ["| scenario | arm | | what changed |", "|---|---|---|---|", *rows] if rows else []
    return "\n".join(["### biplane: trend", "", *table, "", *(f"{x}  " for x in closing(found))])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def as_data(found: Trend) -> dict[str, Any]:
    """For programs: JSON."""
    return {
        "flagged": found.flagged,
        "judged": found.judged,
        "alpha": found.alpha,
        "tests": found.tests,
        "series": [
            {
                **asdict(s.key),
                "runs": len(s.rows),
                "flagged": s.flagged,
                "judged": s.judged,
                "changes": [
                    {**_plain(c), "says": change_says(c), "since": c.since.path} for c in s.changes
                ],
                "broken": [
                    {**_plain(b), "new": b.new, "says": broken_says(b), "run": b.run.path}
                    for b in s.broken
                ],
            }
            for s in found.series
        ],
    }


def _plain(finding: Change | Broken) -> dict[str, Any]:
    """Without the row that it points to."""
    names = (n for n in type(finding).__dataclass_fields__ if n not in ("since", "run"))
    return {name: getattr(finding, name) for name in names}
