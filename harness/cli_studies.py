"""The commands that play many runs and write a page: `biplane trust`, `releases` and their like.

Part of `harness.cli`, which has the others; thin over `harness.studies`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import cli_options
from harness.cli_options import MUTANT_NAMES, Store, out_file

Profile = Annotated[str, typer.Option(help="smoke, ci or nightly")]
Names = Annotated[list[str] | None, typer.Option("--scenario", help="Repeatable (default: all)")]
Limit = Annotated[str | None, typer.Option(help="Chaos a trial (8, 90s, 2m)")]
Later = Annotated[
    bool, typer.Option("--later", help="Play only; the same command without it judges what waits")
]
Until = Annotated[
    str, typer.Option("--budget", help="No run is begun after it; 0: judge what waits, play none")
]


def register(app: typer.Typer) -> None:
    for command in (guarantees, mutants, mutate, sensitivity, trust, releases):
        app.command()(command)


def guarantees(
    out: Annotated[Path | None, out_file("Write the page here (default: print)")] = None,
) -> None:
    """Every promise that the checkers hold a system to: rules, evidence, blind spots."""
    from harness.studies.guarantees import page, write

    typer.echo(page() if out is None else str(write(out)))


def mutants(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Planted bugs (default: all); see nodes/mutants", autocompletion=MUTANT_NAMES
        ),
    ] = None,
    profile: Profile = "smoke",
    seed: Annotated[int | None, typer.Option(help="Of all runs (default: drawn, printed)")] = None,
    planes: Annotated[str, typer.Option(help="single,dual,priority")] = "dual",
    store: Store = Path("store"),
    generate: Annotated[
        int | None,
        typer.Option(help="Instead: as many drawn from the source, see `biplane mutate`", min=1),
    ] = None,
) -> None:
    """Play each planted bug's scenario with and without it: each must be found, nothing else."""
    from harness.progress import show_progress
    from harness.settings import Settings
    from harness.studies import mutants as planted

    if generate is not None:
        if names or planes != "dual":
            raise typer.BadParameter("--generate: allowed without names and --planes")
        mutate(generate, seed=1 if seed is None else seed, profile=profile, store=store)
    found = []
    chosen = planted.chosen(names or [])
    seed = Settings.of(profile=profile, seed=seed, planes=planes).seed
    typer.echo(f"seed {seed}, profile {profile}, store {store}")
    with show_progress(sys.stdout) as progress:
        play = planted.player(progress, profile=profile, seed=seed, planes=planes, store=store)
        for one in planted.hunt(chosen, play):
            found.append(one)
            progress(one.mutant.name, "found" if one.found else "NOT FOUND")
    for line in planted.table(found):
        typer.echo(line)
    raise typer.Exit(planted.exit_code(found))


def mutate(
    count: Annotated[int, typer.Argument(help="How many mutants to draw", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="What they are drawn by")] = 1,
    seeds: Annotated[int, typer.Option(help="With how many each scenario is tried", min=1)] = 3,
    tries: Annotated[int, typer.Option(help="At most so many runs of a mutant", min=1)] = 1000,
    scenario: Names = None,
    profile: Profile = "ci",
    time_limit: Limit = None,
    budget: Until = "2h",
    later: Later = False,
    unit: Annotated[bool, typer.Option("--unit", help="Ask the room's unit tests as well")] = False,
    store: Store = Path("store"),
    reasons: Annotated[Path, typer.Option(help="Why nobody could notice some, by name")] = Path(
        "docs/mutants.toml"
    ),
    out: Annotated[Path | None, out_file("Write the page here, too")] = None,
) -> None:
    """Draw bugs by seed from the broker's own source: which scenario and rule finds each?

    First each scenario is played once with every place of the source watched, to learn where a
    change could make a difference. What was played is kept in the store: the same command goes on
    where it stopped. Exit code 1: a mutant that made a difference survived, or a sound run was
    invalid; 2: not everything was tried.
    """
    from harness.progress import show_progress
    from harness.settings import Settings
    from harness.studies.mutation import study
    from harness.studies.playing import judges, recorder

    limit_s = cli_options.seconds(time_limit, "--time-limit")
    Settings.of(profile=profile, seed=seed, time_limit_s=limit_s)  # refused before it is begun
    asked = study.Study(
        count=count,
        seed=seed,
        seeds=range(1, seeds + 1),
        tries=tries,
        scenarios=cli_options.scenarios(scenario) or _of_profile(profile),
        store=store / "mutants",
        reasons=reasons,
        unit=unit,
    )
    options: dict[str, Any] = {"profile": profile, "store": store, "time_limit_s": limit_s}
    with show_progress(sys.stdout) as progress, judges() as judge:
        record = recorder(progress, **options)
        for name, entry in asked.go(record, judge, cli_options.budget(budget), later=later):
            progress(name or f"survey, {entry.play.scenario}", entry.verdict)
    more = _options({"--time-limit": time_limit}, {"--scenario": scenario})
    text = asked.page(f"biplane mutate {count} --seed {seed} --profile {profile}{more}")
    if out is not None:
        out.write_text(text)
    typer.echo(text if out is None else str(out))
    raise typer.Exit(asked.exit_code())


