"""Ratios between arms: what the planes change, on the same system.

For every pair of arms of one system that differ in their planes (single against dual, single
against priority, ...) and every figure below: both values and their ratio, the first arm's over the
second's. A figure that one of them lacks is left out; a ratio over nothing is null, never infinite.

Reads results only: neither Spark nor the history is needed, so that stored runs can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final

from checkers.judging.verdict import Results

FIGURES: Final[Mapping[str, tuple[str, ...]]] = {
    "control_p50_ms": ("controller-latency", "probe", "p50_ms"),
    "control_p99_ms": ("controller-latency", "probe", "p99_ms"),
    "own_p50_ms": ("controller-latency", "own", "p50_ms"),
    "own_p99_ms": ("controller-latency", "own", "p99_ms"),
    "wire_p99_ms": ("controller-latency", "wire", "p99_ms"),
    "request_queue_p50_ms": ("controller-latency", "request_queue", "p50_ms"),
    "request_queue_p99_ms": ("controller-latency", "request_queue", "p99_ms"),
    "round_trip_p50_ms": ("controller-latency", "round_trip", "p50_ms"),
    "round_trip_p99_ms": ("controller-latency", "round_trip", "p99_ms"),
    "stale_share": ("stale-metadata", "stale_share"),
    "stale_p99_ms": ("stale-metadata", "staleness", "p99_ms"),
    "stale_time_ms": ("stale-metadata", "propagation_applied", "stale_time_ms"),
    "stale_time_flooded_ms": ("stale-metadata", "propagation_applied_flooded", "stale_time_ms"),
    "propagation_flooded_p50_ms": ("stale-metadata", "propagation_applied_flooded", "p50_ms"),
    "propagation_floor_p50_ms": ("stale-metadata", "propagation_applied_beside", "p50_ms"),
    "propagation_p50_ms": ("stale-metadata", "propagation_applied", "p50_ms"),
    "propagation_p99_ms": ("stale-metadata", "propagation_applied", "p99_ms"),
    "avoidable_loss": ("truncation-loss", "avoidable"),
    "avoidable_share": ("truncation-loss", "avoidable_share"),
    "first_produce_p50_ms": ("availability", "first_produce", "p50_ms"),
    "leader_ready_p50_ms": ("availability", "leader_ready", "p50_ms"),
    "first_produce_acks_1_p50_ms": ("availability", "first_produce_acks_1", "p50_ms"),
    "first_produce_acks_all_p50_ms": ("availability", "first_produce_acks_all", "p50_ms"),
    "first_fetch_p50_ms": ("availability", "first_fetch", "p50_ms"),
    "held_longest_ms": ("availability", "held_longest_ms"),
    "deletion_p50_ms": ("topic-deletion", "deletion", "p50_ms"),
    "deletion_stopped_p50_ms": ("topic-deletion", "stopped", "p50_ms"),
}
_ORDER: Final = ("single", "priority", "dual")


def compare(results: Results) -> dict[str, Any]:
    """By ``"<arm> / <arm>"``: figure -> {"<arm>": value, ..., "ratio": number | null}."""
    found: dict[str, Any] = {}
    for first, second in combinations(sorted(results.arms, key=lambda a: _rank(results, a)), 2):
        a, b = results.arms[first], results.arms[second]
        if a.get("sut") != b.get("sut") or a.get("planes") == b.get("planes"):
            continue
        table = {}
        for name, path in FIGURES.items():
            left, right = figure(results, first, path), figure(results, second, path)
            if left is None or right is None:
                continue
            ratio = round(left / right, 4) if right else None
            table[name] = {first: left, second: right, "ratio": ratio}
        found[f"{first} / {second}"] = table
    return found


def figure(results: Results, arm: str, path: tuple[str, ...]) -> float | None:
    """One figure of one arm; None when it was not measured."""
    check = results.checks.get(path[0])
    value: Any = check.arms.get(arm) if check is not None else None
    for name in path[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _rank(results: Results, arm: str) -> tuple[int, str]:
    planes = results.arms[arm].get("planes")
    return (_ORDER.index(planes) if planes in _ORDER else len(_ORDER), arm)
