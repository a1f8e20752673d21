"""Members that say nothing any more: waited for as long as they may be, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.groups.absent_members import AWAITED, absent_members
from checkers.promises.groups.offices import OFFSETS_TOPIC
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import Asks, judging, ruled

GROUP, KEEP, HURRIED = "silent", 2_500, 1_000
GIVEN, ASKED = 20_000, 20_400
"""One was given its part; the next one asked to be let in."""


def step(told: Story, t: float, name: str, error: int | None = 0, **more: Any) -> None:
    kind = "info" if error is None else "fail" if error else "ok"
    fields = {"node": 1, "process": "absent", "group": GROUP, "step": name, "error": error}
    if name == "enter":
        fields["keep_ms"] = KEEP
    told.add("group_step", t, **{**fields, "invoke_t": t - 10, "type": kind, **more})


def let_in(told: Story, t: float, error: int | None = 0, **more: Any) -> None:
    step(told, t, "enter", error, **{"invoke_t": ASKED, **more})


def hurried(told: Story, keep_ms: int) -> None:
    """How long who is silent may be waited for."""
    step(told, GIVEN - 100, "enter", keep_ms=keep_ms)


def story() -> Story:
    """Node 1 leads the group's partition all along, but for what a case adds."""
    told = Story()
    workloads = [{"process": "absent", "role": "group-absent"}]
    told.run["trials"] = [{"arm": ARM, "trial": 0, "workloads": workloads}]
    told.commit(1_000, 1, 0, topic=OFFSETS_TOPIC, partition=0)
    step(told, GIVEN, "sync")
    step(told, GIVEN + 200, "enter", 79)
    return told


def moved(told: Story, t: float, leader: int = 2) -> None:
    told.commit(t, leader, 1, topic=OFFSETS_TOPIC, partition=0)


def paused(told: Story, t: float) -> None:
    for at, phase in ((t, "inject"), (t + 1, "injected"), (t + 1_000, "healed")):
        more = {"phase": phase, "detail": "{}", "nodes": [1]}
        told.add("fault", at, id="p", fault="pause", took_hold=True, **more)


