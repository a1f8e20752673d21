"""Who left its group in order: told that it is no member, and each way in which it may be lawful
that it is told otherwise."""

from __future__ import annotations

import pytest

from checkers.promises.groups.left_members import PARTED, left_members
from checkers.promises.groups.offices import OFFSETS_TOPIC, partition_of
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

GROUP, PARTITIONS = "kept-3", 3
LEFT = 20_000
RULE = "left-and-member"


def step(told: Story, t: float, what: str, error: int = 0, **more: object) -> None:
    fields = {"node": 1, "group": GROUP, "step": what, "error": error, "offset": -1}
    told.add("group_step", t, **{**fields, "type": "fail" if error else "ok", **more})


def moved(told: Story, t: float, leader: int, epoch: int) -> None:
    where = partition_of(GROUP, PARTITIONS)
    told.commit(t, leader, epoch, topic=OFFSETS_TOPIC, partition=where)


def story() -> Story:
    """Node 1 leads the group's partition, and let a member go."""
    told = Story()
    for partition in range(PARTITIONS):
        told.commit(1_000, 1, 0, topic=OFFSETS_TOPIC, partition=partition)
    step(told, LEFT, "leave")
    return told


CASES = {
    "told that it is none": (lambda s: step(s, LEFT + 200, "beat", 25), None, 1),
    "told that all is well": (lambda s: step(s, LEFT + 200, "beat"), RULE, 1),
    "told both": (
        lambda s: (step(s, LEFT + 100, "beat", 25), step(s, LEFT + 200, "beat")),
        RULE,
        1,
    ),
    "told by another": (lambda s: step(s, LEFT + 200, "beat", node=2), None, 0),
    "asked before it left": (
        lambda s: step(s, LEFT + 200, "beat", invoke_t=LEFT - 100),
        None,
        0,
    ),
    "long after": (lambda s: step(s, LEFT + 2_000, "beat"), None, 0),
    "who does not coordinate it": (lambda s: step(s, LEFT + 200, "beat", 16), None, 0),
    "another coordinated it meanwhile": (
        lambda s: (
            moved(s, LEFT + 100, 2, 1),
            moved(s, LEFT + 150, 1, 2),
            step(s, LEFT + 200, "beat"),
        ),
        None,
        0,
    ),
    "it died meanwhile": (
        lambda s: (
            s.add("node_event", LEFT + 50, node=1, event="kill"),
            step(s, LEFT + 200, "beat"),
        ),
        None,
        0,
    ),
    "it was not let go": (
        lambda s: (
            step(s, LEFT + 100, "leave", 25, group="other"),
            step(s, LEFT + 200, "beat", group="other"),
        ),
        None,
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(left_members))
def test_who_leaves_is_no_member(name: str) -> Asks:
    tell, rule, parted = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert found.counts == ({} if rule is None else {rule: 1})
    assert found.evidence[told.arm, 0, PARTED] == parted
