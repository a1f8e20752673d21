"""What is compared in a run: its arms, what a system lacks for a scenario, and the plan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Final

from faults.plan import Plan, PlanError
from faults.protocol import Capability
from harness.runtime.protocol import Runtime
from harness.runtime.select import get_runtime
from harness.scenarios.base import Scenario
from harness.settings import Settings, SettingsError
from harness.sut.protocol import (
    HasOldReleases,
    HasPlantedBugs,
    KnowsConfigs,
    RunsAlready,
    SystemUnderTest,
    limits_of,
)
from harness.sut.registry import get as get_sut
from harness.trial_result import LAST_FAULT_S, Arm

_OF_FAULTS: Final = frozenset(
    {
        *(Capability.KILL, Capability.PAUSE, Capability.CONTROLLED_STOP),
        *(Capability.LINKS, Capability.LOG_FILES, Capability.ELECT_LEADERS),
    }
)
"""What scenarios need for the sake of their faults."""


class Skipped(Exception):
    """The scenario cannot be run on these systems; the message says what they lack."""


def arms_of(scenario: Scenario, settings: Settings) -> list[Arm]:
    """The arms to compare; raises `Skipped` with what is lacking when there is none."""
    return arms_and_lacking(scenario, settings)[0]


def arms_and_lacking(scenario: Scenario, settings: Settings) -> tuple[list[Arm], list[str]]:
    """As `arms_of`; and why what was asked for beside them is not among them."""
    lacking: list[str] = []
    absent: list[str] = []
    arms: list[Arm] = []
    runtime = get_runtime(settings.runtime)
    for name in settings.suts:
        sut = get_sut(name)
        if isinstance(sut, RunsAlready):
            sut.prepare(runtime.programs)  # who does not answer lacks nothing: nobody knows
        lacks = [f"{name} {lack}" for lack in lacks_of(scenario, settings, sut, runtime)]
        if lacks:
            lacking += lacks
            continue
        wanted = list(settings.planes or scenario.planes)
        if not scenario.other_planes:
            lacking += [f"{p} planes are not its own" for p in wanted if p not in scenario.planes]
            wanted = [p for p in wanted if p in scenario.planes]
        offered = [p for p in wanted if p in sut.plane_modes]
        absent += [f"{name} has no {p} planes" for p in wanted if p not in offered]
        _check_mutants(settings, sut)
        arms += [Arm(sut=sut, planes=planes) for planes in offered]
    if not arms:
        raise Skipped(f"{scenario.name}: {'; '.join([*lacking, *absent])}")
    _check_configs(settings, arms)
    for label, n in Counter(arm.label for arm in arms).items():
        if n > 1:
            raise SettingsError(
                f"--sut: {n} systems are called {label}; allowed: names of their own"
            )
    if settings.planes is not None:  # else nobody asked for those that a system does not have
        lacking += absent
    return arms, list(dict.fromkeys(lacking))


def lacks_of(
    scenario: Scenario, settings: Settings, sut: SystemUnderTest, runtime: Runtime
) -> Iterator[str]:
    """Wherein a system is too little for the scenario."""
    yield from _less(scenario, settings, sut)
    theirs = isinstance(sut, RunsAlready)  # a runtime can do nothing to what it did not start
    missing = scenario.needs - sut.capabilities - (frozenset() if theirs else runtime.capabilities)
    if isinstance(sut, RunsAlready):
        kept, skipped = sut.playable(plan_of(scenario, settings))
        if skipped and not kept.entries:
            reasons = {entry.fault: why for entry, why in skipped}
            says = "; ".join(f"{fault}: {why}" for fault, why in reasons.items())
            yield f"plays none of its faults ({says})"
            return
        # What faults lack costs those faults, and not the scenario.
        missing -= _OF_FAULTS | (scenario.needs if scenario.faults_may_collide else frozenset())
    if missing:
        yield f"lacks {', '.join(sorted(missing))}"


def _less(scenario: Scenario, settings: Settings, sut: SystemUnderTest) -> Iterator[str]:
    limits = limits_of(sut)
    if limits.nodes < scenario.nodes:
        yield f"has {limits.nodes} of the {scenario.nodes} brokers that it takes"
    if scenario.replicated and not limits.replicates:
        yield "does not say of replicas that they lie where they were asked for"
    if scenario.aims_at_controller and limits.state == "clients":
        yield "tells nobody for certain who its active controller is"
    if limits.runtime not in (None, settings.runtime):
        place = "on this host" if limits.runtime == "process" else "in containers"
        yield f"runs {place} alone (--runtime={limits.runtime})"


def settled_s(arms: list[Arm]) -> float:
    """What the slowest of the systems needs; 0 where none says."""
    return max(
        (arm.sut.settled_s for arm in arms if isinstance(arm.sut, HasOldReleases)), default=0.0
    )


def _check_mutants(settings: Settings, sut: SystemUnderTest) -> None:
    known = sut.planted_bugs if isinstance(sut, HasPlantedBugs) else frozenset()
    for name in settings.mutants:
        if name not in known:
            allowed = ", ".join(sorted(known)) or f"none: {sut.name} has no planted bugs"
            raise SettingsError(f"--mutants: {name!r}; allowed: {allowed}")


def _check_configs(settings: Settings, arms: list[Arm]) -> None:
    """What is asked for is not to be passed by in silence. What a scenario sets for itself and a
    system cannot be told is named in run.json."""
    for name in settings.overrides:
        if not any(_takes(arm.sut, name) for arm in arms):
            suts = ", ".join(dict.fromkeys(arm.sut.name for arm in arms))
            raise SettingsError(
                f"--config {name}: {suts} cannot be told it; allowed: what it knows"
            )


def _takes(sut: SystemUnderTest, config: str) -> bool:
    return limits_of(sut).takes_configs and (
        not isinstance(sut, KnowsConfigs) or config in sut.configs
    )


def interleaved(arms: list[Arm], rounds: int) -> Iterator[tuple[Arm, int]]:
    """Rounds outside, arms inside, the order turned each round: drift of the machine evens out."""
    for trial in range(rounds):
        for arm in arms if trial % 2 == 0 else reversed(arms):
            yield arm, trial


def _in_time(plan: Plan, settings: Settings) -> Plan:
    """Of its entries none is to be left out because the run is over by then."""
    most_s = settings.profile.chaos_s + LAST_FAULT_S
    for entry in plan.entries:
        if entry.at_ms + entry.duration_ms > 1000 * most_s:
            raise PlanError(
                f"it ends {(entry.at_ms + entry.duration_ms) / 1000:g} s after the beginning; "
                f"allowed: {most_s:g} s, or a longer --time-limit",
                entry=entry.id,
                field="duration_ms" if entry.duration_ms else "at_ms",
            ).within(file=str(settings.plan))
    return plan


def plan_of(scenario: Scenario, settings: Settings) -> Plan:
    """What a run with these settings plays."""
    if settings.plan is not None:
        return _in_time(Plan.load(settings.plan), settings)
    rng = random.Random(f"{settings.seed}:{scenario.name}")
    return scenario.plan(rng, settings.profile)
