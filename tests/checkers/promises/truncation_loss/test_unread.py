"""What is certain of records whose partition's final log nobody read."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.truncation_loss import check
from tests.checkers.together import Asks, judging


def read(story: Any, offset: int, value: int) -> None:
    story.add("fetch", 30, poll=offset, process="c1", offset=offset, value=value)


@pytest.mark.parametrize(
    ("why", "broken"),
    [
        ("each once", {}),
        ("twice", {"acked-twice-otherwise": 1}),
        ("twice, of which one by acks=1", {}),
        ("twice, and its topic was deleted in between", {}),
        ("read as another", {"acked-not-read": 1}),
        ("read as nobody's", {"acked-not-read": 1}),
        ("another partition's log was read", {"acked-twice-otherwise": 1}),
    ],
)
@judging(check)
def test_an_offset_has_one_record(story: Any, why: str, broken: dict[str, int]) -> Asks:
    for value in range(3):
        story.produce(10 + value, value, value, acks=-1)
        read(story, value, value)
    if why.startswith("twice") or why.startswith("another"):
        story.produce(20, 9, 1, acks=1 if "acks=1" in why else -1)
    if why.startswith("read"):
        story.rows["fetch"][-1]["value"] = 7 if "another" in why else None
    if "deleted" in why:
        for t, step in ((14, "requested"), (15, "gone")):
            story.add("topic_deletion", t, topic="t", step=step)
    if why.startswith("another"):
        story.final_log({0: 100}, partition=1)
    found = yield story
    assert found.counts == broken
    assert found.unknowns


@judging(check)
def test_where_the_final_log_was_read_it_tells_more(story: Any) -> Asks:
    story.produce(10, 0, 0, acks=-1)
    story.produce(20, 9, 0, acks=-1)
    story.final_log({0: 9})
    assert (yield story).counts == {"acked-all-lost": 1}


@pytest.mark.parametrize(
    ("why", "broken"),
    [
        ("each once", {}),
        ("twice", {"acked-twice-otherwise": 1}),
        ("twice, of which one by acks=1", {}),
        ("read as another", {"acked-not-read": 1}),
        ("twice, and not deleted", {"acked-all-lost": 1}),
        ("twice, and its topic was deleted in between", {}),
    ],
)
@judging(check)
def test_an_offset_has_one_record_whatever_is_deleted_later(
    story: Any, why: str, broken: dict[str, int]
) -> Asks:
    for value in range(3):
        story.produce(10 + value, value, value, acks=-1)
        read(story, value, value)
    if why.startswith("twice"):
        story.produce(20, 9, 1, acks=1 if "acks=1" in why else -1)
    if why == "read as another":
        story.rows["fetch"][1]["value"] = 7
    if "topic was deleted" in why:
        for t, step in ((14, "requested"), (15, "gone")):
            story.add("topic_deletion", t, topic="t", step=step)
    if "not deleted" in why:
        story.final_log(dict(enumerate(range(3))))
    else:
        story.add("records_deleted", 40, node=1, offset=2, low_watermark=2)
        story.final_log({2: 2}, log_start_offset=2)
    assert (yield story).counts == broken
