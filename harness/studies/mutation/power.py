"""What notices a generated mutant: which scenario and rule, which unit test; and what survives.

    found       a run was `invalid`; ``rules`` say by which rule
    stopped     no run was valid or invalid: all `unknown`, as when the cluster does not even start
    survived    it was reached, made a difference (or that cannot be told), and a run was `valid`
    listed      as survived, and docs/mutants.toml says why nobody could notice
    open        as survived, and not every scenario and seed that could notice was tried
    equal       it was reached and made no difference (never another value there)
    unreached   no run came by the mutated place

Each is played where the survey says that it could be noticed (`survey`), the scenario first that
makes most of its file and has found most of its room so far, until a run is `invalid`. All mutants
get their first run before any gets its second, so that what a budget leaves undone is spread
evenly.

Unit tests are asked besides (``unit``): those of the mutant's room, with the mutated package in the
place of the real one.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from harness.studies.ledger import Budget, Entry, Ledger, Play
from harness.studies.mutation import overlay
from harness.studies.mutation.overlay import Generated
from harness.studies.mutation.survey import SEED, Survey
from harness.studies.playing import Desk

_UNIT_TIMEOUT_S: Final = 300
_STOPPED_AFTER: Final = 3
"""So many runs that are all `unknown` say enough: the cluster does not work with this mutant."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What was tried of one mutant, of all that could be."""

    one: Generated
    entries: Sequence[Entry]
    left: Sequence[Play]

    @property
    def is_over(self) -> bool:
        found = any(e.found for e in self.entries)
        useless = [e.verdict for e in self.entries] == ["unknown"] * len(self.entries)
        return found or not self.left or (useless and len(self.entries) >= _STOPPED_AFTER)


def order(
    one: Generated,
    scenarios: Sequence[str],
    rooms: Mapping[str, str],
    entries: Iterable[Entry],
    survey: Survey,
) -> list[str]:
    """The scenarios, the likeliest to find it first: by how much they make of its file, as the
    survey saw, and by what they found of mutants of its room.

    ``rooms``: by the names of mutants. A scenario that was never tried counts as one that found
    its share (`Survey.share`) of two.
    """
    tried: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for entry in entries:
        if rooms.get(entry.play.bug) == one.room:
            tried[entry.play.scenario] += 1
            found[entry.play.scenario] += entry.found

    def rank(scenario: str) -> tuple[float, int]:
        share = survey.share(one, scenario)
        rate = (found[scenario] + 2 * share) / (tried[scenario] + 2)
        return -rate, scenarios.index(scenario)

    return sorted(scenarios, key=rank)


def attempts(
    one: Generated,
    *,
    survey: Survey,
    scenarios: Sequence[str],
    seeds: Sequence[int],
    ledger: Ledger,
    rooms: Mapping[str, str],
) -> Attempts:
    """What the ledger has of it, and what is still to be tried, in order: one seed of every
    scenario, then the next. The survey's own seed comes first: with others a change may make no
    difference at all (no broker has the id 0)."""
    likely = order(one, survey.chances(one, scenarios), rooms, ledger, survey)
    every = [
        Play(scenario=scenario, seed=seed, planes="dual", bug=one.name)
        for seed in sorted(seeds, key=lambda seed: seed != SEED)
        for scenario in likely
    ]
    done = [entry for entry in ledger if entry.play.bug == one.name]
    return Attempts(one, done, [this for this in every if this not in ledger])


def hunt(
    mutants: Sequence[Generated],
    *,
    root: Path,
    scratch: Path,
    survey: Survey,
    scenarios: Sequence[str],
    seeds: Sequence[int],
    tries: int,
    desk: Desk,
    budget: Budget,
    unit: bool = False,
    spared: Container[str] = (),
) -> Iterator[Entry]:
    """Play each until it is found, at most ``tries`` times in all; yields the runs that were
    judged. Those that are ``spared`` (by name) are not played any further. Stops when the budget is
    spent."""
    rooms = {one.name: one.room for one in mutants}
    for turn in range(1, tries + 1):
        for one in mutants:
            if desk.waiting(one.name):
                yield from desk.collect()  # whether it is to be played again
            now = attempts(
                one,
                survey=survey,
                scenarios=scenarios,
                seeds=seeds,
                ledger=desk.ledger,
                rooms=rooms,
            )
            played = len(now.entries) + desk.waiting(one.name)
            left = [this for this in now.left if this not in desk]
            if now.is_over or played >= turn or not left or one.name in spared:
                continue
            if budget.is_spent:
                yield from desk.collect()
                return
            folder = overlay.lay(root, one, scratch / one.name.replace("/", "-").replace(":", "-"))
            killed = _unit_tests(root, folder, one) if unit and turn == 1 else None
            with overlay.sources(folder):
                real = dataclasses.replace(left[0], bug="")  # the bug is in the sources
                desk.play(left[0], as_one=real, extra=partial(_told, folder, killed))
            shutil.rmtree(folder, ignore_errors=True)
            yield from desk.collect(but=1)
    yield from desk.collect()


def _told(folder: Path, killed: str | None) -> dict[str, object]:
    told = overlay.told(folder)
    return {"unit": killed, **{what: what in told for what in ("reached", "differed")}}


def fate(now: Attempts, survey: Survey, listed: Container[str] = ()) -> str:
    """One word of the module's docstring."""
    one, entries = now.one, now.entries
    if any(e.found for e in entries):
        return "found"
    reached = survey.was_reached(one) or any(e.extra.get("reached") for e in entries)
    if entries and all(e.verdict == "unknown" for e in entries):
        return "stopped" if len(entries) >= _STOPPED_AFTER or not now.left else "open"
    if not reached:
        return "open" if now.left else "unreached"
    differed = any(e.extra.get("differed") for e in entries)
    differed = differed or any(one.name in names for names in survey.differed.values())
    if not one.site.blind and not differed:
        return "open" if now.left else "equal"
    if one.name in listed:
        return "listed"
    return "open" if now.left else "survived"


def _unit_tests(root: Path, folder: Path, one: Generated) -> str | None:
    """The first test of the mutant's room that fails; None when all pass."""
    tests = folder / "tests"
    if not tests.exists():
        tests.symlink_to(root / "tests", target_is_directory=True)
    shutil.copy(root / "pyproject.toml", folder / "pyproject.toml")
    where = f"tests/{one.room}"
    command = [sys.executable, "-m", "pytest", where, "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_UNIT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{where}: not done in {_UNIT_TIMEOUT_S} s"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if failed:
        return failed[1]
    return None if done.returncode == 0 else f"{where}: exit code {done.returncode}"
