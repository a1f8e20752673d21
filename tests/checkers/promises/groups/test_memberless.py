"""Groups that never had a member, treated as if they had, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.groups.memberless import DEAD, UNJOINED, memberless
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

RULE = "memberless-refused"


def of_before(story: Story, whether: bool) -> None:
    story.run["arms"][story.arm] = {DEAD: whether}


def step(story: Story, t: float, step: str, error: int = 0, **more: Any) -> None:
    own = {"group": "g", "node": 2, "offset": -1, "invoke_t": t - 1, "step": step, "error": error}
    story.add("group_step", t, **{"type": "fail" if error else "ok", **own, **more})


CASES: dict[str, tuple[Any, int]] = {
    "it is kept": (lambda s: step(s, 100, "commit"), 0),
    "refused as no member's": (lambda s: step(s, 100, "commit", 25), 1),
    "refused as of the past, twice": (
        lambda s: (step(s, 100, "raise", 22), step(s, 200, "raise", 22)),
        2,
    ),
    "not deleted, for its members' sake": (lambda s: step(s, 100, "delete", 68), 1),
    "as somebody had asked to join": (
        lambda s: (step(s, 50, "enter", 79), step(s, 100, "delete", 68)),
        0,
    ),
    "as somebody asks to join, of whom nobody heard": (
        lambda s: (step(s, 150, "enter", type="info", error=None, invoke_t=90),
                   step(s, 100, "delete", 68)),
        0,
    ),
    "as somebody joins later": (
        lambda s: (step(s, 100, "delete", 68), step(s, 300, "enter", 79)),
        1,
    ),
    "another was joined": (
        lambda s: (step(s, 50, "enter", 79, group="h"), step(s, 100, "delete", 68)),
        1,
    ),
    "sent away": (lambda s: step(s, 100, "commit", 16), 0),
    "there is none": (lambda s: step(s, 100, "delete", 69), 0),
    "as no member's, by a release that lets groups go so": (
        lambda s: (of_before(s, True), step(s, 100, "commit", 25)),
        0,
    ),
    "of the past, by such a release": (
        lambda s: (of_before(s, True), step(s, 100, "commit", 22)),
        1,
    ),
    "a member's own": (lambda s: step(s, 100, "keep", 22), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@judging(ruled(memberless))
def test_who_has_no_members_is_not_refused_for_them(name: str) -> Asks:
    tell, broken = CASES[name]
    story = Story()
    of_before(story, False)
    tell(story)
    found = yield story
    assert found.counts == ({RULE: broken} if broken else {})
    asked = [
        row for row in story.rows["group_step"] if row["step"] in ("commit", "raise", "delete")
    ]
    had_joined = name.startswith("as somebody") and not broken
    assert found.evidence[story.arm, 0, UNJOINED] == (0 if had_joined else len(asked))


@judging(ruled(memberless))
def test_what_releases_of_old_may_call_a_stranger_is_counted() -> Asks:
    story = Story()
    of_before(story, True)
    for t in (100, 200):
        step(story, t, "commit", 25)
    found = yield story
    assert any("2 times" in says and "node 2" in says for says in found.not_judged)
