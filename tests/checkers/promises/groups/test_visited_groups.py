"""Groups that somebody asked to join, and never came back to; both ways."""

from __future__ import annotations

import pytest

from checkers.promises.groups.kept_groups import CHECK_INTERVAL
from checkers.promises.groups.visited_groups import LEFT, visited_groups
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

JOINED, REMEMBERED = "joined-without-id", "visitor-remembered"
HEALED = 20_000
CALM = 31_000
"""Longer after it than brokers may need where nobody saw them in sync (10 s)."""


def step(told: Story, t: float, what: str, **more: object) -> None:
    fields = {"node": 1, "group": "g", "step": what, "error": 0, "offset": -1, **more}
    told.add("group_step", t, **fields)


def joined(told: Story, t: float, error: int = 79, **more: object) -> None:
    outcome = {"type": "fail" if error else "ok", "error": error}
    step(told, t, "join", keep_ms=1_000, **{**outcome, **more})


def looked(told: Story, t: float, state: str, **more: object) -> None:
    step(told, t, "look", state=state, **more)


def story(*, looks_ms: int | None = 500) -> Story:
    told = Story()
    if looks_ms is not None:
        told.run["settings"] = {"overrides": {CHECK_INTERVAL: str(looks_ms)}}
    for t, phase in ((5_000, "inject"), (5_100, "injected"), (HEALED, "heal"), (HEALED, "healed")):
        told.add("fault", t, fault="kill", id="k", phase=phase, nodes=[1], detail="{}")
    joined(told, 10_000)
    return told


DUE = ("forgotten", "remembered", "remembered by another")
CASES = {
    "forgotten": (story, lambda s: looked(s, CALM, "Dead"), None),
    "remembered": (story, lambda s: looked(s, CALM, "Empty"), REMEMBERED),
    "remembered by another": (
        story,
        lambda s: (looked(s, CALM, "Dead"), looked(s, CALM + 50, "PreparingRebalance", node=2)),
        REMEMBERED,
    ),
    "who does not coordinate it": (
        story,
        lambda s: looked(s, CALM, "", type="fail", error=16),
        None,
    ),
    "as if it had members": (story, lambda s: looked(s, 12_000, "Stable"), REMEMBERED),
    "as if it waited for some": (
        story,
        lambda s: looked(s, 12_000, "PreparingRebalance"),
        REMEMBERED,
    ),
    "somebody was let in": (
        story,
        lambda s: (step(s, 11_500, "enter", invoke_t=11_400), looked(s, 12_000, "Stable")),
        None,
    ),
    "somebody was not let in": (
        story,
        lambda s: (
            step(s, 11_500, "enter", invoke_t=11_400, type="fail", error=25),
            looked(s, 12_000, "Stable"),
        ),
        REMEMBERED,
    ),
    "soon after": (story, lambda s: looked(s, HEALED + 5_000, "Empty"), None),
    "asked to join again": (story, lambda s: (joined(s, 29_000), looked(s, CALM, "Empty")), None),
    "nobody looks so often": (
        lambda: story(looks_ms=None),
        lambda s: looked(s, CALM, "Empty"),
        None,
    ),
    "a member at once": (story, lambda s: joined(s, 12_000, 0), JOINED),
    "a member at once, and there": (
        story,
        lambda s: (joined(s, 12_000, 0), looked(s, CALM, "Stable")),
        JOINED,
    ),
    "another coordinates it": (story, lambda s: joined(s, 12_000, 16), None),
    "nobody knows": (story, lambda s: joined(s, 12_000, 7, type="info"), None),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(visited_groups))
def test_who_only_asks_to_join_leaves_nothing_behind(name: str) -> Asks:
    make, tell, rule = CASES[name]
    told = make()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == ([] if rule is None else [rule])
    assert bool(outcome.evidence[told.arm, 0, LEFT]) is (name in DUE)
