"""Judging a history: every check of the run, each able to fail alone.

    check_run(folder)             load, judge, write results.json and results/, return the dict
    check_all(history)            the same without files

A check that crashes makes its own result (and with it the run) `unknown`, with the reason; the
others go on. Checks are independent and mostly wait for Spark's planner, so a few run at once.

A deadline leaves what was not judged by then `unknown`, and names it.

Which checks are run: those that run.json expects, and always `activity`; all when it names none,
and then a check that found nothing at all to judge does not make the run unknown. One that judged
something and says that it does not know does: a history that shows half of it proves nothing.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from checkers import sail
from checkers.facts.at_rest import appending
from checkers.facts.standstills import PATIENCE_NS, clock_sets, standstills
from checkers.facts.strain import BUSY, VERY_BUSY, busy
from checkers.facts.whole_rows import VOID
from checkers.history import HistoryError
from checkers.history.frames import History
from checkers.history.store import LocalStore, Store, try_writing
from checkers.judging.compare import compare
from checkers.judging.promise import Promise
from checkers.judging.verdict import RESULTS_FILE, CheckResult, Results, Verdict
from checkers.judging.witness import attach
from checkers.promises import NAMES, promise
from checkers.spark import name_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.judging.outcome import Outcome

_AT_ONCE: Final = 3
_CRASH: Final = "the checker crashed"
_GRACE_S: Final = 10.0
"""How long a check is given to end once its jobs were cancelled. It is left behind after that."""
Figures = dict[str, list[dict[str, Any]]]
"""Small tables for pictures, by name."""


def check_run(
    where: str | Path,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    memory: str | None = None,
    conf: Mapping[str, str] | None = None,
    out: Path | None = None,
    deadline_s: float | None = None,
) -> dict[str, Any]:
    """Judge a stored run and write what came of it to ``out`` (default: beside its history, on
    whatever file system that lies).

    ``conf``: Spark's settings. Raises `HistoryError` (exit code 254) when the history cannot be
    read as one.
    """
    begun, figures = time.monotonic(), Figures()

    def left_s() -> float | None:
        return None if deadline_s is None else begun + deadline_s - time.monotonic()

    loaded = History.load(where, spark=spark, master=master, memory=memory, conf=conf, judge=True)
    with loaded as history:
        target: Store | None = history.store
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            target = LocalStore(out)
        assert target is not None, "a history that was loaded lies somewhere"
        _can_be_written(target)
        results = check_all(history, figures=figures, deadline_s=deadline_s)
        if history.unanswered and not history.stopped:
            _alone(history, results, figures, left_s)
    if history.unanswered and not history.stopped:
        _by_spark(where, history.unanswered, results, figures, left_s())
    write_figures(target, figures)
    target.write(RESULTS_FILE, results.to_json().encode())
    return results.to_dict()


def _can_be_written(target: Store) -> None:
    """Found out before all is judged, not after. Of places elsewhere nobody knows."""
    if target.local is None:
        return
    try:
        try_writing(target.local)
    except OSError as error:
        raise HistoryError(
            f"{target.root}: {error.strerror}; allowed: --out with a folder that can be written"
        ) from None


def check_all(
    history: History,
    checks: Sequence[str] | None = None,
    *,
    only: Sequence[str] | None = None,
    figures: Figures | None = None,
    deadline_s: float | None = None,
) -> Results:
    """Run the checks (default: what run.json expects; of these ``only`` some) and merge their
    verdicts.

    ``figures`` receives the checks' small tables for pictures, by name. What is not judged within
    ``deadline_s`` is unknown.
    """
    expected = checks if checks is not None else history.run.checks
    names, arms = chosen(expected), history.arms
    names = [name for name in names if only is None or name in only]
    figures = figures if figures is not None else {}
    pool = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="check")
    try:
        pending = {name: pool.submit(run_check, history, promise(name)) for name in names}
        _keep_to(deadline_s, history, list(pending.values()))
        done = {name: _result(history, name, future) for name, future in pending.items()}
        _explain(done)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    results = Results(
        run_id=history.run.run_id,
        scenario=history.run.scenario,
        seed=history.run.seed,
        arms={arm: dict(history.run.arms.get(arm, {})) for arm in arms},
        checks={},
        engine=name_of(history.spark),
    )
    for name in names:
        result, tables = done[name]
        asked_for = name == "activity" or expected is not None
        result.required = result.required or asked_for or bool(result.evidence)
        results.checks[name] = result
        figures.update(tables)
    results.comparison = compare(results)
    results.conclude()
    return results


def _alone(
    history: History, results: Results, figures: Figures, left_s: Callable[[], float | None]
) -> None:
    """Ask Sail once more what it could not answer, check by check: what is asked at once shares
    its memory, and of a long history it may be too little for each."""
    names, history.unanswered = history.unanswered, []
    for name in names:
        again = check_all(
            history, history.run.checks, only=[name], figures=figures, deadline_s=left_s()
        )
        _amend(results, again)


def _by_spark(
    where: str | Path,
    names: Sequence[str],
    results: Results,
    figures: Figures,
    deadline_s: float | None,
) -> None:
    """Judge by Spark what Sail could not answer: it does not know all of it, and says so."""
    sail.leave()
    with History.load(where) as history:
        again = check_all(history, history.run.checks, only=names, figures=figures,
                          deadline_s=deadline_s)  # fmt: skip
    results.engine += f"; {again.engine} for {', '.join(names)}"
    _amend(results, again)


def _amend(results: Results, again: Results) -> None:
    """Put what was judged again in the place of what it was."""
    results.checks.update(again.checks)
    results.comparison = compare(results)
    results.conclude()


def _keep_to(deadline_s: float | None, history: History, pending: Sequence[Future[Any]]) -> None:
    """Wait for the checks, and end those that take longer: no more of the history is given to them,
    and their jobs are cancelled, also such as they begin meanwhile."""
    if not wait(pending, deadline_s).not_done:
        return
    history.stop(f"not judged within the deadline of {deadline_s:g} s")
    for future in pending:
        future.cancel()
    given_up = time.monotonic() + _GRACE_S
    while time.monotonic() < given_up:
        history.cancel()
        if not wait(pending, 0.2).not_done:
            return


def _result(
    history: History, name: str, future: Future[tuple[CheckResult, Figures]]
) -> tuple[CheckResult, Figures]:
    """What a check gave; of one that never began, or does not end, that it is unknown."""
    if future.done() and not future.cancelled():
        return future.result()
    result = _not_yet(promise(name))
    result.reasons = [history.stopped or "it was never begun"]
    return result, {}


def _explain(done: Mapping[str, tuple[CheckResult, Figures]]) -> None:
    """A check that crashed on rows that do not say what every such row says (`evidence` names them)
    did so because of them: that comes before where it crashed."""
    known = done["evidence"][0].reasons if "evidence" in done else []
    void = next((why for why in known if VOID in why), None)
    for name, (result, _) in done.items() if void else ():
        if name != "evidence" and result.reasons and result.reasons[0].startswith(_CRASH):
            result.reasons.insert(0, f"the history is spoilt: {void}")


def _not_yet(judged: Promise) -> CheckResult:
    return CheckResult(
        name=judged.name, verdict=Verdict.UNKNOWN, says=judged.says, rules=dict(judged.rules)
    )


def chosen(expected: Sequence[str] | None) -> list[str]:
    """The checks to run, in the table's order; an unknown name is an error that names them all."""
    if expected is None:
        return list(NAMES)
    for name in expected:
        if name.replace("_", "-") not in NAMES:
            raise HistoryError(f"unknown check {name!r}; allowed: {', '.join(NAMES)}")
    wanted = {name.replace("_", "-") for name in expected} | {"activity"}
    return [name for name in NAMES if name in wanted]


