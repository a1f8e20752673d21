"""Members that are to join anew: told so, and refused nothing before they do; and each way in which
it may be lawful that they are not told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.groups.offices import OFFSETS_TOPIC, partition_of
from checkers.promises.groups.told_members import KEPT, TOLD, told_members
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

GROUP, PARTITIONS = "pair-0", 3
BEGUN = 20_000
SESSION = 1_500
UNTOLD, REFUSED = "rebalance-untold", "commit-refused"


def step(told: Story, t: float, what: str, error: int | None = 0, **more: Any) -> None:
    kind = "info" if error is None else "fail" if error else "ok"
    fields = {"node": 1, "group": GROUP, "step": what, "error": error, "offset": -1}
    told.add("group_step", t, **{**fields, "invoke_t": t - 10, "type": kind, **more})


def lives(told: Story, begin: float, end: float, error: int = 0, **more: Any) -> None:
    """Every 200 ms."""
    for n in range(int((end - begin) // 200) + 1):
        step(told, begin + n * 200, "live", error, **more)


def moved(told: Story, t: float, leader: int, epoch: int) -> None:
    where = partition_of(GROUP, PARTITIONS)
    told.commit(t, leader, epoch, topic=OFFSETS_TOPIC, partition=where)


def enters(told: Story, t: float, error: int | None = 0, **more: Any) -> None:
    """From the beginning on."""
    step(told, t, "enter", error, **{"invoke_t": BEGUN, "keep_ms": SESSION, **more})


def ends(told: Story, what: str, *, at: float = BEGUN) -> None:
    step(told, at, what, keep_ms=SESSION if what == "last" else None)


def story() -> Story:
    """Node 1 coordinates the group, and a member of it lives."""
    told = Story()
    for partition in range(PARTITIONS):
        told.commit(1_000, 1, 0, topic=OFFSETS_TOPIC, partition=partition)
    lives(told, BEGUN - 1_000, BEGUN - 100)
    return told


Case = tuple[Callable[[Story], Any], str | None, int, int]
CASES: dict[str, Case] = {
    "told that another joins": (
        lambda s: (step(s, BEGUN + 100, "live", 27), enters(s, BEGUN + 300)),
        *(None, 1, 0),
    ),
    "never told, and let go for it": (
        lambda s: (lives(s, BEGUN + 100, BEGUN + 3_900), enters(s, BEGUN + 4_000)),
        *(UNTOLD, 0, 0),
    ),
    "never told, as another waits in vain": (
        lambda s: (lives(s, BEGUN + 100, BEGUN + 3_900), enters(s, BEGUN + 4_000, 16)),
        *(UNTOLD, 0, 0),
    ),
    "told late": (
        lambda s: (
            lives(s, BEGUN + 100, BEGUN + 2_900),
            step(s, BEGUN + 3_000, "live", 27),
            enters(s, BEGUN + 3_100),
        ),
        *(UNTOLD, 1, 0),
    ),
    "nobody knows whether it heard of who joins": (
        lambda s: (lives(s, BEGUN + 100, BEGUN + 3_900), enters(s, BEGUN + 4_000, None)),
        *(None, 0, 0),
    ),
    "another joins elsewhere": (
        lambda s: (lives(s, BEGUN + 100, BEGUN + 3_900), enters(s, BEGUN + 4_000, 16, node=2)),
        *(None, 0, 0),
    ),
    "who joins waits for a second": (
        lambda s: (lives(s, BEGUN + 100, BEGUN + 900), enters(s, BEGUN + 1_000)),
        *(None, 0, 0),
    ),
    "it stood still, and then answered as it came": (
        lambda s: (
            step(s, BEGUN + 3_000, "live", invoke_t=BEGUN + 2_000),
            step(s, BEGUN + 3_100, "live", 27),
            enters(s, BEGUN + 3_300),
        ),
        *(None, 1, 0),
    ),
    "another has coordinated it since": (
        lambda s: (
            moved(s, BEGUN + 900, 2, 1),
            moved(s, BEGUN + 1_000, 1, 2),
            lives(s, BEGUN + 1_100, BEGUN + 3_300),
            enters(s, BEGUN + 3_400),
        ),
        *(None, 0, 0),
    ),
    "told that another left": (
        lambda s: (ends(s, "part"), step(s, BEGUN + 100, "live", 27)),
        *(None, 1, 0),
    ),
    "never told that another left": (
        lambda s: (ends(s, "part"), lives(s, BEGUN + 100, BEGUN + 3_000)),
        *(UNTOLD, 0, 0),
    ),
    "it was not let go": (
        lambda s: (step(s, BEGUN, "part", 25), lives(s, BEGUN + 100, BEGUN + 3_000)),
        *(None, 0, 0),
    ),
    "joined anew itself, and was alone": (
        lambda s: (
            ends(s, "part"),
            step(s, BEGUN + 300, "enter", keep_ms=4_000),
            lives(s, BEGUN + 400, BEGUN + 4_000),
        ),
        *(None, 0, 0),
    ),
    "told that another is missed": (
        lambda s: (
            ends(s, "last"),
            lives(s, BEGUN + 100, BEGUN + SESSION),
            step(s, BEGUN + SESSION + 200, "live", 27),
        ),
        *(None, 1, 0),
    ),
    "another is never missed": (
        lambda s: (ends(s, "last"), lives(s, BEGUN + 100, BEGUN + SESSION + 3_000)),
        *(UNTOLD, 0, 0),
    ),
    "another's session has just begun anew": (
        lambda s: (
            moved(s, BEGUN + 1_000, 2, 1),
            ends(s, "last"),
            lives(s, BEGUN + 1_500, BEGUN + 2_000 + SESSION + 1_400, node=2),
        ),
        *(None, 0, 0),
    ),
    "who coordinates it now misses nobody": (
        lambda s: (
            moved(s, BEGUN + 1_000, 2, 1),
            ends(s, "last"),
            lives(s, BEGUN + 1_500, BEGUN + 2_000 + SESSION + 3_000, node=2),
        ),
        *(UNTOLD, 0, 0),
    ),
    "who coordinates it now has just read it": (
        lambda s: (
            moved(s, BEGUN + 1_000, 2, 1),
            ends(s, "last"),
            lives(s, BEGUN + 9_000, BEGUN + 9_000 + SESSION + 1_400, node=2),
        ),
        *(None, 0, 0),
    ),
    "who read it late misses nobody": (
        lambda s: (
            moved(s, BEGUN + 1_000, 2, 1),
            ends(s, "last"),
            lives(s, BEGUN + 9_000, BEGUN + 9_000 + SESSION + 3_000, node=2),
        ),
        *(UNTOLD, 0, 0),
    ),
    "who says that all is well while it reads it": (
        lambda s: (
            moved(s, BEGUN + 1_000, 2, 1),
            ends(s, "last"),
            lives(s, BEGUN + 1_500, BEGUN + 9_000 + SESSION + 1_400, node=2),
            step(s, BEGUN + 9_000, "own", 14, node=2),
        ),
        *(None, 0, 0),
    ),
    "who says for too long that it reads it": (
        lambda s: (
            moved(s, BEGUN + 1_000, 2, 1),
            ends(s, "last"),
            lives(s, BEGUN + 1_500, BEGUN + 12_000 + SESSION, node=2),
            step(s, BEGUN + 11_100, "own", 14, node=2),
        ),
        *(UNTOLD, 0, 0),
    ),
    "who has read it, and misses nobody": (
        lambda s: (
            moved(s, BEGUN + 1_000, 2, 1),
            ends(s, "last"),
            lives(s, BEGUN + 1_500, BEGUN + 9_000 + SESSION + 3_000, node=2),
            step(s, BEGUN + 9_000, "own", 14, node=2),
        ),
        *(UNTOLD, 0, 0),
    ),
    "said by two in turn": (
        lambda s: [
            ends(s, "last"),
            *(
                step(s, BEGUN + 3_500 + n * 200, "live", 0 if n % 2 else 16, node=1)
                for n in range(10)
            ),
        ],
        *(None, 0, 0),
    ),
    "commits while it is to join anew": (
        lambda s: (step(s, BEGUN, "live", 27), step(s, BEGUN + 100, "keep", offset=1)),
        *(None, 1, 1),
    ),
    "refused to commit while it is to join anew": (
        lambda s: (step(s, BEGUN, "live", 27), step(s, BEGUN + 100, "keep", 27)),
        *(REFUSED, 1, 1),
    ),
    "no member any more": (
        lambda s: (step(s, BEGUN, "live", 27), step(s, BEGUN + 100, "keep", 25)),
        *(None, 1, 0),
    ),
    "of another generation": (
        lambda s: (step(s, BEGUN, "live", 27), step(s, BEGUN + 100, "keep", 22)),
        *(None, 1, 0),
    ),
    "another coordinates it": (
        lambda s: (step(s, BEGUN, "live", 27), step(s, BEGUN + 100, "keep", 16)),
        *(None, 1, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(told_members))
def test_who_is_to_join_anew(name: str) -> Asks:
    tell, rule, heard, kept = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert found.counts == ({} if rule is None else {rule: 1})
    assert found.evidence[told.arm, 0, TOLD] == heard
    assert found.evidence[told.arm, 0, KEPT] == kept
