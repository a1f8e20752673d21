"""Where a mutant could be noticed at all: one run of each scenario in which every place is watched.

The broker does what it always does (`overlay.lay_watched`) and tells of every possible change
whether its place was reached, and whether the change would have made anything of it. A mutant is
then played where it would make a difference, and nowhere else; what makes none in any scenario is
known without a run of its own.

Such a run is a sound run of its scenario besides: one that is `invalid` is a false alarm.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from harness.studies.ledger import Budget, Entry, Play
from harness.studies.mutation import overlay
from harness.studies.mutation.overlay import Generated
from harness.studies.playing import Desk

WATCHED: Final = "watched-"
"""Begins the ``bug`` of a survey's plays; what follows is the digest of the sources."""

SEED: Final = 2
"""Of a survey's plays. Even: one of the brokers has the id 0 (`harness.sut.protocol`), with which
more of the changes make a difference."""


@dataclass(frozen=True)
class Survey:
    """By scenario, the names of the mutants whose place was reached, and of those of which the
    change would have made a difference there."""

    reached: Mapping[str, frozenset[str]] = field(default_factory=dict)
    differed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def chances(self, one: Generated, scenarios: Sequence[str]) -> list[str]:
        """Where a run could notice it, as far as is known: scenarios without a survey count."""
        seen = self.reached if one.site.blind else self.differed
        return [s for s in scenarios if s not in seen or one.name in seen[s]]

    def share(self, one: Generated, scenario: str) -> float:
        """How much a scenario makes of the mutant's file, 0 to 1: of how many of its places a
        change would differ there, against the scenario where most do. 0.5 where nobody knows."""
        file = one.name.partition(":")[0]
        told = {name: self._counts[name, file] for name in self.differed}
        most = max(told.values(), default=0)
        return told[scenario] / most if scenario in told and most else 0.5

    @cached_property
    def _counts(self) -> Counter[tuple[str, str]]:
        """By scenario and file, as mutants' names have it."""
        return Counter(
            (scenario, name.partition(":")[0])
            for scenario, names in self.differed.items()
            for name in names
        )

    def was_reached(self, one: Generated) -> bool:
        return any(one.name in names for names in self.reached.values())

    def alone(self, one: Generated) -> str:
        """The only scenario that could notice it; "" when there are several, or none."""
        chances = self.chances(one, list(self.reached))
        return chances[0] if len(chances) == 1 else ""


def survey_of(entries: Iterable[Entry], digest: str) -> Survey:
    """Of the sources of that digest, from a ledger's entries; several runs of a scenario add up."""
    reached: dict[str, frozenset[str]] = {}
    differed: dict[str, frozenset[str]] = {}
    for entry in entries:
        if entry.play.bug == WATCHED + digest and entry.extra.get("told"):
            told = [line.partition(" ") for line in entry.extra["told"]]
            for into, word in ((reached, "reached"), (differed, "differed")):
                names = frozenset(name for said, _, name in told if said == word)
                into[entry.play.scenario] = into.get(entry.play.scenario, frozenset()) | names
    return Survey(reached, differed)


def look(
    scenarios: Sequence[str], *, root: Path, scratch: Path, desk: Desk, budget: Budget
) -> None:
    """Play what is lacking; the runs wait at the desk for their verdicts, which nobody needs to
    know where a change makes a difference."""
    digest = overlay.digest(root)
    for scenario in scenarios:
        this = Play(scenario=scenario, seed=SEED, planes="dual", bug=WATCHED + digest)
        if this in desk:
            continue
        if budget.is_spent:
            return
        folder = overlay.lay_watched(root, scratch / "watched")
        with overlay.sources(folder):
            sound = dataclasses.replace(this, bug="")
            desk.play(this, as_one=sound, extra=partial(_told, folder))


def _told(folder: Path) -> dict[str, list[str]]:
    return {"told": sorted(overlay.told(folder))}
