"""One run of one scenario: every arm, every round, then the verdict.

    store/<scenario>/<run id>/
        run.json       what was asked, of which versions, how the clocks are tied (written first)
        plan.json      what was to go wrong, replayable with --plan
        <system>.yaml  the description that a system comes from, if it does
        trials/...     live files, node folders and logs of each (arm, trial)
        history/       f=<kind>/*.parquet: the evidence, before it is judged
        results.json   the verdict, with witnesses and figures
        report.html    the same for people

The CLI and the pytest plugin are both thin over `run`. The order of the steps is the safety:
evidence is on disk before a checker starts, and a checker that crashes makes the run `unknown`.
"""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from checkers.history import VERSION, HistoryError
from checkers.judging.verdict import Verdict
from checkers.spark import SMALL_ROWS, SparkFailed, start_ahead
from faults.plan import Plan
from faults.protocol import Capability
from harness.clock import tie_clocks, widen
from harness.disk import room
from harness.history import FinishReport, LiveTrial, finish
from harness.interrupts import check, interruptible, uninterrupted
from harness.live import unconfirmed, watched
from harness.progress import Shown, tolerant
from harness.runs.index import INDEX_FILE, note
from harness.runs.machine import machine_facts
from harness.runs.rows import NotARun
from harness.runtime import tools
from harness.runtime.protocol import Programs, Runtime, RuntimeFailed
from harness.runtime.select import get_runtime
from harness.scenarios.base import (
    EVERYWHERE,
    Scenario,
    checks_for,
    trial_folder,
    unheard,
    unjudged,
)
from harness.settings import Settings, SettingsError
from harness.sut.protocol import (
    ClockTie,
    HasOldReleases,
    HasPlantedBugs,
    IsDescribed,
    RunsAlready,
    SystemUnderTest,
    limits_of,
)
from harness.sut.registry import get as get_sut
from harness.trial import TrialRunner
from harness.trial_result import Arm, TrialResult

NOT_AGREED: Final = (
    "it is somebody's cluster, and nobody agreed to faults there; allowed: yes to the question on "
    "a terminal, or --yes"
)
_OF_FAULTS: Final = frozenset(
    {
        *(Capability.KILL, Capability.PAUSE, Capability.CONTROLLED_STOP),
        *(Capability.LINKS, Capability.LOG_FILES, Capability.ELECT_LEADERS),
    }
)
"""What scenarios need for the sake of their faults."""
_BYTES_A_ROW: Final = 150
"""Of a live file, about."""
Progress = Callable[[str, str], None]
"""Called with (where: "request-flood dualplane-single 1/2", what: "chaos, 3 s left")."""


class Stopped(KeyboardInterrupt):
    """The run was interrupted; what it had recorded until then is kept in ``folder``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"stopped; what was recorded is kept in {folder}")
        self.folder = folder


class Skipped(Exception):
    """The scenario cannot be run on these systems; the message says what they lack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run."""

    scenario: str
    verdict: Verdict
    reasons: list[str]
    folder: Path
    results: dict[str, Any]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run whose evidence is on disk, not judged yet."""

    scenario: str
    folder: Path
    log_dirs: Sequence[Path]
    keep_data: bool
    seconds: float


def run(scenario: Scenario, settings: Settings, progress: Progress) -> Outcome:
    """Run, finish, check, report. Raises `Skipped`, SetupError and bad-argument errors only."""
    shown = tolerant(progress)
    outcome = conclude(record_run(scenario, settings, shown, on_stopping=_start_spark), shown)
    for line in unconfirmed(outcome.folder, outcome.results) if settings.live else ():
        shown.say(line)
    return outcome


