"""Controller requests: the picture over time, quantiles, and where the time went."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from harness.report import timeline, units
from harness.report.key_figures import STAGES, figures
from harness.report.markup import Content, Html, details, table, tag
from harness.report.panels import Panel, plain
from harness.report.pictures import Sample, latency_by_percentile, latency_over_time
from harness.report.story import Nothing, Story, part, section

CHECK: Final = "controller-latency"
QUEUES: Final = "controller-queues"
_WHOLE: Final = {"probe": "probe, there and back", "round_trip": "request, there and back"}
_QUANTILES: Final = {"p50": "p50_ms", "p90": "p90_ms", "p99": "p99_ms", "max": "max_ms"}


def panel(story: Story, arm: str, trial: int) -> Panel | None:
    """The arm's panel in a picture over time; None when the trial left no trace."""
    clock = story.clocks.get((arm, trial))
    if clock is None:
        return None
    moves = [c for c in story.commits.get((arm, trial), []) if c.moved]
    broken = [
        (v["events"][-1]["t"], f"{v['rule']}: {v['says']}")
        for check in story.checks().values()
        for v in check.get("violations") or []
        if (v["arm"], v["trial"]) == (arm, trial) and v.get("events")
    ]
    return Panel(
        arm,
        story.name(arm),
        story.colour(arm),
        clock,
        faults=story.faults.get((arm, trial), []),
        moves=moves,
        down=[
            (node, begin, end)
            for (*key, node), spans in story.down.items()
            if tuple(key) == (arm, trial)
            for begin, end in spans
            if begin < clock.end_t  # later on, the cluster is being stopped
        ],
        broken=broken,
    )


def latency(story: Story) -> Html:
    parts = [
        _over_time(story),
        _by_percentile(story),
        *part("Where the time went", _stages(story)),
        _queues(story),
        *part("By what was wrong at the time", _segments(story)),
        _others(story),
    ]
    if not any(parts):
        raise Nothing(
            "no probe and no request of a controller was recorded"
            if story.folder.has_history()
            else "the history is not in this folder"
        )
    return section("latency", "Latency of controller requests", parts)


def _over_time(story: Story) -> Html | None:
    probes, trips = timeline.probes(story.folder), timeline.round_trips(story.folder)
    by_round, dropped = {}, 0
    for trial in story.rounds:
        samples = []
        for arm in story.arms:
            drawn = panel(story, arm, trial)
            if drawn is not None:
                key = (arm, trial)
                samples.append(Sample(drawn, probes.get(key, []), trips.get(key, [])))
        if any(s.probes or s.round_trips for s in samples):
            by_round[str(trial)], left_out = latency_over_time(samples)
            dropped += left_out
    if not by_round:
        return None
    story.figures["plot-latency"] = by_round
    return plot(
        "plot-latency",
        "Latency of each probe and controller request over time, one panel an arm, on a "
        "logarithmic scale. The tables below give the same in figures.",
        "A probe is a harmless control request on a clock, counted from when it was planned. "
        if any(probes.values())
        else None,
        "Faults are shaded while they were in place and named in the strip below; ▲ and the dotted "
        "lines mark commits of another leader.",
        f" {dropped:,} of the faster marks are left out." if dropped else None,
    )


def _by_percentile(story: Story) -> Html | None:
    arms = {arm: (story.name(arm), story.colour(arm)) for arm in story.arms}
    figure = latency_by_percentile(story.folder.figure("latency"), arms)
    if figure is None:
        return None
    story.figures["plot-percentiles"] = {"": figure}
    return plot(
        "plot-percentiles",
        "Latency by percentile, arms overlaid. The tables below give the same in figures.",
        "The same by percentile, arms overlaid: how long the slowest half, tenth, hundredth took.",
    )


def plot(element_id: str, label: str, *caption: Content) -> Html:
    """A place for a picture; the page's script draws ``Story.figures[element_id]`` into it."""
    return tag(
        "figure",
        tag("div", class_="plot", id=element_id, role="group", aria_label=plain(label)),
        tag("figcaption", *caption),
    )


# -- tables


def _stages(story: Story) -> Html | None:
    rows, longest = [], _longest(story)
    for stage, says in {**_WHOLE, **STAGES}.items():
        measured = [
            (arm, found)
            for arm in story.arms
            if isinstance(found := figures(story.results, CHECK, arm).get(stage), Mapping)
            and found.get("count")
        ]
        for place, (arm, found) in enumerate(measured):
            first = tag("th", says, scope="rowgroup", rowspan=len(measured))
            rows.append(
                tag(
                    "tr",
                    None if place else first,
                    tag("td", story.badge(arm)),
                    _quantiles(found),
                    tag("td", _bar(found, longest, story.colour(arm)), class_="bar"),
                    class_=None if place else "first",
                )
            )
    if not rows:
        return None
    head = ["", "arm", "requests", *_QUANTILES, "p50 to p99, log scale"]
    return table(head, rows, class_="stages", numeric=set(range(2, 7)))


