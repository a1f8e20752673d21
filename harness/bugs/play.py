"""`biplane reproduce`: bugs on the releases that have them, until they are found, and on those in
which they are mended.

A *try* is one run of a bug's plan, its seed the number of the try. What came of each is kept in a
ledger (store/reproduce/ledger.jsonl), so that what was stopped goes on, and is never played twice;
`biplane track-record` takes it into one that outlives the store (docs/track-record.jsonl). While
one try is played the one before is judged (`harness.studies.playing`), unless it hangs on that
verdict whether there is a next.
Found means: a rule of ``found_by`` was broken. On the mended release anything but valid is a
failure: a rule that fires there too proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkers.judging.verdict import Verdict
from harness.arms import Skipped
from harness.bugs.book import Bug
from harness.bugs.scenario import plan_of, profile_of, scenario_of
from harness.run import Progress, Recorded, record_run
from harness.runtime.protocol import SetupError
from harness.settings import Settings
from harness.studies.ledger import Budget, Entry, Play
from harness.studies.playing import WAITING, Desk, Record

LEDGER: Final = Path("reproduce") / "ledger.jsonl"
BROKEN, MENDED = "broken", "mended"
Cannot = Callable[[Bug, SetupError], None]
"""Told of a bug that cannot be played here, and is left out from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One try and what came of it; ``new``: it was played now."""

    bug: Bug
    entry: Entry
    new: bool

    @property
    def side(self) -> str:
        return self.entry.play.bug

    @property
    def found(self) -> bool:
        return is_found(self.bug, self.entry)


def is_found(bug: Bug, entry: Entry) -> bool:
    """Whether a rule was broken by which the bug is known."""
    return bool(set(bug.found_by) & set(entry.rules))


def is_of(bug: Bug, entry: Entry) -> bool:
    """Whether it was played by the file as it is."""
    return entry.play.scenario == bug.id and entry.extra.get("digest") == bug.digest


def play_of(bug: Bug, side: str, number: int) -> Play:
    release = bug.broken if side == BROKEN or bug.mended is None else bug.mended
    return Play(
        scenario=bug.id,
        seed=number,
        planes=str(bug.planes),
        sut=f"{bug.sut}@{release}",
        bug=side,
    )


def reproduce(
    bugs: Sequence[Bug],
    desk: Desk,
    *,
    tries: int,
    mended: int | None = None,
    budget: Budget,
    cannot: Cannot,
) -> Iterator[Try]:
    """``tries`` of each on its broken release and ``mended`` (default: as many) on the mended one:
    the first of everything, then the next, so that whatever the budget leaves undone is spread
    evenly. Without a number (0) a bug is played until it is found or its own budget is spent, and
    then once where it is mended. Of a bug that is still open there is no mended release."""
    table = _Table(bugs, desk, cannot)
    numbers = {BROKEN: tries, MENDED: tries if mended is None else mended}
    if not any(numbers.values()):
        for bug in bugs:
            yield from _until_found(bug, table, budget)
    for number in range(1, max(numbers.values()) + 1):
        for bug in bugs:
            for side in (BROKEN, MENDED) if bug.mended else (BROKEN,):
                if number <= numbers[side] and not budget.is_spent:
                    yield from table.play(bug, side, number)
                    yield from table.verdicts(but=1)
    yield from table.verdicts()


def _until_found(bug: Bug, table: _Table, budget: Budget) -> Iterator[Try]:
    own, number, found = Budget(bug.budget_s), 0, False
    while not (found or own.is_spent or budget.is_spent):
        number += 1
        for one in (*table.play(bug, BROKEN, number), *table.verdicts()):
            found = found or (one.bug is bug and one.found)
            yield one
    if bug.mended and not budget.is_spent:
        yield from table.play(bug, MENDED, 1)
        yield from table.verdicts()


class _Table:
    """Bugs at a desk: those that cannot be played here are left out after their first try."""

    def __init__(self, bugs: Sequence[Bug], desk: Desk, cannot: Cannot) -> None:
        self._bugs = {bug.id: bug for bug in bugs}
        self._desk, self._cannot = desk, cannot
        self._left_out: set[str] = set()

    def play(self, bug: Bug, side: str, number: int) -> Iterator[Try]:
        """The try that was kept of it; or it is played, and its verdict awaited."""
        one = play_of(bug, side, number)
        known = [e for e in self._desk.entries() if e.play == one and is_of(bug, e)]
        if known and known[-1].verdict != WAITING:
            yield Try(bug=bug, entry=known[-1], new=False)
        if known or bug.id in self._left_out:
            return
        try:
            self._desk.play(one, extra=lambda: {"digest": bug.digest})
        except SetupError as why:
            self._left_out.add(bug.id)
            self._cannot(bug, why)

    def verdicts(self, but: int = 0) -> Iterator[Try]:
        """Of those that wait for theirs, until no more than ``but`` do. What an earlier command
        left waiting is among them."""
        for entry in self._desk.collect(but=but):
            bug = self._bugs.get(entry.play.scenario)
            if bug is not None and is_of(bug, entry):
                yield Try(bug=bug, entry=entry, new=True)


def player(
    bugs: Mapping[str, Bug],
    progress: Progress,
    *,
    store: Path,
    runtime: str,
    keep_data: bool = False,
) -> Record:
    """Plays in real clusters."""

    def play(one: Play) -> Recorded:
        bug = bugs[one.scenario]
        settings = Settings.of(
            seed=one.seed,
            sut=one.sut,
            planes=one.planes,
            store=store,
            runtime=runtime,
            keep_data=keep_data,
        )
        settings = replace(settings, profile=profile_of(bug))
        extra = bug.mended_config if one.bug == MENDED else {}
        scenario = scenario_of(replace(bug, plan=plan_of(bug, one.seed)), extra)
        try:
            return record_run(scenario, settings, progress)
        except Skipped as why:
            raise SetupError(str(why)) from None

    return play


def succeeded(tries: Sequence[Try]) -> bool:
    """Found on the release that has it, valid wherever it is mended."""
    broken = [t for t in tries if t.side == BROKEN]
    mended = [t for t in tries if t.side == MENDED]
    found = any(t.found for t in broken)
    still_open = bool(broken) and broken[-1].bug.mended is None
    valid = all(t.entry.verdict == Verdict.VALID for t in mended)
    return found and (still_open or bool(mended)) and valid


def witness_of(bug: Bug, results: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """(rule, violation) of the first witness by which the bug is known."""
    for name, check in (results.get("checks") or {}).items():
        for violation in check.get("violations") or []:
            rule = f"{name}: {violation['rule']}"
            if rule in bug.found_by:
                return rule, violation
    return None
