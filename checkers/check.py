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
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkers.history import HistoryError
from checkers.history.frames import History
from checkers.judging.compare import compare
from checkers.judging.promise import Promise
from checkers.judging.verdict import CheckResult, Results, Verdict
from checkers.judging.witness import attach
from checkers.promises import NAMES, promise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        pending = {name: pool.submit(run_check, history, promise(name)) for name in names}
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
    """The checks to run, in the table's order; an unknown name is an error that names them all."""
    if expected is None:
        return list(NAMES)
    for name in expected:
        if name.replace("_", "-") not in NAMES:
            raise HistoryError(f"unknown check {name!r}; allowed: {', '.join(NAMES)}")
    wanted = {name.replace("_", "-") for name in expected} | {"activity"}
    return [name for name in NAMES if name in wanted]


def run_check(
    history: History, judged: Promise
) -> tuple[CheckResult, dict[str, list[dict[str, Any]]]]:
    """One promise's result and figures. ``required`` is set only when its check crashed."""
    begun = time.monotonic()
    result = CheckResult(
        name=judged.name, verdict=Verdict.UNKNOWN, says=judged.says, rules=dict(judged.rules)
    )
    tables: dict[str, list[dict[str, Any]]] = {}
    try:
        outcome = judged.check(history)
        strange = sorted(set(outcome.counts) - set(judged.rules))
        if strange:
            raise ValueError(f"findings of rules that the promise does not have: {strange}")
        result.verdict, result.reasons = outcome.verdict(history.expected(judged.name))
        result.arms, result.evidence = outcome.arms, _by_place(outcome.evidence)
        result.violations = attach(history, outcome.findings)
        result.violation_counts = outcome.counts
        result.excused, result.not_judged = outcome.excuses(), outcome.not_judged
        result.required = False
        tables = outcome.figures
    except HistoryError:
        raise
    except Exception as error:
        result.verdict, result.arms, result.required = Verdict.UNKNOWN, {}, True
        result.reasons = [f"the checker crashed: {type(error).__name__}: {_first_line(error)}"]
        result.reasons.append(traceback.format_exc(limit=-3))
    result.seconds = round(time.monotonic() - begun, 3)
    return result, tables


def _by_place(evidence: Counter[tuple[str, int, str]]) -> dict[str, dict[str, dict[str, int]]]:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (arm, trial, what), n in sorted(evidence.items()):
        found.setdefault(arm, {}).setdefault(str(trial), {})[what] = n
    return found


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
