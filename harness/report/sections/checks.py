"""Every check's verdict with its reasons, its time and all that it measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkers.judging.excuses import EXCUSES
from harness.report.markup import Content, Html, details, listing, table, tag
from harness.report.story import Nothing, Story, section


def checks(story: Story) -> Html:
    found = story.checks()
    if not found:
        raise Nothing("no check has been run on this history")
    rows = [_row(name, check) for name, check in found.items()]
    head = ["check", "verdict", "why", "took"]
    return section(
        "checks",
        "Checks",
        table(head, rows, class_="checks", numeric={3}),
        _excused(story, found),
        _not_judged(story, found),
        [_measured(name, check) for name, check in found.items()],
    )


def _excused(story: Story, found: Mapping[str, Mapping[str, Any]]) -> Html | None:
    """What would have been a violation but for an excuse, by arm."""
    sums: dict[tuple[str, str, str, str], tuple[int, float]] = {}
    for name, check in found.items():
        for one in check.get("excused") or []:
            key = (str(one["arm"]), name, str(one["rule"]), str(one["excuse"]))
            n, share = sums.get(key, (0, 0.0))
            sums[key] = (n + int(one["n"]), max(share, float(one["share"])))
    rows = [
        tag(
            "tr",
            tag("td", story.badge(arm)),
            tag("td", tag("code", rule), f" ({name})"),
            tag("td", str(n), class_="num"),
            tag("td", f"{share:.2%}", class_="num"),
            tag("td", EXCUSES[excuse].because if excuse in EXCUSES else excuse, class_="wide"),
        )
        for (arm, name, rule, excuse), (n, share) in sorted(sums.items())
    ]
    if not rows:
        return None
    head = ["arm", "would break", "excused", "most in a trial", "because"]
    return table(head, rows, caption="Excused, and on whose word", numeric={2, 3})


def _not_judged(story: Story, found: Mapping[str, Mapping[str, Any]]) -> Html | None:
    """Of whole checks first: those that an arm's system shows nothing for."""
    arms = story.results.get("arms") or {}
    said = [f"left out: {why}" for why in story.folder.run.get("left_out") or []]
    said += [
        f"{name}: {arm}: {why}"
        for arm, facts in arms.items()
        for name, why in (facts.get("not_judged") or {}).items()
    ]
    said += [
        f"{name}: {what}" for name, check in found.items() for what in check.get("not_judged") or []
    ]
    return details("What was not judged", [tag("p", what) for what in said]) if said else None


def _row(name: str, check: Mapping[str, Any]) -> Html:
    verdict = str(check.get("verdict"))
    known = verdict if verdict in ("valid", "invalid", "unknown") else "unknown"
    asked = None if check.get("required", True) else tag("div", "not asked for", class_="small")
    return tag(
        "tr",
        tag("th", name, tag("div", check.get("says"), class_="small"), scope="row"),
        tag("td", tag("span", verdict, class_=f"pill {known}"), asked),
        tag("td", [_reason(str(reason)) for reason in check.get("reasons") or []], class_="wide"),
        tag("td", f"{check.get('seconds') or 0:.1f} s", class_="num"),
    )


def _reason(reason: str) -> Content:
    """One line as it is; more (a traceback) behind its last one."""
    lines = reason.strip().splitlines() or [""]
    if len(lines) == 1:
        return tag("p", reason)
    return listing(_title(lines), reason)


def _title(lines: list[str]) -> str:
    return "traceback" if lines[0].startswith("Traceback") else lines[0]


def _measured(name: str, check: Mapping[str, Any]) -> Html | None:
    arms = check.get("arms")
    if not arms:
        return None
    return listing(f"All that {name} measured", json.dumps(arms, indent=2))
