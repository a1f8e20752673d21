"""What one check hands over: figures, findings, and what kept it from judging.

A check is a function ``check(history) -> Outcome``. It judges every (arm, trial) apart and reports
figures per arm. It never decides the verdict itself: findings make it invalid, ``unknowns`` (or
having looked at nothing) make it unknown, else it is valid. `checkers.check` turns outcomes into
`checkers.verdict.CheckResult` rows and fetches the witnesses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checkers.verdict import Verdict
from checkers.witness import Finding


@dataclass(slots=True)
class Outcome:
    """``looked_at``: how many rows the check could judge; 0 means that it says nothing."""

    looked_at: int = 0
    unknowns: list[str] = field(default_factory=list)
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """By rule: how many violations there are; ``findings`` holds the first few of each."""
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Small tables for pictures, stored as ``results/<name>.parquet``."""

    def arm(self, label: str) -> dict[str, Any]:
        """The figures of one arm, to be added to."""
        return self.arms.setdefault(label, {})

    def add(self, finding: Finding) -> None:
        """Take in a finding, keeping the first `Finding.KEPT` of each rule."""
        count = self.counts.get(finding.rule, 0)
        self.counts[finding.rule] = count + 1
        if count < Finding.KEPT:
            self.findings.append(finding)

    def verdict(self) -> tuple[Verdict, list[str]]:
        """What it amounts to, and why."""
        if self.counts:
            says = {f.rule: f.says for f in reversed(self.findings)}
            reasons = [f"{n} x {rule}: {says.get(rule, '')}" for rule, n in self.counts.items()]
            return Verdict.INVALID, reasons + self.unknowns
        if self.unknowns:
            return Verdict.UNKNOWN, list(self.unknowns)
        if not self.looked_at:
            return Verdict.UNKNOWN, ["there was nothing to judge in the history"]
        return Verdict.VALID, []
