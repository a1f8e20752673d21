"""Faults drawn at random get in each other's way: lawful while most of them took hold."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises import activity

pytestmark = pytest.mark.spark


def drawn(story: Any, held: int, failed: int, vain: int = 0) -> None:
    story.run["expectations"] = {"faults_may_collide": True, "faults": ["kill", "flood", "toxic"]}
    story.produce(10, 1, 0)
    for number in range(held + failed + vain):
        fault = {"fault": "kill", "id": f"kill-{number}"}
        if number < held:
            story.add("fault", 20, phase="injected", took_hold=True, **fault)
        elif number < held + failed:
            story.add("fault", 20, phase="failed", detail="no such leader", **fault)
        else:
            story.add("fault", 20, phase="injected", took_hold=False, **fault)


def test_what_collided_is_counted(story: Any, spark: Any) -> None:
    drawn(story, held=2, failed=1, vain=1)
    found = activity.check(story.history(spark))
    assert not found.unknowns
    assert found.arms[story.arm]["collided_faults"] == 2


def test_when_most_collided_nothing_was_tried(story: Any, spark: Any) -> None:
    drawn(story, held=1, failed=2)
    found = activity.check(story.history(spark))
    assert len(found.unknowns) == 2
    assert "not put in place: no such leader" in found.unknowns[0]


def test_nobody_may_collide_unless_the_run_says_so(story: Any, spark: Any) -> None:
    drawn(story, held=2, failed=1)
    story.run["expectations"] = {}
    assert len(activity.check(story.history(spark)).unknowns) == 1
