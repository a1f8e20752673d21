"""What a CI keeps of `pytest harness/`: JUnit properties, a step summary, a folder of artefacts.

JUnit's XML is pytest's own (`--junitxml`); each scenario's test case carries the run's verdict,
seed, report and key figures as properties, since a failed case alone does not say whether it was
`invalid` or `unknown`. The step summary is Markdown, appended to the file that GitHub names in
GITHUB_STEP_SUMMARY. The artefact folder is a store by itself, with what is looked at (reports,
results, plans, the table of runs and its page); of runs that were not valid also with their
evidence, so that they can be judged elsewhere.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.report import script, units
from harness.report.command import command
from harness.report.key_figures import value
from harness.report.run_folder import order_arms
from harness.runs.rows import FIGURES

if TYPE_CHECKING:
    from harness.run import Outcome

SUMMARY: Final = "GITHUB_STEP_SUMMARY"
_LOOKED_AT: Final = ("run.json", "plan.json", "results.json", "report.html", "results")
_LOG_BYTES: Final = 2 << 20
"""Of a node's log so much is kept, its end."""
_SIGNS: Final = {"valid": "✅", "invalid": "❌", "unknown": "❔"}
_REASONS: Final = 3


def append_summary(path: str | None, text: str) -> None:
    """Nothing where there is no such file. A summary that cannot be written fails nothing."""
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as summary:
            summary.write(f"{text.rstrip()}\n\n")
    except OSError:
        return


# -- JUnit


def properties(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Of a scenario's test case."""
    yield "verdict", str(outcome.verdict)
    yield "seed", str(outcome.results.get("seed", ""))
    yield "report", str(outcome.folder / "report.html")
    yield "run", str(outcome.folder)
    again = repeat(outcome.folder)
    if again:
        yield "repeat", again
    for name, check in (outcome.results.get("checks") or {}).items():
        yield f"check {name}", str(check.get("verdict"))
    for arm in order_arms(outcome.results.get("arms") or {}):
        for name, figure in FIGURES.items():
            found = value(outcome.results, arm, figure.path)
            if found is not None:
                yield f"{arm} {name}", f"{found:g}"


def repeat(folder: Path) -> str | None:
    """The command that plays a run again; None when it is not known."""
    try:
        run = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        return None
    words = command(run) if isinstance(run, Mapping) else None
    return " ".join(words) if words else None


# -- the summary


def summary(outcomes: Sequence[Outcome], crashes: Sequence[str], told: str) -> str:
    """Markdown. ``told``: what was asked, in a line."""
    lines = [
        "### biplane",
        "",
        told,
        "",
        *_row(["scenario", "verdict", "arm", *(f.says for f in _columns(outcomes)), "took"]),
        *_row(["---"] * (4 + len(_columns(outcomes)))),
    ]
    for outcome in outcomes:
        lines += _rows(outcome, _columns(outcomes))
    for outcome in outcomes:
        if outcome.verdict != "valid":
            lines += ["", *_red(outcome)]
    lines += ["", *(f"- crashed: {_plain(crash)}" for crash in crashes)]
    return "\n".join(lines)


def _columns(outcomes: Iterable[Outcome]) -> list[Any]:
    """Those of the watched figures that anything was measured of."""
    arms = [(o.results, arm) for o in outcomes for arm in o.results.get("arms") or {}]
    return [
        figure
        for figure in FIGURES.values()
        if figure.watched and any(value(r, arm, figure.path) is not None for r, arm in arms)
    ]


def _rows(outcome: Outcome, columns: Sequence[Any]) -> Iterator[str]:
    from harness.runs.words import written

    verdict = str(outcome.verdict)
    first = [_plain(outcome.scenario), f"{_SIGNS.get(verdict, '')} **{verdict}**"]
    took = f"{outcome.seconds:.0f} s"
    for arm in order_arms(outcome.results.get("arms") or {}) or [""]:
        cells = [written(f.name, value(outcome.results, arm, f.path)) for f in columns]
        yield from _row([*first, _plain(arm), *cells, took])
        first, took = ["", ""], ""


def _row(cells: Iterable[str]) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


def _red(outcome: Outcome) -> Iterator[str]:
    """Why, by what, and how to have it again."""
    yield f"**{_plain(outcome.scenario)}: {outcome.verdict}**"
    yield ""
    told = first_words(outcome.results)
    if told:
        yield f"> {_plain(told)}"
        yield ""
    for reason in outcome.reasons[:_REASONS]:
        yield f"- {_plain((reason.splitlines() or [''])[0])}"
    if len(outcome.reasons) > _REASONS:
        yield f"- and {units.words(len(outcome.reasons) - _REASONS, 'reason')} more"
    again = repeat(outcome.folder)
    if again:
        yield f"- again: `{again}`"


def first_words(results: Mapping[str, Any]) -> str | None:
    """What the first witness shows, and what should have held."""
    from harness.report.witness_story import first_of

    broken = first_of(results.get("checks") or {})
    if broken is None:
        return None
    should = f" What should hold: {broken.should}" if broken.should else ""
    return f"{broken.says}.{should}"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    for sign in "\\`*_|[]":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.replace("<", "&lt;").split())


# -- artefacts


def collect(outcomes: Iterable[Outcome], store: Path, into: Path) -> Path:
    """Copy what a CI keeps; answers the page to begin with."""
    from harness.runs.index import INDEX_FILE, refresh
    from harness.runs.page import write as write_page

    into.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        target = into / outcome.folder.absolute().relative_to(store.absolute())
        _copy(outcome.folder, target, evidence=outcome.verdict != "valid")
        if any(outcome.folder.glob("plotly-*.min.js")):
            script.put_beside(target, into)
    table = store / INDEX_FILE
    if table.is_file():
        shutil.copy2(table, into / INDEX_FILE)
    return write_page(into, refresh(into).rows)


def _copy(folder: Path, target: Path, *, evidence: bool) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in (*_LOOKED_AT, *(("history",) if evidence else ())):
        source = folder / name
        if source.is_dir():
            shutil.copytree(source, target / name, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy2(source, target / name)
    if evidence:
        for log in (folder / "trials").rglob("*.log"):
            _copy_end(log, target / log.relative_to(folder))


def _copy_end(log: Path, target: Path) -> None:
    """What nodes wrote for people. Kafka's own data files end in .log as well: those are left."""
    if log.stem.isdigit() or not log.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - _LOG_BYTES))
        target.write_bytes(source.read())
