"""What is judged step by step is judged alike on the driver and by Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from checkers.judging import courses
from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding
from checkers.promises.groups.absent_members import absent_members
from checkers.promises.groups.known_members import known_members
from checkers.promises.groups.later_generations import later_generations
from checkers.promises.groups.raised_positions import raised_positions
from checkers.promises.groups.told_members import told_members
from tests.checkers.conftest import Story, judged_together
from tests.checkers.promises.groups import (
    test_absent_members,
    test_known_members,
    test_later_generations,
    test_raised_positions,
    test_told_members,
)
from tests.checkers.together import ruled

GROUPS, STEPS = 30, 20


def story() -> Story:
    """Groups whose answers begin at 0; of every third one goes back."""
    told = Story()
    for t in range(STEPS):
        for group in range(GROUPS):
            offset = t - 2 * (group % 3 == 0 and t == STEPS - 1)
            told.add("group_step", t, group=f"g{group:02}", step="see", offset=offset, node=1)
    return told


def steady(rows: list[Any], outcome: Outcome) -> Iterator[Finding]:
    for before, row in pairwise(rows):
        outcome.saw(row["arm"], row["trial"], "steps")
        if row["offset"] == 3:
            outcome.excuse(row["arm"], row["trial"], "went-back", "has-begun", of="steps")
        if row["offset"] < before["offset"]:
            says = f"{row['group']} after {before['t']}"
            yield Finding("went-back", says, row["arm"], row["trial"])


def judged(spark: Any, told: Story) -> tuple[Any, ...]:
    steps = told.history(spark).frame("group_step")
    steps = steps.select("arm", "trial", "group", "offset", "t")
    outcome = Outcome()
    for finding, n in in_courses(outcome, steps, ["arm", "trial", "group"], ["t"], steady):
        outcome.add(finding, n)
    return outcome.counts, outcome.findings, outcome.evidence, outcome.excused


@pytest.mark.parametrize("partitions", ["1", "4"])
def test_workers_find_the_same(
    spark: Any, monkeypatch: pytest.MonkeyPatch, partitions: str
) -> None:
    """As often, the same first few, and as much as there was."""
    here = judged(spark, story())
    monkeypatch.setattr(courses, "ON_THE_DRIVER", GROUPS)
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", partitions)
    assert judged(own, story()) == here
    counts, findings, evidence, excused = here
    assert counts == {"went-back": GROUPS // 3}
    assert [f.says.split()[0] for f in findings] == ["g00", "g03", "g06", "g09", "g12"]
    assert evidence.total() == GROUPS * (STEPS - 1)
    assert excused.total() == GROUPS


RULES: dict[str, tuple[Any, Any]] = {
    "raised positions": (raised_positions, test_raised_positions),
    "absent members": (absent_members, test_absent_members),
    "known members": (known_members, test_known_members),
    "told members": (told_members, test_told_members),
    "later generations": (later_generations, test_later_generations),
}


@pytest.mark.parametrize("name", RULES)
def test_workers_judge_by_every_rule_of_groups(
    spark: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rule, cases = RULES[name]
    monkeypatch.setattr(courses, "ON_THE_DRIVER", 0)
    stories, wanted = {}, {}
    for case, (tell, broken, *_) in cases.CASES.items():
        stories[case] = cases.story()
        tell(stories[case])
        named = {cases.RULE: broken} if isinstance(broken, int) and broken else {}
        wanted[case] = {broken: 1} if isinstance(broken, str) else named
    found = {
        case: counts for case, (counts, _) in judged_together(spark, ruled(rule), stories).items()
    }
    assert found == wanted
    assert any(wanted.values())
