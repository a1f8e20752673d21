"""Every check's verdict with its reasons, its time and all that it measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.report.markup import Content, Html, details, table, tag
from harness.report.story import Story, note, section

SAYS = {
    "activity": "Something happened that could be judged: operations, faults, leader changes.",
    "stale-metadata": "A live broker shows committed leaders, never goes back, and converges.",
    "truncation-loss": "What was promised stays; what acks=1 loses is tied to a truncation.",
    "controller-latency": "Where controller requests waited. Measured, never a violation.",
    "fencing": "Requests of a past controller, broker or leader are refused and change nothing.",
    "succession": "Once a controller is replaced, only its successors decide.",
    "availability": "A new leader serves; partitions accept produces once faults are healed.",
    "log": "Replicas agree; no record is lost, doubled, reordered or skipped.",
}


def checks(story: Story) -> Html:
    found = story.checks()
    if not found:
        return section("checks", "Checks", note("No check has been run on this history."))
    rows = [_row(name, check) for name, check in found.items()]
    head = ["check", "verdict", "why", "took"]
    return section(
        "checks",
        "Checks",
        table(head, rows, class_="checks", numeric={3}),
        [_measured(name, check) for name, check in found.items()],
    )


def _row(name: str, check: Mapping[str, Any]) -> Html:
    verdict = str(check.get("verdict"))
    known = verdict if verdict in ("valid", "invalid", "unknown") else "unknown"
    asked = None if check.get("required", True) else tag("div", "not asked for", class_="small")
    return tag(
        "tr",
        tag("th", name, tag("div", SAYS.get(name), class_="small"), scope="row"),
        tag("td", tag("span", verdict, class_=f"pill {known}"), asked),
        tag("td", [_reason(str(reason)) for reason in check.get("reasons") or []], class_="wide"),
        tag("td", f"{check.get('seconds') or 0:.1f} s", class_="num"),
    )


def _reason(reason: str) -> Content:
    """One line as it is; more (a traceback) behind its last one."""
    lines = reason.strip().splitlines() or [""]
    if len(lines) == 1:
        return tag("p", reason)
    return details(_title(lines), tag("pre", reason))


def _title(lines: list[str]) -> str:
    return "traceback" if lines[0].startswith("Traceback") else lines[0]


def _measured(name: str, check: Mapping[str, Any]) -> Html | None:
    arms = check.get("arms")
    if not arms:
        return None
    return details(f"All that {name} measured", tag("pre", json.dumps(arms, indent=2)))
