"""What comes to the driver does not grow with a run's load, nor with its length: by what Python
asks of whoever answers (`test_scale_in_spark`: what Spark alone can be asked)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from checkers.check import check_all
from checkers.promises import NAMES
from tests.checkers.conftest import Story
from tests.checkers.soak import BROUGHT, PLANTED, brought, soak

__all__ = ["brought"]
OF_WHAT_HAPPENED: Final = {
    "checkers.facts.answers": "brokers' answers, by life and by committed state",
    "checkers.facts.cuts": "demotions, by partition and leader epoch",
    "checkers.promises.epochs": "acknowledgements, by partition and leader epoch",
    "checkers.promises.fencing": "requests, by broker's life and epochs",
}
"""Places that still bring what grows with restarts and elections, though not with the load."""


@pytest.mark.parametrize("times", ["longer", "more"])
def test_a_history_ten_times_as_long_brings_no_more_rows(
    spark: Any, brought: Counter[str], times: str
) -> None:
    story = Story()
    soak(story, 60 if times == "longer" else 6, 1 if times == "longer" else 10)
    results = check_all(story.history(spark), NAMES)
    crashed = [c.reasons for c in results.checks.values() if "crashed" in "".join(c.reasons)]
    assert not crashed
    assert not [v for c in results.checks.values() for v in c.violations]
    grown = {where: n for where, n in brought.items() if n > BROUGHT}
    if times == "longer":
        grown = {where: n for where, n in grown.items() if where not in OF_WHAT_HAPPENED}
    assert not grown
    assert brought


def test_every_planted_violation_is_counted_and_the_first_are_shown(
    spark: Any, brought: Counter[str]
) -> None:
    story, rounds = Story(), 30
    soak(story, rounds, planted=True)
    results = check_all(story.history(spark), list(PLANTED))
    for check, rules in PLANTED.items():
        found = results.checks[check]
        assert found.violation_counts == _of(rounds, rules), check
        shown = 2 if check == "records" else 5  # of values, the lowest and the highest
        assert Counter(v.rule for v in found.violations) == dict.fromkeys(rules, shown)
        assert all(v.events for v in found.violations)


def _of(rounds: int, rules: dict[str, int]) -> dict[str, int]:
    """Nobody can go back in the first round."""
    return {rule: n * rounds - (rule == "metadata-went-back") for rule, n in rules.items()}


_FRAME = re.compile(r"(?:rows|range)Between\((?!Window\.unboundedPreceding, |\*so_far\))")


def test_every_window_begins_where_its_partition_begins() -> None:
    """Spark begins anew at every row of a frame that ends with its partition, and of one whose
    beginning moves along, as -(2**31) does, which it does not take for the beginning: what takes a
    second of a small history takes hours of a large one. From the end backwards it adds up."""
    sources = {
        path.name: path.read_text()
        for path in (Path(__file__).parents[2] / "checkers").rglob("*.py")
    }
    assert not [
        name
        for name, text in sources.items()
        if "unboundedFollowing" in text or _FRAME.search(text)
    ]
