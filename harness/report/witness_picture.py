"""The witness on the timeline of its partition, as Plotly JSON: who led, who did what, which fault
was in place, and the numbered events that prove it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.report.panels import Figure, plain, trace
from harness.report.timeline import Clock
from harness.report.witness_story import Line, WitnessStory

_LANE_PX: Final = 34
_LED: Final = "leader, as committed"
_OTHERS: Final = "clients and harness"
_DOWN: Final = "down"
_MARK_SHARE: Final = 0.025
"""Of the picture's width: so wide is a mark."""


def witness_picture(told: WitnessStory, clock: Clock) -> Figure:
    """Lanes from top to bottom: faults, the committed leader, each broker, everybody else."""
    lanes = [f"fault: {name}" for name in dict.fromkeys(f.fault for f, _, _ in told.faults)]
    lanes += [_LED] if told.leads else []
    lanes += [f"node {node}" for node in told.nodes]
    lanes += [_OTHERS] if any(line.node is None for line in told.witness) else []
    seconds = clock.seconds
    begin, end = seconds(told.begin_t), seconds(told.end_t)
    margin = max(0.02 * (end - begin), 0.05)
    bars = _bars(told, lanes, clock)
    return {
        "data": [*bars, *_marks(told.witness, lanes, clock)],
        "layout": {
            "height": 60 + _LANE_PX * max(1, len(lanes)),
            "margin": {"t": 12, "b": 46, "l": 66, "r": 12},
            "hovermode": "closest",
            "barmode": "overlay",
            "showlegend": False,
            "uniformtext": {"minsize": 9, "mode": "hide"},
            "xaxis": {
                "title": {"text": _zero(clock)},
                "range": [begin - margin, end + margin],
                "zeroline": False,
            },
            "yaxis": {
                "range": [len(lanes) - 0.4, -0.6],
                "tickvals": list(range(len(lanes))),
                "ticktext": [plain(name) for name in lanes],
                "fixedrange": True,
                "showgrid": False,
                "zeroline": False,
                "automargin": True,
            },
        },
    }


def _zero(clock: Clock) -> str:
    return "seconds since chaos began" if clock.chaos_t is not None else "seconds since its start"


Bar = tuple[int, int, int, str, str, str]  # from, to, lane, colour, text in it, what it says


def _bars(told: WitnessStory, lanes: Sequence[str], clock: Clock) -> list[Figure]:
    found: list[Bar] = []
    for fault, begin, end in told.faults:
        says = f"<b>{plain(fault.id)}</b> in place"
        found.append((begin, end, lanes.index(f"fault: {fault.fault}"), "$fault", "", says))
    for lead in told.leads:
        who = f"node {lead.leader}" if lead.leader >= 0 else "nobody"
        says = f"{who} leads, leader epoch {lead.leader_epoch}"
        place = lanes.index(_LED)
        found.append((lead.t, lead.until_t, place, _colour(lead.leader), who, says))
    for duty in told.duties:
        leads = duty.role == "leader"
        colour, says = _colour(duty.node) if leads else "$grid", f"node {duty.node}: {duty.role}"
        place = lanes.index(f"node {duty.node}")
        found.append((duty.t, duty.until_t, place, colour, duty.role, says))
    for node, begin, end in told.down:
        place = lanes.index(f"node {node}")
        found.append((begin, end, place, "$move", _DOWN, f"node {node} is down"))
    clipped: list[Bar] = [
        (max(bar[0], told.begin_t), min(bar[1], told.end_t), *bar[2:])
        for bar in found
        if min(bar[1], told.end_t) >= max(bar[0], told.begin_t)
    ]
    if not clipped:
        return []
    return [
        {
            "type": "bar",
            "orientation": "h",
            "base": [clock.seconds(bar[0]) for bar in clipped],
            "x": [(bar[1] - bar[0]) / 1e9 for bar in clipped],
            "y": [bar[2] for bar in clipped],
            "width": 0.56,
            "marker": {"color": [bar[3] for bar in clipped], "opacity": 0.55},
            "text": [bar[4] for bar in clipped],
            "textposition": "inside",
            "insidetextanchor": "start",
            "textangle": 0,
            "textfont": {"color": "$fg", "size": 11.5},
            "hovertext": [bar[5] for bar in clipped],
            "hoverinfo": "text",
        }
    ]


def _colour(node: int) -> str:
    return f"$series-{node % 6}" if node >= 0 else "$bad"


def _marks(witness: Sequence[Line], lanes: Sequence[str], clock: Clock) -> list[Figure]:
    """The events that prove it, each with its number; those that would lie upon each other as one
    mark with all their numbers."""

    def lane(line: Line) -> int:
        return lanes.index(_OTHERS if line.node is None else f"node {line.node}")

    apart_ns = (witness[-1].t - witness[0].t) * _MARK_SHARE
    groups: list[list[Line]] = []
    for place in sorted({lane(line) for line in witness}):
        for line in (line for line in witness if lane(line) == place):
            last = groups[-1] if groups else None
            if last and lane(last[0]) == place and line.t - last[0].t <= apart_ns:
                last.append(line)
            else:
                groups.append([line])
    look: dict[str, Any] = {"symbol": "circle", "color": "$bad", "opacity": 1, "line": {"width": 0}}
    look["size"] = [19 if len(group) == 1 else 27 for group in groups]
    return [
        trace(
            mode="markers+text",
            x=[round(clock.seconds(group[0].t), 6) for group in groups],
            y=[lane(group[0]) for group in groups],
            text=[_numbers(group) for group in groups],
            textposition="middle center",
            textfont={"color": "$bg", "size": 11.5},
            marker=look,
            hovertext=[
                "<br>".join(f"<b>{line.number}</b> {plain(line.says)}" for line in group)
                for group in groups
            ],
            hoverinfo="text",
            cliponaxis=False,
        )
    ]


def _numbers(group: Sequence[Line]) -> str:
    first, last = group[0].number, group[-1].number
    return str(first) if len(group) == 1 else f"{first}-{last}"
