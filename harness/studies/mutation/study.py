"""`biplane mutate`: survey, hunt and page, over ledgers that go on where they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from harness.studies.ledger import Budget, Entry, Ledger
from harness.studies.mutation import overlay, power
from harness.studies.mutation import page as pages
from harness.studies.mutation.overlay import Generated
from harness.studies.mutation.power import Attempts
from harness.studies.mutation.survey import Survey, look, survey_of
from harness.studies.playing import Desk, Judge, Record, entries_of

LEDGER: Final = "generated.jsonl"
"""One for all draws: mutants are named by what they change, so several draws share their runs."""
WATCHED: Final = "watched.jsonl"


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is asked. ``store`` keeps the ledgers and the overlays."""

    count: int
    seed: int
    seeds: Sequence[int]
    tries: int
    scenarios: Sequence[str]
    store: Path
    reasons: Path
    unit: bool = False

    @cached_property
    def root(self) -> Path:
        return overlay.source_root()

    @cached_property
    def drawn(self) -> list[Generated]:
        return overlay.draw(self.root, self.seed, self.count)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.store / LEDGER)

    @cached_property
    def watched(self) -> Ledger:
        return Ledger(self.store / WATCHED)

    @property
    def survey(self) -> Survey:
        """What was seen, whether those runs were judged or not."""
        return survey_of(entries_of(self.watched), overlay.digest(self.root))

    def go(
        self, record: Record, judge: Judge, budget: Budget, *, later: bool = False
    ) -> Iterator[tuple[str, Entry]]:
        """Play until nothing is left or the budget is spent; yields (mutant, run), the mutant being
        "" in the survey. ``later``: what is played waits for its verdict until the next time.

        The survey's runs are judged when the hunt is over: what they saw is known without a
        verdict. A budget that the hunt has spent leaves them to the next time, one that is spent
        from the start is there to judge."""
        to_judge = budget.is_spent
        watched = Desk(self.watched, record, judge, later=later)
        look(self.scenarios, root=self.root, scratch=self.store, desk=watched, budget=budget)
        for entry in power.hunt(
            self.drawn,
            root=self.root,
            scratch=self.store,
            survey=self.survey,
            scenarios=self.scenarios,
            seeds=self.seeds,
            tries=self.tries,
            desk=Desk(self.ledger, record, judge, later=later),
            budget=budget,
            unit=self.unit,
            spared=pages.reasons(self.reasons),
        ):
            yield entry.play.bug, entry
        for entry in watched.collect() if to_judge or not budget.is_spent else ():
            yield "", entry

    def attempts(self) -> list[Attempts]:
        survey, rooms = self.survey, {one.name: one.room for one in self.drawn}
        return [
            power.attempts(
                one,
                survey=survey,
                scenarios=self.scenarios,
                seeds=self.seeds,
                ledger=self.ledger,
                rooms=rooms,
            )
            for one in self.drawn
        ]

    def page(self, command: str) -> str:
        return pages.page(
            self.attempts(),
            survey=self.survey,
            sound=pages.sound_entries(list(self.watched), overlay.digest(self.root)),
            reasons=pages.reasons(self.reasons),
            command=command,
        )

    def exit_code(self) -> int:
        """1: a mutant survived, or a sound run was invalid; 2: something was not tried."""
        survey, listed = self.survey, pages.reasons(self.reasons)
        fates = {power.fate(now, survey, listed) for now in self.attempts()}
        sound = pages.sound_entries(list(self.watched), overlay.digest(self.root))
        if "survived" in fates or any(e.found for e in sound):
            return 1
        return 2 if fates & {"open", "stopped"} or any(e.verdict == "unknown" for e in sound) else 0
