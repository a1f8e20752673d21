"""What comes to the driver does not grow with a run's load, nor with its length."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from checkers.check import check_all
from checkers.judging import courses
from checkers.judging.outcome import Outcome
from checkers.promises import NAMES, availability, controller_latency, stale_metadata
from checkers.promises.groups.absent_members import absent_members
from checkers.promises.groups.kept_groups import kept_groups
from checkers.promises.groups.known_members import known_members
from checkers.promises.groups.later_generations import later_generations
from checkers.promises.groups.left_members import left_members
from checkers.promises.groups.raised_positions import raised_positions
from checkers.promises.groups.told_members import told_members
from checkers.promises.groups.visited_groups import visited_groups
from tests.checkers.conftest import Story
from tests.checkers.soak import NODES, PARTITIONS, PLANTED, grouped, soak

BROUGHT: Final = 400
"""So many rows does no place in the checkers bring to the driver at once."""
OF_WHAT_HAPPENED: Final = {
    "checkers.facts.answers": "brokers' answers, by life and by committed state",
    "checkers.facts.cuts": "demotions, by partition and leader epoch",
    "checkers.promises.epochs": "acknowledgements, by partition and leader epoch",
    "checkers.promises.fencing": "requests, by broker's life and epochs",
}
"""Places that still bring what grows with restarts and elections, though not with the load."""


@pytest.fixture(scope="module")
def spark(spark_itself: Any) -> Any:
    return spark_itself


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """By module of the checkers, the most rows that it brought to the driver at once."""
    from pyspark.sql.classic.dataframe import DataFrame

    found: Counter[str] = Counter()

    def watched(name: str, sized: Any) -> None:
        real = getattr(DataFrame, name)

        def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
            rows = real(self, *args, **kwargs)
            where = _module()
            found[where] = max(found[where], sized(rows))
            return rows

        monkeypatch.setattr(DataFrame, name, counting)

    watched("collect", len)
    watched("toArrow", lambda table: table.num_rows)
    for name in ("toPandas", "toLocalIterator"):
        monkeypatch.setattr(DataFrame, name, _never)
    return found


def _never(*_args: Any, **_kwargs: Any) -> Any:
    raise AssertionError("rows without a bound")


def _module() -> str:
    """The nearest caller in the checkers."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith("checkers.") and name != "checkers.judging.tally":
            return name
        frame = frame.f_back
    return "elsewhere"


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


IN_COURSES: Final = (
    *(kept_groups, visited_groups, left_members, raised_positions),
    *(absent_members, known_members, told_members, later_generations),
)


def test_what_groups_did_stays_with_the_workers(
    spark: Any, brought: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, rounds = Story(), 2 * BROUGHT
    grouped(story, rounds)
    history, seen = story.history(spark), []
    for most in (10**9, BROUGHT // 4):
        monkeypatch.setattr(courses, "ON_THE_DRIVER", most)
        brought.clear()
        outcomes = []
        for rule in IN_COURSES:
            outcome = Outcome()
            assert not list(rule(history, outcome))
            assert outcome.looked_at > rounds // 2, rule
            outcomes.append(outcome.evidence)
        seen.append(outcomes)
        many = [where for where, n in brought.items() if n > BROUGHT]
        assert bool(many) is (most > rounds), many
    assert seen[0] == seen[1]


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


def test_a_thousand_floods(spark: Any) -> None:
    story = Story()
    soak(story, 1_000, load=1)
    history = story.history(spark)
    found = stale_metadata.check(history).arms[story.arm]
    assert found["reads"] == 1_000 * len(NODES) * len(PARTITIONS)
    assert found["reads_flooded"]["count"] == 1_000
    assert found["propagation_applied"]["count"] > 900 * len(PARTITIONS)
    latency = controller_latency.check(history).arms[story.arm]
    assert latency["round_trip"]["count"] == 1_000 * len(NODES)
    assert availability.check(history).arms[story.arm]["first_produce"]["count"] == 999 * len(
        PARTITIONS
    )


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
