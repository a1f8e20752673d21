"""`biplane reproduce`: genuine bugs of genuine releases, by command. Part of `harness.cli`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options
from harness.cli_options import out_file


def register(app: typer.Typer) -> None:
    app.command()(reproduce)
    app.command(name="track-record")(track_record)


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Bugs, such as KAFKA-9839")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every bug in the folder")] = False,
    tries: Annotated[
        int, typer.Option(help="Runs of each release (default: until found, and one mended)", min=0)
    ] = 0,
    mended_tries: Annotated[
        int | None, typer.Option(help="Another number for the mended release", min=0)
    ] = None,
    budget: Annotated[str, typer.Option(help="No run is begun after it")] = "24h",
    bugs: Annotated[Path, typer.Option(help="Where the bugs' files are")] = Path("bugs"),
    store: cli_options.Store = Path("store"),
    runtime: Annotated[str, typer.Option(help="Where nodes live")] = "process",
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep a valid run's log directories too")
    ] = False,
) -> None:
    """Show a bug on the release that has it, and not on the one that mended it."""
    from harness.bugs import play, record
    from harness.bugs.book import Bug, load_all
    from harness.progress import show_progress
    from harness.runtime.protocol import SetupError
    from harness.studies.ledger import Ledger
    from harness.studies.playing import Desk, judges

    book = load_all(bugs)
    wanted = list(book) if every else list(dict.fromkeys(names or []))
    for name in wanted:
        if name not in book:
            raise typer.BadParameter(f"{name!r}; allowed: {', '.join(book)}")
    if not wanted:
        raise typer.BadParameter(f"no bug is named; allowed: --all, {', '.join(book)}")
    whole = cli_options.budget(budget)

    def cannot(bug: Bug, why: SetupError) -> None:
        if len(wanted) == 1:
            raise why
        typer.echo(f"{bug.id} cannot be played here: {why}")  # the others may

    done: list[play.Try] = []
    with show_progress(sys.stdout) as progress, judges() as judge:
        played = play.player(book, progress, store=store, runtime=runtime, keep_data=keep_data)
        desk = Desk(Ledger(store / play.LEDGER), played, judge)
        chosen = [book[name] for name in wanted]
        for one in play.reproduce(
            chosen, desk, tries=tries, mended=mended_tries, budget=whole, cannot=cannot
        ):
            done.append(one)
            typer.echo(record.line(one))
    missed = []
    for name in wanted:
        of = [one for one in done if one.bug.id == name]
        for text in record.story(book[name], of) if of else ():
            typer.echo(text)
        if not play.succeeded(of):
            missed.append(name)
    if missed:
        typer.echo(f"not shown both ways: {', '.join(missed)}")
    raise typer.Exit(2 if missed else 0)


def track_record(
    bugs: Annotated[Path, typer.Option(help="Where the bugs' files are")] = Path("bugs"),
    store: Annotated[Path, typer.Option(help="Whose plays are added")] = Path("store"),
    out: Annotated[Path, out_file("The page")] = Path("docs/track-record.md"),
) -> None:
    """Write the page of what was found, on which release, how often and how fast.

    The plays of the store are added to the ledger beside the page, from which it is made."""
    from harness.bugs import play, record
    from harness.bugs.book import load_all, not_shown
    from harness.studies.kept import merged
    from harness.studies.ledger import Ledger

    entries = merged(out.with_suffix(".jsonl"), Ledger(store / play.LEDGER))
    typer.echo(str(record.write(load_all(bugs), entries, out, not_shown(bugs))))
