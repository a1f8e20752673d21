"""The page of guarantees says what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.promises import NAMES, promises
from harness.scenarios import SCENARIOS
from harness.studies.guarantees import page

ROOT = Path(__file__).parents[3]
TESTS = "\n".join(p.read_text() for p in (ROOT / "tests/checkers").rglob("*.py"))


def test_the_page_in_docs_is_the_one_that_the_code_makes() -> None:
    again = "biplane guarantees --out docs/guarantees.md"
    assert (ROOT / "docs/guarantees.md").read_text() == page(), f"run: {again}"


@pytest.mark.parametrize("name", NAMES)
def test_every_promise_is_put_to_the_test_by_a_scenario(name: str) -> None:
    section = page().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert "none asks for it" not in section


@pytest.mark.parametrize("rule", [rule for p in promises() for rule in p.rules])
def test_every_rule_has_a_story_that_breaks_it(rule: str) -> None:
    assert f'"{rule}"' in TESTS


def test_scenarios_ask_for_promises_that_there_are() -> None:
    for scenario in SCENARIOS.values():
        assert set(scenario.checks) <= set(NAMES), scenario.name
