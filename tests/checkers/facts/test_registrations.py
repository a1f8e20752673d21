"""When a broker's registration was gone, by ZooKeeper's log and by its watch."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.registrations import Absence, absences, was_absent
from checkers.history.frames import History
from tests.checkers.conftest import MS, Story


def written(story: Any, t: float, step: str, node: int = 1, **more: Any) -> None:
    zxid = len(story.rows.get("zk_write", ()))
    story.add("zk_write", t, zxid=zxid, what="broker", step=step, node=node, **more)


def of(story: Any, spark: Any, node: int = 1) -> list[tuple[int, int | None]]:
    history: History = story.history(spark)
    found = absences(history).get((story.arm, 0, node), [])
    return [(one.from_t // MS, None if one.to_t is None else one.to_t // MS) for one in found]


def test_from_its_going_to_its_coming_back(spark: Any) -> None:
    story = Story()
    for t, step in (
        (10, "created"),
        (50, "removed"),
        (90, "created"),
        (95, "set"),
        (99, "removed"),
    ):
        written(story, t, step)
    written(story, 20, "created", node=2)
    story.add("node_event", 30, node=1, event="kill")  # a process is no registration
    assert of(story, spark) == [(50, 90), (99, None)]
    assert of(story, spark, 2) == []
    assert of(story, spark, 3) == []


def test_either_witness_will_do(spark: Any) -> None:
    """A session's end takes a registration with it that the log does not name."""
    story = Story()
    written(story, 10, "created")
    story.add("node_event", 60, node=1, event="unregistered")
    written(story, 80, "created", error_ns=2 * MS)
    story.add("node_event", 85, node=1, event="registered")
    assert of(story, spark) == [(60, 82)]


@pytest.mark.parametrize(
    ("t", "absent"), [(49, False), (50, True), (89, True), (95, True), (101, False), (500, True)]
)
def test_who_may_take_it_for_gone(t: int, absent: bool) -> None:
    """Who hears of its coming back 10 ms later."""
    spans = [Absence(50, 90), Absence(400, None)]
    assert was_absent(spans, t, 10) is absent
