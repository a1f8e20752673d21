"""Brokers that failed a client: said, unless the harness had broken a disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.facts.failings import failed_clients
from checkers.history.frames import History
from tests.checkers.conftest import Story
from tests.checkers.together import said_of_each


def failing(kind: str, error: int, fault: str | None = None) -> Callable[[Story], None]:
    def edit(story: Story) -> None:
        story.produce(10, 1, 1)
        for t in (20, 21):
            story.add(kind, t, type="info", error=error)
        if fault is not None:
            story.add("fault", 5, fault=fault, id="d", nodes=[1])

    return edit


EDITS: dict[str, tuple[Callable[[Story], None], bool]] = {
    "produce": (failing("produce", -1), True),
    "commit": (failing("commit", -1), True),
    "coordinator": (failing("coordinator", 56), True),
    "with another fault": (failing("commit", -1, "kill"), True),
    "with a broken disk": (failing("produce", 56, "disk-full"), False),
    "refused": (failing("commit", 25), False),
    "who led no more": (failing("produce", 6), False),
}


def test_whom_brokers_failed(spark: Any) -> None:
    edits = {name: edit for name, (edit, _) in EDITS.items()}
    told = said_of_each(edits, Story, lambda rows: failed_clients(History.of(spark, rows)))
    assert {name for name, (_, wanted) in EDITS.items() if wanted} == set(told)
    assert told["commit"] == [
        "2 of commit were answered with error -1, and nobody had broken a disk"
    ]
