"""`pytest harness/`: every scenario is a test, every run ends in a verdict.

valid passes; invalid and unknown fail, each saying why and where the report is; a scenario that the
system under test cannot play is skipped with what it lacks. The exit code is the worst of all runs:
0 valid, 1 invalid, 2 unknown (also where all were skipped), 254 bad arguments (also where none was
chosen), 255 crash, in the order 1, 255, 2. What pytest itself cannot read ends with its own 4.

This module stays light (no Spark, no Arrow at import): pytest imports it before it knows whether
anything is to be run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness import interrupts
from harness.refusals import BAD_ARGUMENTS, is_refusal
from harness.runtime.protocol import SetupError
from harness.settings import PROFILES, Settings, SettingsError

if TYPE_CHECKING:
    from harness.run import Outcome

_OUTCOMES: Final = pytest.StashKey[list["Outcome"]]()
_CRASHES: Final = pytest.StashKey[list[str]]()
_SETTINGS: Final = pytest.StashKey[Settings]()
_STOPPED: Final = pytest.StashKey[str]()
_NOTHING: Final = pytest.StashKey[str]()
"""Why no scenario was played, where none was."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("biplane", "biplane: fault injection for a broker's control plane")
    profiles = "; ".join(f"{p.name}: {p.says}" for p in PROFILES.values() if p.name != "soak")
    group.addoption("--profile", default="smoke", help=f"how much: {profiles} (default: smoke)")
    group.addoption("--seed", default=None, help="repeat a run (default: drawn, printed)")
    group.addoption(
        "--planes", default=None, help="only these plane modes: single,dual,priority (default: all)"
    )
    group.addoption("--store", default="store", help="where runs are kept (default: store/)")
    group.addoption("--time-limit", default=None, help="chaos in each trial (8, 90s, 2m)")
    group.addoption("--rounds", default=None, help="how often each arm is run")
    group.addoption(
        "--runtime", default="process", help="where nodes live: process, docker (default: process)"
    )
    group.addoption(
        "--sut", default="dualplane", help="systems under test, by comma (default: dualplane)"
    )
    group.addoption(
        "--kafka-home", default=None, help="a Kafka distribution to be used, instead of make kafka"
    )
    group.addoption("--kafka-version", default=None, help="a release of Kafka, such as 2.8.1")
    group.addoption("--plan", default=None, help="play this plan.json instead of the scenario's")
    group.addoption(
        "--mutants", default="", help="planted bugs for the bundled server, to be found"
    )
    group.addoption(
        "--keep-data",
        action="store_true",
        help="keep a valid run's log directories too (a flood leaves about 1 GB)",
    )
    group.addoption(
        "--yes",
        action="store_true",
        help="yes to faults in clusters that run already (--sut=external:...)",
    )
    group.addoption(
        "--artifacts",
        default=None,
        help="a folder for what a CI keeps: reports, results, the table of runs and its page; of "
        "runs that were not valid their evidence too",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "default")  # a warning must not end a run
    config.stash[_OUTCOMES] = []
    config.stash[_CRASHES] = []
    interrupts.install()
    try:
        settings = config.stash[_SETTINGS] = _settings(config)
        _refuse_what_has_no_effect(config)
        if kafka_home := config.getoption("--kafka-home"):
            from harness.sut.registry import use_distribution

            use_distribution(Path(kafka_home), settings.suts)
    except (SettingsError, SetupError) as error:
        pytest.exit(f"biplane: {error}", returncode=BAD_ARGUMENTS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out scenarios that the profile does without, unless -k or an argument names them."""
    profile = config.stash[_SETTINGS].profile.name
    named = [config.getoption("keyword") or "", *(a.partition("::")[2] for a in config.args)]
    left_out = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        scenario = None if callspec is None else callspec.params.get("scenario")
        if scenario is None or profile in scenario.profiles:
            continue
        if not any(scenario.name in text for text in named):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _settings(config: pytest.Config) -> Settings:
    option = config.getoption
    if option("--profile") == "soak":
        raise SettingsError("--profile: 'soak'; allowed with `biplane run --profile=soak`")
    return Settings.of(
        profile=option("--profile"),
        seed=_integer(option("--seed"), "--seed"),
        store=config.invocation_params.dir / option("--store"),
        runtime=option("--runtime"),
        sut=option("--sut"),
        kafka_version=option("--kafka-version"),
        planes=option("--planes"),
        time_limit_s=_seconds(option("--time-limit")),
        rounds=_integer(option("--rounds"), "--rounds"),
        plan=option("--plan"),
        mutants=option("--mutants"),
        keep_data=option("--keep-data"),
        agreed=option("--yes"),
    )


def _integer(text: str | None, option: str) -> int | None:
    """Read here and not by argparse, whose refusals end with pytest's own 4."""
    try:
        return None if text is None else int(text)
    except ValueError:
        raise SettingsError(f"{option}: {text!r}; allowed: a whole number") from None


def _seconds(text: str | None) -> float | None:
    from harness.studies.ledger import seconds_of

    try:
        return None if text is None else seconds_of(text)
    except ValueError as error:
        raise SettingsError(f"--time-limit: {error}") from None


def _refuse_what_has_no_effect(config: pytest.Config) -> None:
    """Raises `SettingsError`."""
    if config.getoption("numprocesses", None):
        raise SettingsError("-n: allowed without: one cluster at a time, or each slows the others")
    if (artifacts := config.getoption("--artifacts")) is not None:
        from checkers.history.store import try_writing

        into = config.invocation_params.dir / artifacts
        try:
            into.mkdir(parents=True, exist_ok=True)
            try_writing(into)
        except OSError as error:
            why = f"{artifacts}: {error.strerror}"
            raise SettingsError(f"--artifacts: {why}; allowed: a folder to be written to") from None


def pytest_report_header(config: pytest.Config) -> str:
    return f"biplane: {_in_a_line(config.stash[_SETTINGS])}"


def _in_a_line(settings: Settings) -> str:
    return ", ".join(f"{name} {asked}" for name, asked in _asked(settings).items())


@pytest.fixture(scope="session", autouse=True)
def _what_was_asked(
    pytestconfig: pytest.Config, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Into JUnit's XML, where one is written."""
    for name, asked in _asked(pytestconfig.stash[_SETTINGS]).items():
        record_testsuite_property(name, asked)


def _asked(settings: Settings) -> dict[str, str]:
    return {
        "seed": str(settings.seed),
        "profile": settings.profile.name,
        "runtime": settings.runtime,
        "sut": ",".join(settings.suts),
        "store": str(settings.store),
    }


@pytest.fixture
def play(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[Any], None]:
    """Run one scenario with this session's settings, showing progress; fail by its verdict."""
    from harness.arms import Skipped
    from harness.progress import show_progress
    from harness.run import Stopped, run
    from harness.runs.ci import properties

    config = request.config
    settings = config.stash[_SETTINGS]
    capture = config.pluginmanager.getplugin("capturemanager")

    def play_scenario(scenario: Any) -> None:
        try:
            with capture.global_and_fixture_disabled(), show_progress(sys.stdout) as progress:
                outcome = run(scenario, settings, progress)
        except Skipped as why:
            pytest.skip(str(why))
        except Stopped as stopped:
            config.stash[_STOPPED] = str(stopped)
            raise
        except Exception as error:
            if is_refusal(error):
                pytest.exit(f"biplane: {error}", returncode=BAD_ARGUMENTS)
            config.stash[_CRASHES].append(f"{scenario.name}: {error!r}")
            record_property("verdict", "crash")
            raise
        config.stash[_OUTCOMES].append(outcome)
        for name, found in properties(outcome):
            record_property(name, found)
        if outcome.verdict != "valid":
            reasons = "\n".join(f"  - {reason}" for reason in outcome.reasons)
            report = outcome.folder / "report.html"
            pytest.fail(f"{outcome.verdict}:\n{reasons}\n  report: {report}", pytrace=False)

    return play_scenario


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Once all was played, its outcome is told, whatever comes."""
    done = yield
    interrupts.settle()
    return done


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    from checkers.judging.verdict import EXIT_CRASH, Verdict, worst_exit_code

    config = session.config
    outcomes, crashes = config.stash[_OUTCOMES], config.stash[_CRASHES]
    codes = [o.verdict.exit_code for o in outcomes] + [EXIT_CRASH for _ in crashes]
    if exitstatus == BAD_ARGUMENTS:
        return  # whatever came of those before
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        codes.append(Verdict.UNKNOWN.exit_code)  # what was not played is not known
    if codes:  # else collection errors, usage errors: pytest's own code says so
        session.exitstatus = worst_exit_code(codes)
    elif exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        from harness.scenarios import SCENARIOS

        config.stash[_NOTHING] = f"no scenario was chosen; allowed: {', '.join(SCENARIOS)}"
        session.exitstatus = BAD_ARGUMENTS
    elif exitstatus == pytest.ExitCode.OK and not config.option.collectonly:
        config.stash[_NOTHING] = "unknown: nothing was played"
        session.exitstatus = Verdict.UNKNOWN.exit_code


def pytest_unconfigure() -> None:
    """Returns when Spark's JVM is gone, too. What is to be told was told."""
    interrupts.settle()
    if "pyspark" in sys.modules:
        from checkers.spark import end

        end()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    outcomes, stopped = config.stash.get(_OUTCOMES, []), config.stash.get(_STOPPED, None)
    crashes = config.stash.get(_CRASHES, [])
    if not outcomes and not crashes and stopped is None:
        if nothing := config.stash.get(_NOTHING, None):
            terminalreporter.write_line(f"biplane: {nothing}")
        return
    from harness.report.terminal import summarise
    from harness.runs.ci import SUMMARY, append_summary, summary

    terminalreporter.section("biplane")
    for line in summarise(outcomes) if outcomes else ():
        terminalreporter.write_line(line)
    if stopped is not None:
        terminalreporter.write_line(stopped)
    told = _in_a_line(config.stash[_SETTINGS])
    append_summary(os.environ.get(SUMMARY), summary(outcomes, crashes, told))
    if config.getoption("--artifacts") is not None:
        terminalreporter.write_line(_collect(config, outcomes))


def _collect(config: pytest.Config, outcomes: list[Outcome]) -> str:
    """What was played keeps its verdict where nothing can be copied."""
    from harness.runs.ci import collect

    into = config.invocation_params.dir / config.getoption("--artifacts")
    try:
        return f"artefacts: {collect(outcomes, config.stash[_SETTINGS].store, into)}"
    except OSError as error:
        return f"no artefacts: {error}"
