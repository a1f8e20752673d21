"""Whole runs find every planted bug, by the check that claims it, and accuse no sound server.

Each planted bug names a scenario (nodes/mutants); it is played on a real cluster with the bug
and once without any, both with the same seed and so the same plan. All of them take minutes: by
default a few are played that nothing else here covers. ``BIPLANE_ALL_MUTANTS=1`` plays all,
``BIPLANE_MUTANT_SEED`` another seed; `biplane mutants` does the same for people.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from harness.run import Outcome, conclude, record_run, run
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from harness.studies.mutants import Hunt, Play
from nodes.mutants import MUTANTS
from tests.checkers.test_cluster import asked_for

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SEED = int(os.environ.get("BIPLANE_MUTANT_SEED", "291"))
CHAOS_S = 6  # one round of each scenario
FEW = ("truncate-to-high-watermark", "ack-before-replication")
NAMES = tuple(MUTANTS) if os.environ.get("BIPLANE_ALL_MUTANTS") == "1" else FEW
PLAYED = tuple(dict.fromkeys(MUTANTS[name].scenario for name in NAMES))
BROKEN_S = 10.0


def nothing(_where: str, _what: str) -> None:
    pass


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Plays each (scenario, planted bug) once, however many tests look at it."""
    store: Path = tmp_path_factory.mktemp("store")
    options: dict[str, Any] = {
        "seed": SEED,
        "planes": "dual",
        "store": store,
        "time_limit_s": CHAOS_S,
    }
    known: dict[tuple[str, str], Outcome] = {}

    def fresh(scenario: str, mutant: str) -> Outcome:
        played, settings = SCENARIOS[scenario], Settings.of(mutants=mutant, **options)
        if not mutant:
            return run(played, settings, nothing)
        # What it has broken for good need not be looked at for longer, nor by other checks.
        recorded = record_run(replace(played, quiesce_s=BROKEN_S), settings, nothing)
        asked_for(recorded.folder, MUTANTS[mutant].found_by)
        return conclude(recorded, nothing)

    def once(scenario: str, mutant: str) -> Outcome:
        if (scenario, mutant) not in known:
            known[scenario, mutant] = fresh(scenario, mutant)
        return known[scenario, mutant]

    return once


@pytest.mark.parametrize("scenario", PLAYED)
def test_a_sound_server_is_not_accused(play: Play, scenario: str) -> None:
    outcome = play(scenario, "")
    assert outcome.verdict is Verdict.VALID, outcome.reasons


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_is_found_with_a_witness(play: Play, name: str) -> None:
    mutant = MUTANTS[name]
    outcome = play(mutant.scenario, name)
    hunt = Hunt(mutant=mutant, outcome=outcome, control=play(mutant.scenario, ""))
    assert hunt.found, outcome.reasons
    assert mutant.rule in hunt.rules
    violations = outcome.results["checks"][mutant.found_by]["violations"]
    events = violations[0]["events"]
    assert events
    assert [e["t"] for e in events] == sorted(e["t"] for e in events)
