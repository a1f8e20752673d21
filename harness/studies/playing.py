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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.judging.verdict import Verdict
from harness.arms import Skipped
from harness.run import Progress, Recorded, outcome_of, record_run, remove_log_dirs
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from harness.studies.ledger import Entry, Ledger, Play, entry_of, origin, read

_NICE: Final = 5
"""How far the judge stands back: a broker that waits for a processor is a broker that is late."""


WAITING: Final = "waiting"
"""The verdict of a run that has none yet."""
Record = Callable[[Play], Recorded]
"""Plays a run to its finished history; raises what `harness.run.record_run` does."""
Judge = Callable[[Path], "Future[tuple[dict[str, Any], float]]"]
"""Begins to judge a run's folder: its results, and the seconds that took."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A run without a verdict. ``extra`` is to be kept with its entry."""

    play: Play
    recorded: Recorded
    extra: Mapping[str, Any]


class Desk:
    """Where runs wait for their verdicts: played ones come in, entries go out into the ledger.

    What waits is on disk beside the ledger, so that a study that is stopped, or that is to judge
    ``later``, loses no run: whoever opens the desk again finds them. Owned by one thread.
    """

    def __init__(self, ledger: Ledger, record: Record, judge: Judge, *, later: bool = False):
        self.ledger: Final = ledger
        self._record, self._judge, self._later = record, judge, later
        self._path = _waiting_room(ledger)
        self._waiting = list(_read(ledger))
        self._verdicts: dict[Play, Future[tuple[dict[str, Any], float]]] = {}

    def __contains__(self, play: object) -> bool:
        return play in self.ledger or any(w.play == play for w in self._waiting)

    def entries(self) -> Iterator[Entry]:
        """See `entries_of`."""
        return entries_of(self.ledger)

    def waiting(self, bug: str) -> int:
        """How many runs of that bug wait for their verdict."""
        return sum(w.play.bug == bug for w in self._waiting)

    def play(
        self,
        this: Play,
        *,
        as_one: Play | None = None,
        extra: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Play it (``as_one``: under another name) and let it wait. ``extra`` is asked when it was
        played. A run that cannot be played is skipped, with the reason."""
        try:
            recorded = self._record(as_one or this)
        except Skipped as why:
            self.ledger.add(Entry(play=this, verdict="skipped", reasons=(str(why),)))
            return
        one = _Waiting(this, recorded, {**origin(), **extra()})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(orjson.dumps(asdict(one), default=str, option=orjson.OPT_APPEND_NEWLINE))
        self._waiting.append(one)

    def collect(self, but: int = 0) -> Iterator[Entry]:
        """The entries of those that wait, in order, until no more than ``but`` are left; each of
        them is being judged meanwhile. Nothing, when they are to be judged later."""
        if self._later:
            return
        for one in self._waiting:
            if one.play not in self._verdicts:
                self._verdicts[one.play] = self._judge(one.recorded.folder)
        while len(self._waiting) > but:
            one = self._waiting[0]
            results, judged_s = self._verdicts.pop(one.play).result()
            if not one.recorded.keep_data:
                remove_log_dirs(one.recorded)
            entry = entry_of(one.play, outcome_of(one.recorded, results, judged_s), one.extra)
            self.ledger.add(entry)
            self._waiting.pop(0)
            yield entry


def entries_of(ledger: Ledger) -> Iterator[Entry]:
    """Those of the ledger, and of the runs that wait for their verdict what is known of them."""
    yield from ledger
    for one in _read(ledger):
        yield Entry(play=one.play, verdict=WAITING, extra=one.extra)


def _waiting_room(ledger: Ledger) -> Path:
    return ledger.path.with_suffix(".waiting.jsonl")


def _read(ledger: Ledger) -> Iterator[_Waiting]:
    path = _waiting_room(ledger)
    judged = {entry.folder for entry in read(ledger.path)}  # a play may have been played anew
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            body = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # torn: it is played again
        recorded = body["recorded"]
        if recorded["folder"] in judged:
            continue
        recorded["folder"] = Path(recorded["folder"])
        if not recorded["folder"].is_dir():
            continue  # somebody took it away: it is played again
        recorded["log_dirs"] = [Path(path) for path in recorded["log_dirs"]]
        yield _Waiting(Play(**body["play"]), Recorded(**recorded), body["extra"])


def recorder(progress: Progress, **options: Any) -> Record:
    """Plays with these options of `Settings.of`."""

    def record(one: Play) -> Recorded:
        settings = Settings.of(
            seed=one.seed, planes=one.planes, sut=one.sut, mutants=one.bug, **options
        )
        return record_run(SCENARIOS[one.scenario], settings, progress)

    return record


@contextmanager
def judges() -> Iterator[Judge]:
    """A process that judges one run after another, and is started when the first is to be."""
    context = multiprocessing.get_context("spawn")  # no thread or socket of ours goes along
    with ProcessPoolExecutor(1, mp_context=context, initializer=_stand_back) as pool:
        yield lambda folder: pool.submit(_judge, folder)


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
