"""The figures of one round: per arm, from what the run stored.

Latencies are taken from every probe of the history, not from a checker's histogram, so that they
can be told apart by the moment: *before* is the last seconds before the first fault, *flooded* is
while a flood was in place; in a round without floods, the whole of the phase that has them in the
others, so that its figures are the floor beside theirs. Everything else is the checkers' own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkers.history.parts import read_rows

IDLE_NS: Final = 4_000_000_000
Values = dict[str, float | None]
Path_ = tuple[str, ...]

RESULTS: Final[Mapping[str, Path_]] = {
    "avoidable": ("truncation-loss", "avoidable"),
    "edge": ("truncation-loss", "lost", "edge"),
    "before_commit": ("truncation-loss", "lost", "before_commit"),
    "acked_1": ("truncation-loss", "acked_1"),
    "stale_share": ("stale-metadata", "stale_share"),
    "staleness_p99_ms": ("stale-metadata", "staleness", "p99_ms"),
    "stale_time_ms": ("stale-metadata", "propagation_shown", "stale_time_ms"),
    "propagation_p50_ms": ("stale-metadata", "propagation_applied", "p50_ms"),
    "propagation_p99_ms": ("stale-metadata", "propagation_applied", "p99_ms"),
    "round_trip_p50_ms": ("controller-latency", "round_trip", "p50_ms"),
    "round_trip_p99_ms": ("controller-latency", "round_trip", "p99_ms"),
    "round_trip_max_ms": ("controller-latency", "round_trip", "max_ms"),
    "first_produce_p50_ms": ("availability", "first_produce", "p50_ms"),
    "first_produce_max_ms": ("availability", "first_produce", "max_ms"),
    "deletion_p50_ms": ("topic-deletion", "deletion", "p50_ms"),
    "deletion_max_ms": ("topic-deletion", "deletion", "max_ms"),
    "stopped_p50_ms": ("topic-deletion", "stopped", "p50_ms"),
    "stopped_max_ms": ("topic-deletion", "stopped", "max_ms"),
    "deletions": ("topic-deletion", "deletion", "count"),
}
"""Figure -> check and names below ``checks.<check>.arms.<arm>``."""
_COUNTS: Final = frozenset({"edge", "before_commit"})
"""Only written down when there are any; 0 when the check said anything of the arm."""
_RECOVERY: Final = ("leader_ready", "first_produce_acks_1", "first_produce_acks_all")
_KILL: Final = "kill"
_NO_CUT: Final = frozenset(
    {"unexplained", "untraced", "acked_all", "stranded", "held", "removed", "damage", "unread"}
)
"""Categories of lost records that lie in no range which a broker said it had cut."""


@dataclass(frozen=True, slots=True)
class Round:
    """One arm in one round of one scenario. ``probes``: flooded latencies, ms, ascending.
    ``idle``: its floods were left out."""

    scenario: str
    number: int
    arm: str
    verdict: str
    values: Values
    probes: Sequence[float]
    idle: bool = False


def read_round(folder: Path, scenario: str, number: int, idle: bool = False) -> list[Round]:
    """Every arm of one run."""
    results = json.loads((folder / "results.json").read_text())
    found = []
    for arm in results["arms"]:
        before, flooded = _probes(folder, arm, idle)
        values: Values = {name: _figure(results, arm, path) for name, path in RESULTS.items()}
        for name in _COUNTS:
            if values[name] is None and values["acked_1"] is not None:
                values[name] = 0.0
        for label, sample in (("before", before), ("flooded", flooded)):
            values[f"{label}_p50_ms"] = quantile(sample, 0.5)
            values[f"{label}_p99_ms"] = quantile(sample, 0.99)
            values[f"{label}_max_ms"] = max(sample, default=None)
        values["flood_per_s"] = _flood_rate(folder, arm)
        values["cut_records"] = _cut_records(folder, arm)
        values["lost"], values["lost_uncut"] = _lost(results, arm)
        values |= _propagation_by_broker(results, arm, _flooded_nodes(folder, arm))
        values |= _recovery(results, arm)
        verdict = str(results["verdict"])
        found.append(Round(scenario, number, arm, verdict, values, flooded, idle))
    return found


def quantile(ascending: Sequence[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of the sample does not exceed."""
    if not ascending:
        return None
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def _figure(results: Mapping[str, Any], arm: str, path: Path_) -> float | None:
    check = (results.get("checks") or {}).get(path[0]) or {}
    found: Any = (check.get("arms") or {}).get(arm)
    for name in path[1:]:
        found = found.get(name) if isinstance(found, Mapping) else None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if is_number else None


