"""ZooKeeper's log against itself and against what was seen of the same znodes: each disorder, and
what only looks like one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.history.frames import History
from checkers.promises.evidence.znodes import disorders
from tests.checkers.conftest import Story
from tests.checkers.together import said_of_each


def sound() -> Story:
    """A topic is made, led by 1, then by 2, removed, and made again; one controller."""
    story = Story()
    write(story, 1, "controller_epoch", "created", controller_epoch=0, topic=None, partition=None)
    write(story, 2, "controller", "created", node=1, topic=None, partition=None)
    write(story, 2, "controller_epoch", "set", controller_epoch=1, topic=None, partition=None)
    for partition in (0, 1):
        write(story, 3, "topic", "created", partition=partition, replicas=[1, 2])
    write(story, 4, "state", "created", leader=1)
    write(story, 5, "state", "set", leader=2)
    write(story, 6, "topic", "removed", partition=None)
    write(story, 7, "topic", "created", replicas=[2, 1])
    write(story, 8, "state", "created", leader=2)
    for t, made_by in ((4, "4"), (5, "4"), (8, "8")):
        story.commit(t, 1, 0, incarnation=made_by)
    story.add("controller", 2, node=1, event="elected", controller_epoch=1, process="node-1")
    story.add("final_state", 90, what="partition", replicas=[1, 2])
    return story


def write(story: Story, zxid: int, what: str, step: str, **more: Any) -> None:
    story.add("zk_write", zxid, zxid=zxid, what=what, step=step, **more)


def without(story: Story, *zxids: int, what: str | None = None) -> None:
    story.rows["zk_write"] = [
        row
        for row in story.rows["zk_write"]
        if row["zxid"] not in zxids and (what is None or row["what"] != what)
    ]


def no_election(story: Story) -> None:
    without(story, what="controller_epoch")


def removed_twice(story: Story) -> None:
    for zxid in (9, 10):
        write(story, zxid, "topic", "removed", partition=None)


def written_when_gone(story: Story) -> None:
    write(story, 9, "state", "removed")
    write(story, 10, "state", "set", leader=1)


def begun_later(story: Story) -> None:
    without(story, 1, 2, 3, 4)
    story.rows["controller"].clear()


def elected_before(story: Story) -> None:
    no_election(story)
    story.rows["controller"][0]["t"] = 0


BROKEN: dict[str, tuple[Callable[[Story], Any], str]] = {
    "a topic made twice": (
        lambda s: write(s, 9, "topic", "created", replicas=[2, 1]),
        "topic t created while it was there",
    ),
    "a topic removed twice": (removed_twice, "topic t removed while it was not there"),
    "a state made twice": (
        lambda s: write(s, 9, "state", "created", leader=1),
        "state t-0 created while it was there",
    ),
    "a state written after it was removed": (
        written_when_gone,
        "state t-0 set while it was not there",
    ),
    "an epoch made twice": (
        lambda s: write(s, 9, "controller_epoch", "created", topic=None, partition=None),
        "controller_epoch controller_epoch created while it was there",
    ),
    "another znode was watched": (
        lambda s: s.commit(9, 1, 0, incarnation="7"),
        "was made by write 7, and by ZooKeeper's log it was not",
    ),
    "what makes no znode": (
        lambda s: s.commit(9, 1, 0, incarnation="zz"),
        "was made by write zz, and by ZooKeeper's log it was not",
    ),
    "an election that the log lacks": (no_election, "node-1 was elected, and ZooKeeper's log has"),
    "other replicas in the end": (
        lambda s: s.rows["final_state"][0].update(replicas=[1, 3]),
        "had replicas [1, 3] in the end; by ZooKeeper's log it was given [2, 1]",
    ),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "all in order": lambda s: None,
    "a log that begins later": begun_later,
    "an election of before the log begins": elected_before,
    "nobody reads the log": lambda s: s.rows["zk_write"].clear(),
    "a copy that numbers topics otherwise": lambda s: s.commit(
        9, 1, 0, source="controller", incarnation="123"
    ),
    "its states are removed with a topic": lambda s: write(s, 6, "state", "removed"),
}


def test_disorders_and_what_looks_like_them() -> None:
    edits = {**{name: edit for name, (edit, _) in BROKEN.items()}, **LAWFUL}
    told = said_of_each(edits, sound, lambda rows: disorders(rows_alone(rows)))
    assert sorted(told) == sorted(BROKEN)
    for name, (_, says) in BROKEN.items():
        assert len(told[name]) == 1
        assert says in told[name][0]


def rows_alone(rows: dict[str, list[dict[str, Any]]]) -> History:
    """Of which no frame is asked: no Spark."""
    import pyarrow as pa

    from checkers.history.parts import stored_schema
    from checkers.history.run_info import RunInfo

    tables = {kind: pa.Table.from_pylist(r, stored_schema(kind)) for kind, r in rows.items()}
    nobody: Any = None
    return History(nobody, RunInfo(), name="rows in memory", tables=tables)
