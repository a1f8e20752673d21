"""`biplane sensitivity`: which lies of a broker, or of another witness, would any rule notice?

Mutation testing of the evidence: recorded runs that were valid are broken, column by column and way
by way (`breaking`), and judged again in groups (`groups`). What nobody notices is a lie with which
a run passes as valid. A ledger in the store, and one beside the page (`kept`), keep what was
judged; the same command goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from checkers.history import HistoryError
from checkers.history.schema import KINDS
from checkers.judging.verdict import Verdict
from harness.studies.ledger import Budget, Entry, Ledger, Play, origin
from harness.studies.sensitivity import kept
from harness.studies.sensitivity.breaking import ROW, WIDTHS, Breakage, Tables, breakages, broken
from harness.studies.sensitivity.columns import is_left_out
from harness.studies.sensitivity.groups import Source, judged
from harness.studies.sensitivity.judging import Judged
from harness.studies.sensitivity.reasons import unnoticed, why_unnoticed

LEDGER: Final = "sensitivity.jsonl"
_SCRATCH: Final = "sensitivity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """``limit``: at most so many breakages of a run, drawn by ``seed``, None: all; ``at_once``: so
    many are judged in one go; ``again``: what was not noticed before is asked once more; ``only``:
    kinds, none: all; ``kept``: the ledger beside the page."""

    runs: Sequence[Path]
    store: Path
    seed: int = 1
    limit: int | None = None
    at_once: int = 60
    widths: Sequence[str] = WIDTHS
    only: Sequence[str] = ()
    again: bool = False
    kept: Path | None = None

    def ledger(self) -> Ledger:
        return Ledger(self.store / LEDGER)

    def go(self, budget: Budget, tell: Callable[[Entry], None] = lambda entry: None) -> bool:
        """Judge what was not judged before; False when the budget was spent before the end. Raises
        `HistoryError` where a run cannot be read, or is not valid as it is."""
        ledger, before = self.ledger(), {entry.play: entry for entry in self.every()}
        for run in self.runs:
            source = Source.load(run)
            wanted = self._wanted(source, before)
            while group := dict(islice(wanted, self.at_once)):
                if budget.is_spent:
                    return False
                for entry in self._judged(source, group):
                    ledger.add(entry)
                    tell(entry)
        return True

    def every(self) -> list[Entry]:
        """What was judged, of whatever run, and would be judged today."""
        judged = kept.newest(kept.read(self.kept) if self.kept else (), self.ledger())
        asked = ((Breakage.of(entry.play.bug), entry) for entry in judged)
        return [entry for one, entry in asked if not is_left_out(one.kind, one.column)]

    def told(self) -> list[Entry]:
        """Of that, what was asked of these runs, kinds and widths."""
        plays = {
            play_of(source, one)
            for source in map(Source.load, self.runs)
            for one in self._drawn(source)
        }
        return [entry for entry in self.every() if entry.play in plays]

    def _drawn(self, source: Source) -> list[Breakage]:
        tables = {k: of for k, of in source.tables.items() if not self.only or k in self.only}
        drawn = list(breakages(tables, self.widths))
        random.Random(f"sensitivity:{self.seed}").shuffle(drawn)
        return drawn[: self.limit]

    def _wanted(
        self, source: Source, before: Mapping[Play, Entry]
    ) -> Iterator[tuple[Breakage, Tables]]:
        for one in self._drawn(source):
            known = before.get(play_of(source, one))
            if known is None or (self.again and known.verdict == Verdict.VALID):
                copy = broken(source.tables, one, self.seed)
                if copy is not None:
                    yield one, copy

    def _judged(self, source: Source, copies: dict[Breakage, Tables]) -> Iterator[Entry]:
        found = judged(source, copies, self.store / _SCRATCH)
        sound = found.pop(None, Judged())
        if sound.verdict is not Verdict.VALID:
            said = "; ".join([*sound.rules, *sound.unknown][:3])
            raise HistoryError(f"{source.run}: {sound.verdict} as it is ({said}); allowed: valid")
        for one, judgement in found.items():
            assert one is not None
            yield entry_of(source, one, judgement, sound)


def kinds() -> list[str]:
    """Whose rows can be broken."""
    return [kind for kind in KINDS if not is_left_out(kind, ROW)]


def play_of(source: Source, one: Breakage) -> Play:
    facts = source.record["arms"].get(source.arm) or {}
    return Play(
        scenario=source.scenario,
        seed=int(source.record.get("seed") or 0),
        planes=str(facts.get("planes", "")),
        sut=str(facts.get("sut", source.arm)),
        bug=str(one),
    )


def entry_of(source: Source, one: Breakage, found: Judged, sound: Judged) -> Entry:
    """``extra``: what of it was excused beyond what is excused in the sound one, and of what there
    was less to judge."""
    return Entry(
        play=play_of(source, one),
        verdict=str(found.verdict),
        rules=tuple(found.rules),
        reasons=tuple(found.unknown[:5]),
        extra={
            **origin(),
            "excused": sorted(found.excused - sound.excused),
            "less": sorted(sound.seen - found.seen),
        },
    )


def exit_code(entries: Iterable[Entry], *, ended: bool) -> int:
    """1: something was noticed in none of the runs, and no reason is given; 2: not all was asked; 0
    otherwise."""
    told = list(entries)
    if any(why_unnoticed(one) is None for one in unnoticed(told)):
        return Verdict.INVALID.exit_code
    return Verdict.UNKNOWN.exit_code if not ended or not told else Verdict.VALID.exit_code
