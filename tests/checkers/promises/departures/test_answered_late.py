"""Who is told of a later record, and not of the earlier one: both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.departures import check
from checkers.promises.departures.answered_late import IN_TURN
from tests.checkers.conftest import ARM, MS, Story, judged_together

HEALED, SENT, LATE = 10_000, 30_000, 4_000


def story() -> Story:
    """A fault is healed; then ten records are sent 100 ms apart, and answered at once."""
    told = Story()
    for t, phase in ((5_000, "injected"), (HEALED, "healed")):
        told.add("fault", t, id="f", fault="kill", phase=phase, nodes=[1], detail="{}")
    for n in range(10):
        t = SENT + 100 * n
        told.produce(t + 5, 70 + n, 20 + n, acks=-1, invoke_t=t, process="producer")
    return told


def rows(told: Story, *numbers: int) -> list[dict[str, Any]]:
    return [told.rows["produce"][n] for n in numbers]


def later(told: Story, *numbers: int, by: float = LATE, **more: Any) -> None:
    for row in rows(told, *numbers):
        row["t"] += int(by * MS)
        row.update(more)


def sent_before(told: Story) -> None:
    """It waited out the fault."""
    later(told, 3)
    for row in told.rows["fault"][1:]:
        row["t"] = (SENT + 350) * MS


CASES: dict[str, tuple[Callable[[Story], Any], bool]] = {
    "all at once": (lambda s: None, False),
    "one late": (lambda s: later(s, 3), True),
    "three late": (lambda s: later(s, 3, 4, 5), True),
    "one late, of acks=1": (lambda s: later(s, 3, acks=1), True),
    "all late": (lambda s: later(s, *range(10)), False),
    "the last ones late": (lambda s: later(s, 7, 8, 9), False),
    "a little late": (lambda s: later(s, 3, by=1_900), False),
    "another partition's": (lambda s: later(s, 3, partition=1), False),
    "another client's": (lambda s: later(s, 3, process="other"), False),
    "nobody knows": (lambda s: later(s, 3, type="info", offset=None), False),
    "of nobody who is to answer": (lambda s: later(s, 3, acks=0), False),
    "sent before all was healed": (sent_before, False),
}


@pytest.fixture(scope="module")
def found(spark: Any) -> dict[str, tuple[dict[str, int], list[str]]]:
    stories = {}
    for name, (tell, _) in CASES.items():
        stories[name] = story()
        tell(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", CASES)
def test_who_is_answered_in_turn(
    found: dict[str, tuple[dict[str, int], list[str]]], name: str
) -> None:
    assert found[name][0] == ({"answered-late": 1} if CASES[name][1] else {})


def test_answers_in_turn_are_counted(spark: Any) -> None:
    assert check(story().history(spark)).evidence[ARM, 0, IN_TURN] == 10
