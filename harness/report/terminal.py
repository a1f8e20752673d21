"""The terminal's summary: plain text, fit for a CI's log.

Lines are ASCII and hold no escape sequences, whatever the reasons say: colour is the caller's
business, a report's name is for clicking. Nothing is cut; long sentences are folded.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from harness.report import units
from harness.report.key_figures import Format, effects, pairs, ratio, short_names, value
from harness.report.markup import visible
from harness.report.run_folder import order_arms

if TYPE_CHECKING:
    from harness.run import Outcome

WIDTH: Final = 100
_REASONS_SHOWN: Final = 8
_SIGNS: Final = (
    ("\N{MULTIPLICATION SIGN}", "x"),
    ("\N{MICRO SIGN}", "u"),
    (units.NOT_MEASURED, "-"),
    (units.NO_BREAK, " "),
    ("\n", " "),
    ("\t", " "),
)
_Path = tuple[str, ...]
_COLUMNS: Final[tuple[tuple[str, _Path, Format], ...]] = (
    ("control p50", ("controller-latency", "probe", "p50_ms"), units.ms),
    ("p99", ("controller-latency", "probe", "p99_ms"), units.ms),
    ("max", ("controller-latency", "probe", "max_ms"), units.ms),
    ("avoidable loss", ("truncation-loss", "avoidable"), units.count),
    (
        "stale: flooded",
        ("stale-metadata", "propagation_applied_flooded", "stale_time_ms"),
        units.ms,
    ),
    ("all brokers", ("stale-metadata", "propagation_applied", "stale_time_ms"), units.ms),
)
_INSTEAD: Final = "round_trip"
_MARK: Final = "*"
_NOTE: Final = f"  {_MARK} of the controller's own requests: nothing was probed"


def summarise(outcomes: Iterable[Outcome]) -> Iterable[str]:
    """A table of runs: verdict, key figures by arm, ratios; then reasons and where reports are."""
    runs = list(outcomes)
    if not runs:
        return
    rows: list[Sequence[str]] = [("scenario", "verdict", "arm", *(c[0] for c in _COLUMNS))]
    for run in runs:
        rows += _run_rows(run)
    yield from _aligned(rows)
    if any(not _probed(run.results) and _figure_rows(run.results) for run in runs):
        yield _NOTE
    for run in runs:
        yield ""
        yield f"{run.scenario}: {run.verdict} ({run.seconds:.0f} s)"
        yield from _reasons(run.reasons)
        yield from _not_judged(run.results)
        yield from _stepped_in(run.results)
        yield f"  report: {run.folder / 'report.html'}"


def describe(results: Mapping[str, Any]) -> Iterable[str]:
    """One judged run (the content of results.json), for `biplane check`."""
    title = f"{results.get('scenario') or 'a run'} {results.get('run_id') or ''}".strip()
    yield _plain(f"{title}: {results.get('verdict')}")
    yield from _reasons(results.get("reasons") or [])
    yield from _not_judged(results)
    yield from _stepped_in(results)
    yield ""
    rows: list[Sequence[str]] = [("check", "verdict", "violations", "took")]
    for name, check in (results.get("checks") or {}).items():
        broken = sum((check.get("violation_counts") or {}).values())
        verdict = str(check.get("verdict")) + (
            "" if check.get("required", True) else " (not asked)"
        )
        rows.append((name, verdict, str(broken or "-"), f"{check.get('seconds') or 0:.1f} s"))
    yield from _aligned(rows, left=2)
    arms = _figure_rows(results)
    if arms:
        yield ""
        yield from _aligned([("arm", *(c[0] for c in _COLUMNS)), *arms])
        if not _probed(results):
            yield _NOTE
    for effect in effects(results):
        yield from _folded(effect.says, "- ")


def _run_rows(run: Outcome) -> Iterator[Sequence[str]]:
    figures = _figure_rows(run.results) or [("-", *("" for _ in _COLUMNS))]
    for index, row in enumerate(figures):
        first = (run.scenario, str(run.verdict).upper()) if index == 0 else ("", "")
        yield (*first, *row)


def _figure_rows(results: Mapping[str, Any]) -> list[Sequence[str]]:
    """One row an arm, and one a pair of arms with the ratios between them."""
    names, probed = short_names(results), _probed(results)

    def cell(write: Format, found: float | None, path: _Path) -> str:
        text = write(found, ascii_only=True)
        marked = not probed and "probe" in path and found is not None
        return f"{text}{_MARK}" if marked else text

    def figure(arm: str, path: _Path) -> float | None:
        return value(results, arm, path if probed else _instead(path))

    rows: list[Sequence[str]] = []
    for arm in order_arms(results.get("arms") or {}):
        cells = [cell(write, figure(arm, p), p) for _, p, write in _COLUMNS]
        rows.append((names[arm], *cells))
    for a, b in pairs(results):
        cells = [cell(units.times, ratio(figure(a, p), figure(b, p)), p) for _, p, _ in _COLUMNS]
        rows.append((f"{names[a]} / {names[b]}", *cells))
    return rows


def _probed(results: Mapping[str, Any]) -> bool:
    """Whether control latency comes from probes; else from what the controller happened to send."""
    arms = results.get("arms") or {}
    path = ("controller-latency", _INSTEAD, "p50_ms")
    probe = ("controller-latency", "probe", "p50_ms")
    found = any(value(results, arm, probe) is not None for arm in arms)
    return found or all(value(results, arm, path) is None for arm in arms)


def _instead(path: _Path) -> _Path:
    return tuple(_INSTEAD if name == "probe" else name for name in path)


def _reasons(reasons: Sequence[str]) -> Iterator[str]:
    """The first line of each reason; a crash's traceback is for the report."""
    shown = [str(r) for r in reasons if "Traceback (most recent call last)" not in str(r)]
    for reason in shown[:_REASONS_SHOWN]:
        yield from _folded((reason.strip().splitlines() or [""])[0], "- ")
    if len(shown) > _REASONS_SHOWN:
        yield f"  ... and {len(shown) - _REASONS_SHOWN} more: see the report"


