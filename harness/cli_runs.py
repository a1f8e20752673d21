"""The commands over many runs: `biplane index | trend | serve`.

Part of `harness.cli`, which has the others; thin over `harness.runs`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from harness.cli_options import out_file, out_folder

Store = Annotated[Path, typer.Argument(help="Where runs are kept")]


def register(app: typer.Typer) -> None:
    for command in (index, trend, serve):
        app.command()(command)


def index(
    store: Annotated[Path, out_folder("Where runs are kept")] = Path("store"),
    only_there: Annotated[
        bool, typer.Option("--only-there", help="Drop the rows of folders that are gone")
    ] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Write index.html too: runs, trends, reports")
    ] = False,
) -> None:
    """Read all runs of a store into its table, runs.parquet; name what is no judged run."""
    from harness.report.units import words
    from harness.runs.index import INDEX_FILE, refresh

    found = refresh(store, only_there=only_there)
    if found.aside is not None:
        typer.echo(f"could not be read, and was set aside: {found.aside}", err=True)
    for path, why in found.left_out:
        typer.echo(f"left out: {path}: {why}", err=True)
    runs = len({row.path for row in found.rows})
    gone = f", {found.kept} of them of folders that are gone" if found.kept else ""
    typer.echo(f"{store / INDEX_FILE}: {words(runs, 'run')}, {words(len(found.rows), 'row')}{gone}")
    if page:
        from harness.runs.page import write

        typer.echo(str(write(store, found.rows)))


def trend(
    store: Annotated[Path, typer.Argument(help="A store, or a table of runs by itself")] = Path(
        "store"
    ),
    scenario: Annotated[list[str] | None, typer.Option(help="Only these; repeatable")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only runs from this day on, as 2026-11-22: a new usual from there"),
    ] = None,
    last: Annotated[
        int | None, typer.Option(help="How many runs tell what is usual (default: 30)")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="In how many calls a false alarm is borne (default: 0.01)")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Series in which nothing changed, too")
    ] = False,
    out: Annotated[Path | None, out_file("Write what was found here", "--json")] = None,
) -> None:
    """What changed over the runs of a store: verdicts and figures, each by scenario and arm.

    Exit codes: 0 nothing is worse, 1 something is, 2 too few runs to tell, 254 bad arguments.
    """
    from harness.runs import words
    from harness.runs.ci import SUMMARY, append_summary
    from harness.runs.index import load, refresh
    from harness.runs.trend import ALPHA, LAST, MIN_BEFORE, MOST_LAST
    from harness.runs.trend import trend as find

    last, alpha = LAST if last is None else last, ALPHA if alpha is None else alpha
    if not MIN_BEFORE <= last <= MOST_LAST:
        raise typer.BadParameter(f"--last: {last}; allowed: {MIN_BEFORE} to {MOST_LAST}")
    if not 0 < alpha < 1:
        raise typer.BadParameter(f"--alpha: {alpha}; allowed: between 0 and 1")
    since_ms = None if since is None else _day_ms(since)
    rows = load(store) or refresh(store, write=False).rows
    known = sorted({row.scenario for row in rows})
    for name in scenario or []:
        if name not in known:
            raise typer.BadParameter(f"--scenario: {name!r}; allowed: {', '.join(known)}")
    found = find(
        (
            row
            for row in rows
            if (not scenario or row.scenario in scenario)
            and (since_ms is None or row.started_at_ms >= since_ms)
        ),
        last=last,
        alpha=alpha,
    )
    for line in words.lines(found, everything=everything):
        typer.echo(line)
    if out is not None:
        out.write_text(json.dumps(words.as_data(found), indent=2) + "\n")
    append_summary(os.environ.get(SUMMARY), words.markdown(found))
    raise typer.Exit(found.exit_code)


def _day_ms(text: str) -> int:
    """The beginning of a day, UTC."""
    import calendar

    try:
        return calendar.timegm(time.strptime(text, "%Y-%m-%d")) * 1000
    except ValueError:
        raise typer.BadParameter(f"--since: {text!r}; allowed: a day, such as 2026-11-22") from None


def serve(
    store: Store = Path("store"),
    port: Annotated[int, typer.Option(help="Of 127.0.0.1; 0: a free one", min=0, max=65535)] = 8291,
) -> None:
    """Look at a store's runs in a browser, on loopback, until Ctrl-C."""
    from checkers.history import HistoryError
    from harness.runs.serve import LIVE, server

    try:
        looking = server(store, port)
    except OSError as error:
        raise HistoryError(f"--port {port}: {error.strerror}; allowed: another one, or 0") from None
    with looking:
        host, bound = looking.server_address[:2]
        typer.echo(f"http://{host!s}:{bound}/, a run with --live: {LIVE} there (Ctrl-C ends it)")
        looking.serve_forever()
        typer.echo("ended")