def _rows(folder: Path, kind: str, arm: str, columns: Iterable[str]) -> list[dict[str, Any]]:
    """Rows of a kind in an arm; none when there is no such table."""
    rows = read_rows(folder / "history", kind, columns)
    return [row for row in rows if row["arm"] == arm]


def _probes(folder: Path, arm: str, idle: bool) -> tuple[list[float], list[float]]:
    """Latencies (ms, ascending) of probes planned when nothing was wrong, and during a flood (or,
    ``idle``, when there would have been one)."""
    faults = _rows(folder, "fault", arm, ("t", "fault", "phase"))
    injected = [r["t"] for r in faults if r["phase"] == "inject"]
    first = min(injected, default=None)
    floods = [r for r in faults if str(r["fault"]).startswith("flood")]
    begun = min((r["t"] for r in floods if r["phase"] == "injected"), default=None)
    ended = max((r["t"] for r in floods if r["phase"] == "heal"), default=None)
    if idle:
        phases = _rows(folder, "phase", arm, ("t", "name", "event"))
        chaos = [(r["t"], r["event"]) for r in phases if r["name"] == "chaos"]
        begun = min((t for t, event in chaos if event == "begin"), default=None)
        ended = max((t for t, event in chaos if event == "end"), default=None)
    before, flooded = [], []
    for row in _rows(folder, "probe", arm, ("planned_t", "t")):
        planned, latency = row["planned_t"], (row["t"] - row["planned_t"]) / 1e6
        if first is not None and first - IDLE_NS <= planned < first - latency * 1e6:
            before.append(latency)
        if begun is not None and ended is not None and begun <= planned < ended:
            flooded.append(latency)
    return sorted(before), sorted(flooded)


def _flood_rate(folder: Path, arm: str) -> float | None:
    """Requests a second that the flood got answered, while it lasted."""
    rows = _rows(folder, "flood", arm, ("completed", "interval_ns"))
    busy = [r for r in rows if r["completed"]]
    time_ns = sum(r["interval_ns"] or 0 for r in busy)
    return sum(r["completed"] for r in busy) * 1e9 / time_ns if time_ns else None


def _cut_records(folder: Path, arm: str) -> float | None:
    """Records that brokers said they cut off, by their own lines."""
    rows = _rows(folder, "truncation", arm, ("from_offset", "to_offset"))
    known = [r for r in rows if r["from_offset"] is not None]
    return float(sum(max(0, r["from_offset"] - r["to_offset"]) for r in known))


def _lost(results: Mapping[str, Any], arm: str) -> tuple[float | None, float | None]:
    """How many acknowledged records are gone, and how many of them no truncation took."""
    check = (results.get("checks") or {}).get("truncation-loss") or {}
    found = (check.get("arms") or {}).get(arm)
    if found is None:
        return None, None
    kinds: Mapping[str, int] = found.get("lost") or {}
    return float(sum(kinds.values())), float(sum(kinds.get(name, 0) for name in _NO_CUT))


def _flooded_nodes(folder: Path, arm: str) -> set[str]:
    rows = _rows(folder, "fault", arm, ("fault", "phase", "nodes"))
    floods = [r for r in rows if str(r["fault"]).startswith("flood") and r["phase"] == "injected"]
    return {str(node) for row in floods for node in row["nodes"] or ()}


def _propagation_by_broker(results: Mapping[str, Any], arm: str, flooded: set[str]) -> Values:
    """From commit to cache: of the flooded broker, and of the slowest of the others."""
    check = (results.get("checks") or {}).get("stale-metadata") or {}
    nodes = ((check.get("arms") or {}).get(arm) or {}).get("propagation_applied_by_node") or {}
    values: Values = {}
    for label, wanted in (("there", flooded), ("elsewhere", set(nodes) - flooded)):
        for name in ("p50_ms", "p99_ms"):
            known = [nodes[n].get(name) for n in wanted if n in nodes]
            numbers = [float(v) for v in known if v is not None]
            values[f"{label}_{name}"] = max(numbers, default=None) if flooded else None
    return values


def _recovery(results: Mapping[str, Any], arm: str) -> Values:
    """What followed the commits that were made while a leader was dead: others are no recoveries
    of a leaderless partition."""
    check = (results.get("checks") or {}).get("availability") or {}
    found = (check.get("arms") or {}).get(arm) or {}
    values: Values = {}
    for name in _RECOVERY:
        by_segment: Mapping[str, Any] = found.get(f"{name}_by_segment") or {}
        dead = [summary for segment, summary in by_segment.items() if _KILL in segment.split("+")]
        summary: Mapping[str, float] = max(dead, key=lambda one: one["count"], default={})
        for quantile_name in ("p50_ms", "max_ms"):
            values[f"{name}_{quantile_name}"] = summary.get(quantile_name)
    return values
