"""What run.json says: what was asked, of which systems, what came of each trial, and how the
clocks are tied. Whoever judges reads it beside the history."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from checkers.history import VERSION
from faults.plan import Plan
from faults.protocol import Capability
from harness.history import FinishReport
from harness.runs.machine import machine_facts
from harness.runtime.protocol import Programs
from harness.scenarios.base import EVERYWHERE, Scenario, checks_for, unheard, unjudged
from harness.settings import Settings
from harness.sut.broker_properties import LAG_MAX_MS
from harness.sut.protocol import (
    ClockTie,
    HasOldReleases,
    IsDescribed,
    KnowsItsCoordinators,
    LooksAfterLogs,
    RunsAlready,
    SystemUnderTest,
    limits_of,
)
from harness.trial_result import Arm, TrialResult


def stored(report: FinishReport) -> dict[str, Any]:
    """What run.json says of the history."""
    return {
        "version": VERSION,
        "rows": dict(report.rows),
        "rejected": report.rejected,
        "rejected_reasons": dict(report.reasons.most_common(20)),
        "torn_lines": report.torn_lines,
        "orphans": report.orphans,
    }


def begun_record(
    scenario: Scenario,
    settings: Settings,
    arms: list[Arm],
    plan: Plan,
    programs: Programs,
    run_id: str,
) -> dict[str, Any]:
    checks = tuple(dict.fromkeys((*scenario.checks, *EVERYWHERE)))
    silent = partial(_unheard, scenario, settings, plan)
    return {
        "version": VERSION,
        "run_id": run_id,
        "scenario": scenario.name,
        "conjecture": scenario.conjecture,
        "started_at_ms": time.time_ns() // 1_000_000,
        "seed": settings.seed,
        "settings": settings.to_dict(),
        "runtime": settings.runtime,
        "arms": {
            arm.label: {
                "sut": arm.sut.name,
                "sut_version": arm.sut.version(programs),
                "planes": str(arm.planes),
                "runtime": settings.runtime,
                "checks": asked(checks, [(arm.sut, silent(arm.sut))]),
                "leaders": limits_of(arm.sut).leaders,
                "not_judged": not_judged(scenario, settings, arm.sut, plan),
                "traces": sorted(arm.sut.traces),
                "strict_min_isr": Capability.STRICT_MIN_ISR in arm.sut.capabilities,
                "topic_ids_late": isinstance(arm.sut, HasOldReleases) and arm.sut.topic_ids_late,
                "stopping_may_join": isinstance(arm.sut, HasOldReleases)
                and arm.sut.stopping_may_join,
                "mixes_config_errors": _may(arm.sut, lambda old: old.mixes_config_errors),
                "records_corrupt": _may(arm.sut, lambda old: old.records_corrupt),
                "leaderless_untold": _may(arm.sut, lambda old: old.leaderless_untold),
                "stopped_leave_waiting": _may(arm.sut, lambda old: old.stopped_leave_waiting),
                "old_clients_untold": _coordinates(arm.sut, lambda its: its.old_clients_untold),
                "epoch_after_office": _may(arm.sut, lambda old: old.epoch_after_office),
                "unclean_elections_wait": _may(arm.sut, lambda old: old.unclean_elections_wait),
                "dead_groups_unknown": _may(arm.sut, lambda old: old.dead_groups_unknown),
                "first_look_ms": first_look_ms(scenario, settings, arm.sut),
                "positions_told_late": _coordinates(arm.sut, lambda its: its.positions_told_late),
                "leaders_write_isr": isinstance(arm.sut, HasOldReleases)
                and Capability.ALTER_PARTITION not in arm.sut.capabilities,
                "lag_max_ms": lag_max_ms(scenario, settings, arm.sut),
            }
            for arm in arms
        },
        "expectations": {
            "checks": asked(checks, [(arm.sut, silent(arm.sut)) for arm in arms]),
            "leader_changes_planned": scenario.leader_changes,
            "settling_ms": settings.profile.settling_ms,
            "faults": sorted({entry.fault for entry in plan.entries}),
            "faults_may_collide": scenario.faults_may_collide,
            "overrides": _overrides(scenario, arms),
            "rounds": settings.profile.rounds,
        },
        "machine": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
            "processors": os.cpu_count(),
            "biplane": metadata.version("biplane"),
            **machine_facts(os.environ, Path.cwd()),
        },
    }


def _may(sut: SystemUnderTest, old: Callable[[HasOldReleases], bool]) -> bool:
    """Whether it may do what only old releases do: nobody knows of which release it is what a file
    describes."""
    if isinstance(sut, HasOldReleases):
        return old(sut)
    return isinstance(sut, (IsDescribed, RunsAlready))


def _coordinates(sut: SystemUnderTest, so: Callable[[KnowsItsCoordinators], bool]) -> bool:
    """Whether its coordinators of groups may do so."""
    if isinstance(sut, KnowsItsCoordinators):
        return so(sut)
    return isinstance(sut, (IsDescribed, RunsAlready))


def lag_max_ms(scenario: Scenario, settings: Settings, sut: SystemUnderTest) -> int | None:
    """replica.lag.time.max.ms of its brokers; None where a file says how they are run."""
    if isinstance(sut, IsDescribed):
        return None
    set_to = {**scenario.overrides, **settings.overrides}.get("replica.lag.time.max.ms")
    return int(set_to) if set_to else LAG_MAX_MS


def first_look_ms(scenario: Scenario, settings: Settings, sut: SystemUnderTest) -> int | None:
    """How long after its start a broker may first look after its logs; None: nobody says."""
    if not isinstance(sut, LooksAfterLogs):
        return None
    set_to = {**scenario.overrides, **settings.overrides}.get("log.initial.task.delay.ms")
    return max(sut.first_look_ms, int(set_to or 0))


def _overrides(scenario: Scenario, arms: Sequence[Arm]) -> dict[str, str]:
    """What the scenario sets of the brokers' configuration, where every system takes that."""
    told = all(limits_of(arm.sut).takes_configs for arm in arms)
    return dict(scenario.overrides) if told else {}


