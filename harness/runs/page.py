"""The runs of a store as one static page: STORE/index.html.

What changed (the trend's words), a table of runs with filters, figures over time, two runs side by
side, and links to reports. The rows are inside the page, as JSON; its script shows them. It fetches
nothing but the script that the store's reports share, so that it works from a file as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from harness.report import script
from harness.report.markup import Content, Html, data, tag
from harness.report.story import note, section
from harness.runs import words
from harness.runs.rows import FIGURES, Row
from harness.runs.trend import Series, Trend, trend

PAGE_FILE: Final = "index.html"
_HERE: Final = Path(__file__).with_name("assets")
_REPORTS: Final = Path(script.__file__).with_name("assets")
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'self' file:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_FILTERS: Final = (
    ("scenario", "Scenario"),
    ("arm", "Arm"),
    ("system", "System"),
    ("verdict", "Verdict"),
    ("profile", "Profile"),
    ("host_class", "Hosts"),
)


def write(store: Path, rows: Sequence[Row]) -> Path:
    """Write the page, and have the script beside it; answers its path."""
    target = store / PAGE_FILE
    scratch = target.with_suffix(".tmp")
    scratch.write_text(render(store, rows), encoding="utf-8", errors="xmlcharrefreplace")
    scratch.replace(target)
    return target


def render(store: Path, rows: Sequence[Row]) -> str:
    """The page as text."""
    (store / script.ASSETS).mkdir(exist_ok=True)
    plotly = f"{script.ASSETS}/{script.put_into(store / script.ASSETS)}"
    found = trend(rows)
    body = tag(
        "body",
        tag("a", "Skip to the runs", href="#runs", class_="skip"),
        _header(rows, found),
        tag(
            "main",
            _changed(found),
            _choose(),
            section(
                "over-time",
                "Over time",
                _select("figure", "Figure", ((f.name, f.says) for f in FIGURES.values())),
                tag("div", id="plot-trend", class_="plot", role="img", aria_label="A figure of "
                    "the runs that are chosen, over time. The table below has the same."),
                tag("p", id="plot-says", class_="small"),
            ),
            section(
                "runs",
                "Runs",
                tag("p", id="count", aria_live="polite"),
                tag("div", id="table", class_="scroll", tabindex=0, role="region",
                    aria_label="table of runs"),
                tag("button", "Show more", id="more", type="button", hidden=True),
            ),
            section(
                "compare",
                "Two runs side by side",
                tag("div", id="comparison", aria_live="polite"),
            ),
        ),
        tag("noscript", note("This page needs JavaScript. The same table: runs.parquet.")),
        data({"figures": _figures(), "rows": [_entry(store, row) for row in rows]}, "data"),
        tag("script", src=plotly),
        Html(f"<script>{_asset(_HERE / 'runs.js')}</script>"),
    )  # fmt: skip
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", "Runs – biplane"),  # noqa: RUF001
        Html(f"<style>{_asset(_REPORTS / 'page.css')}{_asset(_HERE / 'runs.css')}</style>"),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(rows: Sequence[Row], found: Trend) -> Html:
    runs = {row.path: row.run_verdict for row in rows}
    counts = Counter(runs.values())
    pills = [
        tag("span", f"{counts[v]} {v}", class_=f"pill {v}")
        for v in ("valid", "invalid", "unknown")
        if counts[v]
    ]
    known = "invalid" if found.flagged else "valid" if found.judged else "unknown"
    says = {
        "invalid": "Something is worse than it was.",
        "valid": "Nothing is worse than it was.",
        "unknown": "There are too few comparable runs to tell what changed.",
    }[known]
    return tag(
        "header",
        tag("p", "biplane · runs over time", class_="over"),
        tag("h1", f"{len(runs):,} runs" if len(runs) != 1 else "1 run"),
        tag("p", [[pill, " "] for pill in pills], class_="counts"),
        tag("p", says, class_="means"),
        class_=f"verdict {known}",
    )


def _changed(found: Trend) -> Html:
    items = [_finding(series, sign, says) for series in found.series
             for sign, says in words.findings(series)]  # fmt: skip
    closing = [tag("p", line, class_="small") for line in words.closing(found)]
    listed: Content = tag("ul", items, class_="effects") if items else note("Nothing was flagged.")
    return section("changed", "What changed", listed, closing)


def _finding(series: Series, sign: str, says: str) -> Html:
    key = series.key
    chosen = {"scenario": key.scenario, "arm": key.arm, "profile": key.profile}
    signs = {"WORSE": ("▼", "reverse"), "better": ("▲", "seen"), "known": ("○", "absent")}
    mark, kind = signs[sign.strip()]
    link = tag("a", f"{key.scenario}, {key.arm}", href=f"#{urlencode(chosen)}")
    return tag(
        "li",
        tag("span", mark, class_="mark", aria_hidden="true"),
        tag("span", tag("b", sign.strip().lower()), " ", link, f": {says}"),
        class_=f"effect {kind}",
    )


def _choose() -> Html:
    fields = [_select(name, says, ()) for name, says in _FILTERS]
    search = tag(
        "label", tag("span", "Seed, commit or run"), tag("input", type="search", id="search")
    )
    clear = tag("button", "All runs", id="clear", type="button")
    form = tag("form", fields, search, clear, class_="filters", id="filters")
    return section("choose", "Choose", form)


def _select(name: str, says: str, options: Iterable[tuple[str, str]]) -> Html:
    choices = [tag("option", text, value=value) for value, text in options]
    return tag("label", tag("span", says), tag("select", choices, id=name, name_=name))


def _figures() -> list[dict[str, Any]]:
    return [
        {"name": f.name, "says": f.says, "watched": f.watched, "more": f.counts}
        for f in FIGURES.values()
    ]


def _entry(store: Path, row: Row) -> dict[str, Any]:
    """A row for the page's script. The link only where there is a report."""
    report = store / row.path / "report.html"
    return {
        "path": row.path, "run": row.run_id, "scenario": row.scenario, "arm": row.arm,
        "system": f"{row.system} {row.system_version or ''}".strip(), "verdict": row.verdict,
        "profile": row.profile, "host_class": row.host_class, "seed": str(row.seed),
        "commit": row.commit or "", "mutants": list(row.mutants), "broken": list(row.broken),
        "at": row.started_at_ms, "took": row.played_s, "figures": dict(row.figures),
        "checks": dict(row.checks),
        "report": f"{quote(row.path)}/report.html" if report.is_file() else None,
    }  # fmt: skip


@cache
def _asset(path: Path) -> str:
    return path.read_text(encoding="utf-8")
