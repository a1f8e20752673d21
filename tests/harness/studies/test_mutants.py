"""`biplane mutants`: what counts as found, and what the exit code says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.promises import NAMES
from harness.run import Outcome
from harness.scenarios import SCENARIOS
from harness.scenarios.base import EVERYWHERE
from harness.settings import SettingsError
from harness.studies.mutants import Hunt, chosen, exit_code, hunt, table
from nodes.mutants import MUTANTS


def outcome(scenario: str, verdict: Verdict, check: str = "records", *rules: str) -> Outcome:
    violations = [{"rule": rule, "says": f"{rule} was broken"} for rule in rules]
    checks: dict[str, Any] = {
        check: {"violation_counts": dict.fromkeys(rules, 1), "violations": violations}
    }
    return Outcome(
        scenario=scenario,
        verdict=verdict,
        reasons=[] if verdict is Verdict.VALID else [f"it is {verdict}"],
        folder=Path("store") / scenario,
        results={"checks": checks},
        seconds=1.0,
    )


def hunts(found: Verdict, control: Verdict, *rules: str, check: str = "records") -> list[Hunt]:
    mutant = MUTANTS["double-append"]
    return [
        Hunt(
            mutant=mutant,
            outcome=outcome(mutant.scenario, found, check, *rules),
            control=outcome(mutant.scenario, control),
        )
    ]


@pytest.mark.parametrize(
    ("of", "code"),
    [
        (hunts(Verdict.INVALID, Verdict.VALID, "duplicate-append"), 0),
        (hunts(Verdict.VALID, Verdict.VALID), 1),  # nobody noticed
        (hunts(Verdict.INVALID, Verdict.VALID, "went-back", check="stale-metadata"), 1),
        (hunts(Verdict.INVALID, Verdict.INVALID, "duplicate-append"), 1),  # the sound one, too
        (hunts(Verdict.INVALID, Verdict.UNKNOWN, "duplicate-append"), 2),
        (hunts(Verdict.UNKNOWN, Verdict.VALID), 2),
    ],
)
def test_found_means_by_the_check_that_claims_it_and_without_accusing_the_sound(
    of: list[Hunt], code: int
) -> None:
    assert exit_code(of) == code


def test_the_table_names_rule_witness_and_report() -> None:
    text = "\n".join(table(hunts(Verdict.INVALID, Verdict.VALID, "duplicate-append")))
    for part in ("double-append", "log-recovery", "duplicate-append was broken", "report.html"):
        assert part in text
    assert "NOT FOUND" not in text
    missed = "\n".join(table(hunts(Verdict.UNKNOWN, Verdict.INVALID)))
    assert "unknown (NOT FOUND)" in missed
    assert "it is unknown" in missed
    assert "without a planted bug: it is invalid" in missed


def test_one_sound_run_serves_all_bugs_of_a_scenario() -> None:
    played: list[tuple[str, str]] = []

    def play(scenario: str, mutant: str) -> Outcome:
        played.append((scenario, mutant))
        return outcome(scenario, Verdict.INVALID if mutant else Verdict.VALID)

    found = list(hunt(chosen([]), play))
    assert {h.mutant.name for h in found} == set(MUTANTS)
    assert len(played) == len(MUTANTS) + len({m.scenario for m in MUTANTS.values()})
    assert all(h.control.scenario == h.mutant.scenario for h in found)


def test_a_name_that_is_no_planted_bug_is_refused() -> None:
    assert [m.name for m in chosen(["never-truncate"])] == ["never-truncate"]
    with pytest.raises(SettingsError, match="'off-by-one'; allowed: skip-controller"):
        chosen(["never-truncate", "off-by-one"])


@pytest.mark.parametrize("name", MUTANTS)
def test_every_planted_bug_names_a_scenario_that_asks_for_its_check(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.found_by in NAMES
    assert mutant.found_by in (*SCENARIOS[mutant.scenario].checks, *EVERYWHERE)