def record_run(
    scenario: Scenario,
    settings: Settings,
    progress: Progress,
    *,
    on_stopping: Callable[[Path], None] | None = None,
) -> Recorded:
    """Play every trial and finish the history; raises as `run` does. ``on_stopping`` is called when
    all that is left of the last trial is to stop its nodes, with the run's folder."""
    begun, progress = time.monotonic(), tolerant(progress)
    tools.find_java()  # wherever nodes live, Spark needs one here: not to be found out at the end
    arms = arms_of(scenario, settings)
    programs = get_runtime(settings.runtime).programs
    for arm in arms:
        arm.sut.prepare(programs)  # what is missing is said before anything is made
        if isinstance(arm.sut, RunsAlready) and not settings.agreed:
            raise SettingsError(f"{arm.sut.file}: {NOT_AGREED}")
    if settings.runtime == "process":  # others are costly to prepare, and say what they lack above
        with _runtime(settings, ""):
            pass
    settings = replace(settings, profile=settings.profile.patient(settled_s(arms)))
    plan = plan_of(scenario, settings)
    run_id = f"{time.strftime('%Y%m%dT%H%M%S')}-{settings.seed}"
    folder = (settings.store / scenario.name / run_id).absolute()
    try:
        progress(scenario.name, room(folder, plan, len(arms) * settings.profile.rounds))
        folder.mkdir(parents=True)
        plan.save(folder / "plan.json")
        for sut in (arm.sut for arm in arms if isinstance(arm.sut, IsDescribed)):
            (folder / f"{sut.name}.yaml").write_text(sut.description)
    except OSError as error:
        raise SettingsError(
            f"--store: {error.filename or folder}: {error.strerror}; "
            "allowed: a folder that can be written to, such as --store /tmp/biplane"
        ) from None
    record = _run_record(scenario, settings, arms, plan, programs, run_id)
    first_tie = tie_clocks()
    _save_record(folder, record, first_tie, _apart(first_tie, arms))

    trials: list[TrialResult] = []
    try:
        with uninterrupted():
            try:
                with interruptible(), _watched(settings, folder, progress):
                    _play(trials, scenario, settings, arms, plan, folder, progress, on_stopping)
            except KeyboardInterrupt:
                record["interrupted"] = True
            # Whatever ended it: what was recorded becomes a history.
            tie = _apart(widen(first_tie, tie_clocks()), arms)
            record["trials"] = [_trial_record(t) for t in trials]
            _save_record(folder, record, first_tie, tie)
            progress(scenario.name, "finishing the history")
            record["history"] = _finish(folder, trials)
            _save_record(folder, record, first_tie, tie)
        check()
    except KeyboardInterrupt:
        raise Stopped(folder) from None
    if "interrupted" in record:
        raise Stopped(folder)
    return Recorded(
        scenario=scenario.name,
        folder=folder,
        log_dirs=[path for trial in trials for path in trial.log_dirs],
        keep_data=settings.keep_data,
        seconds=time.monotonic() - begun,
    )


def _watched(settings: Settings, folder: Path, shown: Shown) -> AbstractContextManager[None]:
    return watched(folder, shown) if settings.live else nullcontext()


def _start_spark(folder: Path) -> None:
    """What judges takes seconds to start: it does so while nodes are stopped, when no load is left
    that it could disturb, and while the history is finished."""
    live = sum(path.stat().st_size for path in folder.glob("trials/*/live/*.jsonl"))
    start_ahead(small=live <= SMALL_ROWS * _BYTES_A_ROW)


def _play(
    trials: list[TrialResult],
    scenario: Scenario,
    settings: Settings,
    arms: list[Arm],
    plan: Plan,
    folder: Path,
    progress: Progress,
    on_stopping: Callable[[Path], None] | None,
) -> None:
    """Every trial in turn; each one's result is among ``trials`` from its beginning on."""
    number = len(arms) * settings.profile.rounds
    last = None if on_stopping is None else partial(on_stopping, folder)
    for index, (arm, trial) in enumerate(interleaved(arms, settings.profile.rounds)):
        where = f"{scenario.name} {arm.label} {index + 1}/{number}"
        trial_home = trial_folder(folder, arm.label, trial)
        with ExitStack() as stack:
            try:
                runtime = stack.enter_context(_runtime(settings, folder.name))
            except RuntimeFailed as error:  # an engine that died since the last trial
                if not trials:
                    raise
                why = f"{type(error).__name__}: {error}"
                trials.append(TrialResult(arm.label, trial, trial_home, failure=why))
                break
            runner = TrialRunner(
                scenario,
                arm,
                trial,
                plan=plan,
                settings=settings,
                runtime=runtime,
                folder=trial_home,
                progress=lambda what, where=where: progress(where, what),  # type: ignore[misc]
                on_stopping=last if index + 1 == number else None,
            )
            trials.append(runner.result)
            runner.run()
        check()
        if runner.refusal is not None and len(trials) == 1:
            raise runner.refusal  # nothing has happened yet: that is no finding


def conclude(recorded: Recorded, progress: Progress) -> Outcome:
    """Check and report what was recorded; the log directories of a valid run go."""
    begun, progress = time.monotonic(), tolerant(progress)
    name, folder = recorded.scenario, recorded.folder
    try:
        progress(name, "checking in Spark")
        results = judge(folder)
        progress(name, "writing the report")
        write_report(folder)
    except KeyboardInterrupt:
        raise Stopped(folder) from None
    _note(recorded, progress)
    outcome = outcome_of(recorded, results, time.monotonic() - begun)
    if outcome.verdict is Verdict.VALID and not recorded.keep_data:
        progress(name, "removing log directories")
        remove_log_dirs(recorded)
    return outcome


def _note(recorded: Recorded, progress: Progress) -> None:
    """The store's table of runs has it too; a verdict stands without."""
    store = recorded.folder.parent.parent
    try:
        note(store, recorded.folder)
    except (NotARun, HistoryError, OSError) as error:
        progress(recorded.scenario, f"not in {INDEX_FILE} ({error}): biplane index {store}")


