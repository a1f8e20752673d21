"""Runs that were never played, as a harness leaves them: run.json and results.json."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

DAY_MS = 86_400_000
FIRST_MS = 1_767_000_000_000
SINGLE, DUAL = "dualplane-single", "dualplane-dual"


def a_run(store: Path, number: int, **changes: Any) -> Path:
    """The ``number``-th nightly. ``figures``: by arm, names of `tests` below; ``broken``: (arm,
    check, rule); ``run`` and ``settings``: fields to be put over."""
    scenario = changes.get("scenario", "request-flood")
    started = FIRST_MS + number * DAY_MS
    seed = changes.get("seed", 1000 + number)
    run_id = f"{time.strftime('%Y%m%dT%H%M%S', time.localtime(started / 1000))}-{seed}"
    folder = store / scenario / run_id
    folder.mkdir(parents=True)
    arms = {
        arm: {"sut": "dualplane", "sut_version": "0.1.0", "planes": arm.split("-")[1]}
        for arm in changes.get("arms", (SINGLE, DUAL))
    }
    wall = 10_000 * 10**9 - started * 10**6
    run: dict[str, Any] = {
        "version": 2,
        "run_id": run_id,
        "scenario": scenario,
        "conjecture": "It holds.",
        "started_at_ms": started,
        "seed": seed,
        "settings": {
            "profile": {"name": "nightly", "chaos_s": 120.0, "rounds": 5},
            "seed": seed, "mutants": [], "overrides": {}, "plan": None,
            **changes.get("settings", {}),
        },
        "runtime": "process",
        "arms": arms,
        "machine": {
            "system": "Linux 6.1", "processors": 4, "architecture": "x86_64",
            "memory_bytes": 16_700_000_000, "biplane": "0.1.0", "commit": f"{number:040x}",
        },
        "clock": {"monotonic_minus_wall_ns": wall, "error_ns": 1000},
        "trials": [{"arm": a, "trial": 0, "end_t": 10_100 * 10**9} for a in arms],
        **changes.get("run", {}),
    }  # fmt: skip
    results = _results(run_id, scenario, seed, arms, changes)
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "report.html").write_text("<!doctype html><title>a report</title>")
    return folder


def _results(
    run_id: str, scenario: str, seed: int, arms: dict[str, Any], changes: dict[str, Any]
) -> dict[str, Any]:
    figures = changes.get("figures", {})

    def of(arm: str, name: str, usual: float) -> Any:
        return figures.get(arm, {}).get(name, usual)

    checks: dict[str, Any] = {
        "controller-latency": {
            arm: {"probe": {"p50_ms": 2.0, "p99_ms": of(arm, "control_p99_ms", 8.0)}}
            for arm in arms
        },
        "truncation-loss": {
            arm: {"avoidable": of(arm, "avoidable_loss", 0), "acked_1": 5000} for arm in arms
        },
        "fencing": {},
    }
    bodies = {
        name: {
            "verdict": "valid", "reasons": [], "arms": found, "violations": [],
            "violation_counts": {}, "required": True, "seconds": 1.0,
        }
        for name, found in checks.items()
    }  # fmt: skip
    for arm, check, rule in changes.get("broken", ()):
        body = bodies[check]
        body["verdict"] = "invalid"
        body["violation_counts"] = {rule: 7}
        body["reasons"] = [f"7 x {rule}: it broke"]
        body["violations"].append(
            {"rule": rule, "says": "it broke", "arm": arm, "trial": 0, "events": []}
        )
    for arm, check in changes.get("doubts", ()):
        body = bodies[check]
        body["verdict"] = "unknown" if body["verdict"] == "valid" else body["verdict"]
        body["reasons"].append(f"{arm}, trial 0: there was nothing to judge")
    verdicts = {body["verdict"] for body in bodies.values()}
    worst = next(v for v in ("invalid", "unknown", "valid") if v in verdicts)
    reasons = [f"{n}: {r}" for n, b in bodies.items() for r in b["reasons"]]
    return {
        "version": 1, "run_id": run_id, "scenario": scenario, "seed": seed, "verdict": worst,
        "reasons": reasons, "arms": arms, "checks": bodies, "comparison": {},
    }  # fmt: skip


def noise(seed: int, name: str, middle: float, spread: float = 0.2) -> float:
    """Log-normal around ``middle``, as latencies of runs are."""
    return middle * random.Random(f"{seed}:{name}").lognormvariate(0, spread)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made
