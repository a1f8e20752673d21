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

import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError
from checkers.history.playing import playing
from checkers.judging.verdict import Verdict
from checkers.spark import SparkFailed, start_ahead
from faults.plan import Plan
from harness.arms import arms_and_lacking, interleaved, plan_of, settled_s
from harness.clock import tie_clocks, widen
from harness.disk import room
from harness.history import LiveTrial, finish
from harness.interrupts import check, interruptible, uninterrupted
from harness.live import unconfirmed, watched
from harness.progress import Shown, tolerant
from harness.run_record import apart, begun_record, replace_text, save_record, stored, trial_record
from harness.runs.index import INDEX_FILE, note
from harness.runs.rows import NotARun
from harness.runtime import tools
from harness.runtime.protocol import RuntimeFailed, SetupError
from harness.runtime.select import get_runtime
from harness.scenarios.base import Scenario, trial_folder
from harness.settings import Settings, SettingsError
from harness.sut.protocol import IsDescribed, RunsAlready
from harness.trial import TrialRunner
from harness.trial_result import Arm, TrialResult

NOT_AGREED: Final = (
    "it is somebody's cluster, and nobody agreed to faults there; allowed: yes to the question on "
    "a terminal, or --yes"
)
_BYTES_A_ROW: Final = 150
"""Of a live file, about."""
Progress = Callable[[str, str], None]
"""Called with (where: "request-flood dualplane-single 1/2", what: "chaos, 3 s left")."""


class Stopped(KeyboardInterrupt):
    """The run was interrupted; what it had recorded until then is kept in ``folder``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"stopped; what was recorded is kept in {folder}")
        self.folder = folder


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
    return conclude(record_run(scenario, settings, shown, on_stopping=_start_spark), shown)


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
    arms, left_out = arms_and_lacking(scenario, settings)
    for why in left_out:
        progress.say(f"{scenario.name}: left out: {why}")
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
        if folder.is_dir() and isinstance(error, FileExistsError):
            raise SettingsError(
                f"{folder}: another run with --seed {settings.seed} began there in this second; "
                "allowed: a moment later, another --seed, or another --store"
            ) from None
        raise SettingsError(
            f"--store: {error.filename or folder}: {error.strerror}; "
            "allowed: a folder that can be written to, such as --store /tmp/biplane"
        ) from None
    record = begun_record(scenario, settings, arms, plan, programs, run_id)
    record["left_out"] = left_out
    with _room_for(folder, then=f"biplane history finish {folder}"), playing(folder):
        trials = _record(scenario, settings, arms, plan, record, folder, progress, on_stopping)
    return Recorded(
        scenario=scenario.name,
        folder=folder,
        log_dirs=[path for trial in trials for path in trial.log_dirs],
        keep_data=settings.keep_data,
        seconds=time.monotonic() - begun,
    )


def _record(
    scenario: Scenario,
    settings: Settings,
    arms: list[Arm],
    plan: Plan,
    record: dict[str, Any],
    folder: Path,
    progress: Shown,
    on_stopping: Callable[[Path], None] | None,
) -> list[TrialResult]:
    """Play, and make a history of what was recorded; `Stopped` where that was cut short.
    ``record``: what run.json says so far."""
    first_tie = tie_clocks()
    save_record(folder, record, first_tie, apart(first_tie, arms))

    trials: list[TrialResult] = []
    try:
        with uninterrupted():
            try:
                with interruptible(), _watched(settings, folder, progress):
                    _play(trials, scenario, settings, arms, plan, folder, progress, on_stopping)
            except KeyboardInterrupt:
                record["interrupted"] = True
            # Whatever ended it: what was recorded becomes a history.
            tie = apart(widen(first_tie, tie_clocks()), arms)
            record["trials"] = [trial_record(t) for t in trials]
            save_record(folder, record, first_tie, tie)
            progress(scenario.name, "finishing the history")
            record["history"] = _finish(folder, trials)
            save_record(folder, record, first_tie, tie)
        check()
    except KeyboardInterrupt:
        raise Stopped(folder) from None
    if "interrupted" in record:
        raise Stopped(folder)
    return trials


@contextmanager
def _room_for(folder: Path, *, then: str) -> Iterator[None]:
    """A disk that is full is the user's to mend; ``then`` goes on from what is on it."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise SetupError(
            f"{folder}: {error.strerror}; what was recorded is kept: free some, then {then}"
        ) from None


def _watched(settings: Settings, folder: Path, shown: Shown) -> AbstractContextManager[None]:
    return watched(folder, shown) if settings.live else nullcontext()


def _start_spark(folder: Path) -> None:
    """What judges takes seconds to start: it does so while nodes are stopped, when no load is left
    that it could disturb, and while the history is finished."""
    live = sum(path.stat().st_size for path in folder.glob("trials/*/live/*.jsonl"))
    start_ahead(rows=live // _BYTES_A_ROW)


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
        with _room_for(folder, then=f"biplane check {folder}"):
            progress(name, "checking")
            results = judge(folder)
            for line in unconfirmed(folder, results):
                progress.say(line)
            progress(name, "writing the report")
            write_report(folder)
        with uninterrupted():  # a run is in the table or not; its log directories there or not
            _note(recorded, progress)
            outcome = outcome_of(recorded, results, time.monotonic() - begun)
            if outcome.verdict is Verdict.VALID and not recorded.keep_data:
                progress(name, "removing log directories")
                remove_log_dirs(recorded)
    except KeyboardInterrupt:
        raise Stopped(folder) from None
    except Exception:
        try:
            check()  # a signal to the whole group (`timeout`) ends the JVM as well, maybe sooner
        except KeyboardInterrupt:
            raise Stopped(folder) from None
        raise
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
    replace_text(path, json.dumps(record, indent=2) + "\n")


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
