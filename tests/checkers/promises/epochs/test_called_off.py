"""Moves that were called off, both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.judging.outcome import Outcome
from checkers.promises.epochs.called_off import CALLED_OFF, called_off
from tests.checkers.conftest import MS, Story

RULE = "called-off-in-vain"
BEGUN, CALLED = 10_000, 11_000


def assigned(story: Story, t: float, *replicas: int, **more: Any) -> None:
    zxid = len(story.rows.get("zk_write", ())) + 1
    fields = {"zxid": zxid, "what": "topic", "step": "set", "replicas": list(replicas)}
    story.add("zk_write", t, **{**fields, **more})


def fault(story: Story, *, to: float = 13_000, **more: Any) -> None:
    detail = {"partition": "t-0", "replicas": [1, 2], "wanted": [2, 3], "turned": [3, 1], **more}
    story.add("fault", BEGUN - 10, id="f", fault="reassign-called-off", phase="inject", detail="{}")
    for phase in ("injected", "healed"):
        said = json.dumps(detail)
        story.add("fault", to, id="f", fault="reassign-called-off", phase=phase, detail=said)


def moving() -> Story:
    """Partition t-0 of 1 and 2 is moved to 2 and 3, which is called off, and answered."""
    story = Story()
    assigned(story, 100, 1, 2)
    assigned(story, BEGUN, 2, 3, 1)
    fault(story, called_off_t=CALLED * MS)
    return story


Tell = Callable[[Story], object]
CASES: dict[str, tuple[Tell, int, int]] = {
    "it is where it was": (lambda s: assigned(s, CALLED - 5, 1, 2), 1, 0),
    "told a little later, by a clock": (lambda s: assigned(s, CALLED + 20, 1, 2), 1, 0),
    "it goes on": (lambda s: assigned(s, CALLED + 500, 2, 3), 1, 1),
    "nothing is written": (lambda s: None, 1, 1),
    "in another order": (lambda s: assigned(s, CALLED - 5, 2, 1), 1, 0),
    "it goes on after all": (
        lambda s: (assigned(s, CALLED - 5, 1, 2), assigned(s, CALLED + 500, 2, 3)),
        1,
        1,
    ),
    "who was only being added has stayed": (
        lambda s: (assigned(s, BEGUN + 500, 3, 1, 2), assigned(s, CALLED - 5, 3, 1, 2)),
        1,
        1,
    ),
    "turned elsewhere before": (
        lambda s: (assigned(s, BEGUN + 500, 3, 1, 2), assigned(s, CALLED - 5, 1, 2)),
        1,
        0,
    ),
    "moved again, later": (
        lambda s: (assigned(s, CALLED - 5, 1, 2), assigned(s, 14_000, 2, 3)),
        1,
        0,
    ),
    "another partition moves": (
        lambda s: (assigned(s, CALLED - 5, 1, 2), assigned(s, CALLED + 500, 2, 3, partition=1)),
        1,
        0,
    ),
    "it was not answered": (lambda s: (s.rows["fault"].clear(), fault(s)), 0, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_called_off_does_not_go_on(spark: Any, name: str) -> None:
    tell, seen, broken = CASES[name]
    story, outcome = moving(), Outcome()
    tell(story)
    found = list(called_off(story.history(spark), outcome))
    assert [f.rule for f in found] == [RULE] * broken
    assert outcome.evidence[story.arm, 0, CALLED_OFF] == seen
