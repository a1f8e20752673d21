"""The pictures of a run, as Plotly JSON: latency over time, latency by percentile, brokers behind.

What is drawn is what was recorded: every request is a mark. Only where there are too many for a
browser some are left out, the slowest never, and the caption says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.report import units
from harness.report.behind import Behind
from harness.report.panels import Figure, Panel, legend_entry, plain, stacked, trace
from harness.report.run_folder import Row
from harness.report.timeline import Latency

_MARKS: Final = 6000
"""So many marks a panel; beyond that the picture is a smear and the page is heavy."""
_PER_OCTAVE: Final = 32  # of the checkers' histograms
_DECADES: Final = tuple(range(-3, 7))
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PLANE_COLOURS: Final = {"single": "$single", "dual": "$dual", "priority": "$priority"}


def colour_of(planes: str, index: int = 0) -> str:
    return PLANE_COLOURS.get(planes, f"$series-{index % 6}")


@dataclass(slots=True)
class Sample:
    """What of one arm and trial is drawn."""

    panel: Panel
    probes: Sequence[Latency] = ()
    round_trips: Sequence[Latency] = ()


def latency_over_time(samples: Sequence[Sample]) -> tuple[Figure, int]:
    """One panel an arm; and how many marks were left out."""
    everything = [x for s in samples for x in (*s.probes, *s.round_trips)]
    dropped = 0
    for sample in samples:
        for latencies, group, symbol, size in (
            (sample.round_trips, "round trips", "diamond-open", 7),
            (sample.probes, "probes", "circle", 5),
        ):
            kept = _thinned(latencies)
            dropped += len(latencies) - len(kept)
            colour = sample.panel.colour
            for part, look in (
                (
                    [x for x in kept if x.answered],
                    {"symbol": symbol, "size": size, "color": colour},
                ),
                (
                    [x for x in kept if not x.answered],
                    {"symbol": "x-thin", "size": 9, "line": {"width": 2, "color": "$bad"}},
                ),
            ):
                if part:
                    sample.panel.traces.append(_marks(sample.panel, part, group, look))
    panels = [s.panel for s in samples]
    span = _span(panels)
    figure = stacked(panels, _latency_axis(everything), span)
    figure["data"] += _legend(samples, span[0])
    return figure, dropped


def latency_by_percentile(
    rows: Sequence[Row], arms: Mapping[str, tuple[str, str]]
) -> Figure | None:
    """Arms overlaid: which share of probes (and of controller requests) took no longer than what.

    ``rows``: the checker's table ``latency``. ``arms``: by arm its name and colour.
    """
    traces = []
    for stage, dash, what in (
        ("probe", "solid", "probe"),
        ("round_trip", "dot", "controller request"),
    ):
        for arm, (name, colour) in arms.items():
            points = _curve([r for r in rows if r["arm"] == arm and r["stage"] == stage])
            if not points:
                continue
            traces.append(
                trace(
                    mode="lines",
                    x=[1 / (1 - q) for q, _ in points],
                    y=[latency for _, latency in points],
                    text=[f"{name}, {what}: {q:.3%} within {units.ms(y)}" for q, y in points],
                    hoverinfo="text",
                    name=plain(f"{name}: {what}s"),
                    showlegend=True,
                    line={"color": colour, "dash": dash, "width": 2, "shape": "hv"},
                )
            )
    if not traces:
        return None
    found = [y for t in traces for y in t["y"]]
    ticks = {1: "0 %", 2: "50 %", 10: "90 %", 100: "99 %", 1000: "99.9 %", 10_000: "99.99 %"}
    return {
        "data": traces,
        "layout": {
            "height": 330,
            "margin": {"t": 34, "b": 46, "l": 66, "r": 12},
            "hovermode": "closest",
            "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"},
            "xaxis": {
                "type": "log",
                "title": {"text": "share of requests answered by then"},
                "tickvals": list(ticks),
                "ticktext": list(ticks.values()),
                "zeroline": False,
            },
            "yaxis": _log_axis(min(found), max(found)),
        },
    }


def behind_over_time(samples: Sequence[tuple[Panel, Mapping[int, Behind]]]) -> Figure | None:
    """One panel an arm, a stepped line a broker: partitions in which it was behind."""
    nodes = sorted({node for _, brokers in samples for node in brokers})
    if not nodes:
        return None
    highest = max(
        (n for _, brokers in samples for b in brokers.values() for _, n in b.steps), default=0
    )
    for panel, brokers in samples:
        seconds, end = panel.clock.seconds, panel.clock.end_t
        for index, node in enumerate(nodes):
            if node not in brokers:
                continue
            steps = [(panel.clock.start_t, 0), *brokers[node].steps]
            steps.append((max(end, steps[-1][0]), steps[-1][1]))
            panel.traces.append(
                trace(
                    mode="lines",
                    x=[seconds(t) for t, _ in steps],
                    y=[n for _, n in steps],
                    name=f"node {node}",
                    legendgroup=f"node {node}",
                    showlegend=panel is samples[0][0],
                    hoverinfo="text",
                    text=[f"node {node}: behind in {n} from {seconds(t):.3f} s" for t, n in steps],
                    line={
                        "shape": "hv",
                        "width": 2,
                        "color": f"$series-{index % 6}",
                        "dash": _DASHES[index % len(_DASHES)],
                    },
                )
            )
    panels = [panel for panel, _ in samples]
    axis: Figure = {
        "range": [-0.2, max(2, highest) * 1.1],
        "title": {"text": "partitions behind"},
        "zeroline": False,
        "tick0": 0,
        "dtick": max(1, math.ceil(highest / 5)),
    }
    return stacked(panels, axis, _span(panels))


# -- parts


def _marks(
    panel: Panel, latencies: Sequence[Latency], group: str, look: Mapping[str, Any]
) -> Figure:
    seconds = panel.clock.seconds
    return trace(
        x=[round(seconds(x.at_t), 4) for x in latencies],
        y=[_positive_ms(x.took_ns) for x in latencies],
        hovertext=[_says(panel, x, group) for x in latencies],
        hoverinfo="text",
        legendgroup=group,
        marker={"opacity": 0.8, **look},
    )


def _says(panel: Panel, x: Latency, group: str) -> str:
    what = "probe" if group == "probes" else "controller request"
    took = units.ms(x.took_ns / 1e6)
    ended = f"answered after {took}" if x.answered else f"given up after {took}"
    plane = f", {plain(x.plane)} plane" if x.plane else ""
    return (
        f"<b>{plain(x.api)}</b> to node {x.node} ({what}{plane})<br>"
        f"at {panel.clock.seconds(x.at_t):.3f} s, {ended}"
    )


def _legend(samples: Sequence[Sample], begin_s: float) -> list[Figure]:
    """Of what is in sight: a cluster's start, with requests that nobody took yet, is not."""
    found = []
    if any(s.probes for s in samples):
        found.append(legend_entry("probe", "probes", symbol="circle"))
    if any(s.round_trips for s in samples):
        found.append(legend_entry("controller request", "round trips", symbol="diamond-open"))
    if any(
        not x.answered and s.panel.clock.seconds(x.at_t) >= begin_s
        for s in samples
        for x in (*s.probes, *s.round_trips)
    ):
        look = {"symbol": "x-thin", "line": {"width": 2, "color": "$bad"}}
        found.append(legend_entry("never answered", "unanswered", **look))
    return found


