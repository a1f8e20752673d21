"""The commands over many runs: `biplane index | trend | serve`.

Part of `harness.cli`, which has the others; thin over `harness.runs`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Store = Annotated[Path, typer.Argument(help="Where runs are kept")]


def register(app: typer.Typer) -> None:
    for command in (index,):
        app.command()(command)


def index(
    store: Store = Path("store"),
    only_there: Annotated[
        bool, typer.Option("--only-there", help="Drop the rows of folders that are gone")
    ] = False,
) -> None:
    """Read all runs of a store into its table, runs.parquet; name what is no judged run."""
    from harness.runs.index import INDEX_FILE, refresh

    found = refresh(store, only_there=only_there)
    if found.aside is not None:
        typer.echo(f"could not be read, and was set aside: {found.aside}", err=True)
    for path, why in found.left_out:
        typer.echo(f"left out: {path}: {why}", err=True)
    runs = len({row.path for row in found.rows})
    gone = f", {found.kept} of them of folders that are gone" if found.kept else ""
    typer.echo(f"{store / INDEX_FILE}: {runs} runs, {len(found.rows)} rows{gone}")
