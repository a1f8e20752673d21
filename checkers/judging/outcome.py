"""What judging one promise hands over: evidence, figures, findings, excuses, and what kept it from
judging.

A check is a function ``check(history) -> Outcome``. It judges every (arm, trial) apart and reports
figures per arm. It never decides the verdict itself:

    invalid   there is a finding
    unknown   an (arm, trial) in which it saw nothing to judge; a reason of its own (`unknown`);
              an excuse that was used for more than `EXCUSED_SHARE` of what was judged there
    valid     otherwise

What is excused is never silent: each excuse names a witness that is not the suspect
(`checkers.judging.excuses`), is counted by arm, trial and rule, and is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from checkers.judging.verdict import Excused, Verdict
from checkers.judging.witness import Finding

EXCUSED_SHARE: Final = 0.25
"""Of what was judged in an (arm, trial): where more had to be excused, too little was judged."""


@dataclass(slots=True)
class Outcome:
    """Build one a check with `saw`, `add`, `excuse`, `unknown` and `unjudged`."""

    evidence: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    """By (arm, trial, what): how much of it there was to judge."""
    unknowns: list[str] = field(default_factory=list)
    not_judged: list[str] = field(default_factory=list)
    """What was left out, named: no system or scenario at hand could have shown it."""
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    excused: Counter[tuple[str, int, str, str, str]] = field(default_factory=Counter)
    """By (arm, trial, rule, excuse, what): how many would-be findings."""
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Small tables for pictures, stored as ``results/<name>.parquet``."""
    _found: dict[tuple[str, str, int], tuple[int, list[Finding]]] = field(default_factory=dict)
    """By (rule, arm, trial): how many violations there are, and the first few findings."""

    def arm(self, label: str) -> dict[str, Any]:
        """The figures of one arm, to be added to."""
        return self.arms.setdefault(label, {})

    def saw(self, arm: str, trial: int, what: str, n: int = 1) -> None:
        """There were ``n`` of ``what`` to judge there."""
        if n:
            self.evidence[arm, trial, what] += n

    @property
    def looked_at(self) -> int:
        """How much was judged in all."""
        return self.evidence.total()

    def add(self, finding: Finding, n: int = 1) -> None:
        """Take in a finding, which stands for ``n`` violations of that trial."""
        place = (finding.rule, finding.arm, finding.trial)
        before, kept = self._found.get(place, (0, []))
        self._found[place] = (before + n, [*kept, finding] if len(kept) < Finding.KEPT else kept)

    @property
    def counts(self) -> dict[str, int]:
        """By rule: how many violations there are."""
        found: Counter[str] = Counter()
        for (rule, _, _), (n, _) in self._found.items():
            found[rule] += n
        return dict(found)

    @property
    def broken(self) -> dict[tuple[str, int], list[str]]:
        """By (arm, trial): the rules that are broken there."""
        found: dict[tuple[str, int], list[str]] = {}
        for rule, arm, trial in self._found:
            found.setdefault((arm, trial), []).append(rule)
        return found

    @property
    def findings(self) -> list[Finding]:
        """The first `Finding.KEPT` of each rule."""
        kept: list[Finding] = []
        for rule in self.counts:
            of = (one for key, (_, some) in self._found.items() if key[0] == rule for one in some)
            kept += islice(of, Finding.KEPT)
        return kept

    def doubt(self, rules: Collection[str], trials: Mapping[tuple[str, int], str]) -> None:
        """What these rules found in these trials proves nothing, for the reason that is given."""
        for rule, arm, trial in list(self._found):
            if rule in rules and (arm, trial) in trials:
                n, _ = self._found.pop((rule, arm, trial))
                self.unknown(arm, trial, f"{n} x {rule}, but {trials[arm, trial]}")

    def excuse(self, arm: str, trial: int, rule: str, excuse: str, *, of: str, n: int = 1) -> None:
        """``n`` would-be findings of ``rule`` are lawful by an excuse; ``of``: which evidence they
        are a share of."""
        if n:
            self.excused[arm, trial, rule, excuse, of] += n

    def unknown(self, arm: str, trial: int, why: str) -> None:
        """That trial cannot be judged, or not wholly: the check says nothing."""
        self.unknowns.append(f"{arm}, trial {trial}: {why}")

    def unjudged(self, arm: str, what: str) -> None:
        """Named in the report; the verdict does not depend on it."""
        says = f"{arm}: {what}"
        if says not in self.not_judged:
            self.not_judged.append(says)

    def verdict(self, expected: Iterable[tuple[str, int]] = ()) -> tuple[Verdict, list[str]]:
        """What it amounts to, and why. ``expected``: the (arm, trial) pairs that it was to judge;
        when there is none, any evidence will do."""
        unknowns = self.doubts(expected)
        if self._found:
            says = {f.rule: f.says for f in reversed(self.findings)}
            reasons = [f"{n} x {rule}: {says.get(rule, '')}" for rule, n in self.counts.items()]
            return Verdict.INVALID, reasons + unknowns
        if unknowns:
            return Verdict.UNKNOWN, unknowns
        return Verdict.VALID, []

    def doubts(self, expected: Iterable[tuple[str, int]] = ()) -> list[str]:
        """Why it is not known of those, or of all; each reason once."""
        lacking = self._lacking(list(expected)) + list(self._too_much_excused())
        return list(dict.fromkeys(self.unknowns + lacking))

    def excuses(self) -> list[Excused]:
        """What was excused, and the share of what was judged there."""
        return [
            Excused(arm, trial, rule, excuse, n, self._share(arm, trial, of, n))
            for (arm, trial, rule, excuse, of), n in sorted(self.excused.items())
        ]

    def _lacking(self, expected: list[tuple[str, int]]) -> list[str]:
        if not self.evidence and not self.unknowns:
            return ["there was nothing to judge in the history"]
        seen = {(arm, trial) for arm, trial, _ in self.evidence}
        return [
            f"{arm}, trial {trial}: there was nothing to judge"
            for arm, trial in sorted(set(expected) - seen)
        ]

    def _too_much_excused(self) -> Iterable[str]:
        sums: Counter[tuple[str, int, str, str]] = Counter()
        for (arm, trial, _, excuse, of), n in self.excused.items():
            sums[arm, trial, excuse, of] += n
        for (arm, trial, excuse, of), n in sorted(sums.items()):
            share = self._share(arm, trial, of, n)
            if share > EXCUSED_SHARE:
                yield (
                    f"{arm}, trial {trial}: {n} of {self.evidence[arm, trial, of]} {of} had to be "
                    f"excused ({excuse}), more than {EXCUSED_SHARE:.0%}"
                )

    def _share(self, arm: str, trial: int, of: str, n: int) -> float:
        return round(n / max(self.evidence[arm, trial, of], 1), 6)
