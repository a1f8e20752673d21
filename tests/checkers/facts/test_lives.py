"""When a process ran, by the harness's own word."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.lives import is_away

MS = 1_000_000


@pytest.mark.parametrize(
    ("events", "away"),
    [
        ((), False),
        (((50, "kill"),), True),
        (((50, "pause"),), True),
        (((50, "exited"),), True),
        (((50, "stop"), (60, "stopped")), True),
        (((50, "stop"), (150, "stopped")), False),  # it serves on while it shuts down
        (((105, "kill"),), False),
        (((50, "kill"), (60, "start")), False),
        (((50, "kill"), (105, "start")), False),
        (((50, "kill"), (111, "start")), True),
        (((50, "pause"), (60, "resume"), (70, "kill")), True),
        (((50, "kill"), (60, "ready"), (61, "registered")), True),  # no word of the harness's
    ],
)
def test_away_for_the_whole_span(story: Any, spark: Any, events: Any, away: bool) -> None:
    for t, event in events:
        story.add("node_event", t, node=1, event=event)
    history = story.history(spark)
    assert is_away(history, (story.arm, 0, 1), 100 * MS, 110 * MS) == away
    assert not is_away(history, (story.arm, 0, 2), 100 * MS, 110 * MS)
    assert not is_away(history, (story.arm, 1, 1), 100 * MS, 110 * MS)
