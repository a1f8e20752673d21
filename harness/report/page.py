"""The HTML page of a run: one file that needs nothing else and nobody's network.

Plotly's script is inside, so that the page can be mailed; a content security policy forbids it (and
everything else) to fetch anything. Without scripts all tables can still be read.

    headline > what was run > comparison > latency > metadata > losses > violations > checks >
    faults > environment

A section that fails (a results.json of another hand, a torn table) is replaced by the reason; the
others stand. The page is written whole or not at all.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from harness.report.markup import Html, data, details, tag
from harness.report.run_folder import RunFolder
from harness.report.sections.checks import checks
from harness.report.sections.comparison import comparison
from harness.report.sections.environment import environment
from harness.report.sections.faults import fault_log
from harness.report.sections.headline import headline, what_was_run
from harness.report.sections.latency import latency
from harness.report.sections.losses import lost_records
from harness.report.sections.metadata import metadata
from harness.report.sections.violations import violations
from harness.report.story import Story, note, section

REPORT_FILE: Final = "report.html"
_ASSETS: Final = Path(__file__).with_name("assets")
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_SECTIONS: Final[tuple[tuple[str, str, Callable[[Story], Html]], ...]] = (
    ("run", "What was run", what_was_run),
    ("comparison", "Comparison", comparison),
    ("latency", "Latency", latency),
    ("metadata", "Stale metadata", metadata),
    ("losses", "Losses", lost_records),
    ("violations", "Violations", violations),
    ("checks", "Checks", checks),
    ("faults", "Faults", fault_log),
    ("environment", "Environment", environment),
)


def write(folder: Path) -> Path:
    """Write ``report.html`` of a stored run; answers its path."""
    target = folder / REPORT_FILE
    scratch = target.with_suffix(".tmp")
    # A lone surrogate (JSON allows it, UTF-8 does not) becomes a character reference.
    scratch.write_text(render(folder), encoding="utf-8", errors="xmlcharrefreplace")
    scratch.replace(target)
    return target


def render(folder: Path) -> str:
    """The page as text."""
    story = Story.of(RunFolder.open(folder))
    sections = [_safely(story, *entry) for entry in _SECTIONS]
    # Last, when it is known what could not be read.
    head = _safely(story, "verdict", "Verdict", headline)
    title = (
        f"{story.results.get('scenario') or folder.name}: {story.results.get('verdict', 'unknown')}"
    )
    body = tag(
        "body",
        tag("a", "Skip to the figures", href="#comparison", class_="skip"),
        head,
        _contents(story),
        tag("main", sections),
        tag("noscript", note("The pictures need JavaScript; the tables do not.")),
        data(story.figures, "figures"),
        _script(_plotly()) if story.figures else None,
        _script(_asset("page.js")),
    )
    parts = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", f"{title} – biplane"),  # noqa: RUF001
        Html(f"<style>{_asset('page.css')}</style>"),
    ]
    return f"<!doctype html>\n{tag('html', tag('head', parts), body, lang='en')}\n"


def _safely(story: Story, element_id: str, name: str, make: Callable[[Story], Html]) -> Html:
    try:
        return make(story)
    except Exception as error:
        # A report is read when things are broken: one bad table must not hide the others.
        why = note(f"This section could not be written: {type(error).__name__}: {error}")
        trace = details("traceback", tag("pre", traceback.format_exc()))
        return section(element_id, name, why, trace)


def _contents(story: Story) -> Html:
    links = [tag("a", name, href=f"#{element_id}") for element_id, name, _ in _SECTIONS]
    return tag("nav", links, _rounds(story), aria_label="contents")


def _rounds(story: Story) -> Html | None:
    """Which round the pictures show; nothing to choose where there was one."""
    if len(story.rounds) < 2 or not story.figures:
        return None
    choices = [
        tag(
            "label",
            tag(
                "input", type="radio", name_="round", value=trial, checked=trial == story.rounds[0]
            ),
            f" {trial}",
        )
        for trial in story.rounds
    ]
    return tag("fieldset", tag("legend", "Pictures of round"), choices, class_="rounds")


def _script(source: str) -> Html:
    return Html(f"<script>{source}</script>")


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    return source.replace("</script", "<\\/script")
