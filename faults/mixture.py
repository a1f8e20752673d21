"""Plans drawn from a seed.

A *palette* says what may be drawn: for each fault some ready parameter sets and how long it lasts.
`mixture` fills a stretch of time with draws from it. The result is an ordinary plan: what was drawn
is in it, in full, so that a saved plan replays without the palette that it came from.

Bounds that keep a three-broker run meaningful are *lanes*: of the faults in one lane at most one is
in place at a time. Lane ``brokers``: those that take a broker away (a majority of replicas could be
gone, and every check vacuous); lane ``flood``: those that eat the machine. Others overlap freely.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from faults.errors import PlanError
from faults.plan import Plan
from faults.protocol import Capability, Entry
from faults.registry import FAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One thing that may be drawn, ``weight`` times as likely as one of weight 1."""

    fault: str
    duration_ms: tuple[int, int]
    params: Mapping[str, Sequence[Any]]
    weight: int = 1
    lane: str | None = None


_LANE_GAP_MS: Final = 1000
_ANY: Final = ("random", "controller", "not-controller")
PALETTE: Final[tuple[Draw, ...]] = (
    Draw(
        fault="flood-heavy-produce",
        lane="flood",
        duration_ms=(2000, 6000),
        params={"target": _ANY, "acks": ("1", "all", "0"), "record_bytes": (1024, 10_240)},
        weight=3,
    ),
    Draw(
        fault="flood-produce",
        lane="flood",
        duration_ms=(2000, 6000),
        params={"target": _ANY, "acks": ("0", "1", "all"), "connections": (64, 256)},
        weight=2,
    ),
    Draw(fault="flood-metadata", lane="flood", duration_ms=(1000, 4000), params={"target": _ANY}),
    Draw(fault="flood-fetch", lane="flood", duration_ms=(1000, 4000), params={"target": _ANY}),
    Draw(
        fault="flood-connections", lane="flood", duration_ms=(1000, 4000), params={"target": _ANY}
    ),
    Draw(
        fault="move-leadership",
        duration_ms=(0, 0),
        params={"to": ("next", "random"), "times": (1, 3)},
        weight=3,
    ),
    Draw(fault="topic-churn", duration_ms=(2000, 5000), params={"interval_ms": (200, 500)}),
    Draw(fault="kill", duration_ms=(500, 4000), params={"target": _ANY}, lane="brokers"),
    Draw(fault="stop", duration_ms=(500, 3000), params={"target": _ANY}, lane="brokers"),
    Draw(fault="pause", duration_ms=(1000, 9000), params={"target": _ANY}, lane="brokers"),
    Draw(
        fault="torn-tail",
        lane="brokers",
        duration_ms=(500, 2000),
        params={"target": _ANY, "mode": ("torn", "garbage", "scrambled")},
    ),
    Draw(
        fault="zombie-controller",
        duration_ms=(8000, 12_000),
        params={"how": ("zookeeper-cut", "pause"), "backlog": (True, False)},
        weight=2,
        lane="brokers",
    ),
    Draw(
        fault="forged-requests",
        duration_ms=(1000, 4000),
        params={"link": ("control", "inter-broker", "client")},
        weight=2,
    ),
    Draw(
        fault="toxic",
        duration_ms=(1000, 5000),
        params={
            "target": _ANY,
            "kind": ("latency",),
            "link": ("client", "inter-broker", "control", "zookeeper"),
            "attributes": ({"latency": 50, "jitter": 20}, {"latency": 200, "jitter": 100}),
        },
        weight=2,
    ),
    Draw(
        fault="toxic",
        duration_ms=(1000, 4000),
        params={
            "target": _ANY,
            "kind": ("reset_peer", "timeout"),
            "link": ("client", "inter-broker", "control"),
            "attributes": ({"timeout": 300},),
        },
    ),
    Draw(
        fault="link-down",
        duration_ms=(500, 4000),
        params={"target": _ANY, "link": ("client", "inter-broker", "control", "zookeeper")},
        weight=2,
        lane="brokers",
    ),
)


def mixture(
    seed: int,
    *,
    duration_ms: int,
    offered: Iterable[Capability] = tuple(Capability),
    palette: Sequence[Draw] = PALETTE,
    gap_ms: tuple[int, int] = (200, 2000),
    fixed: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """A plan of about ``duration_ms``, the same for the same arguments.

    Only faults that ``offered`` allows are drawn. ``fixed`` sets parameters of a fault by its name
    (the topics under test, the brokers' queue size), over what was drawn.
    """
    if duration_ms < 1 or gap_ms[0] < 1 or gap_ms[1] < gap_ms[0]:
        raise PlanError(f"duration_ms={duration_ms}, gap_ms={gap_ms} are not allowed; allowed: > 0")
    rng = random.Random(f"mixture:{seed}")
    able = frozenset(offered)
    for draw in palette:
        if draw.fault not in FAULTS:
            raise PlanError(f"palette: {draw.fault!r} is not allowed; allowed: {', '.join(FAULTS)}")
    options = [draw for draw in palette if FAULTS[draw.fault].needs <= able]
    entries: list[Entry] = []
    at_ms = rng.randint(*gap_ms)
    free_at_ms: dict[str | None, int] = {}
    while at_ms < duration_ms:
        possible = [d for d in options if at_ms >= free_at_ms.get(d.lane, 0)]
        if possible:
            draw = rng.choices(possible, [d.weight for d in possible])[0]
            lasts_ms = min(rng.randint(*draw.duration_ms), max(0, duration_ms - at_ms))
            params = {name: rng.choice(list(values)) for name, values in draw.params.items()}
            entries.append(
                Entry(
                    id=f"{draw.fault}-{len(entries) + 1}",
                    fault=draw.fault,
                    at_ms=at_ms,
                    duration_ms=lasts_ms,
                    params=params | dict((fixed or {}).get(draw.fault, {})),
                )
            )
            if draw.lane is not None:
                free_at_ms[draw.lane] = at_ms + lasts_ms + _LANE_GAP_MS
        at_ms += rng.randint(*gap_ms)
    return Plan.of(seed, entries)