def run_check(history: History, judged: Promise) -> tuple[CheckResult, Figures]:
    """One promise's result and figures. ``required`` is set only when its check crashed."""
    begun = time.monotonic()
    result = _not_yet(judged)
    tables: Figures = {}
    try:
        outcome = found_by(history, judged)
        result.verdict, result.reasons = outcome.verdict(history.expected(judged.name))
        result.arms = dict(sorted(outcome.arms.items()))
        result.evidence = _by_place(outcome.evidence)
        result.violations = attach(history, outcome.findings)
        result.violation_counts = outcome.counts
        result.excused = outcome.excuses()
        result.not_judged = [*outcome.not_judged, *_unseen(history, judged, outcome)]
        result.required = False
        tables = outcome.figures
    except HistoryError:
        raise
    except Exception as error:
        result.verdict, result.arms, result.required = Verdict.UNKNOWN, {}, True
        if sail.answers(history.spark) and isinstance(error, PySparkException):
            history.unanswered.append(judged.name)
        if history.stopped:
            result.reasons = [history.stopped]
        else:
            crash = f"{_CRASH}: {type(error).__name__}: {first_line(error)}"
            result.reasons = [crash, traceback.format_exc(limit=-3)]
    result.seconds = round(time.monotonic() - begun, 3)
    return result, tables


def found_by(history: History, judged: Promise) -> Outcome:
    """What a promise's check found, less what proves nothing where the machine stood still, or
    nothing came to rest."""
    outcome = judged.check(history)
    strange = sorted(set(outcome.counts) - set(judged.rules))
    if strange:
        raise ValueError(f"findings of rules that the promise does not have: {strange}")
    outcome.doubt(judged.rules, clock_sets(history))
    outcome.doubt(judged.at_rest, appending(history))
    if judged.timed:
        outcome.doubt(judged.timed - judged.patient, standstills(history))
        outcome.doubt(judged.patient, standstills(history, PATIENCE_NS))
        outcome.doubt(judged.timed - judged.patient, busy(history, BUSY))
        outcome.doubt(judged.patient, busy(history, VERY_BUSY))
    return outcome


def _unseen(history: History, judged: Promise, outcome: Outcome) -> list[str]:
    """By arm, what the promise judges and there was nothing of, in no trial: as sound as it looks,
    nobody looked at it."""
    seen = {(arm, what) for arm, _, what in outcome.evidence}
    found = []
    for arm in history.arms:
        unseen = [what for what in judged.evidence if (arm, what) not in seen]
        if unseen and (arm in {a for a, _ in seen}):
            found.append(f"{arm}: saw none of: {'; '.join(unseen)}")
    return found


def _by_place(evidence: Counter[tuple[str, int, str]]) -> dict[str, dict[str, dict[str, int]]]:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (arm, trial, what), n in sorted(evidence.items()):
        found.setdefault(arm, {}).setdefault(str(trial), {})[what] = n
    return found


def write_figures(store: Store, figures: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Store the small tables as ``results/<name>.parquet``; old ones are removed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    store.remove("results")
    for name, rows in figures.items():
        if rows:
            sink = pa.BufferOutputStream()
            pq.write_table(pa.Table.from_pylist([dict(r) for r in rows]), sink)
            store.write(f"results/{name}.parquet", sink.getvalue().to_pybytes())


def first_line(error: Exception) -> str:
    """What an error says, in a line: of gRPC's, whose first only announces them, its status and
    details."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if not lines:
        return "no message"
    return " ".join(lines[:3]) if lines[0].endswith(":") else lines[0]
