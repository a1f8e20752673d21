"""What brokers were told to delete, of a topic and of its namesake."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.deleted_records import deleted_to
from tests.checkers.conftest import ARM, Story

AT = {"what": "topic", "topic": "t"}
ELSEWHERE = {"what": "topic", "topic": "u"}


def told(t: float, offset: int | None, **more: Any) -> tuple[str, float, dict[str, Any]]:
    return "records_deleted", t, {"node": 1, "offset": offset, **more}


def made_again(topic: dict[str, Any]) -> list[tuple[str, float, dict[str, Any]]]:
    steps = (10, "created"), (1_000, "removed"), (2_000, "created")
    return [
        ("zk_write", t, {"zxid": n, "step": step, "replicas": [1], **topic})
        for n, (t, step) in enumerate(steps)
    ]


@pytest.mark.parametrize(
    ("rows", "to"),
    [
        ([told(500, 30)], 30),
        ([told(500, 30), told(600, 20)], 30),
        ([told(500, 30, type="fail", error=1)], 0),
        ([told(500, 30, type="info", failure="timeout")], 30),
        ([told(500, None, type="info", failure="timeout")], 0),
        ([told(500, 30), *made_again(AT)], 0),
        ([told(500, 30), *made_again(AT), told(2_500, 5)], 5),
        ([told(500, 30), *made_again(ELSEWHERE)], 30),
    ],
)
def test_up_to_where_records_may_be_gone(spark: Any, rows: list[Any], to: int) -> None:
    story = Story()
    for kind, t, fields in rows:
        story.add(kind, t, **fields)
    history = story.history(spark)
    assert deleted_to(history, (ARM, 0, "t", 0)) == to
    assert deleted_to(history, (ARM, 0, "t", 1)) == 0
