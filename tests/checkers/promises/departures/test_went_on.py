"""A broker whose only log directory failed: both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.promises.departures import check
from tests.checkers.conftest import Story, judged_together


def failed(told: Story, *, fault: str = "fail-disk", hold: bool = True, **detail: Any) -> None:
    told.add("node_event", 10, node=1, event="start")
    for t, phase in ((5_000, "inject"), (9_000, "injected"), (12_000, "heal"), (14_000, "healed")):
        held = hold if phase == "injected" else None
        told.add(
            "fault",
            t,
            fault=fault,
            id="f",
            phase=phase,
            nodes=[1],
            took_hold=held,
            detail=json.dumps(detail),
        )


CASES: dict[str, tuple[Any, bool]] = {
    "it ended": (lambda s: failed(s, halted=[1]), False),
    "it went on": (lambda s: failed(s, went_on=[1]), True),
    "its disk was sound": (lambda s: failed(s, hold=False, went_on=[1]), False),
    "another fault": (lambda s: failed(s, fault="wipe-disk", went_on=[1]), False),
}


@pytest.fixture(scope="module")
def judged(spark: Any) -> Any:
    stories = {name: Story() for name in CASES}
    for name, (tell, _) in CASES.items():
        tell(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", CASES)
def test_who_has_no_disk_left_ends(judged: Any, name: str) -> None:
    rules, _ = judged[name]
    assert rules == ({"went-on-without-a-disk": 1} if CASES[name][1] else {})
