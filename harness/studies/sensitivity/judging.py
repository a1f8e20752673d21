"""What came of each trial of a history by itself: many broken copies are judged in one go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from checkers.check import chosen, first_line, found_by
from checkers.history import HistoryError
from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.judging.verdict import Verdict
from checkers.promises import promise

_AT_ONCE: Final = 3
_PLACE: Final = re.compile(r"(?P<arm>.+?), trial (?P<trial>\d+): (?P<why>.*)", re.DOTALL)
Trial = tuple[str, int]


@dataclass(slots=True)
class Judged:
    """One trial. ``rules``: those that are broken, as "promise: rule"; ``unknown``: why nobody
    knows; ``excused``: by rule, how much was; ``seen``: by promise and what, how much there was to
    judge."""

    rules: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    excused: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, more: Judged) -> None:
        """Take in what other promises say of it."""
        self.rules += more.rules
        self.unknown += more.unknown
        self.excused += more.excused
        self.seen += more.seen

    @property
    def verdict(self) -> Verdict:
        if self.rules:
            return Verdict.INVALID
        return Verdict.UNKNOWN if self.unknown else Verdict.VALID


Spoilt = dict[str, str]
"""By promise that says of all trials at once that it does not know, or whose check crashed, why:
which of them is the cause is not told."""


def judge(folder: Path, names: Collection[str] = ()) -> tuple[dict[Trial, Judged], Spoilt]:
    """By (arm, trial); by these promises, none: those that run.json asks for. Raises `HistoryError`
    where every check there is crashes: no lie does that."""
    spoilt: Spoilt = {}
    with History.load(folder, judge=True) as history:
        found = {key: Judged() for key in history.run.trials}
        asked = [one for one in chosen(history.run.checks) if not names or one in names]
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            outcomes = list(pool.map(lambda name: _outcome(history, name), asked))
        if not names and all(isinstance(outcome, str) for outcome in outcomes):
            raise HistoryError(f"{folder}: nothing can be judged: {outcomes[0]}")
        for name, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, str):
                spoilt[name] = outcome
            else:
                why = _take_in(found, name, outcome, history.expected(name))
                spoilt |= {name: why} if why else {}
    return found, spoilt


def _outcome(history: History, name: str) -> Outcome | str:
    """What the check found; how it crashed, otherwise."""
    try:
        return found_by(history, promise(name))
    except Exception as error:
        return f"{name}: the checker crashed: {type(error).__name__}: {first_line(error)}"


def _take_in(
    found: Mapping[Trial, Judged], name: str, outcome: Outcome, expected: list[Trial]
) -> str:
    """Put down with each trial what was found of it; "", or what was said of them all."""
    doubts = [(doubt, _PLACE.match(doubt)) for doubt in outcome.doubts(expected)]
    of_all = [doubt for doubt, match in doubts if match is None or _key(match) not in found]
    if of_all:
        return f"{name}: {of_all[0]}"
    for doubt, match in doubts:
        assert match is not None, doubt
        found[_key(match)].unknown.append(f"{name}: {match['why']}")
    for key, rules in outcome.broken.items():
        found[key].rules += [f"{name}: {rule}" for rule in rules]
    for (arm, trial, rule, excuse, _), n in outcome.excused.items():
        found[arm, trial].excused[f"{rule} ({excuse})"] += n
    for (arm, trial, what), n in outcome.evidence.items():
        if (arm, trial) in found:
            found[arm, trial].seen[f"{name}: {what}"] += n
    return ""


def _key(match: re.Match[str]) -> Trial:
    return match["arm"], int(match["trial"])
