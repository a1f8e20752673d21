"""acks=all refused for too few in sync: of a set that is large enough, and of one that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.truncation_loss import check
from tests.checkers.conftest import Story, judged_together
from tests.checkers.promises.truncation_loss.test_too_few import GROWN, shrunk

RULE = "refused-above-min-isr"
KNOWN = GROWN + 5_000
"""The set shrinks to one at 1 s, and is full again at 2 s."""


def refused(
    t: float, invoke_t: float, error: int = 19, *, make: Callable[[], Story] = shrunk, **more: Any
) -> Callable[[], Story]:
    def tell() -> Story:
        story = make()
        kind = {"type": "fail" if error == 19 else "info", "error": error}
        story.produce(t, 7, None, **{"acks": -1, "invoke_t": invoke_t, **kind, **more})
        return story

    return tell


def undated() -> Story:
    story = shrunk()
    story.rows["zk_write"][-1]["commit_ms"] = None
    return story


def knows() -> Story:
    story = shrunk()
    told = {"node": 1, "isr": [1, 2, 3], "leader_epoch": 0, "partition_epoch": 2}
    story.add("isr_change", 2_200, **told)
    return story


def of_node_0() -> Story:
    story = shrunk()
    for row in story.rows["zk_write"]:
        if row["what"] == "state":
            row["leader"] = 0
    return story


def lax() -> Story:
    """One in sync is enough of this topic."""
    story = shrunk(told=None)
    story.run["topics"] = {"t": {}}
    return story


CASES: dict[str, tuple[Callable[[], Story], bool]] = {
    "long after it grew": (refused(KNOWN + 500, KNOWN + 490), True),
    "after the append": (refused(KNOWN + 500, KNOWN + 490, 20), True),
    "as its leader said that it knew": (refused(2_500, 2_490, make=knows), True),
    "before its leader said so": (refused(2_150, 2_140, make=knows), False),
    "led by node 0": (refused(KNOWN + 500, KNOWN + 490, make=of_node_0), True),
    "one is enough": (refused(8_000, 7_990, make=lax), True),
    # Lawful, and looks similar.
    "while too few were in sync": (refused(1_500, 1_490), False),
    "as it had just grown": (refused(KNOWN - 500, KNOWN - 510), False),
    "sent before it can have known": (refused(KNOWN + 500, KNOWN - 10), False),
    "by another error": (refused(KNOWN + 500, KNOWN + 490, 6), False),
    "nobody says when it grew": (refused(KNOWN + 500, KNOWN + 490, make=undated), False),
    "of another partition": (refused(KNOWN + 500, KNOWN + 490, partition=5), False),
}


@pytest.fixture(scope="module")
def found(spark: Any) -> dict[str, tuple[dict[str, int], list[str]]]:
    return judged_together(spark, check, {name: tell() for name, (tell, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_who_is_refused(found: dict[str, tuple[dict[str, int], list[str]]], name: str) -> None:
    assert found[name][0].get(RULE, 0) == CASES[name][1]
