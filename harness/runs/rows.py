"""One run's folder as rows of the table: one an arm, made of run.json and results.json alone.

A pure reading of what is stored, so that the table can be made again at any time. What cannot be
read as a run is `NotARun`, with the reason; nothing is guessed of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkers.judging.verdict import Verdict, merge
from harness.report.key_figures import value
from harness.runs.machine import host_class

RUN_FILE: Final = "run.json"
_INSIDE_A_RUN: Final = frozenset({"history", "trials", "results"})


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of an arm. ``path``: check, then names below it in results.json. ``watched``: a
    trend is sought in it; the others are there to be looked at. Of all of them less is better, but
    for those that only say how much was tried (``counts``)."""

    name: str
    says: str
    path: tuple[str, ...]
    watched: bool = False
    counts: bool = False


FIGURES: Final = {
    figure.name: figure
    for figure in (
        Figure(
            "control_p50_ms", "control latency under faults, p50",
            ("controller-latency", "probe", "p50_ms"),
        ),
        Figure(
            "control_p99_ms", "control latency under faults, p99",
            ("controller-latency", "probe", "p99_ms"), watched=True,
        ),
        Figure(
            "own_p99_ms", "the controller's own requests under faults, p99",
            ("controller-latency", "own", "p99_ms"),
        ),
        Figure(
            "round_trip_p99_ms", "the controller's own requests, p99",
            ("controller-latency", "round_trip", "p99_ms"), watched=True,
        ),
        Figure(
            "staleness_p99_ms", "age of stale answers, p99",
            ("stale-metadata", "staleness", "p99_ms"), watched=True,
        ),
        Figure("stale_share", "stale answers, of all", ("stale-metadata", "stale_share")),
        Figure(
            "propagation_p99_ms", "from a leader's commit to brokers' caches, p99",
            ("stale-metadata", "propagation_applied", "p99_ms"), watched=True,
        ),
        Figure(
            "stale_time_flooded_ms", "time that the flooded broker was behind, summed",
            ("stale-metadata", "propagation_applied_flooded", "stale_time_ms"),
        ),
        Figure(
            "avoidable_loss", "avoidable loss of acks=1 records",
            ("truncation-loss", "avoidable"), watched=True,
        ),
        Figure(
            "acked_1", "records acknowledged with acks=1", ("truncation-loss", "acked_1"),
            counts=True,
        ),
        Figure(
            "unavailable_p50_ms", "from a leader's commit to its first produce, p50",
            ("availability", "first_produce", "p50_ms"),
        ),
        Figure(
            "unavailable_p99_ms", "from a leader's commit to its first produce, p99",
            ("availability", "first_produce", "p99_ms"), watched=True,
        ),
        Figure(
            "deletion_p50_ms", "from asking for a topic's deletion to its end, p50",
            ("topic-deletion", "deletion", "p50_ms"), watched=True,
        ),
    )
}  # fmt: skip


class NotARun(ValueError):
    """The folder holds no run that was judged; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One arm of one run. ``path``: its folder, seen from the store. ``verdict``: this arm's share
    in ``run_verdict``; ``checks``: the same by check; ``broken``: "check: rule", of which this
    arm has a witness. ``played_s``: from the start to the end of the last trial."""

    path: str
    run_id: str
    scenario: str
    arm: str
    system: str
    system_version: str | None
    planes: str
    runtime: str
    profile: str
    chaos_s: float | None
    rounds: int | None
    seed: int
    mutants: tuple[str, ...]
    overrides: Mapping[str, str]
    own_plan: bool
    run_verdict: str
    verdict: str
    checks: Mapping[str, str]
    broken: tuple[str, ...]
    reasons: tuple[str, ...]
    violations: int
    biplane: str | None
    commit: str | None
    host: str | None
    host_class: str
    started_at_ms: int
    played_s: float | None
    figures: Mapping[str, float] = field(default_factory=dict)


def run_folders(store: Path) -> Iterator[Path]:
    """Every folder below ``store`` that was begun as a run, in order; what lies inside of one is
    not searched."""
    for place in sorted(p for p in _list(store) if p.is_dir() and not p.is_symlink()):
        if (place / RUN_FILE).exists() or (place / "plan.json").exists():
            yield place
        elif place.name not in _INSIDE_A_RUN:
            yield from run_folders(place)