def sensitivity(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Recorded runs that are valid (none: write the page anew)"),
    ] = None,
    seed: Annotated[int, typer.Option(help="What is drawn, is drawn by it")] = 1,
    limit: Annotated[
        int | None, typer.Option(help="At most so many lies of a run (default: all)", min=1)
    ] = None,
    at_once: Annotated[int, typer.Option(help="So many are judged in one go", min=1)] = 60,
    width: Annotated[
        list[str] | None, typer.Option(help="once or always; repeatable (default: both)")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Kinds of events; repeatable (default: all)")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Ask once more what was not noticed before")
    ] = False,
    budget: Until = "2h",
    store: Store = Path("store"),
    out: Annotated[Path, out_file("The page")] = Path("docs/sensitivity.md"),
) -> None:
    """Which lies of a broker, or of another witness, would any rule notice?

    Breaks recorded runs, one column of one kind of event at a time, and judges them again, many at
    once. What was judged is kept beside the page, which is made from it; the same command goes on
    where it stopped. Exit code 1: a lie was not noticed, and no reason is given why it harms
    nobody; 2: not everything was asked.
    """
    from harness.progress import show_progress
    from harness.studies.sensitivity import kept, study
    from harness.studies.sensitivity.breaking import WIDTHS
    from harness.studies.sensitivity.page import page

    cli_options.among("--width", width or (), WIDTHS)
    cli_options.among("--kind", kind or (), study.kinds())
    asked = study.Study(
        runs=runs or (), store=store, kept=out.with_suffix(".jsonl"), seed=seed, limit=limit,
        at_once=at_once, widths=width or WIDTHS, only=kind or (), again=again,
    )  # fmt: skip
    with show_progress(sys.stdout) as progress:
        ended = asked.go(
            cli_options.budget(budget),
            lambda e: progress(f"{e.play.scenario}, {e.play.bug}", e.verdict),
        )
    every = asked.every()
    kept.write(out.with_suffix(".jsonl"), every)
    out.write_text(page(every, f"biplane sensitivity --seed {seed} RUN..."))
    typer.echo(str(out))
    if not ended:
        typer.echo("the budget was spent: the same command goes on from here")
    raise typer.Exit(study.exit_code(asked.told() if runs else every, ended=ended))