def _not_judged(results: Mapping[str, Any]) -> Iterator[str]:
    """Whole checks that an arm's system shows nothing for, by reason."""
    for arm, facts in (results.get("arms") or {}).items():
        by_reason: dict[str, list[str]] = {}
        for name, why in (facts.get("not_judged") or {}).items():
            by_reason.setdefault(str(why), []).append(str(name))
        for why, names in by_reason.items():
            yield from _folded(f"{arm}: not judged: {', '.join(names)} ({why})", "- ")


def _stepped_in(results: Mapping[str, Any]) -> Iterator[str]:
    """Where one engine could not answer all, who did (`checkers.judging.verdict.Results.engine`);
    nothing where one answered all, as nearly always."""
    engine = str(results.get("engine") or "")
    if ";" in engine:
        yield from _folded(f"answered by {engine}", "- ")


def _folded(sentence: str, mark: str) -> list[str]:
    return textwrap.wrap(
        _plain(sentence),
        WIDTH,
        initial_indent=f"  {mark}",
        subsequent_indent=" " * (2 + len(mark)),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _aligned(rows: Sequence[Sequence[str]], left: int | None = None) -> Iterator[str]:
    """Columns set to their widest cell; text to the left, figures (the last ones) to the right."""
    plain = [[_plain(cell) for cell in row] for row in rows]
    texts = left if left is not None else len(plain[0]) - len(_COLUMNS)
    widths = [max(len(row[i]) for row in plain) for i in range(len(plain[0]))]
    for row in plain:
        cells = [
            cell.ljust(width) if i < texts else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  " + "  ".join(cells).rstrip()


def _plain(text: str) -> str:
    """One line of ASCII without control characters."""
    for sign, plain in _SIGNS:
        text = text.replace(sign, plain)
    return visible(text).encode("ascii", "backslashreplace").decode()
