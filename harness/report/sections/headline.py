"""The verdict in plain words, and what was run."""

from __future__ import annotations

import re
from typing import Final

from harness.report import units
from harness.report.command import command
from harness.report.markup import Content, Html, details, tag
from harness.report.story import Story, note, section

_MEANS: Final = {
    "valid": "Every check that was asked for found something to judge; no guarantee was broken.",
    "invalid": "At least one guarantee was broken. Each violation below comes with the events that "
    "prove it.",
    "unknown": "This run proves nothing, neither that the guarantees hold nor that they do not.",
}
_SHOWN: Final = 6
_BROKEN: Final = re.compile(r"\S+: [0-9]+ x ")
"""A reason that counts violations, as checkers write it."""


def headline(story: Story) -> Html:
    results = story.results
    verdict = str(results.get("verdict") or "unknown")
    known = verdict if verdict in _MEANS else "unknown"
    means = _MEANS[known] if results else "This run was never judged: there is no results.json."
    return tag(
        "header",
        tag(
            "p",
            "biplane · ",
            results.get("scenario") or story.folder.run.get("scenario") or "a run",
            class_="over",
        ),
        tag(
            "h1",
            tag("span", _SIGN[known], class_="sign", aria_hidden="true"),
            tag("span", verdict, class_="verdict-word"),
        ),
        tag("p", means, class_="means"),
        _planted(story, verdict),
        _counts(story),
        _reasons(results.get("reasons") or []),
        [note(missing) for missing in story.folder.missing],
        class_=f"verdict {known}",
    )


_SIGN: Final = {"valid": "✓", "invalid": "✗", "unknown": "?"}


def _planted(story: Story, verdict: str) -> Html | None:
    """A run with planted bugs is a test of the harness: say so before anybody is alarmed."""
    bugs = (story.folder.run.get("settings") or {}).get("mutants") or []
    if not bugs:
        return None
    many = "Bugs were" if len(bugs) > 1 else "A bug was"
    came = (
        "an invalid run is what should come of it" if verdict == "invalid" else "it was not found"
    )
    names = ", ".join(str(bug) for bug in bugs)
    return tag("p", f"{many} planted on purpose (", tag("b", names), f"): {came}.")


def _counts(story: Story) -> Html | None:
    checks = story.checks()
    broken = sum(sum((check.get("violation_counts") or {}).values()) for check in checks.values())
    if broken:
        return tag("p", tag("a", units.words(broken, "violation"), href="#violations"), " found.")
    held = [n for n, c in checks.items() if c.get("verdict") == "valid" and n != "activity"]
    return tag("p", f"No objection from: {units.listed(held)}.") if held else None


def _reasons(reasons: list[str]) -> Html | None:
    """Each reason's first line, what was broken before what is not known; crashes' tracebacks stand
    with their check."""
    lines = [
        (str(reason).strip().splitlines() or [""])[0]
        for reason in reasons
        if "Traceback (most recent call last)" not in str(reason)
    ]
    if not lines:
        return None
    lines.sort(key=lambda line: _BROKEN.match(line) is None)
    items = [tag("li", _reason(line)) for line in lines]
    broken = sum(_BROKEN.match(line) is not None for line in lines)
    shown = min(broken or len(items), _SHOWN)  # beside what is broken, doubts are for later
    more = None
    if len(items) > shown:
        more = details(f"{len(items) - shown} more", tag("ul", items[shown:]))
    return tag("div", tag("h2", "Why"), tag("ul", items[:shown]), more, class_="why")


def _reason(line: str) -> Content:
    """``check: what`` with the check set apart."""
    check, colon, what = line.partition(": ")
    return [tag("b", check), ": ", what] if colon and " " not in check else line


def what_was_run(story: Story) -> Html:
    run, results = story.folder.run, story.results
    profile = (run.get("settings") or {}).get("profile") or {}
    repeat = command(run)
    facts: list[tuple[str, Content]] = [
        ("Scenario", results.get("scenario") or run.get("scenario") or "not known"),
        ("Conjecture", run.get("conjecture") or "not known"),
        ("Seed", tag("code", results.get("seed", run.get("seed", "not known")))),
        ("Arms", _arms(story)),
        ("Runtime", run.get("runtime") or "not known"),
        ("Profile", _profile(profile)),
        ("Run", tag("code", results.get("run_id") or run.get("run_id") or story.folder.path.name)),
    ]
    planted = (run.get("settings") or {}).get("mutants") or []
    if planted:
        facts.append(("Planted bugs", tag("strong", ", ".join(planted))))
    if repeat:
        # A line may break between words only: half an option cannot be copied.
        words = [[tag("span", word), " "] for word in repeat]
        facts.append(("Repeat it", tag("code", words, class_="command")))
    return section(
        "run",
        "What was run",
        tag("dl", [[tag("dt", name), tag("dd", value)] for name, value in facts], class_="facts"),
    )


def _arms(story: Story) -> Content:
    arms = story.results.get("arms") or story.folder.run.get("arms") or {}
    items = []
    for arm in story.arms:
        facts = arms[arm] if isinstance(arms[arm], dict) else {}
        version = f" {facts['sut_version']}" if facts.get("sut_version") else ""
        items.append(
            tag(
                "li",
                story.badge(arm),
                f" {facts.get('sut', '?')}{version}, {facts.get('planes', '?')} planes",
            )
        )
    return tag("ul", items, class_="plain") if items else "not known"


def _profile(profile: dict[str, object]) -> str:
    if not profile:
        return "not known"
    rounds = profile.get("rounds")
    often = units.words(rounds, "round") if isinstance(rounds, int) else "? rounds"
    return f"{profile.get('name')}: {profile.get('chaos_s')} s of chaos a trial, {often}"
