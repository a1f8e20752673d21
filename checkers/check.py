"""Judging a history: every check of the run, each able to fail alone.

    check_run(folder)             load, judge, write results.json and results/, return the dict
    check_all(history)            the same without files

A check that crashes makes its own result (and with it the run) `unknown`, with the reason; the
others go on. Checks are independent and mostly wait for Spark's planner, so a few run at once.

Which checks are run: those that run.json expects, and always `activity`; all when it names none,
and then a check that found nothing to judge does not make the run unknown.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkers.compare import compare
from checkers.frames import History
from checkers.history import HistoryError
from checkers.outcome import Outcome
from checkers.verdict import CheckResult, Results, Verdict
from checkers.witness import attach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Check = Callable[[History], Outcome]

CHECKS: Final[Mapping[str, str]] = {
    "activity": "checkers.activity",
    "stale-metadata": "checkers.stale_metadata",
    "truncation-loss": "checkers.truncation_loss",
    "controller-latency": "checkers.controller_latency",
    "fencing": "checkers.fencing",
    "succession": "checkers.succession",
    "availability": "checkers.availability",
    "topic-deletion": "checkers.topic_deletion",
    "log": "checkers.log",
}
"""Name -> module that has ``check(history) -> Outcome``."""

_AT_ONCE: Final = 3


def check_run(
    where: str | Path,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    memory: str | None = None,
    out: Path | None = None,
) -> dict[str, Any]:
    """Judge a stored run and write what came of it to ``out`` (default: its own folder).

    Raises `HistoryError` (exit code 254) when the history cannot be read as one.
    """
    with History.load(where, spark=spark, master=master, memory=memory) as history:
        target = out or history.folder
        if target is None:
            raise HistoryError(f"{where}: results of a URI need a folder to be written to")
        figures: dict[str, list[dict[str, Any]]] = {}
        results = check_all(history, figures=figures)
        target.mkdir(parents=True, exist_ok=True)
        write_figures(target / "results", figures)
        results.write(target)
        return results.to_dict()


def check_all(
    history: History,
    checks: Sequence[str] | None = None,
    *,
    figures: dict[str, list[dict[str, Any]]] | None = None,
) -> Results:
    """Run the checks (default: what run.json expects) and merge their verdicts.

    ``figures`` receives the checks' small tables for pictures, by name.
    """
    expected = checks if checks is not None else history.run.checks
    names = chosen(expected)
    figures = figures if figures is not None else {}
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="check") as pool:
        pending = {name: pool.submit(run_check, history, name) for name in names}
        done = {name: future.result() for name, future in pending.items()}
    results = Results(
        run_id=history.run.run_id,
        scenario=history.run.scenario,
        seed=history.run.seed,
        arms={arm: dict(history.run.arms.get(arm, {})) for arm in history.arms},
        checks={},
    )
    for name in names:
        result, tables = done[name]
        result.required = result.required or name == "activity" or expected is not None
        results.checks[name] = result
        figures.update(tables)
    results.comparison = compare(results)
    results.conclude()
    return results


def chosen(expected: Sequence[str] | None) -> list[str]:
    """The checks to run, in `CHECKS`' order; an unknown name is an error that names the others."""
    if expected is None:
        return list(CHECKS)
    for name in expected:
        if name.replace("_", "-") not in CHECKS:
            raise HistoryError(f"unknown check {name!r}; allowed: {', '.join(CHECKS)}")
    wanted = {name.replace("_", "-") for name in expected} | {"activity"}
    return [name for name in CHECKS if name in wanted]


def run_check(
    history: History, name: str, check: Check | None = None
) -> tuple[CheckResult, dict[str, list[dict[str, Any]]]]:
    """One check's result and figures. ``required`` is set only when it crashed."""
    begun = time.monotonic()
    try:
        run = check or import_module(CHECKS[name]).check
        outcome: Outcome = run(history)
        verdict, reasons = outcome.verdict()
        result = CheckResult(
            name=name,
            verdict=verdict,
            reasons=reasons,
            arms=outcome.arms,
            violations=attach(history, outcome.findings),
            violation_counts=outcome.counts,
            required=False,
        )
        tables = outcome.figures
    except HistoryError:
        raise
    except Exception as error:
        result = CheckResult(
            name=name,
            verdict=Verdict.UNKNOWN,
            reasons=[f"the checker crashed: {type(error).__name__}: {_first_line(error)}"],
            arms={},
            required=True,
        )
        result.reasons.append(traceback.format_exc(limit=-3))
        tables = {}
    result.seconds = round(time.monotonic() - begun, 3)
    return result, tables


def write_figures(folder: Path, figures: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Store the small tables as ``<folder>/<name>.parquet``; old ones are replaced."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    for name, rows in figures.items():
        if rows:
            pq.write_table(
                pa.Table.from_pylist([dict(r) for r in rows]), folder / f"{name}.parquet"
            )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
