"""Operations that a client numbered, and of which there is no row; and numbers that may lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.evidence.operations import unnumbered
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import said_of_each

ROLES = {
    **{"producer": "producer", "reader": "metadata-reader", "asker": "offset-reader"},
    **{"member": "group-consumer", "stranger": "group-stranger"},
}
COMMITS = 1_000_000_000


def sound() -> Story:
    """Each did 200 things; the asker two sorts of them, the member, which also commits, from a
    higher number on; the stranger tells of every other."""
    story = Story()
    for op in range(200):
        t = 1_000 + 10 * op
        story.produce(t, op, op, op=op, process="producer")
        for partition in (0, 1):
            story.read(t, 1, 0, op=op, partition=partition, process="reader")
        kind = "epoch_end" if op % 5 == 0 else "listed_offset"
        story.add(kind, t, op=op, node=1, process="asker")
        story.add("fetch", t, op=op, poll=op, process="member")
        story.add("commit", t, op=COMMITS + 1 + op, process="member")
        story.add("commit", t, op=2 * op, process="stranger")
    return story


def without(kind: str, drop: Callable[[dict[str, Any]], bool]) -> Callable[[Story], Any]:
    def edit(story: Story) -> None:
        story.rows[kind] = [row for row in story.rows[kind] if not drop(row)]

    return edit


BROKEN: dict[str, tuple[Callable[[Story], Any], str]] = {
    "nine of ten reads": (
        without("metadata", lambda r: r["op"] % 10 > 0),
        "reader: of 191 operations 171 left no row",
    ),
    "records in between": (
        without("produce", lambda r: 50 <= r["op"] < 60),
        "producer: of 200 operations 10 left no row",
    ),
    "the first ones": (
        without("produce", lambda r: r["op"] < 70),
        "producer: of 200 operations 70 left no row",
    ),
    "a sort of questions": (
        without("epoch_end", lambda r: True),
        "asker: of 200 operations 40 left no row",
    ),
    "commits": (
        without("commit", lambda r: COMMITS + 90 < r["op"] < COMMITS + 100),
        "member: of 201 operations 10 left no row",
    ),
    "polls": (
        without("fetch", lambda r: 5 <= r["op"] < 9),
        "member: of 200 operations 4 left no row",
    ),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "as it was": lambda story: None,
    "one partition of each answer": without("metadata", lambda r: r["partition"] == 1),
    "which nobody saw end": lambda story: [
        row.update(type="info", offset=None) for row in story.rows["produce"][50:90]
    ],
    "the last ones": without("produce", lambda r: r["op"] >= 150),
    "whom run.json does not know": lambda story: [
        story.produce(9_000, 900 + n, None, op=3 * n, process="else") for n in range(5)
    ],
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    edits = {**{name: edit for name, (edit, _) in BROKEN.items()}, **LAWFUL}
    own = [{"process": process, "role": role} for process, role in ROLES.items()]
    trials = [{"arm": ARM, "trial": n, "workloads": own} for n in range(len(edits))]
    run = {**Story().run, "trials": trials}
    return said_of_each(edits, sound, lambda rows: unnumbered(History.of(spark, rows, run)))


@pytest.mark.parametrize("why", [*BROKEN, *LAWFUL])
def test_operations_without_a_row(told: dict[str, list[str]], why: str) -> None:
    assert told.get(why, []) == ([BROKEN[why][1]] if why in BROKEN else [])
