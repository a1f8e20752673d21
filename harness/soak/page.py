"""A soak's rounds on one page: ``soak.html``, a table without a script, linked to the reports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from checkers.judging.verdict import Verdict, merge
from harness.report import script, units
from harness.report.markup import Html, table, tag
from harness.report.story import note, section
from harness.runs.rows import FIGURES, Figure
from harness.runs.words import written
from harness.soak.account import Account, Round

PAGE_FILE: Final = "soak.html"
_STYLE: Final = Path(script.__file__).with_name("assets") / "page.css"
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_REASONS: Final = 3


def write(account: Account, folder: Path, store: Path) -> Path:
    """Write the page into the soak's folder; answers its path."""
    target = folder / PAGE_FILE
    scratch = target.with_suffix(".tmp")
    scratch.write_text(
        render(account, os.path.relpath(store, folder)), "utf-8", errors="xmlcharrefreplace"
    )
    scratch.replace(target)
    return target


def render(account: Account, store: str) -> str:
    """The page as text. ``store``: the way there from the page."""
    body = tag(
        "body",
        _header(account),
        tag("main", _figures(account), _rounds(account, store), _kept(account)),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", "Soak - biplane"),
        Html(f"<style>{_style()}</style>"),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(account: Account) -> Html:
    verdict = merge(Verdict(one.verdict) for one in account.rounds)
    pills = [
        [tag("span", f"{account.count(v)} {v}", class_=f"pill {v}"), " "]
        for v in Verdict
        if account.count(v)
    ]
    ended = f"Ended: {account.ended}." if account.ended else "It goes on, or was killed."
    limit = f"{account.limit_s / 3600:.3g} h asked for, "
    return tag(
        "header",
        tag("p", f"biplane · soak of {', '.join(account.scenarios)}", class_="over"),
        tag("h1", units.words(len(account.rounds), "round")),
        tag("p", pills),
        tag("p", f"{limit}seed {account.seed}. {ended}", class_="means"),
        class_=f"verdict {verdict}",
    )


def _figures(account: Account) -> Html:
    rows = [
        [figure.says, arm, *_cells(figure.name, spread.least, spread.median, spread.most)]
        for figure in FIGURES.values()
        for arm in account.arms
        if (spread := account.spread(figure.name, arm)) is not None
    ]
    if not rows:
        return section("figures", "Figures", note("No round has figures yet."))
    head = ["figure", "arm", "least", "median", "most"]
    return section("figures", "Figures over all rounds", table(head, rows, numeric={2, 3, 4}))


def _rounds(account: Account, store: str) -> Html:
    watched = [figure for figure in FIGURES.values() if figure.watched]
    head = ["round", "seed", "verdict", "took", "arm", *(f.says for f in watched), "evidence"]
    rows = [row for one in reversed(account.rounds) for row in _of_round(one, watched, store)]
    return section("rounds", "Rounds, the newest first", table(head, rows))


def _of_round(one: Round, watched: list[Figure], store: str) -> Iterator[list[Html | str]]:
    """A row an arm; what is the round's own stands in the first."""
    link = tag("a", f"{one.number}", href=f"{store}/{quote(one.path)}/report.html")
    verdict: list[Html] = [tag("span", one.verdict, class_=f"pill {one.verdict}")]
    if one.verdict != Verdict.VALID:
        verdict += [tag("p", reason, class_="small") for reason in one.reasons[:_REASONS]]
    told: list[Html | str] = [
        tag("td", link, f" {one.scenario}"),
        str(one.seed),
        tag("td", verdict, class_="wide"),
        f"{one.seconds:.0f} s",
    ]
    kept = "given back" if one.dropped else "kept"
    for arm, figures in one.figures.items() or [("-", {})]:
        values = [cell for f in watched for cell in _cells(f.name, figures.get(f.name))]
        yield [*told, arm, *values, kept]
        told, kept = ["", "", "", ""], ""


def _cells(name: str, *values: float | None) -> list[Html]:
    return [tag("td", written(name, x, ascii_only=False), class_="num") for x in values]


def _kept(account: Account) -> Html:
    says = (
        f"The newest {account.keep} valid rounds, the first {account.keep} unknown ones and all "
        "invalid ones keep their evidence (history, live files, nodes' folders); of the others "
        "run.json, plan.json, results.json with its figures, and the report."
    )
    stopped = account.unfinished and note(f"Stopped on its way, not judged: {account.unfinished}.")
    return section("kept", "What is kept", tag("p", says), stopped)


@cache
def _style() -> str:
    return _STYLE.read_text(encoding="utf-8")