def outcome_of(recorded: Recorded, results: dict[str, Any], judged_s: float) -> Outcome:
    """``judged_s``: how long it took to judge what was recorded."""
    return Outcome(
        scenario=recorded.scenario,
        verdict=Verdict(results["verdict"]),
        reasons=results["reasons"],
        folder=recorded.folder,
        results=results,
        seconds=recorded.seconds + judged_s,
    )


def remove_log_dirs(recorded: Recorded) -> None:
    """A flood leaves about a gigabyte in them. Nobody asks them again: every replica's log was read
    into the history before the end."""
    for path in recorded.log_dirs:
        shutil.rmtree(path, ignore_errors=True)
    path = recorded.folder / "run.json"
    record = {**json.loads(path.read_text()), "log_dirs_removed": True}
    _replace(path, json.dumps(record, indent=2) + "\n")


def judge(folder: Path) -> dict[str, Any]:
    """Check a stored run (again) and write its results.json. Heavy imports happen here."""
    from checkers.check import check_run

    try:
        return check_run(folder)
    except SparkFailed as error:
        why = f"{error}; what was recorded is kept, judge it then: biplane check {folder}"
        raise SparkFailed(why) from None


def write_report(folder: Path) -> Path:
    """Write a stored run's report.html (again)."""
    from harness.report import write

    return write(folder)


def arms_of(scenario: Scenario, settings: Settings) -> list[Arm]:
    """The arms to compare; raises `Skipped` with what is lacking when there is none."""
    lacking: list[str] = []
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
        for planes in wanted:
            if planes not in sut.plane_modes:
                lacking.append(f"{name} has no {planes} planes")
        _check_mutants(settings, sut)
        arms += [Arm(sut=sut, planes=planes) for planes in offered]
    if not arms:
        raise Skipped(f"{scenario.name}: {'; '.join(lacking)}")
    return arms


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
    if limits.host_only and settings.runtime != "process":
        yield "runs on this host alone (--runtime=process)"


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


def interleaved(arms: list[Arm], rounds: int) -> Iterator[tuple[Arm, int]]:
    """Rounds outside, arms inside, the order turned each round: drift of the machine evens out."""
    for trial in range(rounds):
        for arm in arms if trial % 2 == 0 else reversed(arms):
            yield arm, trial


def plan_of(scenario: Scenario, settings: Settings) -> Plan:
    """What a run with these settings plays."""
    if settings.plan is not None:
        return Plan.load(settings.plan)
    rng = random.Random(f"{settings.seed}:{scenario.name}")
    return scenario.plan(rng, settings.profile)


@contextmanager
def _runtime(settings: Settings, run_id: str) -> Iterator[Any]:
    runtime = get_runtime(settings.runtime, run_id)
    with uninterrupted():
        try:
            with interruptible():
                runtime.prepare()
                yield runtime
        finally:
            runtime.close()


def _finish(folder: Path, trials: list[TrialResult]) -> dict[str, Any]:
    now = time.monotonic_ns()
    live = [LiveTrial(t.folder / "live", t.arm, t.trial, t.end_t or now) for t in trials]
    return stored(finish(folder / "history", live))


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


def _run_record(
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
                "checks": _asked(checks, [(arm.sut, silent(arm.sut))]),
                "leaders": limits_of(arm.sut).leaders,
                "not_judged": _not_judged(scenario, settings, arm.sut, plan),
                "traces": sorted(arm.sut.traces),
            }
            for arm in arms
        },
        "expectations": {
            "checks": _asked(checks, [(arm.sut, silent(arm.sut)) for arm in arms]),
            "leader_changes_planned": scenario.leader_changes,
            "settling_ms": settings.profile.settling_ms,
            "faults": sorted({entry.fault for entry in plan.entries}),
            "faults_may_collide": scenario.faults_may_collide,
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


def _unheard(
    scenario: Scenario, settings: Settings, plan: Plan, sut: SystemUnderTest
) -> dict[str, str]:
    return unheard(scenario, plan, sut, settings.profile)


def _asked(
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


def _not_judged(
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


def _trial_record(trial: TrialResult) -> dict[str, Any]:
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


def _save_record(folder: Path, record: dict[str, Any], first: ClockTie, tie: ClockTie) -> None:
    record["clock"] = {
        "monotonic_minus_wall_ns": first.monotonic_minus_wall_ns,
        "error_ns": tie.error_ns,
    }
    _replace(folder / "run.json", json.dumps(record, indent=2) + "\n")


def _apart(tie: ClockTie, arms: Sequence[Arm]) -> ClockTie:
    """Brokers elsewhere have clocks of their own."""
    error_ns = max(limits_of(arm.sut).clock_error_ms for arm in arms) * 1_000_000
    return replace(tie, error_ns=tie.error_ns + error_ns)


def _replace(path: Path, text: str) -> None:
    scratch = path.with_suffix(".tmp")
    scratch.write_text(text)
    scratch.replace(path)  # a reader (or a crash) sees the old or the new record, never half
