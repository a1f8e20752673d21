"""Stale metadata: brokers behind over time, what clients were told, how fast news travelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.report import units
from harness.report.behind import behind
from harness.report.key_figures import figures
from harness.report.markup import Html, table, tag
from harness.report.pictures import behind_over_time
from harness.report.sections.latency import panel, plot
from harness.report.story import Story, note, section

CHECK: Final = "stale-metadata"
_QUANTILES: Final = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
_HEAD: Final = ("p50", "p90", "p99", "max")
_READ_FROM: Final = {
    "metadata_update": "as its metadata cache was updated",
    "metadata": "as it answered clients (this system does not trace its cache)",
}


def metadata(story: Story) -> Html:
    return section(
        "metadata",
        "Stale metadata",
        _picture(story),
        tag("h3", "What clients were told"),
        _staleness(story),
        tag("h3", "From a leader's commit to each broker"),
        _propagation(story),
    )


def _picture(story: Story) -> Html:
    brokers, kind = behind(story.folder, story.clocks, story.commits)
    by_round = {}
    for trial in story.rounds:
        panels = [
            (p, brokers.get((arm, trial), {}))
            for arm in story.arms
            if (p := panel(story, arm, trial))
        ]
        figure = behind_over_time(panels) if panels else None
        if figure is not None:
            by_round[str(trial)] = figure
    if not by_round:
        return note(
            "There is no picture of brokers behind: neither metadata updates nor metadata reads "
            "and commits of leaders were recorded for the topics under test."
        )
    story.figures["plot-behind"] = by_round
    return plot(
        "plot-behind",
        "How many partitions each broker was behind in over time, one panel an arm.",
        "How many partitions of the topics under test each broker was behind in: from the commit "
        f"of a leader until the broker showed it, {_READ_FROM.get(kind, '')}. Zero is best.",
    )


def _staleness(story: Story) -> Html:
    rows = []
    for arm in story.arms:
        found = figures(story.results, CHECK, arm)
        if not found.get("reads"):
            continue
        rows.append(_stale_row(story, arm, "all brokers", found, found.get("staleness")))
        for node, entry in sorted((found.get("staleness_by_node") or {}).items()):
            rows.append(_stale_row(story, arm, f"node {node}", None, entry))
    if not rows:
        return note("No answer about leaders was read from any broker, or none could be judged.")
    head = ["", "arm", "answers", "stale", "share", *_HEAD]
    return table(
        head,
        rows,
        numeric=set(range(2, 9)),
        caption="Age of stale answers: since a newer leader was committed, when the client asked.",
    )


def _stale_row(
    story: Story, arm: str, what: str, whole: Mapping[str, Any] | None, stale: Any
) -> Html:
    stale = stale if isinstance(stale, Mapping) else {}
    cells = [
        units.count(whole.get("reads")) if whole else "",
        units.count(whole.get("stale_reads") if whole else stale.get("count")),
        units.share(whole.get("stale_share")) if whole else "",
        *(units.ms(stale.get(q)) for q in _QUANTILES),
    ]
    return tag(
        "tr",
        tag("th", what, scope="row"),
        tag("td", story.badge(arm)),
        [tag("td", cell, class_="num") for cell in cells],
        class_="first" if whole else None,
    )


def _propagation(story: Story) -> Html:
    rows = []
    for name, says in (
        ("propagation_applied", "in the broker's cache"),
        ("propagation_shown", "in its answers to clients"),
    ):
        for arm in story.arms:
            found = figures(story.results, CHECK, arm)
            entry = found.get(name)
            if not isinstance(entry, Mapping) or not entry.get("count"):
                continue
            rows.append(_travel_row(story, arm, says, "all brokers", entry))
            for node, own in sorted((found.get(f"{name}_by_node") or {}).items()):
                rows.append(_travel_row(story, arm, "", f"node {node}", own))
    if not rows:
        return note("No broker was seen to learn of a leader that it had not known.")
    head = ["seen", "arm", "broker", "epochs", *_HEAD, "summed"]
    return table(head, rows, numeric=set(range(3, 9)))


def _travel_row(story: Story, arm: str, says: str, broker: str, entry: Mapping[str, Any]) -> Html:
    cells = [
        units.count(entry.get("count")),
        *(units.ms(entry.get(q)) for q in _QUANTILES),
        units.ms(entry["stale_time_ms"]) if "stale_time_ms" in entry else "",
    ]
    return tag(
        "tr",
        tag("th", says, scope="row"),
        tag("td", story.badge(arm)),
        tag("td", broker),
        [tag("td", cell, class_="num") for cell in cells],
        class_="first" if says else None,
    )
