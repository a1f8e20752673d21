"""The frame that pictures over time share: one panel an arm, below each a strip of what happened.

Figures are plain Plotly JSON. Colours are names of the page's CSS variables with a ``$`` before
them: the page's script puts in the values, so that one figure serves light and dark.
Texts that come from a run are escaped, since Plotly reads a little HTML.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.report import units
from harness.report.markup import visible
from harness.report.timeline import Clock, Commit, FaultTime

Figure = dict[str, Any]
_TOP_PX: Final = 34
_BOTTOM_PX: Final = 46
_PANEL_PX: Final = 230
_LANE_PX: Final = 19
_GAP_PX: Final = 44
_INSTANT_NS: Final = 60_000_000
"""A fault that lasts no longer is a mark, not a bar: a move of leadership is over when it began."""
_LINES_SHOWN: Final = 60
MOVES: Final = "leader moved"
DOWN: Final = "node down"
BROKEN: Final = "violation"


@dataclass(slots=True)
class Panel:
    """One arm in one trial."""

    arm: str
    title: str
    colour: str
    clock: Clock
    faults: Sequence[FaultTime] = ()
    moves: Sequence[Commit] = ()
    down: Sequence[tuple[int, int, int]] = ()
    """(node, from t, to t): when a node's process was not serving, whoever ended it."""
    broken: Sequence[tuple[int, str]] = ()
    """(t, what it says) of violations in this trial."""
    traces: list[Figure] = field(default_factory=list)
    """What the panel shows; axes are put in by `stacked`."""

    def lanes(self) -> list[str]:
        names = list(dict.fromkeys(f.fault for f in self.faults))
        names += [DOWN] if self.down else []
        names += [MOVES] if self.moves else []
        return names + ([BROKEN] if self.broken else [])


def plain(text: str) -> str:
    """Text for Plotly."""
    return html.escape(visible(text), quote=False)


def trace(**fields: Any) -> Figure:
    return {"type": "scatter", "mode": "markers", "showlegend": False, **fields}


def stacked(panels: Sequence[Panel], y_axis: Figure, span: tuple[float, float]) -> Figure:
    """The figure: panels one below the other, on one time axis and with the same vertical scale.

    ``y_axis``: the panels' axis, with its range (that is how high faults are shaded).
    """
    heights = [(_PANEL_PX, _LANE_PX * len(p.lanes())) for p in panels]
    inner = sum(a + b for a, b in heights) + _GAP_PX * (len(panels) - 1)
    layout: Figure = {
        "height": inner + _TOP_PX + _BOTTOM_PX,
        "margin": {"t": _TOP_PX, "b": _BOTTOM_PX, "l": 66, "r": 12},
        "hovermode": "closest",
        "barmode": "overlay",
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"},
        "annotations": [],
        "shapes": [],
        "xaxis": {
            "title": {"text": "seconds since chaos began"},
            "range": list(span),
            "zeroline": False,
        },
    }
    traces: list[Figure] = []
    top = float(inner)
    for index, (panel, (height, strip)) in enumerate(zip(panels, heights, strict=True)):
        main, lane = 2 * index + 1, 2 * index + 2
        low = (top - height) / inner
        layout[_axis(main)] = {
            **y_axis,
            "domain": [low, top / inner],
            **({"matches": "y"} if index else {}),
        }
        layout["annotations"].append(_title(panel, top / inner))
        traces += _shades(panel, main, y_axis)
        layout["shapes"] += _move_lines(panel, main)
        traces += [{**t, "xaxis": "x", "yaxis": _short(main)} for t in panel.traces]
        if strip:
            bottom = max(0.0, (top - height - strip) / inner)
            layout[_axis(lane)] = _lane_axis(panel, bottom, low)
            traces += _lane_traces(panel, lane)
        layout["xaxis"]["anchor"] = _short(lane if strip else main)
        top -= height + strip + _GAP_PX
    return {"data": traces, "layout": layout}


def legend_entry(name: str, group: str, **marker: Any) -> Figure:
    """A line of the legend that stands for the traces of its group in every panel."""
    return trace(
        x=[None],
        y=[None],
        name=name,
        legendgroup=group,
        showlegend=True,
        marker={"size": 8, "color": "$muted", **marker},
    )


def _title(panel: Panel, top: float) -> Figure:
    return {
        "text": f"<b>{plain(panel.title)}</b>",
        "x": 0,
        "y": top,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": panel.colour, "size": 14},
    }


def _axis(number: int) -> str:
    return "yaxis" if number == 1 else f"yaxis{number}"


def _short(number: int) -> str:
    return "y" if number == 1 else f"y{number}"


# -- faults: shaded in the panel, named in the strip


def _spans(panel: Panel) -> list[tuple[FaultTime, int, int]]:
    found = []
    for fault in panel.faults:
        span = fault.span(panel.clock.end_t)
        if span is not None:
            found.append((fault, *span))
    return found


