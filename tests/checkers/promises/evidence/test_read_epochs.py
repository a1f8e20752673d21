"""Consumers that tell no leader epochs, and others that need not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.evidence.read_epochs import unversed
from tests.checkers.conftest import Story
from tests.checkers.together import said_of_each


def sound() -> Story:
    """Two consumers were given 20 records; the log has them in leader epoch 3."""
    story = Story()
    for offset in range(20):
        record = {"offset": offset, "value": offset, "leader_epoch": 3}
        for process in ("one", "other"):
            story.add("fetch", 1_000 + offset, process=process, poll=offset, **record)
    story.final_log({offset: offset for offset in range(20)}, leader_epoch=3)
    return story


def told(epoch: int | None, kind: str = "fetch", *, but: int = 0, process: str = "one") -> Any:
    def edit(story: Story) -> None:
        own = [r for r in story.rows[kind] if kind != "fetch" or r["process"] == process]
        for row in own[but:]:
            row["leader_epoch"] = epoch

    return edit


BROKEN: dict[str, Callable[[Story], Any]] = {"none": told(-1), "nothing at all": told(None)}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "as it was": lambda story: None,
    "of one record": told(-1, but=1),
    "no log tells them either": lambda s: (told(-1)(s), told(-1, "log_read")(s)),
    "few records": lambda s: (
        told(-1)(s),
        s.rows.update(fetch=[r for r in s.rows["fetch"] if r["offset"] < 5]),
    ),
    "in vain": lambda s: [r.update(offset=None, leader_epoch=None) for r in s.rows["fetch"]],
}


@pytest.fixture(scope="module")
def said(spark: Any) -> dict[str, list[str]]:
    edits = {**BROKEN, **LAWFUL}
    return said_of_each(edits, sound, lambda rows: unversed(History.of(spark, rows)))


@pytest.mark.parametrize("why", [*BROKEN, *LAWFUL])
def test_who_tells_no_leader_epochs(said: dict[str, list[str]], why: str) -> None:
    found = said.get(why, [])
    assert len(found) == (why in BROKEN)
    assert all(says.startswith("one was given 20 records, and says of none") for says in found)
