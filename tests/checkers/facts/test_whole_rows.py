"""What every row of a kind says."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.alike import unlike
from checkers.facts.whole_rows import lacking, lacks
from tests.checkers.conftest import Story


def told(story: Story, leader: int, leader_epoch: int | None) -> dict[str, Any]:
    return story.add("metadata_update", 10, process="node-1", node=1, boot=1, leader=leader,
                     leader_epoch=leader_epoch, controller_epoch=1, correlation_id=7)  # fmt: skip


@pytest.mark.parametrize(
    ("leader", "leader_epoch", "lacks_it"),
    [(1, 0, False), (1, None, True), (-1, None, True), (-2, None, False), (-2, 0, False)],
)
def test_only_of_what_is_deleted_an_update_may_tell_no_epoch(
    story: Any, spark: Any, leader: int, leader_epoch: int | None, lacks_it: bool
) -> None:
    row = told(story, leader, leader_epoch)
    assert list(lacks("metadata_update", row)) == (["leader_epoch"] if lacks_it else [])
    frame = story.history(spark).frame("metadata_update")
    assert frame.where(lacking("metadata_update")).count() == lacks_it


@pytest.mark.parametrize(("leader", "says"), [(-2, False), (2, True)])
def test_what_is_deleted_is_a_sort_of_its_own(
    story: Any, spark: Any, leader: int, says: bool
) -> None:
    told(story, 1, 0)
    told(story, leader, None)
    assert ["leader_epoch" in why for _, why in unlike(story.history(spark))] == [True] * says
