"""Deletions that nothing stands in the way of any more: done at once, and each thing that they may
have waited for all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.topic_deletion import check
from checkers.promises.topic_deletion.stalled import FREE, LIMIT_NS
from tests.checkers.conftest import ARM, MS, Story
from tests.checkers.together import Asks, judging

ASKED, BACK = 20_000, 23_000
LIMIT_MS = LIMIT_NS // MS
RULE = "deletion-stalled"


def zookeeper(told: Story, t: float, what: str, step: str, **fields: Any) -> None:
    told.add("zk_write", t, what=what, step=step, zxid=int(t), error_ns=MS, **fields)


def comes(told: Story, t: float, node: int) -> None:
    zookeeper(told, t, "broker", "created", node=node)
    told.add("node_event", t + 100, node=node, event="ready")


def fault(told: Story, name: str, from_t: float, to_t: float) -> None:
    for t, phase in ((from_t, "inject"), (from_t + 1, "injected"), (to_t, "healed")):
        told.add("fault", t, fault=name, id=name, phase=phase, nodes=[2])


def story(gone_t: float = BACK + LIMIT_MS + 1_500) -> Story:
    """A topic with replicas on 1 and 2; the latter is away, and comes back while broker 1 is in
    office."""
    told = Story()
    told.run["trials"] = [{"arm": ARM, "trial": 0, "workloads": []}]
    for node in (1, 2, 3):
        comes(told, 100 + node, node)
    zookeeper(told, 110, "controller", "created", node=1)
    zookeeper(told, 200, "topic", "created", topic="t", partition=0, replicas=[1, 2])
    zookeeper(told, ASKED - 1_000, "broker", "removed", node=2)
    told.add("topic_deletion", ASKED, topic="t", step="requested")
    comes(told, BACK, 2)
    told.add("topic_deletion", gone_t, topic="t", step="gone")
    return told


def unfinished(until_t: float) -> Story:
    told = story()
    told.rows["topic_deletion"].pop()
    told.add("phase", until_t, name="settle", event="end")
    return told


def asked_for_late() -> Story:
    """All have been there for long."""
    told = story()
    told.rows["topic_deletion"].clear()
    told.add("topic_deletion", BACK + LIMIT_MS + 10_000, topic="t", step="requested")
    told.add("topic_deletion", BACK + LIMIT_MS + 10_300, topic="t", step="gone")
    return told


def office(told: Story) -> None:
    zookeeper(told, BACK + 6_000, "controller", "removed", node=1)
    zookeeper(told, BACK + 6_100, "controller", "created", node=3)


def again_away(told: Story) -> None:
    zookeeper(told, BACK + 500, "broker", "removed", node=2)
    comes(told, BACK + LIMIT_MS, 2)


CASES: dict[str, tuple[Callable[[], Story], Callable[[Story], Any], int, int]] = {
    "left as it was": (story, lambda _: None, 1, 1),
    "though a topic is asked for that goes": (
        story,
        lambda s: fault(s, "delete-topic", 1, 1e6),
        1,
        1,
    ),
    "done at once": (lambda: story(BACK + 300), lambda _: None, 0, 1),
    "asked for late, and done at once": (asked_for_late, lambda _: None, 0, 1),
    "though another broker is away": (
        story,
        lambda s: zookeeper(s, 15_000, "broker", "removed", node=3),
        *(1, 1),
    ),
    "never gone": (lambda: unfinished(BACK + LIMIT_MS + 1_000), lambda _: None, 1, 1),
    "looked at for too short a time": (lambda: unfinished(BACK + 5_000), lambda _: None, 0, 1),
    "a broker that ended by itself": (
        story,
        lambda s: s.add("node_event", BACK + 700, node=2, event="exited"),
        *(0, 1),
    ),
    "a controller that is new in office": (story, office, 0, 1),
    "nobody in office": (
        story,
        lambda s: zookeeper(s, ASKED + 10, "controller", "removed", node=1),
        *(0, 0),
    ),
    "a replica that is registered and not ready": (
        story,
        lambda s: s.rows["node_event"].pop(),
        *(0, 0),
    ),
    "a replica is away again": (story, again_away, 0, 1),
    "a fault in the way": (story, lambda s: fault(s, "toxic", BACK - 10, 1e6), 0, 0),
    "a fault that is over": (story, lambda s: fault(s, "toxic", ASKED, BACK + 900), 1, 1),
    "nothing known of who is registered": (story, lambda s: s.rows.pop("zk_write"), 0, 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_deletions_go_on_when_nothing_is_left_to_wait_for(name: str) -> Asks:
    begin, tell, broken, free = CASES[name]
    told = begin()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == [RULE] * broken
    assert outcome.evidence[ARM, 0, FREE] == free
