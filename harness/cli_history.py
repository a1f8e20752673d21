"""The commands that judge and keep stored histories: `biplane check` and `biplane history ...`.

Part of `harness.cli`, which has the others; thin over `checkers`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

Run = Annotated[Path, typer.Argument(help="A run's folder: store/<scenario>/<run id>")]
Master = Annotated[
    str | None,
    typer.Option(help="Spark master (default: local, all cores); spark-submit sets its own"),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="A setting of Spark's, name=value; repeatable")
]

history = typer.Typer(
    name="history",
    no_args_is_help=True,
    help="Stored histories: what is in them, and putting them into another form.",
)


def register(app: typer.Typer) -> None:
    app.command()(check)
    app.add_typer(history)


def check(
    where: Annotated[
        list[str],
        typer.Argument(help="Runs or whole stores: folders, or URIs (hdfs://, s3a://)"),
    ],
    master: Master = None,
    memory: Annotated[str | None, typer.Option(help="Driver memory, such as 2g")] = None,
    conf: Conf = None,
    out: Annotated[
        Path | None, typer.Option(help="Where results.json goes (default: beside the history)")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Of a store: runs of the last 90s, 30m, 12h or 7d")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="What is not judged within 90s, 30m or 2h is unknown")
    ] = None,
) -> None:
    """Judge stored histories (again), on any Spark master, in one session."""
    from checkers.history import HistoryError
    from checkers.history.runs import runs_at
    from checkers.judging.verdict import EXIT_BAD_ARGUMENTS, Verdict, worst_exit_code
    from checkers.spark import session

    settings = pairs(conf or [], "--conf")
    begun = time.monotonic()
    deadline_s = None if deadline is None else seconds_of(deadline, "--deadline")
    since_s = None if since is None else time.time() - seconds_of(since, "--since")
    remote = any(is_remote(place) for place in where)
    spark = session(master, memory=memory, conf=settings, small=False) if remote else None
    runs = [run for place in where for run in runs_at(place, spark, since_s=since_s)]
    if out is not None and len(runs) > 1:
        raise HistoryError(f"--out {out}: allowed with one run; there are {len(runs)}")
    codes: list[int] = []
    for run in runs:
        left_s = None if deadline_s is None else begun + deadline_s - time.monotonic()
        if len(runs) > 1:
            typer.echo(f"== {run}")
        if left_s is not None and left_s <= 0:
            typer.echo(f"{Verdict.UNKNOWN}: not judged within the deadline of {deadline}")
            codes.append(Verdict.UNKNOWN.exit_code)
            continue
        try:
            codes.append(_check_one(run, spark, master, memory, settings, out, left_s))
        except HistoryError as error:
            if len(runs) == 1:
                raise
            typer.echo(f"cannot be judged: {error}")
            codes.append(EXIT_BAD_ARGUMENTS)
    if len(runs) != 1:
        typer.echo(f"{len(runs)} runs were judged, {codes.count(0)} of them valid")
    raise typer.Exit(worst_exit_code(codes))


def _check_one(
    run: str,
    spark: Any,
    master: str | None,
    memory: str | None,
    conf: dict[str, str],
    out: Path | None,
    deadline_s: float | None,
) -> int:
    from checkers.check import check_run
    from checkers.judging.verdict import Verdict
    from harness.report.terminal import describe

    results = check_run(
        run,
        spark=spark,
        master=master,
        memory=memory,
        conf=conf,
        out=out,
        deadline_s=deadline_s,
    )
    for line in describe(results):
        typer.echo(line)
    return Verdict(results["verdict"]).exit_code


@history.command()
def finish(run: Run) -> None:
    """Make a run's history (again) from its live files: of a run that was killed, or a history that
    was spoilt."""
    from harness.history.again import finish_again

    for line in finish_again(run):
        typer.echo(line)


# -- arguments ------------------------------------------------------------------------------------

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str, option: str) -> float:
    """A span of time such as 90s, 30m, 12h or 7d."""
    number, unit = text[:-1], _UNITS.get(text[-1:])
    try:
        seconds = float(number) * (unit or 0)
    except ValueError:
        seconds = 0.0
    if not unit or seconds <= 0:
        raise typer.BadParameter(f"{option} {text!r}; allowed: a number and s, m, h or d")
    return seconds


def pairs(given: list[str], option: str) -> dict[str, str]:
    """``name=value`` arguments."""
    found = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{option} {pair!r}; allowed: name=value")
        found[name.strip()] = value.strip()
    return found


def is_remote(where: str) -> bool:
    return "://" in where and not where.startswith("file:")
