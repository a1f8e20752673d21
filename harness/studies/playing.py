"""Many runs after each other, as fast as one machine lets them: while one is played, the one before
is judged, in a process of its own that keeps its Spark and yields the processors to the brokers.

Reports are written of runs that are `invalid` only, and brokers' log directories are given back
whatever the verdict: a study of hundreds of runs would fill the disk. The history stays.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from checkers.judging.verdict import Verdict
from harness.run import Outcome, Progress, Recorded, outcome_of, record_run, remove_log_dirs
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from harness.studies.ledger import Play

_NICE: Final = 5
"""How far the judge stands back: a broker that waits for a processor is a broker that is late."""


class Pending(Protocol):
    """A run that was played. ``result`` waits for its verdict."""

    def result(self) -> Outcome: ...


class Player:
    """Plays runs with these options of `Settings.of`. Made by `player`."""

    def __init__(self, pool: ProcessPoolExecutor, progress: Progress, options: dict[str, Any]):
        self._pool, self._progress, self._options = pool, progress, options

    def __call__(self, one: Play) -> Pending:
        """Returns when the run is recorded; raises what `harness.run.record_run` does."""
        settings = Settings.of(
            seed=one.seed, planes=one.planes, sut=one.sut, mutants=one.bug, **self._options
        )
        recorded = record_run(SCENARIOS[one.scenario], settings, self._progress)
        return _Judged(recorded, self._pool.submit(_judge, recorded.folder))


class _Judged:
    def __init__(self, recorded: Recorded, verdict: Future[tuple[dict[str, Any], float]]) -> None:
        self._recorded, self._verdict = recorded, verdict

    def result(self) -> Outcome:
        results, judged_s = self._verdict.result()
        if not self._recorded.keep_data:
            remove_log_dirs(self._recorded)
        return outcome_of(self._recorded, results, judged_s)


@contextmanager
def player(progress: Progress, **options: Any) -> Iterator[Player]:
    context = multiprocessing.get_context("spawn")  # no thread or socket of ours goes along
    with ProcessPoolExecutor(1, mp_context=context, initializer=_stand_back) as pool:
        yield Player(pool, progress, options)


def _stand_back() -> None:
    """In the judge's process: low priority, and an end when the study ends, however it ends."""
    os.nice(_NICE)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with, name="parent-watch", daemon=True).start()


def _judge(folder: Path) -> tuple[dict[str, Any], float]:
    from harness.run import judge, write_report

    begun = time.monotonic()
    results = judge(folder)
    if results["verdict"] == Verdict.INVALID:
        write_report(folder)
    return results, time.monotonic() - begun
