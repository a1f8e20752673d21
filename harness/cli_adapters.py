"""`biplane adapter`: description files of brokers, by command. Part of `harness.cli`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harness.cli_options import out_file

adapter = typer.Typer(no_args_is_help=True, help="Description files of brokers (--sut=file:...).")


def register(app: typer.Typer) -> None:
    app.add_typer(adapter, name="adapter")
    app.command()(probe)


def probe(
    file: Annotated[Path, typer.Argument(help="A file about a cluster (docs/adapters.md)")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs")] = False,
    profile: Annotated[str, typer.Option(help="smoke, ci or nightly: whose plans")] = "ci",
    seed: Annotated[int, typer.Option(help="What plans are drawn from")] = 0,
) -> None:
    """Ask a cluster that runs already, and say what could be run and judged there. Only reads.

    Exit codes: 0 scenarios can be run there; 1 none can, or something stands in the way; 2 somebody
    did not answer; 254 bad arguments.
    """
    from dataclasses import asdict

    from harness.probe import in_words, probed
    from harness.settings import Settings
    from harness.sut.external.system import external

    settings = Settings.of(profile=profile, seed=seed)
    found = probed(external(str(file)), settings)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
    else:
        for line in in_words(found):
            typer.echo(line)
    raise typer.Exit(found.exit_code)


@adapter.command()
def check(files: Annotated[list[Path], typer.Argument(help="Description files")]) -> None:
    """Say what is wrong with description files, or which scenarios their systems can play. Of a
    file about a cluster that runs already only the former: nothing is asked (see probe)."""
    from harness.arms import Skipped, arms_of, plan_of
    from harness.scenarios import SCENARIOS
    from harness.scenarios.base import unheard, unjudged
    from harness.settings import Settings
    from harness.sut.described import described
    from harness.sut.external.form import is_about_a_cluster, read_cluster
    from harness.sut.registry import FILE

    for file in files:
        if is_about_a_cluster(file):
            form = read_cluster(file)
            brokers = ", ".join(map(str, form.ids))
            typer.echo(f"{file}: {form.name}, brokers {brokers}; what it can play: biplane probe")
            continue
        sut = described(str(file))
        runtime = sut.limits.runtime or "process"
        settings = Settings.of(sut=f"{FILE}{file}", seed=0, runtime=runtime)
        typer.echo(f"{file}: {sut.name}, planes {', '.join(sorted(sut.plane_modes))}")
        for name in sut.unused():
            typer.echo(f"  note: {{{{{name}}}}} stands nowhere in it: will that be there?")
        if not sut.limits.advertises:
            typer.echo("  note: not given {{client.advertised}}, it will tell its own address")
        for says in sut.lacking():
            typer.echo(f"  note: {says}")
        for scenario in SCENARIOS.values():
            try:
                arms_of(scenario, settings)
            except Skipped as why:
                typer.echo(f"  no   {str(why).replace(f'{FILE}{file} ', '')}")
                continue
            plan = plan_of(scenario, settings)
            silent = unheard(scenario, plan, sut, settings.profile)
            silent |= unjudged(scenario.checks, sut)
            but = f", not judged: {', '.join(silent)}" if silent else ""
            typer.echo(f"  yes  {scenario.name}{but}")


@adapter.command()
def schema(
    out: Annotated[Path | None, out_file("Write it here (default: print it)")] = None,
    of: Annotated[str, typer.Option(help="adapter, or cluster (--sut=external:...)")] = "adapter",
) -> None:
    """The JSON Schema of description files, for editors."""
    from harness.sut.description import json_schema
    from harness.sut.external.form import cluster_schema

    schemas = {"adapter": json_schema, "cluster": cluster_schema}
    if of not in schemas:
        raise typer.BadParameter(f"--of: {of!r}; allowed: {', '.join(schemas)}")
    text = json.dumps(schemas[of](), indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text)
        typer.echo(str(out))