def _says(panel: Panel, fault: FaultTime, begin: int, end: int) -> str:
    where = f" on {units.listed([f'node {n}' for n in fault.nodes])}" if fault.nodes else ""
    held = {True: "took hold", False: "did not take hold", None: "not measurable"}[fault.took_hold]
    seconds = panel.clock.seconds
    name = fault.id if fault.id == fault.fault else f"{fault.id} ({fault.fault})"
    healed = "" if fault.healed_t is not None else ", never healed"
    return (
        f"<b>{plain(name)}</b>{where}<br>"
        f"{seconds(begin):.3f} s to {seconds(end):.3f} s, {held}{healed}"
    )


def _shades(panel: Panel, axis: int, y_axis: Figure) -> list[Figure]:
    low, high = y_axis["range"]
    if y_axis.get("type") == "log":
        low, high = 10.0**low, 10.0**high
    found = []
    for fault, begin, end in _spans(panel):
        if end - begin <= _INSTANT_NS:
            continue
        left, right = panel.clock.seconds(begin), panel.clock.seconds(end)
        found.append(
            trace(
                mode="lines",
                x=[left, right, right, left, left],
                y=[low, low, high, high, low],
                fill="toself",
                fillcolor="$shade",
                line={"width": 0, "color": "$shade"},
                hoveron="fills",
                hoverinfo="text",
                text=_says(panel, fault, begin, end),
                xaxis="x",
                yaxis=_short(axis),
            )
        )
    return found


def _move_lines(panel: Panel, axis: int) -> list[Figure]:
    if len(panel.moves) > _LINES_SHOWN:
        return []
    found = []
    for move in panel.moves:
        at = panel.clock.seconds(move.t)
        found.append(
            {
                "type": "line",
                "x0": at,
                "x1": at,
                "y0": 0,
                "y1": 1,
                "xref": "x",
                "yref": f"{_short(axis)} domain",
                "layer": "below",
                "line": {"color": "$move", "width": 1, "dash": "dot"},
            }
        )
    return found


def _lane_axis(panel: Panel, bottom: float, top: float) -> Figure:
    lanes = panel.lanes()
    return {
        "domain": [bottom, top],
        "range": [len(lanes) - 0.5, -0.5],
        "tickvals": list(range(len(lanes))),
        "ticktext": [plain(name) for name in lanes],
        "tickfont": {"size": 10.5},
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }


def _lane_traces(panel: Panel, axis: int) -> list[Figure]:
    lanes, seconds = panel.lanes(), panel.clock.seconds
    common = {"xaxis": "x", "yaxis": _short(axis), "hoverinfo": "text"}
    lasting = [s for s in _spans(panel) if s[2] - s[1] > _INSTANT_NS]
    brief = [s for s in _spans(panel) if s[2] - s[1] <= _INSTANT_NS]
    failed = [f for f in panel.faults if f.failed_t is not None]
    bars = [(b, e, lanes.index(f.fault), "$fault", _says(panel, f, b, e)) for f, b, e in lasting]
    for node, begin, end in panel.down:
        until = min(end, panel.clock.end_t)
        back = f"until {seconds(end):.3f} s" if end <= panel.clock.end_t else "to the end"
        says = f"<b>node {node}</b> down<br>from {seconds(begin):.3f} s {back}"
        bars.append((begin, until, lanes.index(DOWN), "$move", says))
    found: list[Figure] = []
    if bars:
        found.append(
            {
                "type": "bar",
                "orientation": "h",
                "showlegend": False,
                "base": [seconds(begin) for begin, *_ in bars],
                "x": [(end - begin) / 1e9 for begin, end, *_ in bars],
                "y": [lane for _, _, lane, *_ in bars],
                "width": 0.5,
                "marker": {"color": [colour for *_, colour, _ in bars], "line": {"width": 0}},
                "hovertext": [says for *_, says in bars],
                **common,
            }
        )
    for marks, symbol, colour in (
        (
            [(b, lanes.index(f.fault), _says(panel, f, b, e)) for f, b, e in brief],
            "diamond",
            "$fault",
        ),
        (
            [
                (f.failed_t, lanes.index(f.fault), f"<b>{plain(f.id)}</b> failed")
                for f in failed
                if f.failed_t is not None
            ],
            "x",
            "$bad",
        ),
        ([(m.t, lanes.index(MOVES), _moved(m)) for m in panel.moves], "triangle-up", "$move"),
        ([(t, lanes.index(BROKEN), plain(says)) for t, says in panel.broken], "star", "$bad"),
    ):
        if marks:
            found.append(
                trace(
                    x=[seconds(t) for t, _, _ in marks],
                    y=[lane for _, lane, _ in marks],
                    hovertext=[says for _, _, says in marks],
                    marker={"symbol": symbol, "size": 9, "color": colour},
                    **common,
                )
            )
    return found


def _moved(move: Commit) -> str:
    return (
        f"<b>{plain(move.topic)}-{move.partition}</b>: leader {move.before} → {move.leader}"
        f"<br>leader epoch {move.leader_epoch} committed"
    )