def _list(folder: Path) -> Iterable[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def rows_of(folder: Path, path: str) -> list[Row]:
    """The rows of one run; raises `NotARun`."""
    run, results = _json(folder / RUN_FILE), _json(folder / "results.json")
    try:
        return [_row(path, run, results, str(arm)) for arm in results["arms"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = error.args[0] if isinstance(error, KeyError) else error
        raise NotARun(f"run.json or results.json is not one: {type(error).__name__}: {what}") from (
            error
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = _storable(json.loads(path.read_text()))
    except FileNotFoundError:
        why = "it was not judged (under way, interrupted, or to be judged with `biplane check`)"
        raise NotARun(f"no {path.name}: {why if path.name != RUN_FILE else 'not begun'}") from None
    except (OSError, ValueError) as error:
        raise NotARun(f"{path.name} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise NotARun(f"{path.name} is not an object")
    return found


def _storable(value: Any) -> Any:
    """The same without lone surrogates, which JSON can hold and no table can."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(name): _storable(item) for name, item in value.items()}
    return value


def _row(path: str, run: Mapping[str, Any], results: Mapping[str, Any], arm: str) -> Row:
    facts, settings = results["arms"][arm], run["settings"]
    profile, machine = settings["profile"], run.get("machine") or {}
    checks = verdicts(results, arm)
    started_at_ms = started_ms(run)
    return Row(
        path=path,
        run_id=str(results["run_id"]),
        scenario=str(results["scenario"]),
        arm=arm,
        system=str(facts["sut"]),
        system_version=_text(facts.get("sut_version")),
        planes=str(facts["planes"]),
        runtime=str(run.get("runtime") or facts.get("runtime") or "?"),
        profile=str(profile["name"]),
        chaos_s=_number(profile.get("chaos_s")),
        rounds=profile.get("rounds"),
        seed=int(results["seed"]),
        mutants=tuple(map(str, settings.get("mutants") or ())),
        overrides={str(k): str(v) for k, v in (settings.get("overrides") or {}).items()},
        own_plan=settings.get("plan") is not None,
        run_verdict=str(Verdict(results["verdict"])),
        verdict=str(merge(Verdict(v) for v in checks.values())),
        checks=checks,
        broken=tuple(sorted(_broken(results, arm))),
        reasons=tuple(_first_line(str(r)) for r in results.get("reasons") or ()),
        violations=sum(sum(c["violation_counts"].values()) for c in results["checks"].values()),
        biplane=_text(machine.get("biplane")),
        commit=_text(machine.get("commit")),
        host=_text(machine.get("host")),
        host_class=host_class(machine),
        started_at_ms=started_at_ms,
        played_s=played_s(run, started_at_ms),
        figures={
            name: found
            for name, figure in FIGURES.items()
            if (found := value(results, arm, figure.path)) is not None
        },
    )


def verdicts(results: Mapping[str, Any], arm: str) -> dict[str, str]:
    """By check, this arm's share in its verdict: whether a witness, or a doubt, is its own. Checks
    that nobody asked for and that had nothing to judge are left out, as in the run's verdict."""
    arms = [str(a) for a in results["arms"]]
    found = {}
    for name, check in results["checks"].items():
        verdict = Verdict(check["verdict"])
        if not check.get("required", True) and verdict is not Verdict.INVALID:
            continue
        if any(v.get("arm") == arm for v in check.get("violations") or ()):
            found[name] = str(Verdict.INVALID)
        elif verdict is not Verdict.VALID and any(
            _doubts(str(reason), arm, arms, set(check.get("violation_counts") or ()))
            for reason in check.get("reasons") or ()
        ):
            found[name] = str(Verdict.UNKNOWN)
        else:
            found[name] = str(Verdict.VALID)
    return found


def _doubts(reason: str, arm: str, arms: Iterable[str], broken: Iterable[str]) -> bool:
    """Whether a check's reason is a doubt about this arm: it names it, or no arm at all. What it
    says of violations is none."""
    if any(f" x {rule}: " in reason for rule in broken):
        return False
    named = [a for a in arms if reason.startswith((f"{a},", f"{a}:"))]
    return not named or arm in named


def _broken(results: Mapping[str, Any], arm: str) -> set[str]:
    return {
        f"{name}: {violation['rule']}"
        for name, check in results["checks"].items()
        for violation in check.get("violations") or ()
        if violation.get("arm") == arm
    }


# -- times


def started_ms(run: Mapping[str, Any]) -> int:
    """Wall clock, ms since 1970. Older runs tell it by their id alone, in local time."""
    told = run.get("started_at_ms")
    if isinstance(told, int):
        return told
    stamp = str(run["run_id"]).split("-")[0]
    return int(time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%S")) * 1000)


def played_s(run: Mapping[str, Any], started_at_ms: int) -> float | None:
    """Until the end of the last trial; None when no trial came to its end."""
    offset_ns = (run.get("clock") or {}).get("monotonic_minus_wall_ns")
    ends = [t["end_t"] for t in run.get("trials") or () if t.get("end_t")]
    if not ends or offset_ns is None:
        return None
    ended_s = float(max(ends) - offset_ns) / 1e9
    return round(max(0.0, ended_s - started_at_ms / 1000), 1)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
