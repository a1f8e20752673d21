"""A partition that two members hold at once; both ways."""

from __future__ import annotations

import pytest

from checkers.promises.groups.assigned_to_two import GIVEN, assigned_to_two
from tests.checkers.conftest import Story
from tests.checkers.promises.groups import test_thrown_out
from tests.checkers.promises.groups.test_thrown_out import CALM, HEALED
from tests.checkers.together import Asks, judging, ruled


def held(told: Story, t: float, process: str, event: str = "assigned", **more: object) -> None:
    own = {"group": "g", "partition": 1, **more}
    told.add("assignment", t, process=process, event=event, **own)


def story() -> Story:
    """`m` polls until 39.2 s."""
    told = test_thrown_out.story()
    held(told, CALM, "m")
    return told


CASES = {
    "while the other holds it": (lambda s: held(s, CALM + 2_000, "n"), 1, 2),
    "after the other gave it up": (
        lambda s: (held(s, CALM + 1_900, "m", "revoked"), held(s, CALM + 2_000, "n")),
        *(0, 2),
    ),
    "after the other was thrown out": (
        lambda s: (held(s, CALM + 1_900, "m", "lost"), held(s, CALM + 2_000, "n")),
        *(0, 2),
    ),
    "as it had it already": (lambda s: held(s, CALM + 2_000, "m"), 0, 2),
    "another group's": (lambda s: held(s, CALM + 2_000, "n", group="h"), 0, 2),
    "another partition": (lambda s: s.add("assignment", CALM + 2_000, process="n", group="g",
                                          event="assigned", partition=2), 0, 2),
    "the other polls no more": (lambda s: held(s, 40_000, "n"), 0, 2),
    "the other did not poll for long": (
        lambda s: (
            s.rows.update(fetch=[r for r in s.rows["fetch"] if not CALM < r["t"] / 1e6 < 35_000]),
            held(s, 36_000, "n"),
        ),
        *(0, 2),
    ),
    "before all was calm": (
        lambda s: (held(s, HEALED + 8_000, "n"), held(s, HEALED + 9_000, "n", "revoked")),
        *(0, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@judging(ruled(assigned_to_two))
def test_a_partition_is_one_members(name: str) -> Asks:
    tell, broken, given = CASES[name]
    told = story()
    tell(told)
    found = yield told
    assert found.counts == ({"assigned-to-two": broken} if broken else {})
    assert found.evidence[told.arm, 0, GIVEN] == given
