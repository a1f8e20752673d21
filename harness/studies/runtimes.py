"""The same seed and plan in two runtimes: same faults at the same times, same verdicts?

``python -m harness.studies.runtimes [SCENARIO ...]`` plays each scenario once a runtime, with one
seed, and prints a Markdown table of what differs: verdict, when each fault was injected, the
control plane's latencies and the throughput of the workload, by arm. Exit code 1 when verdicts or
faults differ, else the worst of the runs' own.

Times are compared with a tolerance, because a plan's offsets are when a fault *begins*: a thread on
a busy machine is some milliseconds late. What takes a fault long (an election) is not compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkers.history.parts import read_rows
from checkers.judging.verdict import worst_exit_code
from harness.arms import Skipped
from harness.interrupts import in_order
from harness.progress import show_progress
from harness.refusals import BAD_ARGUMENTS, is_refusal
from harness.run import Outcome, run
from harness.scenarios import SCENARIOS
from harness.settings import Settings, SettingsError

RUNTIMES: Final = ("process", "docker")
_TOLERANCE_MS: Final = 250.0
_STAGES: Final = ("round_trip", "request_queue", "handler")
_FAULT_COLUMNS: Final = ("t", "id", "fault", "phase", "took_hold", "arm", "trial")
_PHASE_COLUMNS: Final = ("t", "name", "event", "arm", "trial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault of one trial."""

    arm: str
    trial: int
    id: str
    fault: str
    offset_ms: float
    """From the start of the chaos phase to its injection."""
    took_hold: bool


def injections(folder: Path) -> list[Injection]:
    """What was injected in a stored run, and when."""
    begun = {
        (row["arm"], row["trial"]): row["t"]
        for row in _rows(folder, "phase", _PHASE_COLUMNS)
        if (row["name"], row["event"]) == ("chaos", "begin")
    }
    rows = _rows(folder, "fault", _FAULT_COLUMNS)
    held = {
        (row["arm"], row["trial"], row["id"])
        for row in rows
        if row["phase"] == "injected" and row["took_hold"] is not False
    }
    found = [
        Injection(
            arm=row["arm"],
            trial=int(row["trial"]),
            id=row["id"],
            fault=row["fault"],
            offset_ms=(row["t"] - begun[row["arm"], row["trial"]]) / 1e6,
            took_hold=(row["arm"], row["trial"], row["id"]) in held,
        )
        for row in rows
        if row["phase"] == "inject"
    ]
    return sorted(found, key=lambda each: (each.arm, each.trial, each.offset_ms))


def throughput(folder: Path) -> Mapping[str, float]:
    """Acknowledged produces a second of the chaos phase, by arm."""
    spans: dict[tuple[str, str], list[int]] = {}
    for row in _rows(folder, "phase", _PHASE_COLUMNS):
        if row["name"] == "chaos":
            spans.setdefault((row["arm"], row["trial"]), []).append(row["t"])
    counts: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for (arm, _), times in spans.items():
        seconds[arm] = seconds.get(arm, 0.0) + (max(times) - min(times)) / 1e9
    for row in _rows(folder, "produce", ("t", "type", "arm", "trial")):
        times = spans.get((row["arm"], row["trial"]), [])
        if row["type"] == "ok" and times and min(times) <= row["t"] <= max(times):
            counts[row["arm"]] = counts.get(row["arm"], 0) + 1
    return {arm: counts.get(arm, 0) / spent for arm, spent in seconds.items() if spent}


def table(outcomes: Mapping[str, Outcome]) -> tuple[list[str], list[str]]:
    """(lines of Markdown, differences that must not be) of one scenario."""
    first, second = (outcomes[name] for name in RUNTIMES)
    differences = []
    if first.verdict != second.verdict:
        differences.append(f"verdict {first.verdict} in process, {second.verdict} in docker")
    lines = ["", f"### {first.scenario}", "", "| | process | docker | docker / process |"]
    lines += ["|---|---|---|---|"]
    lines += [f"| verdict | {first.verdict} | {second.verdict} | |"]
    lines += [_row("whole run, s", first.seconds, second.seconds)]
    for one, other in _pairs(injections(first.folder), injections(second.folder)):
        known = one or other
        assert known is not None
        what = f"{known.arm} {known.trial}: {known.id} ({known.fault})"
        if one is None or other is None or one.took_hold != other.took_hold:
            differences.append(f"{what} was not the same in both")
        elif abs(one.offset_ms - other.offset_ms) > _TOLERANCE_MS:
            differences.append(f"{what} came at {one.offset_ms:.0f} and {other.offset_ms:.0f} ms")
        cells = [_when(one), _when(other)]
        lines += [f"| {what}, injected after ms | {cells[0]} | {cells[1]} | |"]
    latencies = [_latencies(outcomes[name]) for name in RUNTIMES]
    for key in latencies[0]:
        if key in latencies[1]:
            lines += [_row(f"{key}, ms", latencies[0][key], latencies[1][key])]
    rates = [throughput(outcomes[name].folder) for name in RUNTIMES]
    for arm in rates[0]:
        if arm in rates[1]:
            lines += [_row(f"{arm}: acknowledged produces, 1/s", rates[0][arm], rates[1][arm])]
    return lines, differences


