"""The comparison's picture: which share of control requests took longer than what, as SVG.

One line a round and arm, both axes logarithmic: a tail is what the picture is about, and medians
are where a line crosses one half. SVG by hand: it lies beside a Markdown page that any forge shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from harness.studies.compare.figures import Round

_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 20, 60
_COLOURS: Final = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207", "#0e7490")
_POINTS: Final = 200


def latency_svg(rounds: Sequence[Round]) -> str:
    """``rounds``: those with probes. An empty picture says that nothing was probed."""
    arms = sorted({r.arm for r in rounds}, reverse=True)  # single before dual
    scenario = rounds[0].scenario if rounds else ""
    shown = [r for r in rounds if r.scenario == scenario]
    latest = max((r.probes[-1] for r in shown), default=1000.0)
    soonest = min((r.probes[0] for r in shown), default=1.0)
    decades = (math.floor(math.log10(max(soonest, 0.01))), math.ceil(math.log10(latest)))
    most = max((len(r.probes) for r in shown), default=100)
    depth = max(2, math.ceil(math.log10(most)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        *_axes(decades, depth),
    ]
    for one in shown:
        colour = _COLOURS[arms.index(one.arm) % len(_COLOURS)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _line(one.probes, decades, depth))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
    for index, arm in enumerate(arms):
        y = _TOP + 16 + 16 * index
        parts.append(
            f'<text x="{_WIDTH - _RIGHT - 8}" y="{y}" text-anchor="end" '
            f'fill="{_COLOURS[index % len(_COLOURS)]}">{arm}</text>'
        )
    if not shown:
        parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT / 2}">nothing was probed</text>')
    return "\n".join([*parts, "</svg>", ""])


def _x(ms: float, decades: tuple[int, int]) -> float:
    share = (math.log10(max(ms, 10 ** decades[0])) - decades[0]) / (decades[1] - decades[0])
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float, depth: int) -> float:
    down = -math.log10(max(share, 10**-depth)) / depth
    return _TOP + down * (_HEIGHT - _TOP - _BOTTOM)


def _line(
    ascending: Sequence[float], decades: tuple[int, int], depth: int
) -> list[tuple[float, float]]:
    """The share of the sample that took longer than each value, thinned but for the tail."""
    count = len(ascending)
    step = max(1, count // _POINTS)
    ranks = sorted({*range(0, count, step), *range(max(0, count - 50), count)})
    return [(_x(ascending[r], decades), _y((count - r) / count, depth)) for r in ranks]


def _axes(decades: tuple[int, int], depth: int) -> list[str]:
    parts = []
    bottom = _HEIGHT - _BOTTOM
    for exponent in range(decades[0], decades[1] + 1):
        x = _x(10.0**exponent, decades)
        parts.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}" stroke="#e2e2e2"/>')
        name = f"{10**exponent:g} ms" if exponent < 3 else f"{10 ** (exponent - 3):g} s"
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{name}</text>')
    for level in range(depth + 1):
        y = _y(10.0**-level, depth)
        right = _WIDTH - _RIGHT
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#e2e2e2"/>')
        name = f"{100 * 10.0**-level:g} %"
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{name}</text>')
    parts.append(
        f'<text x="{(_WIDTH + _LEFT) / 2}" y="{_HEIGHT - 16}" text-anchor="middle">'
        "share of control requests (vertical) that took longer than (horizontal), "
        "during the flood</text>"
    )
    return parts
