"""The commands that judge and keep stored histories: `biplane check` and `biplane history ...`.

Part of `harness.cli`, which has the others; thin over `checkers`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli_options import Run, WrittenRun, out_folder, pairs, room, rows_of, seconds

Master = Annotated[
    str | None,
    typer.Option(
        help="Spark master (default: Sail for what is small, Spark with all cores for the rest); "
        "spark-submit sets its own"
    ),
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
        Path | None, room("Where results.json goes (default: beside the history)")
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
    deadline_s, ago_s = seconds(deadline, "--deadline"), seconds(since, "--since")
    since_s = None if ago_s is None else time.time() - ago_s
    remote = any(is_remote(place) for place in where)
    spark = session(master, memory=memory, conf=settings, small=False) if remote else None
    runs = [run for place in where for run in runs_at(place, spark, since_s=since_s)]
    if out is not None and len(runs) > 1:
        raise HistoryError(f"--out {out}: allowed with one run; there are {len(runs)}")
    if len(runs) > 1:  # one may be large: a JVM for tiny ones would be slow with it
        spark = spark or session(master, memory=memory, conf=settings, small=False)
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
        not_judged = f", {left} could not be" if (left := codes.count(EXIT_BAD_ARGUMENTS)) else ""
        judged = f"{len(runs) - left} runs were judged, {codes.count(0)} of them valid"
        typer.echo(f"{judged}{not_judged}")
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
def finish(run: WrittenRun) -> None:
    """Make a run's history (again) from its live files: of a run that was killed, or a history that
    was spoilt."""
    from harness.history.again import finish_again

    for line in finish_again(run):
        typer.echo(line)


@history.command()
def watch(
    where: Annotated[list[str], typer.Argument(help="Runs that were judged, or whole stores")],
) -> None:
    """Watch stored runs again (docs/live.md), and hold what is told against their verdicts."""
    from checkers.history import HistoryError
    from checkers.history.runs import runs_at
    from checkers.live.replay import replay, unconfirmed, untold
    from checkers.spark import session, tuned
    from harness.report.run_folder import RunFolder

    spark = tuned(session("local[1]", small=True), 0)
    runs = [Path(run) for place in where for run in runs_at(place, None)]
    apart = accused = 0
    for run in runs:
        results = RunFolder.open(run).results
        if not results:
            raise HistoryError(f"{run}: it was not judged: run `biplane check` on it")
        seen = replay(spark, run)
        rules = ", ".join(sorted({one.rule for one in seen.told})) or "nothing"
        typer.echo(f"{run}: {seen.rows:,} rows in {seen.looks} looks; told of {rules}")
        wrong = [f"not confirmed: {one.says}" for one in unconfirmed(seen.told, results)]
        wrong += [f"not told of: {rule}" for rule in untold(seen.told, results)]
        for line in wrong:
            typer.echo(f"  {line}")
        apart += bool(wrong)
        accused += bool(seen.told)
    typer.echo(f"{len(runs)} runs, {accused} accused; {apart} of them told otherwise than judged")
    raise typer.Exit(bool(apart))


@history.command()
def info(run: Run) -> None:
    """What is in a run's history: rows, files, bytes and times of each kind."""
    from checkers.history import forms

    for line in forms.info(run):
        typer.echo(line)


@history.command()
def kinds() -> None:
    """What a row of each kind says, and its columns: as Markdown, the table of docs/history.md."""
    from checkers.history.schema import described

    for line in described():
        typer.echo(line)


@history.command()
def compact(run: WrittenRun) -> None:
    """Write a run's history anew in the newest version: sized, sorted files. The same rows."""
    from checkers.history import forms

    _say_manifest(run, forms.compact(run))


@history.command()
def merge(
    out: Annotated[Path, out_folder("A new folder")],
    runs: Annotated[list[Path], typer.Argument(help="Runs of one scenario")],
) -> None:
    """Several runs of one scenario as one, their trials renumbered."""
    from checkers.history import forms

    _say_manifest(out, forms.merge(out, runs))


@history.command()
def export(
    run: Run,
    out: Annotated[Path, out_folder("A folder for a file of each kind")],
    form: Annotated[str, typer.Option("--format", help="jsonl or csv")] = "jsonl",
    kind: Annotated[list[str] | None, typer.Option(help="Repeatable (default: all)")] = None,
    arm: Annotated[str | None, typer.Option(help="Of this arm")] = None,
    trial: Annotated[int | None, typer.Option(help="Of this trial")] = None,
    topic: Annotated[
        str | None, typer.Option(help="Of this topic, where a kind has topics")
    ] = None,
    partition: Annotated[int | None, typer.Option(help="Of this partition, likewise")] = None,
    from_t: Annotated[int | None, typer.Option(help="Not before (ns of the history)")] = None,
    to_t: Annotated[int | None, typer.Option(help="Not after (ns of the history)")] = None,
) -> None:
    """Rows as plain files; a partition or a span of time is read alone."""
    from checkers.history import forms

    kept = forms.Kept(
        kinds=kind or (), arm=arm, trial=trial, topic=topic, partition=partition,
        from_t=from_t, to_t=to_t,
    )  # fmt: skip
    for line in forms.export(run, out, form=form, kept=kept):
        typer.echo(line)


@history.command()
def generate(
    out: Annotated[Path, out_folder("A new folder")],
    rows: Annotated[str, typer.Option(help="About so many: 20k, 10M")] = "100k",
    shape: Annotated[str, typer.Option(help="load, soak or wide")] = "load",
    plant: Annotated[str, typer.Option(help="Anomalies: acked-all-lost=3,replica-differs=2")] = "",
) -> None:
    """Make a history with known truth, as a run's folder, to be judged."""
    from checkers.history.made import make
    from checkers.history.made.plants import parse

    truth = make(out, rows=rows_of(rows), shape=shape, plants=parse(plant))
    planted = ", ".join(f"{name}={n}" for name, n in truth.planted.items()) or "clean"
    typer.echo(f"{out}: {truth.rows:,} rows, {truth.trials} trials, {planted}")


def _say_manifest(run: Path, manifest: Any) -> None:
    files = sum(len(parts) for parts in manifest.parts.values())
    size = sum(part.bytes for parts in manifest.parts.values() for part in parts)
    rows = sum(manifest.rows.values())
    typer.echo(
        f"{run}: {rows:,} rows of {len(manifest.trials)} trials in {files} files, {size:,} B"
    )


def is_remote(where: str) -> bool:
    return "://" in where and not where.startswith("file:")
