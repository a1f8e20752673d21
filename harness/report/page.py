"""The HTML page of a run: needs nobody's network, and beside it one script.

Plotly's script lies in the run's folder (`script`), where all runs of a store share it; a page to
be mailed has it inside (`biplane report --standalone`). A content security policy forbids to fetch
anything else. Without scripts all tables can still be read.

    headline > what went wrong first > what was run > comparison > latency > metadata > losses >
    violations > checks > faults > environment

A section that has nothing to show is left out, and named at the end. A section that fails (a
results.json of another hand, a torn table) is replaced by the reason; the others stand. The page is
written whole or not at all.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from harness.report import script
from harness.report.markup import Html, data, listing, tag
from harness.report.run_folder import RunFolder
from harness.report.sections.checks import checks
from harness.report.sections.comparison import comparison
from harness.report.sections.environment import environment
from harness.report.sections.faults import fault_log
from harness.report.sections.first_witness import first_witness
from harness.report.sections.headline import headline, what_was_run
from harness.report.sections.latency import latency
from harness.report.sections.losses import lost_records
from harness.report.sections.metadata import metadata
from harness.report.sections.violations import violations
from harness.report.story import Nothing, Story, note, section

REPORT_FILE: Final = "report.html"
_ASSETS: Final = Path(__file__).with_name("assets")
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'self' file:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_SECTIONS: Final[tuple[tuple[str, str, Callable[[Story], Html]], ...]] = (
    ("wrong", "What went wrong", first_witness),
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


def write(folder: Path, *, standalone: bool = False) -> Path:
    """Write ``report.html`` of a stored run; answers its path. ``standalone``: with the script
    inside, 5 MB, to be mailed."""
    target = folder / REPORT_FILE
    scratch = target.with_suffix(".tmp")
    # A lone surrogate (JSON allows it, UTF-8 does not) becomes a character reference.
    scratch.write_text(
        render(folder, standalone=standalone), encoding="utf-8", errors="xmlcharrefreplace"
    )
    scratch.replace(target)
    return target


def render(folder: Path, *, standalone: bool = False) -> str:
    """The page as text; what it needs beside it is put there."""
    story = Story.of(RunFolder.open(folder))
    sections = [_safely(story, *entry) for entry in _SECTIONS]
    # Last, when it is known what could not be read.
    head = _safely(story, "verdict", "Verdict", headline)
    title = (
        f"{story.results.get('scenario') or folder.name}: {story.results.get('verdict', 'unknown')}"
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        head,
        _contents(story),
        tag("main", sections, _left_out(story), id="content"),
        tag("noscript", note("The pictures need JavaScript; the tables do not.")),
        data(story.figures, "figures"),
        _plotly(story, standalone=standalone),
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


def _safely(story: Story, element_id: str, name: str, make: Callable[[Story], Html]) -> Html | None:
    try:
        return make(story)
    except Nothing as nothing:
        story.left_out.append((name, str(nothing)))
        return None
    except Exception as error:
        # A report is read when things are broken: one bad table must not hide the others.
        why = note(f"This section could not be written: {type(error).__name__}: {error}")
        trace = listing("traceback", traceback.format_exc())
        return section(element_id, name, why, trace)


def _contents(story: Story) -> Html:
    left_out = {name for name, _ in story.left_out}
    links = [
        tag("a", name, href=f"#{element_id}")
        for element_id, name, _ in _SECTIONS
        if name not in left_out
    ]
    return tag("nav", links, _rounds(story), aria_label="contents")


def _left_out(story: Story) -> Html | None:
    """What a reader may look for in vain, and why."""
    if not story.left_out:
        return None
    items = [tag("li", f"{name}: {why}") for name, why in story.left_out]
    return section("left-out", "Left out", tag("ul", items))


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


def _plotly(story: Story, *, standalone: bool) -> Html | None:
    if not story.figures:
        return None
    if standalone:
        return _script(script.source())
    folder = story.folder.path
    scenario = str(story.folder.run.get("scenario") or "")
    name = script.put_beside(folder, script.store_of(folder, scenario))
    return tag("script", src=name)