def _quantiles(found: Mapping[str, Any]) -> list[Html]:
    cells = [tag("td", units.count(found.get("count")), class_="num")]
    return cells + [tag("td", units.ms(found.get(q)), class_="num") for q in _QUANTILES.values()]


def _queues(story: Story) -> Html | None:
    """What an operator would have seen of an overloaded broker (KIP-291's metrics)."""
    rows = []
    for arm in story.arms:
        by = figures(story.results, QUEUES, arm).get("by_broker") or {}
        for broker, told in sorted(by.items(), key=lambda each: int(each[0])):
            rows.append(
                tag(
                    "tr",
                    tag("th", f"to node {broker}", scope="row"),
                    tag("td", story.badge(arm)),
                    tag("td", units.count(told.get("size_max")), class_="num"),
                    tag("td", units.ms(told.get("queue_time_p99_ms")), class_="num"),
                    tag("td", units.ms(told.get("queue_time_max_ms")), class_="num"),
                )
            )
    if not rows:
        return None
    head = ["", "arm", "QueueSize, largest", "RequestRateAndQueueTimeMs, p99", "longest"]
    return tag(
        "div",
        tag("h3", "The controller's queues, as its metrics told"),
        table(head, rows, numeric=set(range(2, 5))),
    )


def _longest(story: Story) -> float:
    found = [
        entry.get("max_ms") or 0.0
        for arm in story.arms
        for stage in (*STAGES, *_WHOLE)
        if isinstance(entry := figures(story.results, CHECK, arm).get(stage), Mapping)
    ]
    return max([1.0, *found])


_SHORTEST_MS: Final = 0.001


def _bar(found: Mapping[str, Any], longest: float, colour: str) -> Html:
    """From p50 to p99 on a logarithmic scale from a microsecond to the longest request."""
    scale = math.log10(longest / _SHORTEST_MS)

    def place(latency_ms: Any) -> float:
        size = max(float(latency_ms or 0), _SHORTEST_MS)
        return min(100.0, 100 * math.log10(size / _SHORTEST_MS) / scale)

    left, right = place(found.get("p50_ms")), place(found.get("p99_ms"))
    style = (
        f"left:{left:.1f}%;width:{max(1.0, right - left):.1f}%;"
        f"background:var(--{colour.removeprefix('$')})"
    )
    return tag("span", tag("span", style=style), class_="track", aria_hidden="true")


def _segments(story: Story) -> Html | None:
    rows = []
    for stage, says in _WHOLE.items():
        found = {
            arm: figures(story.results, CHECK, arm).get(f"{stage}_by_segment") or {}
            for arm in story.arms
        }
        for segment in sorted(
            {s for by in found.values() for s in by}, key=lambda s: (s != "none", s)
        ):
            for arm in story.arms:
                entry = found[arm].get(segment)
                if entry and entry.get("count"):
                    name = "no fault" if segment == "none" else segment.replace("+", " + ")
                    rows.append(
                        tag(
                            "tr",
                            tag("th", name, scope="row"),
                            tag("td", says),
                            tag("td", story.badge(arm)),
                            _quantiles(entry),
                        )
                    )
    if not rows:
        return None
    return table(
        ["faults in place", "what", "arm", "requests", *_QUANTILES], rows, numeric=set(range(3, 8))
    )


def _others(story: Story) -> Html | None:
    """By API, broker and plane: for those who look for one of them."""
    rows = []
    for dimension, what in (("api", "API"), ("node", "node"), ("plane", "plane")):
        for stage, says in {**_WHOLE, **STAGES}.items():
            for arm in story.arms:
                by = figures(story.results, CHECK, arm).get(f"{stage}_by_{dimension}") or {}
                for name, entry in sorted(by.items()):
                    if entry.get("count"):
                        rows.append(
                            tag(
                                "tr",
                                tag("th", f"{what} {name}", scope="row"),
                                tag("td", says),
                                tag("td", story.badge(arm)),
                                _quantiles(entry),
                            )
                        )
    if not rows:
        return None
    head = ["", "what", "arm", "requests", *_QUANTILES]
    return details(
        "Every stage by API, broker and plane", table(head, rows, numeric=set(range(3, 8)))
    )
