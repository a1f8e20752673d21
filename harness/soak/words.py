"""What a soak says on a terminal: a line a round, a few lines in the end. ASCII, nothing is cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from checkers.judging.verdict import Verdict
from harness.report import units
from harness.runs.rows import FIGURES
from harness.runs.words import written
from harness.soak.account import Account, Round
from harness.soak.page import PAGE_FILE

_REASONS: Final = 3
_SHOWN: Final = ("control_p99_ms", "staleness_p99_ms", "avoidable_loss")
"""In a round's line; all that are watched are in the end's table."""


def round_line(one: Round) -> str:
    """round 3, mixture, seed 1723: valid, 171 s; dualplane-dual: control_p99_ms 8.1 ms; ..."""
    head = (
        f"round {one.number}, {one.scenario}, seed {one.seed}: {one.verdict}, {one.seconds:.0f} s"
    )
    parts = [head]
    for arm, figures in one.figures.items():
        shown = [f"{n} {written(n, figures[n])}" for n in _SHOWN if n in figures]
        if shown:
            parts.append(f"{arm}: {', '.join(shown)}")
    if one.verdict != Verdict.VALID:
        parts += [" ".join(reason.split()) for reason in one.reasons[:_REASONS]]
        parts.append(one.path)
    return "; ".join(parts).encode("ascii", "backslashreplace").decode()


def summary(account: Account, folder: Path) -> Iterator[str]:
    """All rounds in a few lines: verdicts, figures over all of them, what is kept and where."""
    counts = [f"{account.count(v)} {v}" for v in Verdict if account.count(v)]
    yield f"soak, seed {account.seed}: {units.words(len(account.rounds), 'round')}: " + (
        ", ".join(counts) or "none was judged"
    )
    yield f"  ended: {account.ended}"
    for arm in account.arms:
        for name, figure in FIGURES.items():
            spread = account.spread(name, arm) if figure.watched else None
            if spread is not None:
                least, median, most = (
                    written(name, x) for x in (spread.least, spread.median, spread.most)
                )
                yield f"  {arm}: {figure.says}: median {median}, {least} to {most}"
    for one in account.rounds:
        if one.verdict == Verdict.INVALID:
            yield from textwrap.wrap(round_line(one), 100, initial_indent="  ",
                                     subsequent_indent="    ", break_long_words=False)  # fmt: skip
    yield f"  {kept(account)}"
    if account.unfinished is not None:
        yield f"  not judged, kept: {account.unfinished}"
    yield f"  page: {folder / PAGE_FILE}"


def kept(account: Account) -> str:
    """What is there of its rounds."""
    whole = [one.number for one in account.rounds if not one.dropped]
    of = ", ".join(map(str, whole[-12:])) + (f" and {len(whole) - 12} before" if whole[12:] else "")
    return (
        f"kept whole: {'rounds ' + of if whole else 'no round'}; of the others run.json, "
        "plan.json, results.json and report.html"
    )
