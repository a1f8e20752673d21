"""The command line: `biplane run | check | report | scenarios | guarantees | mutants | ...`.

Thin over `harness.run` and `checkers.check`; heavy imports happen inside the commands, so that
`--help` answers at once. Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 a crash
of biplane itself.
"""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

if not __package__:  # run as a file: what lies beside it is no module of its own
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from harness import cli_adapters, cli_bugs, cli_history, cli_runs, cli_studies, interrupts
from harness.cli_options import (
    MUTANT_NAMES,
    PLANE_NAMES,
    PROFILE_NAMES,
    SCENARIO_NAMES,
    SYSTEM_NAMES,
    Run,
    WrittenRun,
    out_file,
    pairs,
    room,
    seconds,
)
from harness.cli_options import scenarios as known
from harness.refusals import BAD_ARGUMENTS, is_refusal, nothing_to_play

CRASH: Final = 255
_STOPPED: Final = "biplane: stopped; what was recorded is kept"
_INTERRUPTED: Final = 130  # what typer makes of Ctrl-C
_UsageError: Any = typer.BadParameter.__base__  # typer carries a click of its own

app = typer.Typer(
    name="biplane",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # a paragraph's lines are one, whatever the width
    help="""Fault injection for the separation of a broker's control plane from its data plane.

    A run plays one scenario on real clusters (one per arm, for example single and dual planes),
    writes down everything that happened, and judges it in Spark. Everything is kept in
    `store/<scenario>/<run id>/`: open report.html there.

    Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 a crash of biplane itself.
    """,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"biplane {metadata.version('biplane')}")
        raise typer.Exit(0)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which one this is"),
    ] = False,
) -> None:
    """What comes before a command."""


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Scenarios (default: the profile's); see `biplane scenarios`",
            autocompletion=SCENARIO_NAMES,
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(help="smoke, ci, nightly or soak", autocompletion=PROFILE_NAMES)
    ] = "smoke",
    seed: Annotated[int | None, typer.Option(help="Repeat a run (default: drawn, printed)")] = None,
    planes: Annotated[
        str | None, typer.Option(help="single,dual,priority", autocompletion=PLANE_NAMES)
    ] = None,
    store: Annotated[Path, typer.Option(help="Where runs are kept")] = Path("store"),
    time_limit: Annotated[
        str | None,
        typer.Option(help="Chaos a trial (8, 90s, 2m); of a soak the whole of it (6h; default 1h)"),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="How often each arm is run; of a soak: at most so often")
    ] = None,
    runtime: Annotated[str, typer.Option(help="Where nodes live: process or docker")] = "process",
    sut: Annotated[
        str,
        typer.Option(
            help="Systems under test, by comma: bundled ones, file:FILE, external:FILE",
            autocompletion=SYSTEM_NAMES,
        ),
    ] = "dualplane",
    kafka_version: Annotated[
        str | None, typer.Option(help="A release of Kafka, such as 2.8.1 (see make kafka)")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Play this plan.json")] = None,
    mutants: Annotated[
        str,
        typer.Option(help="Planted bugs for the bundled server", autocompletion=MUTANT_NAMES),
    ] = "",
    kafka_home: Annotated[Path | None, typer.Option(help="A Kafka distribution to use")] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="A broker config, name=value; repeatable")
    ] = None,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep a valid run's log directories too")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Yes to faults in clusters that run already, unasked")
    ] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="A soak goes on after an invalid round")
    ] = False,
    keep_rounds: Annotated[
        int | None, typer.Option(help="Of a soak's valid rounds so many keep their history (3)")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Say what is certain while it goes on, in seconds")
    ] = False,
) -> None:
    """Play scenarios and judge them; with --profile=soak round after round, with new seeds."""
    from checkers.judging.verdict import worst_exit_code
    from harness.arms import Skipped
    from harness.consent import with_consent
    from harness.progress import show_progress
    from harness.report.terminal import summarise
    from harness.run import Stopped
    from harness.run import run as play
    from harness.scenarios import SCENARIOS
    from harness.settings import Settings
    from harness.sut.registry import use_distribution

    soaks, limit_s = profile == "soak", seconds(time_limit, "--time-limit")
    if not soaks and (keep_going or keep_rounds is not None):
        raise typer.BadParameter("--keep-going, --keep-rounds: allowed with --profile=soak")
    settings = Settings.of(
        profile=profile,
        seed=seed,
        planes=planes,
        store=store,
        time_limit_s=None if soaks else limit_s,
        rounds=None if soaks else rounds,
        runtime=runtime,
        sut=sut,
        kafka_version=kafka_version,
        plan=plan,
        mutants=mutants,
        overrides=pairs(config or [], "--config"),
        keep_data=keep_data,
        agreed=yes,
        live=live,
    )
    if kafka_home is not None:
        use_distribution(kafka_home, settings.suts)
    names = known(names) or [n for n, s in SCENARIOS.items() if profile in s.profiles]
    settings = with_consent(settings, [SCENARIOS[name] for name in names])
    typer.echo(f"seed {settings.seed}, profile {settings.profile.name}, store {settings.store}")
    if soaks:
        wish = {"limit_s": limit_s, "most_rounds": rounds, "keep": keep_rounds}
        given = {name: value for name, value in wish.items() if value is not None}
        raise typer.Exit(_soak(names, settings, {**given, "keep_going": keep_going}))
    outcomes = []
    with show_progress(sys.stdout) as progress:
        for name in names:
            try:
                outcomes.append(play(SCENARIOS[name], settings, progress))
            except Skipped as why:
                progress.say(f"skipped {why}")
            except Stopped as stopped:
                progress.say(f"kept: {stopped.folder}")
                raise
    for line in summarise(outcomes):
        typer.echo(line)
    raise typer.Exit(worst_exit_code(o.verdict.exit_code for o in outcomes))


