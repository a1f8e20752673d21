"""What comes after something else, by what it is, does so in time; late is nobody's fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.history.frames import History
from checkers.promises.evidence.moments import misplaced
from tests.checkers.conftest import Story

CLOCK_MS = 5_000
"""ZooKeeper's clock is that of the run's (`Story`): both count from 0."""


def state(story: Story, t: float, commit_ms: int, version: int = 0, **more: Any) -> None:
    told = {"leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1, 2]}
    story.add("zk_write", t, what="state", step="set", zxid=version, commit_ms=commit_ms,
              partition_epoch=version, **{**told, **more})  # fmt: skip


def sound() -> Story:
    story = Story()
    for name, begun, ended in (("heal", 8_000, 9_000), ("final_read", 20_000, 21_000)):
        story.add("phase", begun, name=name, event="begin")
        story.add("phase", ended, name=name, event="end")
    state(story, CLOCK_MS, CLOCK_MS, error_ns=1_000_000)
    story.commit(CLOCK_MS + 3, 1, 0, commit_ms=CLOCK_MS)
    story.add("isr_change", CLOCK_MS + 2, node=1, isr=[2, 1], leader_epoch=0, partition_epoch=0)
    story.add("zk_write", 4_000, what="controller_epoch", step="set", zxid=9, controller_epoch=3,
              commit_ms=4_000)  # fmt: skip
    story.add("controller", 4_010, node=1, event="elected", controller_epoch=3)
    story.add("final_state", 19_900, what="node", node=1)
    story.final_log({0: 1})
    gauge = {"node": 1, "api": "MBeans", "key": "PartitionCount", "told": "1", "truth": "1"}
    story.add("described", 20_500, process="final-read", name="", known=True, **gauge)
    story.add("described", 9_000, process="harness", name="isr-lag-0", known=True, **gauge)
    for kind in ("log_read", "log_end"):
        story.rows[kind][0]["t"] = 20_500 * 1_000_000
    return story


def moved(kind: str, by_ms: float, number: int = 0) -> Callable[[Story], None]:
    def move(story: Story) -> None:
        story.rows[kind][number]["t"] += int(by_ms * 1_000_000)

    return move


def untied(story: Story) -> None:
    del story.run["clock"]


BROKEN: dict[str, tuple[Callable[[Story], None], str]] = {
    "a write before its time": (moved("zk_write", -1_500), "zk_write: 1 rows are of a time before"),
    "a write after its time": (
        moved("zk_write", 1_500),
        "zk_write: 1 rows are of a time before or",
    ),
    "a watch before the write": (moved("leadership", -1_500), "leadership: 1 rows are of a time"),
    "a set before ZooKeeper's": (moved("isr_change", -4), "isr_change: 1 rows are of a time befo"),
    "elected before ZooKeeper": (moved("controller", -11), "controller: 1 rows are of a time bef"),
    "the end before healing": (moved("final_state", -12_000), "final_state: there are rows of an"),
    "logs read under load": (moved("log_read", -5_000), "log_read: there are rows of another"),
    "described under load": (moved("described", -5_000), "described: there are rows of another"),
    "logs read afterwards": (moved("log_end", 3_000), "log_end: there are rows of another time"),
}
LAWFUL: dict[str, Callable[[Story], None]] = {
    "as it was": lambda story: None,
    "a slow watch": moved("leadership", 60_000),
    "a set told late": moved("isr_change", 60_000),
    "a set within the error": moved("isr_change", -2.5),
    "elected, and told late": moved("controller", 3_000),
    "a moment before the last phase": moved("log_read", -1_000),
}


def test_before_and_not_before(spark: Any) -> None:
    edits = {**{name: edit for name, (edit, _) in BROKEN.items()}, **LAWFUL}
    rows: dict[str, list[dict[str, Any]]] = {}
    run: dict[str, Any] = {}
    for number, edit in enumerate(edits.values()):
        story = sound()
        edit(story)
        run = story.run
        for kind, items in story.rows.items():
            rows.setdefault(kind, []).extend({**row, "trial": number} for row in items)
    told: dict[int, list[str]] = {}
    for (_, trial), why in misplaced(History.of(spark, rows, run)):
        told.setdefault(trial, []).append(why)
    names = list(edits)
    assert {names[trial] for trial in told} == set(BROKEN), told
    for trial, why in told.items():
        assert any(BROKEN[names[trial]][1] in one for one in why), why


def test_clocks_that_are_not_tied_date_nothing(spark: Any) -> None:
    """But each other: who took a set up later than it was written stays where it is."""
    story = sound()
    for kind in ("zk_write", "isr_change"):
        moved(kind, 1_500)(story)
    untied(story)
    assert list(misplaced(story.history(spark))) == []
