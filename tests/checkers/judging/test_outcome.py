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
