"""The registry of planted bugs."""

import dataclasses

import pytest

from nodes.core.rules import RULES, Rules
from nodes.mutants import MUTANTS, UnknownMutant, rules_with


def test_without_names_the_rules_are_the_correct_ones() -> None:
    assert rules_with([]) is RULES


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_breaks_exactly_the_rules_it_names(name: str) -> None:
    mutant = MUTANTS[name]
    rules = rules_with([name])
    broken = {
        field.name
        for field in dataclasses.fields(Rules)
        if getattr(rules, field.name) is not getattr(RULES, field.name)
    }
    assert broken == set(mutant.breaks)
    assert mutant.says
    assert mutant.found_by


def test_mutants_add_up() -> None:
    rules = rules_with(["double-append", "never-truncate"])
    assert rules.appends_per_batch() == 2
    assert rules.truncation_for is MUTANTS["never-truncate"].breaks["truncation_for"]


def test_controllers_writes_are_conditioned_unless_the_bug_is_planted() -> None:
    assert RULES.checks_controller_znode()
    assert not rules_with(["skip-controller-znode-check"]).checks_controller_znode()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownMutant, match="'off-by-one'; allowed: skip-controller"):
        rules_with(["off-by-one"])
