"""What a check's outcome counts and keeps."""

from __future__ import annotations

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding


def test_a_finding_may_stand_for_many_and_takes_no_other_ones_place() -> None:
    outcome = Outcome()
    for number in range(Finding.KEPT + 2):
        outcome.add(Finding("lost", f"finding {number}", "arm", 0, ()), 100)
    outcome.add(Finding("found", "another rule's", "arm", 0, ()))
    assert outcome.counts == {"lost": 100 * (Finding.KEPT + 2), "found": 1}
    said = [f"finding {number}" for number in range(Finding.KEPT)]
    assert [finding.says for finding in outcome.findings] == [*said, "another rule's"]


def test_the_first_are_kept_of_each_trial_and_shown_of_each_rule() -> None:
    outcome = Outcome()
    for trial in (0, 1):
        for number in range(Finding.KEPT + 1):
            outcome.add(Finding("late", f"{trial}: {number}", "arm", trial, ()))
    assert [f.trial for f in outcome.findings] == [0] * Finding.KEPT
    outcome.doubt({"late"}, {("arm", 0): "it stood still"})
    assert outcome.counts == {"late": Finding.KEPT + 1}
    assert [f.says for f in outcome.findings] == [f"1: {n}" for n in range(Finding.KEPT)]
    assert outcome.unknowns == [f"arm, trial 0: {Finding.KEPT + 1} x late, but it stood still"]
    outcome.doubt({"lost"}, {("arm", 1): "it stood still"})
    assert outcome.counts