def trust(
    bug: Annotated[list[str] | None, typer.Option(help="Repeatable (default: all planted)")] = None,
    scenario: Names = None,
    seeds: Annotated[int, typer.Option(help="How many of each", min=1)] = 20,
    planes: Annotated[str, typer.Option(help="Of sound runs, by comma")] = "single,dual",
    sut: Annotated[str, typer.Option(help="Of sound runs, by comma")] = "dualplane",
    profile: Profile = "smoke",
    time_limit: Limit = None,
    budget: Until = "2h",
    later: Later = False,
    store: Store = Path("store"),
    out: Annotated[Path, out_file("The page")] = Path("docs/trust.md"),
) -> None:
    """How often is each planted bug found, and how often is a sound system accused?

    Plays bug x scenario x seeds and sound runs of every system, as far as the budget goes; the
    same command goes on where it stopped.
    """
    from harness.progress import show_progress
    from harness.scenarios import SCENARIOS
    from harness.settings import Settings
    from harness.studies import trust as study
    from harness.studies.kept import merged
    from harness.studies.ledger import Ledger
    from harness.studies.mutants import chosen
    from harness.studies.playing import Desk, judges, recorder
    from harness.sut.registry import get

    limit_s = cli_options.seconds(time_limit, "--time-limit")
    asked = Settings.of(profile=profile, planes=planes, sut=sut, time_limit_s=limit_s)
    for name in asked.suts:
        get(name)
    wanted = study.plays(
        bugs=[m.name for m in chosen(bug or [])],
        scenarios=cli_options.scenarios(scenario) or list(SCENARIOS),
        seeds=range(1, seeds + 1),
        planes=[str(mode) for mode in asked.planes or ()],
        suts=asked.suts,
    )
    ledger = Ledger(store / study.LEDGER)
    length = f"--profile {profile}{_options({'--time-limit': time_limit}, {})}"
    options: dict[str, Any] = {"profile": profile, "store": store, "time_limit_s": limit_s}
    with show_progress(sys.stdout) as progress, judges() as judge:
        ended = study.study(
            wanted,
            Desk(ledger, recorder(progress, **options), judge, later=later),
            cli_options.budget(budget),
            lambda e: progress(f"{e.play.bug or 'sound'}, {e.play.scenario}", e.verdict),
            {"length": length},
        )
    given = {"--planes": planes, "--sut": sut}
    usual = {"--planes": "single,dual", "--sut": "dualplane"}
    own = {name: text for name, text in given.items() if text != usual[name]}
    lists = {"--bug": bug, "--scenario": scenario}
    command = f"biplane trust --seeds {seeds} {length}{_options(own, lists)}"
    kept = [e for e in merged(out.with_suffix(".jsonl"), ledger) if e.extra.get("length") == length]
    typer.echo(str(study.save_page(kept, command, out)))
    if not ended:
        typer.echo("the budget was spent: the same command goes on from here")
    raise typer.Exit(study.exit_code(list(ledger), ended=ended))


def releases(
    suts: Annotated[
        list[str] | None, typer.Argument(help="Such as kafka-zk@2.8.2 (default: one of each line)")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(help="Repeatable (default: all of the profile)")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many of each", min=1)] = 1,
    profile: Profile = "ci",
    time_limit: Limit = None,
    budget: Until = "2h",
    store: Store = Path("store"),
    out: Annotated[Path, out_file("The page")] = Path("docs/releases.md"),
) -> None:
    """Is there a verdict on each line of Apache Kafka's releases, and are its log lines known?

    The same command goes on where it stopped; what was played is kept beside the page.
    """
    from harness.progress import show_progress
    from harness.settings import Settings
    from harness.studies import releases as study
    from harness.studies.kept import merged
    from harness.studies.ledger import Ledger
    from harness.studies.playing import Desk, judges, recorder
    from harness.studies.trust import exit_code
    from harness.studies.trust import study as play_all
    from harness.sut.registry import get

    limit_s = cli_options.seconds(time_limit, "--time-limit")
    Settings.of(profile=profile, time_limit_s=limit_s)  # refused before it is begun
    wanted = suts or list(study.LINES_OF_RELEASES)
    for name in wanted:
        get(name)
    chosen = cli_options.scenarios(scenario) or _of_profile(profile)
    ledger = Ledger(store / study.LEDGER)
    options: dict[str, Any] = {"profile": profile, "store": store, "time_limit_s": limit_s}
    with show_progress(sys.stdout) as progress, judges() as judge:
        ended = play_all(
            study.plays(wanted, chosen, range(1, seeds + 1)),
            Desk(ledger, recorder(progress, **options), judge),
            cli_options.budget(budget),
            lambda e: progress(f"{e.play.sut}, {e.play.scenario}", e.verdict),
        )
    kept = merged(out.with_suffix(".jsonl"), map(study.with_lines, ledger), skipped=True)
    out.write_text(study.page(kept))
    typer.echo(str(out))
    raise typer.Exit(exit_code(ledger, ended=ended))


def _options(single: Mapping[str, str | None], several: dict[str, list[str] | None]) -> str:
    """As they are typed; those that were not given are left out."""
    words = [f" {name} {text}" for name, text in single.items() if text is not None]
    words += [f" {name} {text}" for name, texts in several.items() for text in texts or []]
    return "".join(words)


def _of_profile(profile: str) -> list[str]:
    from harness.scenarios import SCENARIOS

    return [name for name, scenario in SCENARIOS.items() if profile in scenario.profiles]
