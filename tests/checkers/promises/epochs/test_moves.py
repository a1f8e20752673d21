"""When a move may end: by ZooKeeper's log, both ways."""

from __future__ import annotations

import pytest

from checkers.promises.epochs.moves import MOVED, moves
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

Steps = tuple[tuple[str, tuple[int, ...]], ...]
"""What is written in turn: replicas that are assigned ("a"), or an in-sync set ("s")."""


def logged(*steps: tuple[str, tuple[int, ...]]) -> Story:
    story = Story()
    epoch = 0
    for number, (what, members) in enumerate(steps):
        fields = {"zxid": number + 1, "commit_ms": 1000 * number}
        made = "set" if number > 1 else "created"
        if what == "a":
            story.add("zk_write", number, what="topic", step=made, replicas=list(members), **fields)
        else:
            state = {"leader": members[0], "leader_epoch": 0, "isr": list(members)}
            fields |= {**state, "partition_epoch": epoch, "controller_epoch": 1}
            story.add("zk_write", number, what="state", step=made, **fields)
            epoch += 1
    return story


HOME: Steps = (("a", (1, 2)), ("s", (1, 2)))
CASES: dict[str, tuple[Steps, int, int]] = {
    # What is written, how many moves ended, and how many of these too early.
    "before the new one is in sync": ((*HOME, ("a", (2, 3, 1)), ("a", (2, 3))), 1, 1),
    "when it is": ((*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("a", (2, 3))), 1, 0),
    "after it left again": (
        (*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("s", (1, 2)), ("a", (2, 3))),
        1,
        1,
    ),
    "when those to go are out already": (
        (*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("s", (2, 3)), ("a", (2, 3))),
        1,
        0,
    ),
    "to none of the old ones, of which one is in sync": (
        (*HOME, ("a", (3, 4, 1, 2)), ("s", (1, 2, 3)), ("a", (3, 4))),
        1,
        1,
    ),
    "called off": ((*HOME, ("a", (2, 3, 1)), ("a", (1, 2))), 0, 0),
    "called off while one is away": (
        (*HOME, ("s", (1,)), ("a", (2, 3, 1)), ("a", (1, 2))),
        0,
        0,
    ),
    "turned elsewhere": (
        (*HOME, ("a", (3, 4, 1, 2)), ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("a", (2, 3))),
        1,
        0,
    ),
    "in another order": ((*HOME, ("s", (1,)), ("a", (2, 1))), 0, 0),
    "one more": ((*HOME, ("a", (1, 2, 3))), 0, 0),
    "one more, and then one of the first goes too early": (
        (*HOME, ("a", (1, 2, 3)), ("a", (2, 3))),
        1,
        1,
    ),
    "one less": ((("a", (1, 2, 3)), ("s", (1, 2, 3)), ("a", (1, 2))), 1, 0),
    "one less, and another is away": ((("a", (1, 2, 3)), ("s", (1, 3)), ("a", (1, 2))), 1, 1),
    "and another, to who has not left yet": (
        (
            *(*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("a", (2, 3))),
            *(("a", (3, 1, 2)), ("a", (3, 1)), ("s", (3, 1))),
        ),
        2,
        0,
    ),
    "and another, before who comes back is in sync": (
        (
            *(*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("a", (2, 3))),
            *(("s", (2, 3)), ("a", (3, 1, 2)), ("a", (3, 1))),
        ),
        2,
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(moves))
def test_a_move_ends_when_all_that_it_moves_to_are_in_sync(name: str) -> Asks:
    steps, ended, broken = CASES[name]
    outcome = yield logged(*steps)
    assert outcome.counts.get("moved-before-in-sync", 0) == broken
    assert sum(n for (*_, what), n in outcome.evidence.items() if what == MOVED) == ended


ORDERS: dict[str, tuple[Steps, bool]] = {
    "as asked": ((*HOME, ("a", (3, 2, 1)), ("s", (1, 2, 3)), ("a", (3, 2))), False),
    "sorted": ((*HOME, ("a", (3, 2, 1)), ("s", (1, 2, 3)), ("a", (2, 3))), True),
    "sorted, the preferred leader as asked": (
        (
            *(("a", (1, 2, 3)), ("s", (1, 2, 3)), ("a", (1, 4, 2, 3))),
            *(("s", (1, 2, 3, 4)), ("a", (1, 2, 4))),
        ),
        True,
    ),
    "one less, in another order": ((("a", (1, 2, 3)), ("s", (1, 2, 3)), ("a", (2, 1))), False),
    "turned around": ((*HOME, ("a", (2, 1))), False),
    "called off": ((*HOME, ("a", (3, 2, 1)), ("a", (1, 2))), False),
    "called off, by writing that first": (
        (*HOME, ("a", (3, 2, 1)), ("a", (1, 2, 3)), ("a", (1, 2))),
        False,
    ),
    "turned elsewhere": (
        (
            *(*HOME, ("a", (3, 2, 1)), ("a", (2, 4, 1)), ("s", (1, 2, 4)), ("a", (2, 4))),
            *(("a", (4, 1, 2)), ("s", (1, 2, 4)), ("a", (4, 1))),
        ),
        False,
    ),
    "more than a set keeps in order": (
        (
            *(("a", (1, 2, 3)), ("s", (1, 2, 3)), ("a", (6, 4, 5, 1, 2, 3))),
            *(("s", (1, 2, 3, 4, 5, 6)), ("a", (4, 5, 6))),
        ),
        False,
    ),
    "in one write": ((*HOME, ("s", (1, 2, 3)), ("a", (3, 2))), False),
}


@pytest.mark.parametrize("name", ORDERS)
@judging(ruled(moves))
def test_replicas_end_in_the_order_that_was_asked_for(name: str) -> Asks:
    steps, broken = ORDERS[name]
    found = [f.rule for f in (yield logged(*steps)).findings if f.rule == "moved-otherwise"]
    assert found == (["moved-otherwise"] if broken else [])


LEFT: dict[str, tuple[Steps, bool]] = {
    "it has left": (
        (*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("s", (2, 3)), ("a", (2, 3))),
        False,
    ),
    "it is there still": ((*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("a", (2, 3))), True),
    "it leaves later": (
        (*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("a", (2, 3)), ("s", (2, 3))),
        True,
    ),
    "who was added is dropped again": (
        (*HOME, ("a", (2, 3, 1)), ("s", (1, 2, 3)), ("a", (1, 2))),
        False,
    ),
    "nobody is dropped": ((*HOME, ("a", (1, 2, 3)), ("s", (1, 2, 3))), False),
}


@pytest.mark.parametrize("name", LEFT)
@judging(ruled(moves))
def test_who_is_dropped_has_left_the_in_sync_set(name: str) -> Asks:
    steps, broken = LEFT[name]
    assert ("moved-while-in-sync" in (yield logged(*steps)).counts) is broken


@judging(ruled(moves))
def test_a_topic_that_is_made_again_has_not_moved() -> Asks:
    story = logged(*HOME)
    gone = {"zxid": 10, "commit_ms": 9_000}
    story.add("zk_write", 10, what="topic", step="removed", partition=None, **gone)
    again = {"zxid": 11, "commit_ms": 9_500, "replicas": [2, 3]}
    story.add("zk_write", 11, what="topic", step="created", **again)
    outcome = yield story
    assert not outcome.counts
    assert not outcome.evidence
