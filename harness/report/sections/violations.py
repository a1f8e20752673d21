"""Every violation with its witness: the few events that prove it, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report import event_words, units
from harness.report.markup import Html, details, table, tag
from harness.report.story import Nothing, Story, note, section


def violations(story: Story) -> Html:
    found = [
        (name, check)
        for name, check in story.checks().items()
        if check.get("violations") or check.get("violation_counts")
    ]
    if not found:
        raise Nothing(_none(story))
    parts = [_of_check(story, name, check) for name, check in found]
    return section("violations", "Violations", parts)


def _none(story: Story) -> str:
    if story.results.get("verdict") == "valid":
        return "there is none"
    return "none was found, which says little in a run that proves nothing"


def _of_check(story: Story, name: str, check: Mapping[str, Any]) -> Html:
    shown: dict[str, list[Mapping[str, Any]]] = {}
    for violation in check.get("violations") or []:
        shown.setdefault(str(violation.get("rule")), []).append(violation)
    counts = {rule: len(items) for rule, items in shown.items()}
    counts |= check.get("violation_counts") or {}
    should = check.get("rules") or {}
    parts = []
    for rule, number in counts.items():
        own = shown.get(rule, [])
        some = "" if len(own) == number else f", {len(own)} shown"
        parts.append(
            tag(
                "div",
                tag("h3", tag("code", rule), f" {units.words(number, 'violation')}{some}"),
                tag("p", f"Broken ({name}): {should[rule]}") if rule in should else None,
                [_violation(story, v, open_=i == 0) for i, v in enumerate(own)],
                class_="rule",
            )
        )
    return tag("div", parts)


def _violation(story: Story, violation: Mapping[str, Any], *, open_: bool) -> Html:
    arm, trial = str(violation.get("arm")), int(violation.get("trial") or 0)
    events = violation.get("events") or []
    summary = [
        story.badge(arm),
        f" round {trial}: " if len(story.rounds) > 1 else " ",
        violation.get("says"),
    ]
    witness = _witness(story, arm, trial, events) if events else note("No event was kept.")
    return details(summary, witness, open_=open_)


def _witness(story: Story, arm: str, trial: int, events: list[Mapping[str, Any]]) -> Html:
    clock = story.clocks.get((arm, trial))
    start_t = clock.start_t if clock else events[0]["t"]
    rows, before = [], None
    for event in events:
        t = event["t"]
        gap = "" if before is None else f"+{units.ms((t - before) / 1e6)}"
        before = t
        rows.append(
            tag(
                "tr",
                tag("td", f"{(t - start_t) / 1e9:.6f}", class_="num"),
                tag("td", gap, class_="num"),
                tag("td", tag("code", event.get("f"))),
                tag("td", event_words.who(event)),
                tag(
                    "td",
                    tag("span", event_words.sentence(event)),
                    tag("span", event_words.rest(event, start_t), class_="fields"),
                    class_="event",
                ),
            )
        )
    since = "the trial's start" if clock else "the first event"
    zero = ""
    if clock and clock.chaos_t is not None:
        zero = f" Chaos began at {(clock.chaos_t - start_t) / 1e9:.3f} s."
    return table(
        ["s", "after", "kind", "written by", "what happened"],
        rows,
        caption=f"The witness. Seconds since {since}.{zero}",
        class_="witness",
        numeric={0, 1},
    )