def _soak(names: list[str], settings: Any, wish: dict[str, Any]) -> int:
    """A soak's exit code; what it tells is told."""
    from harness.progress import show_progress
    from harness.scenarios import SCENARIOS
    from harness.soak.rounds import Soak, Wish
    from harness.soak.words import summary

    with show_progress(sys.stdout) as shown:
        one = Soak([SCENARIOS[n] for n in names], settings, Wish(**wish), shown)
        account = one.run()
    for line in summary(account, one.folder):
        typer.echo(line)
    return account.exit_code


@app.command()
def report(
    folder: WrittenRun,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="With the script inside (5 MB): to be mailed")
    ] = False,
) -> None:
    """Write a run's report.html (again) from its results.json."""
    from checkers.history import HistoryError
    from harness.report import write

    if not (folder / "run.json").is_file():
        raise HistoryError(f"{folder}: it has no run.json; allowed: a run's folder")
    typer.echo(str(write(folder, standalone=standalone)))


@app.command()
def compare(
    sut: Annotated[
        str | None, typer.Option(help="Systems under test, by comma (default: dualplane)")
    ] = None,
    planes: Annotated[
        str | None, typer.Option(help="Plane modes, by comma (default: single,dual)")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(help="Repeatable (default: the two that have a flood)")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="smoke, ci or nightly")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds to add; 0 writes the page again", min=0)] = 3,
    idle: Annotated[
        int, typer.Option(help="Rounds to add without the flood: the idle floor", min=0)
    ] = 0,
    seed: Annotated[int | None, typer.Option(help="Of the first round")] = None,
    time_limit: Annotated[str | None, typer.Option(help="Chaos a trial (12, 90s, 2m)")] = None,
    runtime: Annotated[str, typer.Option(help="Where nodes live: process or docker")] = "process",
    store: Annotated[Path, room("Where comparisons are kept")] = Path("store"),
    into: Annotated[Path | None, room("Continue this comparison's folder")] = None,
    out: Annotated[Path | None, out_file("Write the page here too, to stand alone")] = None,
    kafka_home: Annotated[Path | None, typer.Option(help="A Kafka distribution to use")] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="A broker config, name=value; repeatable")
    ] = None,
) -> None:
    """Play the same scenarios in several arms, in turn, and lay the figures side by side."""
    import time

    from checkers.judging.verdict import worst_exit_code
    from harness.studies.compare import play_comparison
    from harness.sut.registry import use_distribution

    if kafka_home is not None:
        use_distribution(kafka_home, [name.strip() for name in (sut or "dualplane").split(",")])
    folder = into or store / "compare" / time.strftime("%Y%m%dT%H%M%S")
    outcomes, page = play_comparison(
        folder,
        sut=sut,
        planes=planes,
        scenarios=scenario,
        profile=profile,
        rounds=rounds,
        idle_rounds=idle,
        seed=seed,
        time_limit_s=seconds(time_limit, "--time-limit"),
        runtime=runtime,
        overrides=pairs(config or [], "--config"),
        out=out,
    )
    typer.echo(page.read_text())
    typer.echo(f"page: {page}")
    raise typer.Exit(worst_exit_code(o.verdict.exit_code for o in outcomes))


