"""Members that are refused what members may do; both ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from checkers.promises.groups.offices import OFFSETS_TOPIC
from checkers.promises.groups.refused_members import WITHIN, refused_members
from tests.checkers.conftest import Story
from tests.checkers.promises.groups import steps
from tests.checkers.together import Asks, judging, ruled

SESSION = 1_500
IN = 10_000
ILLEGAL, UNKNOWN, REBALANCE, ELSEWHERE = 22, 25, 27, 16
step = partial(steps.step, session_ms=SESSION)


def entered(told: Story) -> None:
    """Let in after a wait that is longer than its session."""
    step(told, IN, "enter", invoke_t=IN - 2_000)
    step(told, IN + 50, "leave", ELSEWHERE, node=2)


def together(told: Story) -> None:
    entered(told)
    step(told, IN + 100, "sync")
    step(told, IN + 110, "sync")
    step(told, IN + 200, "live")


def stays(told: Story) -> None:
    together(told)
    step(told, IN + 300, "enter", None, invoke_t=IN + 250)
    step(told, IN + 320, "live", REBALANCE)
    step(told, IN + 330, "live", ELSEWHERE, node=2)


def alone(told: Story) -> None:
    together(told)
    step(told, IN + 300, "part")
    step(told, IN + 320, "live", REBALANCE)


def paused(told: Story) -> None:
    for at, phase in ((IN - 900, "inject"), (IN - 890, "injected"), (IN + 50, "healed")):
        more = {"phase": phase, "detail": "{}", "nodes": [1]}
        told.add("fault", at, id="p", fault="pause", took_hold=True, **more)


Before = Callable[[Story], Any]
CASES: dict[str, tuple[Before, str, int | None, dict[str, Any], bool, int]] = {
    "leaves": (entered, "leave", 0, {}, False, 1),
    "leaves, and was none": (entered, "leave", UNKNOWN, {}, True, 1),
    "asks for its part": (entered, "sync", 0, {}, False, 1),
    "asks for its part, of another generation": (entered, "sync", ILLEGAL, {}, True, 1),
    "asks for its part, is to join anew": (entered, "sync", REBALANCE, {}, True, 1),
    "asks for its part after somebody began to join": (
        lambda s: (entered(s), step(s, IN + 400, "enter", None, invoke_t=IN + 20)),
        *("sync", REBALANCE, {}, False, 0),
    ),
    "asks for its part when its time is over": (
        entered,
        *("sync", UNKNOWN, {"t": IN + SESSION - 500}, False, 0),
    ),
    "asks for its part, let in once more": (
        lambda s: (entered(s), step(s, IN + 100, "enter", invoke_t=IN + 80)),
        *("sync", REBALANCE, {"t": IN + 200}, True, 1),
    ),
    "asks for its part, let in once more when its time is nearly over": (
        lambda s: (entered(s), step(s, IN + 900, "enter", invoke_t=IN + 850)),
        *("sync", REBALANCE, {"t": IN + 1_000}, False, 0),
    ),
    "asks elsewhere": (entered, "sync", UNKNOWN, {"node": 2}, False, 0),
    "guest leaves": (together, "part", 0, {}, False, 3),
    "guest leaves, and was none": (together, "part", UNKNOWN, {}, True, 3),
    "guest lives, and is of another generation": (together, "last", ILLEGAL, {}, True, 3),
    "guest was not heard of for its session": (
        together,
        *("part", UNKNOWN, {"t": IN + 95 + SESSION}, False, 2),
    ),
    "another had left": (
        lambda s: (together(s), step(s, IN + 250, "part")),
        *("last", UNKNOWN, {}, False, 3),
    ),
    "keeps what it had": (stays, "keep", 0, {}, False, 3),
    "may not keep what it had": (stays, "keep", ILLEGAL, {}, True, 3),
    "may not keep what it had as the guest left": (alone, "keep", ILLEGAL, {}, True, 4),
    "may not keep it after its time": (
        stays,
        *("keep", UNKNOWN, {"t": IN + 195 + SESSION}, False, 2),
    ),
    "a broker that stood still": (
        lambda s: (entered(s), paused(s)),
        *("leave", UNKNOWN, {}, False, 0),
    ),
    "a broker that leads no more": (
        lambda s: (entered(s), s.commit(IN + 300, 2, 1, topic=OFFSETS_TOPIC, partition=0)),
        *("leave", UNKNOWN, {}, False, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(refused_members))
def test_what_members_ask_within_their_time(name: str) -> Asks:
    before, asks, error, more, refused, asked = CASES[name]
    told = Story()
    told.commit(1_000, 1, 0, topic=OFFSETS_TOPIC, partition=0)
    before(told)
    step(told, more.get("t", IN + 420), asks, error, node=more.get("node", 1))
    found = yield told
    assert found.counts == ({"member-refused": 1} if refused else {})
    assert found.evidence[told.arm, 0, WITHIN] == asked
