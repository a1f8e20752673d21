"""Leaders that are taken away for nobody, and those that lawfully are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.departures.led_by_nobody import RULE, led_by_nobody
from tests.checkers.promises.test_departures import Zoo
from tests.checkers.together import Asks, judging, ruled

AT = 30_000
"""Long after all were registered."""


def taken(story: Zoo, isr: tuple[int, ...] = (2, 3)) -> None:
    story.commit(1_000, 1, 0, topic="t", partition=0)
    story.commit(AT, -1, 1, topic="t", partition=0, isr=list(isr))
    story.commit(AT + 20, 2, 2, topic="t", partition=0, isr=[2, 3])


def disk(story: Zoo, node: int) -> None:
    fields = {"fault": "fail-disk", "nodes": [node], "took_hold": True, "detail": "{}"}
    for t, phase in ((AT - 100, "inject"), (AT - 50, "injected"), (AT + 900, "healed")):
        story.add("fault", t, id="d", phase=phase, **fields)


CASES: dict[str, tuple[Callable[[Zoo], Any], bool]] = {
    "it lives, and others are in sync": (taken, True),
    "it was away long before": (
        lambda s: (s.gone(5_000, 1), s.broker(6_000, 1), taken(s)),
        True,
    ),
    "another's disk failed": (lambda s: (taken(s), disk(s, 3)), True),
    "it is gone": (lambda s: (s.gone(AT - 100, 1), taken(s)), False),
    "it is gone, as is seen later": (lambda s: (s.gone(AT + 500, 1), taken(s)), False),
    "it has just come back": (
        lambda s: (s.gone(AT - 6_000, 1), s.broker(AT - 5_000, 1), taken(s)),
        False,
    ),
    "it is the last in sync": (lambda s: taken(s, (1,)), False),
    "nobody else in sync lives": (
        lambda s: (s.gone(AT - 5_000, 2), s.gone(AT - 5_000, 3), taken(s)),
        False,
    ),
    "its disk failed": (lambda s: (taken(s), disk(s, 1)), False),
    "its topic is deleted": (
        lambda s: (taken(s), s.add("topic_deletion", AT + 100, topic="t", event="deleted")),
        False,
    ),
    "another leads in its place": (
        lambda s: (s.commit(1_000, 1, 0, topic="t"), s.commit(AT, 2, 1, topic="t", isr=[2, 3])),
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(lambda history, _outcome: led_by_nobody(history)))
def test_who_is_taken_away_for_nobody(name: str) -> Asks:
    tell, is_found = CASES[name]
    story = Zoo()
    tell(story)
    found = yield story
    assert found.counts == ({RULE: 1} if is_found else {})