def _thinned(latencies: Sequence[Latency]) -> Sequence[Latency]:
    """All of them, or the slowest half of what may be drawn and an even pick of the rest."""
    if len(latencies) <= _MARKS:
        return latencies
    slowest = sorted(latencies, key=lambda x: x.took_ns, reverse=True)
    rest = slowest[_MARKS // 2 :]
    step = math.ceil(len(rest) / (_MARKS // 2))
    return slowest[: _MARKS // 2] + rest[::step]


def _positive_ms(took_ns: int) -> float:
    """A logarithm needs something: a microsecond is as good as nothing here."""
    return round(max(took_ns, 1000) / 1e6, 4)


def _latency_axis(latencies: Sequence[Latency]) -> Figure:
    found = [_positive_ms(x.took_ns) for x in latencies] or [1.0]
    return _log_axis(min(found), max(found))


def _log_axis(low: float, high: float) -> Figure:
    """Logarithmic, in ms; never less than two decades, which would blow up noise."""
    low, high = max(low, 1e-3), max(high, 1e-3)
    middle = math.sqrt(low * high)
    low, high = min(low / 1.6, middle / 10), max(high * 1.6, middle * 10)
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": [10.0**d for d in _DECADES],
        "ticktext": [units.ms(10.0**d) for d in _DECADES],
        "zeroline": False,
    }


def _span(panels: Sequence[Panel]) -> tuple[float, float]:
    """From a little before chaos, for the start of a cluster says little; without chaos, all."""
    end = max(p.clock.seconds(p.clock.end_t) for p in panels)
    begin = min(p.clock.seconds(p.clock.start_t) for p in panels)
    if all(p.clock.chaos_t is not None for p in panels):
        begin = max(begin, -2.0)
    return begin, end + 0.02 * (end - begin)


def _curve(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """(share, ms) of a histogram: each bucket's upper end, reached by the share up to it."""
    counts: dict[int, int] = {}
    for row in rows:
        counts[row["bucket"]] = counts.get(row["bucket"], 0) + row["n"]
    total, seen, points = sum(counts.values()), 0, []
    for bucket in sorted(counts):
        points.append((seen / total, max(2.0 ** ((bucket + 0.5) / _PER_OCTAVE) / 1e6, 1e-3)))
        seen += counts[bucket]
    if points:
        points.append((1 - 0.5 / total, points[-1][1]))
    return points