@app.command()
def differences(
    store: Annotated[Path, typer.Argument(help="Where runs of two systems lie")],
    notes: Annotated[Path, typer.Option(help="What explains differences, as TOML")] = Path(
        "docs/kafka-differences.toml"
    ),
    out: Annotated[Path, out_file("The page")] = Path("docs/kafka-differences.md"),
) -> None:
    """Lay two systems side by side, scenario by scenario, and explain where they differ."""
    from harness.studies.compare.differences import load_notes, write_differences

    typer.echo(str(write_differences(store, load_notes(notes), out)))


@app.command()
def scenarios() -> None:
    """List the scenarios and what each conjectures."""
    from harness.scenarios import SCENARIOS

    for scenario in SCENARIOS.values():
        played = f"{', '.join(scenario.planes)}; {', '.join(scenario.profiles)}"
        typer.echo(f"{scenario.name} ({played})\n    {scenario.conjecture}")


@app.command()
def plan(
    name: Annotated[
        str,
        typer.Argument(
            help="A scenario, or a plan.json to be checked", autocompletion=SCENARIO_NAMES
        ),
    ],
    seed: Annotated[int, typer.Option(help="What the plan is drawn from")] = 0,
    profile: Annotated[str, typer.Option(help="smoke, ci or nightly")] = "smoke",
) -> None:
    """Print the plan that a scenario draws from a seed, or check a plan file."""
    import json
    import random

    from faults.plan import Plan
    from harness.scenarios import SCENARIOS
    from harness.settings import Settings

    settings = Settings.of(profile=profile, seed=seed)
    if name in SCENARIOS:
        rng = random.Random(f"{seed}:{name}")
        drawn = SCENARIOS[name].plan(rng, settings.profile)
    else:
        drawn = Plan.load(Path(name))
    typer.echo(json.dumps(drawn.to_dict(), indent=2))


@app.command()
def offsets(folder: Run) -> None:
    """When each fault of a run's plan began, system by system; exit code 1 when one was off."""
    from harness.studies.offsets import read_offsets, table

    found = read_offsets(folder)
    for line in table(found):
        typer.echo(line)
    different = found.differences()
    for line in different:
        typer.echo(f"off plan: {line}")
    raise typer.Exit(1 if different else 0)


@app.command()
def clean() -> None:
    """End what earlier runs left behind (by recorded ids, never by name), and restore clusters that
    are not ours."""
    from itertools import chain

    from harness.runtime.select import clean as clean_up
    from harness.sut.external.leaving import pay
    from harness.sut.external.owed import owed_dir

    nothing = True
    for line in chain(clean_up(), pay(owed_dir())):
        nothing = False
        typer.echo(line)
    if nothing:
        typer.echo("nothing was left behind")


# In the order of `--help`: after what is asked for first, which stands above.
cli_history.register(app)
cli_runs.register(app)
cli_adapters.register(app)
cli_studies.register(app)
cli_bugs.register(app)


def main() -> None:
    """The console script. Returns when all that it started is gone, Spark's JVM too."""
    code = interrupts.in_order(command)
    if "pyspark" in sys.modules:
        from checkers.spark import end

        end()
    sys.exit(code)


def command() -> int:
    """One command, as `sys.argv` has it. Maps every way to end onto the module's exit codes."""
    try:
        code = app(standalone_mode=False)
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
    except typer.Exit as done:
        return int(done.exit_code)
    except _UsageError as error:
        error.show()
        return BAD_ARGUMENTS
    except (KeyboardInterrupt, typer.Abort):
        print(_STOPPED, file=sys.stderr)
        return 2
    except Exception as error:
        if interrupts.pending():  # the terminal has gone, or a JVM that had the signal, too
            with suppress(OSError):
                print(_STOPPED, file=sys.stderr)
            return 2
        if is_refusal(error):
            print(f"biplane: {error}", file=sys.stderr)
            return BAD_ARGUMENTS
        if nothing_to_play(error):
            print(f"biplane: skipped {error}", file=sys.stderr)
            return 2
        traceback.print_exc()
        return CRASH
    return code if isinstance(code, int) else 0


if __name__ == "__main__":  # `python -m harness.cli` and `spark-submit harness/cli.py`
    main()
