"""Whoever judges says the same: what Sail and Spark say of stories that tests tell. All of them
would take many minutes, so a sample is drawn, each day another one."""

from __future__ import annotations

import importlib
import itertools
import os
import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark.structures import ParameterSet

from tests.checkers.conftest import Story, in_a_jvm
from tests.checkers.together import Check, judged_apart

CHECKS: Final = 4
STORIES: Final = 12
"""Of each check at most."""
ROOT: Final = Path(__file__).parents[2]


def told() -> dict[Check, dict[str, Story]]:
    """By check or rule, in their order, what tests that ask it ask first. Not those that need a
    fixture of their own, or are judged alone."""
    found: dict[Check, dict[str, Story]] = {}
    for path in sorted((ROOT / "tests/checkers/promises").rglob("test_*.py")):
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for test in [test for test in vars(module).values() if hasattr(test, "asking")]:
            for values in _parameters(test):
                name = f"{module.__name__}.{test.__name__} {values or ''}"
                try:
                    story = next(test.asking.begin(values, None))
                except (KeyError, AttributeError):
                    continue
                if story.apart is None:
                    found.setdefault(test.asking.check, {})[name] = story
    return found


def _parameters(test: Any) -> Iterator[dict[str, Any]]:
    """Each set of values that it is run with."""
    each = []
    for mark in (mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"):
        names = mark.args[0]
        names = [n.strip() for n in names.split(",")] if isinstance(names, str) else names
        rows = (ParameterSet.extract_from(v, force_tuple=len(names) == 1) for v in mark.args[1])
        each.append([dict(zip(names, row.values, strict=True)) for row in rows])
    for some in itertools.product(*each):
        yield {name: value for one in some for name, value in one.items()}


@pytest.mark.spark
@pytest.mark.slow
def test_sail_and_spark_say_the_same(spark: Any, jvm: Any) -> None:
    seed = int(os.environ.get("BIPLANE_SAMPLE") or date.today().toordinal())
    drawn, stories = random.Random(seed), told()
    assert len(stories) > 50
    sample = {
        check: {name: of[name] for name in drawn.sample(list(of), min(STORIES, len(of)))}
        for check, of in ((check, stories[check]) for check in drawn.sample(list(stories), CHECKS))
    }
    by_sail = {check: judged_apart(spark, check, of) for check, of in sample.items()}
    with in_a_jvm():
        by_spark = {check: judged_apart(jvm, check, of) for check, of in sample.items()}
    for check, of in sample.items():
        for name in of:
            again = f"BIPLANE_SAMPLE={seed}: {name}"
            assert by_sail[check][name] == by_spark[check][name], again
