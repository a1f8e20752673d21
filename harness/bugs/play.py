"""`biplane reproduce`: a bug on the release that has it, until it is found, and on the one in which
it is mended.

A *try* is one run of the bug's plan, its seed the number of the try. What came of each is kept in a
ledger (store/reproduce/ledger.jsonl), so that what was stopped goes on, and is never played twice;
`biplane track-record` takes it into one that outlives the store (docs/track-record.jsonl).
Found means: a rule of ``found_by`` was broken. On the mended release anything but valid is a
failure: a rule that fires there too proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkers.judging.verdict import Verdict
from harness.bugs.book import Bug
from harness.bugs.scenario import plan_of, profile_of, scenario_of
from harness.run import Outcome, Progress, run
from harness.settings import Settings
from harness.studies.ledger import Budget, Entry, Ledger, Play, entry_of, origin

LEDGER: Final = Path("reproduce") / "ledger.jsonl"
BROKEN, MENDED = "broken", "mended"
PlayIt = Callable[[Bug, Play], Outcome]


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
    bug: Bug, ledger: Ledger, play: PlayIt, *, tries: int, budget: Budget, own: Budget
) -> Iterator[Try]:
    """``tries`` on the broken release, all of them, or without a number (0) until it is found or
    ``own``, the bug's budget, is spent; then as many on the mended one, once if it was 0. Of a bug
    that is still open there is none."""
    number = 0
    while not budget.is_spent and (number < tries if tries else not own.is_spent):
        number += 1
        done = _once(bug, ledger, play, BROKEN, number)
        yield done
        if done.found and not tries:
            break
    for number in range(1, max(tries, 1) + 1 if bug.mended else 1):
        if budget.is_spent:
            return
        yield _once(bug, ledger, play, MENDED, number)


def _once(bug: Bug, ledger: Ledger, play: PlayIt, side: str, number: int) -> Try:
    one = play_of(bug, side, number)
    known = ledger.get(one)
    if known is not None and is_of(bug, known):
        return Try(bug=bug, entry=known, new=False)
    entry = entry_of(one, play(bug, one), {**origin(), "digest": bug.digest})
    ledger.add(entry)
    return Try(bug=bug, entry=entry, new=True)


def player(progress: Progress, *, store: Path, runtime: str, keep_data: bool = False) -> PlayIt:
    """Plays in real clusters."""

    def play(bug: Bug, one: Play) -> Outcome:
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
        return run(scenario, settings, progress)

    return play


def succeeded(tries: Sequence[Try]) -> bool:
    """Found at last on the release that has it, valid wherever it is mended."""
    broken = [t for t in tries if t.side == BROKEN]
    mended = [t for t in tries if t.side == MENDED]
    found = bool(broken) and broken[-1].found
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
