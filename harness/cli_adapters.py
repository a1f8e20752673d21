"""`biplane adapter`: description files of brokers, by command. Part of `harness.cli`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

adapter = typer.Typer(no_args_is_help=True, help="Description files of brokers (--sut=file:...).")


def register(app: typer.Typer) -> None:
    app.add_typer(adapter, name="adapter")


@adapter.command()
def check(files: Annotated[list[Path], typer.Argument(help="Description files")]) -> None:
    """Say what is wrong with description files, or which scenarios their systems can play."""
    from harness.run import Skipped, arms_of
    from harness.scenarios import SCENARIOS
    from harness.scenarios.base import unjudged
    from harness.settings import Settings
    from harness.sut.described import described
    from harness.sut.registry import FILE

    for file in files:
        sut = described(str(file))
        settings = Settings.of(sut=f"{FILE}{file}", seed=0)
        typer.echo(f"{file}: {sut.name}, planes {', '.join(sorted(sut.plane_modes))}")
        for scenario in SCENARIOS.values():
            try:
                arms_of(scenario, settings)
            except Skipped as why:
                typer.echo(f"  no   {str(why).replace(f'{FILE}{file} ', '')}")
                continue
            silent = unjudged(scenario.checks, sut)
            but = f", not judged: {', '.join(silent)}" if silent else ""
            typer.echo(f"  yes  {scenario.name}{but}")


@adapter.command()
def schema(
    out: Annotated[Path | None, typer.Option(help="Write it here (default: print it)")] = None,
) -> None:
    """The JSON Schema of description files, for editors."""
    from harness.sut.description import json_schema

    text = json.dumps(json_schema(), indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text)
        typer.echo(str(out))
