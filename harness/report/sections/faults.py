"""Faults as they happened: planned against actual moments, targets, whether they took hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from harness.report import units
from harness.report.key_figures import figures
from harness.report.markup import Content, Html, listing, table, tag, text
from harness.report.story import Nothing, Story, note, section
from harness.report.timeline import Clock, FaultTime

_HELD: Final = {True: "yes", False: "no", None: "not measurable"}


def fault_log(story: Story) -> Html:
    plan = {e.get("id"): e for e in story.folder.plan.get("entries") or [] if isinstance(e, dict)}
    parts: list[Html] = []
    keys = [key for arm in story.arms for key in story.clocks if key[0] == arm]
    for arm, trial in keys:
        clock = story.clocks[arm, trial]
        happened = {f.id: f for f in story.faults.get((arm, trial), [])}
        rows = [_row(clock, e, happened.pop(e["id"], None)) for e in plan.values()]
        rows += [_row(clock, None, fault) for fault in happened.values()]
        if rows:
            several = f" round {trial}" if len(story.rounds) > 1 else ""
            parts += [tag("h3", story.badge(arm), several), _table(rows)]
    if not parts and plan:
        parts = [
            note("Nothing of the plan happened, or the history is not in this folder. The plan:"),
            _table([_row(None, entry, None) for entry in plan.values()]),
        ]
    skipped, floods = _skipped(story), _floods(story)
    if not parts and skipped is None and floods is None:
        raise Nothing("no fault was planned, and none happened")
    return section("faults", "Faults as they happened", skipped, parts, floods)


def _floods(story: Story) -> Html | None:
    """What floods reached; that they lasted is a matter of the verdict."""
    rows = [
        [
            str(flood.get("id")),
            story.badge(arm),
            str(flood.get("trial")),
            str(flood.get("node")),
            f"{flood.get('seconds') or 0:.1f}",
            units.count(flood.get("completed")),
            units.count(flood.get("completed_per_s")),
            units.count(flood.get("fewest_connections")),
        ]
        for arm in story.arms
        for flood in figures(story.results, "activity", arm).get("floods") or []
        if isinstance(flood, Mapping)
    ]
    if not rows:
        return None
    head = ["flood", "arm", "round", "node", "seconds", "completed", "a second", "connections"]
    return text(
        [
            tag("h3", "What floods reached"),
            table(
                head,
                rows,
                numeric=set(range(2, 8)),
                caption="Connections: the fewest that were open at any time while it was in place.",
            ),
        ]
    )


def _table(rows: list[Html]) -> Html:
    head = ["fault", "planned", "in place", "healed", "setting in took", "nodes", "took hold", ""]
    caption = "Moments in seconds since chaos began."
    return table(head, rows, caption=caption, class_="faults", numeric={1, 2, 3, 4})


def _row(clock: Clock | None, entry: Mapping[str, Any] | None, fault: FaultTime | None) -> Html:
    name = str(entry["id"] if entry else fault.id if fault else "?")
    kind = str(entry.get("fault") if entry else fault.fault if fault else "?")
    title: list[Content] = [name, tag("div", kind, class_="small") if kind != name else None]

    def at(t: int | None) -> str:
        return units.NOT_MEASURED if t is None or clock is None else f"{clock.seconds(t):.3f}"

    if fault is None:
        cells = [tag("td", units.NOT_MEASURED, class_="num")] * 3
        cells += [tag("td"), tag("td", "never came", class_="bad")]
    else:
        took = None
        if fault.inject_t is not None and fault.injected_t is not None:
            took = (fault.injected_t - fault.inject_t) / 1e6
        cells = [
            tag("td", text, class_="num")
            for text in (at(fault.injected_t), at(fault.healed_t), units.ms(took))
        ]
        cells += [tag("td", ", ".join(map(str, fault.nodes))), _held(fault)]
    return tag(
        "tr",
        tag("th", title, scope="row"),
        tag("td", _planned(entry), class_="num"),
        cells,
        tag("td", _more(entry, fault)),
    )


def _planned(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "not planned"
    begin, lasts = int(entry.get("at_ms") or 0), int(entry.get("duration_ms") or 0)
    return (
        f"{begin / 1000:.3f}"
        if not lasts
        else f"{begin / 1000:.3f} to {(begin + lasts) / 1000:.3f}"
    )


def _held(fault: FaultTime) -> Html:
    if fault.failed_t is not None and fault.injected_t is None:
        return tag("td", "failed", class_="bad")
    if fault.failed_t is not None:
        return tag("td", "failed on the way", class_="bad")
    return tag("td", _HELD[fault.took_hold], class_="bad" if fault.took_hold is False else None)


def _more(entry: Mapping[str, Any] | None, fault: FaultTime | None) -> Html | None:
    """Parameters as planned and what was found out, for those who want to know."""
    lines = []
    if entry and entry.get("params"):
        lines.append(f"planned: {json.dumps(entry['params'])}")
    if fault is not None:
        detail = dict(fault.detail)
        why = detail.pop("why", None)
        lines += [f"{name}: {json.dumps(value)}" for name, value in detail.items()]
        if why:
            lines.append(f"why: {why}")
    return listing("details", "\n".join(lines)) if lines else None


def _skipped(story: Story) -> Html | None:
    trials = [t for t in story.folder.run.get("trials") or [] if isinstance(t, dict)]
    lines = [
        f"{story.name(str(t.get('arm')))}, round {t.get('trial')}: {skipped}"
        for t in trials
        for name in ("skipped_faults", "skipped_roles")
        for skipped in t.get(name) or []
    ]
    if not lines:
        return None
    return tag(
        "div",
        note("Left out, because the system cannot:"),
        tag("ul", [tag("li", x) for x in lines]),
    )