LATE = ASKED + KEEP + 2_100
CASES: dict[str, tuple[Callable[[Story], Any], str | None, int]] = {
    "let in as the other's session is over": (lambda s: let_in(s, GIVEN + KEEP), None, 1),
    "let in as the time to join anew is up": (lambda s: let_in(s, ASKED + KEEP + 20), None, 1),
    "let in by a busy coordinator": (lambda s: let_in(s, ASKED + KEEP + 1_900), None, 1),
    "let in late": (lambda s: let_in(s, LATE), "kept-waiting", 1),
    "never let in": (lambda s: let_in(s, ASKED + 6_000, None), "kept-waiting", 1),
    "gave up in time": (lambda s: let_in(s, ASKED + 1_000, None), None, 0),
    "refused": (lambda s: let_in(s, ASKED + 20, 25), None, 0),
    "let in at once": (lambda s: let_in(s, ASKED + 20), "put-out-too-soon", 1),
    "let in at once as the other leaves": (
        lambda s: (let_in(s, ASKED + 520), step(s, ASKED + 530, "part", invoke_t=ASKED + 510)),
        None,
        0,
    ),
    "let in before the other leaves": (
        lambda s: (let_in(s, ASKED + 520), step(s, ASKED + 900, "part", invoke_t=ASKED + 800)),
        "put-out-too-soon",
        1,
    ),
    "let in at half the time": (lambda s: let_in(s, GIVEN + KEEP / 2), "put-out-too-soon", 1),
    "let in at once by the next coordinator": (
        lambda s: (moved(s, GIVEN + 100), let_in(s, ASKED + 20, node=2)),
        None,
        0,
    ),
    "let in at once by who leads again": (
        lambda s: (moved(s, GIVEN + 50), moved(s, GIVEN + 90, 1), let_in(s, ASKED + 20)),
        None,
        0,
    ),
    "never let in by the next coordinator": (
        lambda s: (
            moved(s, GIVEN + 1_000),
            let_in(s, ASKED + 9_000, None, node=2, invoke_t=ASKED + 3_000),
        ),
        "kept-waiting",
        1,
    ),
    "never answered by who is deposed": (
        lambda s: (moved(s, ASKED + 3_000), let_in(s, ASKED + 6_000, None)),
        None,
        0,
    ),
    "deposed when it was late": (
        lambda s: (moved(s, LATE + 1_500), let_in(s, ASKED + 6_000, None)),
        "kept-waiting",
        1,
    ),
    "never answered by who was paused": (
        lambda s: (paused(s, ASKED + 1_000), let_in(s, ASKED + 6_000, None)),
        None,
        0,
    ),
    "another had come between": (
        lambda s: (step(s, ASKED - 50, "enter", None), let_in(s, ASKED + 20)),
        None,
        0,
    ),
    "what was given was lost": (
        lambda s: (step(s, ASKED - 50, "sync", None), let_in(s, ASKED + 20)),
        None,
        0,
    ),
    "let in as its own time is up, and not that of who is silent": (
        lambda s: (hurried(s, KEEP), let_in(s, ASKED + HURRIED + 20, keep_ms=HURRIED)),
        "put-out-too-soon",
        1,
    ),
    "let in as the time of who is silent is up, and not its own": (
        lambda s: (hurried(s, HURRIED), let_in(s, ASKED + HURRIED + 20)),
        "put-out-too-soon",
        1,
    ),
    "let in as both have no time left": (
        lambda s: (hurried(s, HURRIED), let_in(s, ASKED + HURRIED + 20, keep_ms=HURRIED)),
        None,
        1,
    ),
    "let in as the longer time is up": (
        lambda s: (hurried(s, KEEP), let_in(s, ASKED + KEEP + 1_900, keep_ms=HURRIED)),
        None,
        1,
    ),
    "let in late by the longer time": (
        lambda s: (hurried(s, KEEP), let_in(s, LATE, keep_ms=HURRIED)),
        "kept-waiting",
        1,
    ),
    "of a client that says that it lives": (
        lambda s: let_in(s, LATE, process="somebody"),
        None,
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(absent_members))
def test_who_comes_after_one_that_says_nothing(name: str) -> Asks:
    tell, rule, awaited = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert found.counts == ({} if rule is None else {rule: 1})
    assert found.evidence[told.arm, 0, AWAITED] == awaited


COUPLE_KEEP = 4_000


def waits(told: Story, until: float, error: int | None, **more: Any) -> None:
    """One of the couple for its part, from `ASKED` on."""
    step(told, until, "sync", error, **{"process": "couple", "invoke_t": ASKED, **more})


COUPLES: dict[str, tuple[Callable[[Story], Any], str | None, int]] = {
    "told to join anew": (lambda s: waits(s, ASKED + COUPLE_KEEP, 27), None, 1),
    "told by a busy coordinator": (lambda s: waits(s, ASKED + COUPLE_KEEP + 1_900, 27), None, 1),
    "told late": (lambda s: waits(s, ASKED + COUPLE_KEEP + 2_100, 27), "kept-waiting", 1),
    "never told": (lambda s: waits(s, ASKED + 8_000, None), "kept-waiting", 1),
    "gave up in time": (lambda s: waits(s, ASKED + 3_000, None), None, 0),
    "never told by who is deposed": (
        lambda s: (moved(s, ASKED + 3_000), waits(s, ASKED + 8_000, None)),
        None,
        0,
    ),
    "never told by who was paused": (
        lambda s: (paused(s, ASKED + 1_000), waits(s, ASKED + 8_000, None)),
        None,
        0,
    ),
    "never told by who does not coordinate": (
        lambda s: waits(s, ASKED + 8_000, None, node=2),
        None,
        0,
    ),
}


@pytest.mark.parametrize("name", COUPLES)
@judging(ruled(absent_members))
def test_who_waits_for_a_part_that_nobody_assigns(name: str) -> Asks:
    tell, rule, awaited = COUPLES[name]
    told = story()
    told.run["trials"][0]["workloads"] = [{"process": "couple", "role": "group-couple"}]
    step(told, ASKED - 200, "enter", process="couple", keep_ms=COUPLE_KEEP)
    tell(told)
    found = yield told
    assert found.counts == ({} if rule is None else {rule: 1})
    assert found.evidence[told.arm, 0, AWAITED] == awaited