def _pairs(
    ones: Sequence[Injection], others: Sequence[Injection]
) -> list[tuple[Injection | None, Injection | None]]:
    left = {(each.arm, each.trial, each.id): each for each in ones}
    right = {(each.arm, each.trial, each.id): each for each in others}
    return [(left.get(key), right.get(key)) for key in {**left, **right}]


def _when(injection: Injection | None) -> str:
    if injection is None:
        return "never"
    return f"{injection.offset_ms:.0f}" + ("" if injection.took_hold else " (did not take hold)")


def _latencies(outcome: Outcome) -> dict[str, float]:
    arms: Mapping[str, Any] = (
        outcome.results["checks"].get("controller-latency", {}).get("arms", {})
    )
    found = {}
    for arm, metrics in arms.items():
        for stage in _STAGES:
            for quantile in ("p50_ms", "p99_ms"):
                value = ((metrics or {}).get(stage) or {}).get(quantile)
                if value is not None:
                    name = (
                        f"{arm}: control {stage.replace('_', ' ')} {quantile.removesuffix('_ms')}"
                    )
                    found[name] = float(value)
    return found


def _row(what: str, one: float, other: float) -> str:
    ratio = f"{other / one:.2f}" if one else ""
    return f"| {what} | {one:.1f} | {other:.1f} | {ratio} |"


def _rows(folder: Path, kind: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    return read_rows(folder / "history", kind, columns)


def main() -> int:
    parser = argparse.ArgumentParser(description="One seed and plan in both runtimes.")
    parser.add_argument("scenarios", nargs="*", help=f"default: all of {', '.join(SCENARIOS)}")
    parser.add_argument("--profile", default="smoke")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--planes", default=None)
    parser.add_argument("--time-limit", type=float, default=None)
    parser.add_argument("--store", default="store")
    given = parser.parse_args()
    names = given.scenarios or [n for n, s in SCENARIOS.items() if given.profile in s.profiles]
    lines, differences, codes = [], [], []
    try:
        Settings.of(profile=given.profile, planes=given.planes)  # a typo plays nothing
        for name in names:
            if name not in SCENARIOS:
                raise SettingsError(f"{name!r}; allowed: {', '.join(SCENARIOS)}")
            try:
                outcomes = {runtime: _play(name, runtime, given) for runtime in RUNTIMES}
            except Skipped as why:
                lines += ["", f"skipped {why}"]
                continue
            made, different = table(outcomes)
            lines += made
            differences += [f"{name}: {each}" for each in different]
            codes += [outcome.verdict.exit_code for outcome in outcomes.values()]
    except Exception as error:
        if not is_refusal(error):
            raise
        print(f"compare: {error}", file=sys.stderr)
        return BAD_ARGUMENTS
    print(f"seed {given.seed}, profile {given.profile}")
    print("\n".join(lines))
    for each in differences:
        print(f"DIFFERENT: {each}")
    return 1 if differences else worst_exit_code(codes)


def _play(name: str, runtime: str, given: argparse.Namespace) -> Outcome:
    settings = Settings.of(
        profile=given.profile,
        seed=given.seed,
        planes=given.planes,
        store=Path(given.store) / runtime,
        time_limit_s=given.time_limit,
        runtime=runtime,
    )
    given.seed = settings.seed  # drawn by the first, the same for all
    with show_progress(sys.stderr) as progress:
        return run(SCENARIOS[name], settings, progress)


if __name__ == "__main__":
    sys.exit(in_order(main))
