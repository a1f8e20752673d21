"""Where the run took place, what it rests on, and where its evidence lies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.report import units
from harness.report.markup import Content, Html, details, listing, table, tag
from harness.report.story import Story, section


def environment(story: Story) -> Html:
    run = story.folder.run
    machine, clock = _mapping(run.get("machine")), _mapping(run.get("clock"))
    history, settings = _mapping(run.get("history")), _mapping(run.get("settings"))
    facts: list[tuple[str, Content]] = [
        ("biplane", machine.get("biplane")),
        ("Python", machine.get("python")),
        ("System", machine.get("system")),
        ("Runtime", run.get("runtime")),
        ("Broker configs", _pairs(_mapping(settings.get("overrides")))),
        ("Clocks", _clock(clock)),
        ("History", _history(history)),
        ("Evidence", _evidence()),
        ("Judged by", story.results.get("engine")),
    ]
    known = [[tag("dt", name), tag("dd", value)] for name, value in facts if value]
    return section(
        "environment",
        "Environment",
        _failures(story),
        tag("dl", known, class_="facts") if known else None,
        _rows(history),
        listing("run.json", json.dumps(run, indent=2)) if run else None,
        listing("plan.json", json.dumps(story.folder.plan, indent=2))
        if story.folder.plan
        else None,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _pairs(configs: Mapping[str, Any]) -> Content:
    return [tag("div", tag("code", f"{k}={v}")) for k, v in configs.items()] if configs else None


def _clock(clock: Mapping[str, Any]) -> Content:
    error_ns = clock.get("error_ns")
    if error_ns is None:
        return None
    return (
        "CLOCK_MONOTONIC, shared by all processes; tied to the wall clock to "
        f"± {units.ms(error_ns / 1e6)}"
    )


def _history(history: Mapping[str, Any]) -> Content:
    rows = _mapping(history.get("rows"))
    if not rows:
        return None
    parts = [units.words(sum(rows.values()), "row")]
    for key, one, many in (
        ("rejected", "line rejected", "lines rejected"),
        ("torn_lines", "line torn", "lines torn"),
        ("orphans", "operation never completed", "operations never completed"),
    ):
        parts.append(units.words(int(history.get(key) or 0), one, many))
    return ", ".join(parts)


def _evidence() -> Content:
    return [
        "Beside this page: ",
        tag("code", "results.json"),
        ", ",
        tag("code", "history/"),
        " (Parquet, one folder a kind) and ",
        tag("code", "trials/"),
        " (live files and every node's own logs). ",
        "Judge it again with ",
        tag("code", "biplane check"),
        ".",
    ]


def _rows(history: Mapping[str, Any]) -> Html | None:
    rows = _mapping(history.get("rows"))
    why = _mapping(history.get("rejected_reasons"))
    parts = []
    if rows:
        counted = [(kind, units.count(n)) for kind, n in sorted(rows.items(), key=lambda x: -x[1])]
        parts.append(details("Rows by kind", table(["kind", "rows"], counted, numeric={1})))
    if why:
        lines = [(reason, units.count(n)) for reason, n in why.items()]
        parts.append(
            details("Why lines were rejected", table(["why", "lines"], lines, numeric={1}))
        )
    return tag("div", parts) if parts else None


def _failures(story: Story) -> Html | None:
    run = story.folder.run
    lines = [
        f"{story.name(str(t.get('arm')))}, round {t.get('trial')}: {t['failure']}"
        for t in run.get("trials") or []
        if isinstance(t, dict) and t.get("failure")
    ]
    if run.get("interrupted"):
        lines.insert(0, "the run was interrupted")
    if not lines:
        return None
    return tag("div", tag("h3", "Cut short"), tag("ul", [tag("li", line) for line in lines]))
