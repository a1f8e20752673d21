"""Brokers that failed a client, and whether the harness had broken their disks by then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from checkers.facts.failings import failed_clients
from checkers.history.frames import History
from tests.checkers.conftest import Story
from tests.checkers.together import said_of_each


def failing(
    kind: str,
    error: int,
    fault: str | None = None,
    at: int = 5,
    node: int | None = 1,
    nodes: Sequence[int] = (1,),
) -> Callable[[Story], None]:
    def edit(story: Story) -> None:
        story.produce(10, 1, 1)
        for t in (20, 21):
            story.add(kind, t, type="info", error=error, node=node)
        if fault is not None:
            story.add("fault", at, fault=fault, id="d", nodes=nodes)

    return edit


EDITS: dict[str, tuple[Callable[[Story], None], bool | None]] = {
    "produce": (failing("produce", -1), False),
    "commit": (failing("commit", -1), False),
    "coordinator": (failing("coordinator", 56), False),
    "with another fault": (failing("commit", -1, "kill"), False),
    "with a broken disk": (failing("produce", 56, "disk-full"), True),
    "before a disk was broken": (failing("produce", 56, "disk-full", 50), False),
    "with another's broken disk": (failing("produce", 56, "disk-full", node=2), False),
    "with anybody's broken disk": (failing("produce", 56, "disk-full", node=2, nodes=()), True),
    "by whom nobody could name": (failing("commit", 56, "disk-full", node=None), True),
    "refused": (failing("commit", 25), None),
    "who led no more": (failing("produce", 6), None),
}
"""Whether a disk was broken by then; None: nobody failed."""


def test_whom_brokers_failed(spark: Any) -> None:
    def said(rows: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[tuple[str, int], str]]:
        for one in failed_clients(History.of(spark, rows)):
            yield one.trial, f"{one.says}, {one.broken}"

    told = said_of_each({name: edit for name, (edit, _) in EDITS.items()}, Story, said)
    wanted = {name: str(broken) for name, (_, broken) in EDITS.items() if broken is not None}
    assert {name: says[0].split(", ")[1] for name, says in told.items()} == wanted
    assert told["commit"] == ["2 of commit were answered with error -1, False"]
