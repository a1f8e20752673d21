"""Which groups a coordinator lists to an operator, both ways."""

from __future__ import annotations

import pytest

from checkers.promises.groups.listed_groups import API, LISTED, listed_groups
from checkers.promises.groups.offices import OFFSETS_TOPIC
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

RULE = "listed-otherwise"
GROUP, DELETED, READERS = "kept-3", "kept-2", "readers"
PARTITIONS = 3
LATE = 40_000
"""Long after anything that happened."""


def story(*, leader: int = 2, t: float = 1_000) -> Story:
    """One broker leads all partitions; two groups are kept, and one was deleted."""
    told = Story()
    for partition in range(PARTITIONS):
        told.commit(t, leader, 1, topic=OFFSETS_TOPIC, partition=partition)
    for group in (GROUP, DELETED):
        step(told, 10_000, "commit", group)
    step(told, 12_000, "delete", DELETED)
    told.add("commit", 11_000, node=2, group=READERS, topic="t", offset=3)
    return told


def step(told: Story, t: float, what: str, group: str, **more: object) -> None:
    offset = 7 if what == "commit" else -1
    told.add("group_step", t, **{"node": 2, "group": group, "step": what, "offset": offset, **more})


def lists(told: Story, node: int, *groups: str, t: float = LATE, error: str | None = None) -> None:
    about = {"node": node, "api": API, "known": False, "error": error}
    told.add("described", t, **about, name="", key="groups", told=str(len(groups)))
    for group in groups:
        told.add("described", t, **about, name=group, key="protocol type", told="")


def both(*more: str) -> tuple[str, ...]:
    return (GROUP, READERS, *more)


CASES = {
    "as it is": (story, lambda s: (lists(s, 2, *both()), lists(s, 1)), 0),
    "one is missing": (story, lambda s: lists(s, 2, READERS), 1),
    "one with members is missing": (story, lambda s: lists(s, 2, GROUP), 1),
    "one whose position is raised is missing": (
        story,
        lambda s: (step(s, 11_000, "raise", "raised", offset=4), lists(s, 2, *both())),
        1,
    ),
    "one without members whose topic may be gone": (
        story,
        lambda s: (
            step(s, 11_000, "raise", "raised", offset=4),
            s.add("topic_deletion", 20_000, topic="u", step="requested"),
            lists(s, 2, *both()),
        ),
        0,
    ),
    "all are missing": (story, lambda s: lists(s, 2), 2),
    "by another": (story, lambda s: (lists(s, 2, *both()), lists(s, 1, GROUP)), 1),
    "one that nobody knows, by another": (story, lambda s: lists(s, 1, "of somebody"), 1),
    "one that nobody knows": (story, lambda s: lists(s, 2, *both("of somebody")), 0),
    "one that was deleted": (story, lambda s: lists(s, 2, *both(DELETED)), 1),
    "one that was deleted as its coordinator died": (
        story,
        lambda s: (
            s.add("node_event", 12_500, node=2, event="kill"),
            s.add("node_event", 13_500, node=2, event="ready"),
            lists(s, 2, *both(DELETED)),
        ),
        0,
    ),
    "one whose positions were deleted": (
        story,
        lambda s: (step(s, 20_000, "clear", GROUP), lists(s, 2, *both())),
        1,
    ),
    "one that somebody tried to delete": (
        story,
        lambda s: (step(s, 20_000, "delete", GROUP, type="info"), lists(s, 2, READERS)),
        0,
    ),
    "one that is kept for a time": (
        story,
        lambda s: (step(s, 10_000, "commit", "brief", keep_ms=2_000), lists(s, 2, *both())),
        0,
    ),
    "one whose topic was deleted": (
        story,
        lambda s: (
            s.add("topic_deletion", 20_000, topic="t", step="requested"),
            lists(s, 2, GROUP),
        ),
        0,
    ),
    "a commit may come late": (
        story,
        lambda s: (step(s, 11_000, "commit", DELETED, type="info"), lists(s, 2, *both(DELETED))),
        0,
    ),
    "a commit may come late to who keeps it anyhow": (
        story,
        lambda s: (step(s, 11_000, "commit", GROUP, type="info"), lists(s, 2, READERS)),
        1,
    ),
    "too early to know": (lambda: story(t=39_000), lambda s: lists(s, 2), 0),
    "nobody leads": (lambda: story(leader=-1), lambda s: lists(s, 2), 0),
    "no answer": (story, lambda s: lists(s, 2, error="14"), 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(listed_groups))
def test_a_coordinator_lists_its_groups_and_no_others(name: str) -> Asks:
    make, tell, expected = CASES[name]
    told = make()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == [RULE] * expected
    if expected:
        assert outcome.evidence[told.arm, 0, LISTED] >= expected
