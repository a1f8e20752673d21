"""Members that polled and were thrown out, both ways."""

from __future__ import annotations

import pytest

from checkers.promises.groups.thrown_out import STAYED, thrown_out
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

HEALED = 20_000
CALM = 32_000
"""Longer after it than brokers may need where no run says how long (10 s)."""


def story(*, healed: bool = True) -> Story:
    told = Story()
    for t, phase in ((10_000, "inject"), (10_100, "injected"), (HEALED, "heal")):
        told.add("fault", t, fault="kill", id="k", phase=phase, nodes=[1], detail="{}")
    if healed:
        told.add("fault", HEALED, fault="kill", id="k", phase="healed", nodes=[1], detail="{}")
    told.add("assignment", 5_000, process="m", group="g", event="assigned")
    told.add("assignment", 40_000, process="m", group="g", event="revoked")
    for t in range(5_000, 40_000, 1_000):
        polled(told, t)
    return told


def polled(told: Story, t: float, took: float = 200) -> None:
    told.add("fetch", t, process="m", poll=1, invoke_t=t - took)


def lost(told: Story, t: float, **more: object) -> None:
    told.add("assignment", t, process="m", group="g", event="lost", **more)


def refused(told: Story, t: float, error: int = 25, **more: object) -> None:
    own = {"process": "m", "group": "g", "type": "fail", "error": error, "invoke_t": t - 5}
    told.add("commit", t, **{**own, **more})


CASES = {
    "once all is calm": (story, lambda s: lost(s, CALM), 1),
    "of two partitions": (story, lambda s: (lost(s, CALM), lost(s, CALM, partition=1)), 1),
    "soon after healing": (story, lambda s: lost(s, HEALED + 9_000), 0),
    "while faults were played": (story, lambda s: lost(s, 15_000), 0),
    "a fault was never healed": (lambda: story(healed=False), lambda s: lost(s, CALM), 0),
    "who did not poll": (story, lambda s: (lost(s, CALM), polled(s, CALM + 500, 3_000)), 0),
    "refused a commit": (story, lambda s: refused(s, CALM), 1),
    "refused one as of another generation": (story, lambda s: refused(s, CALM, 22), 1),
    "refused one as all moved": (
        story,
        lambda s: (s.add("assignment", CALM - 4_000, process="n", group="g", event="assigned"),
                   refused(s, CALM)),
        0,
    ),
    "refused one long after all had moved": (
        story,
        lambda s: (s.add("assignment", CALM - 6_000, process="n", group="g", event="assigned"),
                   refused(s, CALM)),
        1,
    ),
    "sent elsewhere with one": (story, lambda s: refused(s, CALM, 16), 0),
    "refused one soon after healing": (story, lambda s: refused(s, HEALED + 9_000), 0),
    "a stranger was refused one": (story, lambda s: refused(s, CALM, process="x"), 0),
    "nobody": (story, lambda s: None, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@judging(ruled(thrown_out))
def test_who_polls_stays_a_member(name: str) -> Asks:
    make, tell, broken = CASES[name]
    told = make()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == ["thrown-out"] * broken
    assert bool(outcome.evidence[told.arm, 0, STAYED]) is (
        name not in ("a fault was never healed", "who did not poll")
    )