def _unheard(
    scenario: Scenario, settings: Settings, plan: Plan, sut: SystemUnderTest
) -> dict[str, str]:
    return unheard(scenario, plan, sut, settings.profile)


def asked(
    checks: Sequence[str], suts: Sequence[tuple[SystemUnderTest, Mapping[str, str]]]
) -> list[str]:
    """The checks that have something to judge in at least one of these systems; with each, what
    this run has nothing to judge by."""
    shown = {
        name
        for sut, silent in suts
        for name in checks_for(checks, [sut.capabilities])
        if name not in limits_of(sut).unjudged and name not in silent
    }
    return [name for name in checks if name in shown]


def not_judged(
    scenario: Scenario, settings: Settings, sut: SystemUnderTest, plan: Plan
) -> dict[str, str]:
    """What is not judged of that system, and why; of one that runs already, what is not played,
    too: whoever reads "valid" is to know of what."""
    found = {**_unheard(scenario, settings, plan, sut), **unjudged(scenario.checks, sut)}
    configs = {**scenario.overrides, **settings.overrides}
    if configs and not limits_of(sut).takes_configs:
        found["configs"] = f"it was not told {', '.join(sorted(configs))}"
    if isinstance(sut, RunsAlready):
        for entry, why in sut.playable(plan)[1]:
            found[f"the fault {entry.fault}"] = f"not played: {why}"
    return found


def trial_record(trial: TrialResult) -> dict[str, Any]:
    return {
        "arm": trial.arm,
        "trial": trial.trial,
        "failure": trial.failure,
        "end_t": trial.end_t,
        "topics": trial.topics,
        "faults": trial.faults,
        "planned": trial.planned,
        "workloads": trial.workloads,
        "skipped_faults": trial.skipped_faults,
        "skipped_roles": trial.skipped_roles,
        "evidence": trial.evidence,
    }


def save_record(folder: Path, record: dict[str, Any], first: ClockTie, tie: ClockTie) -> None:
    record["clock"] = {
        "monotonic_minus_wall_ns": first.monotonic_minus_wall_ns,
        "error_ns": tie.error_ns,
    }
    replace_text(folder / "run.json", json.dumps(record, indent=2) + "\n")


def apart(tie: ClockTie, arms: Sequence[Arm]) -> ClockTie:
    """Brokers elsewhere have clocks of their own."""
    error_ns = max(limits_of(arm.sut).clock_error_ms for arm in arms) * 1_000_000
    return replace(tie, error_ns=tie.error_ns + error_ns)


def replace_text(path: Path, text: str) -> None:
    scratch = path.with_suffix(".tmp")
    scratch.write_text(text)
    scratch.replace(path)  # a reader (or a crash) sees the old or the new record, never half
