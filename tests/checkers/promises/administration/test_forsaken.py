"""Orders in the queue of a controller that loses its session, both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from checkers.promises.administration import check
from checkers.promises.administration.forsaken import FORSAKEN
from tests.checkers.promises.administration.cluster import Cluster
from tests.checkers.together import Asks, judging

RULE = "order-forgotten"
FROM, LET_GO = 20_000, 23_000
"""When (ms) node 2 is cut from ZooKeeper, and until when; node 3 succeeds it at 22 s."""
NOT_CONTROLLER = 41


class Orders:
    def __init__(self, *, is_let_go: bool = True, name: str = "forsaken-orders") -> None:
        self.cluster = Cluster()
        self._op = count(1)
        self.cluster.elected(22_000, 3, 2)
        detail = {"forsaken": 2, "let_go_t": LET_GO * 1_000_000} if is_let_go else {}
        for phase, t in (("inject", FROM), ("injected", 54_000), ("healed", 54_500)):
            self.cluster.story.add(
                *("fault", t),
                **{"id": "f", "fault": name, "phase": phase, "nodes": [2]},
                detail=json.dumps(detail if phase != "inject" else {}),
            )

    def given(
        self,
        error: int | None = NOT_CONTROLLER,
        *,
        t: float = FROM + 100,
        to_t: float = LET_GO + 500,
        node: int = 2,
        api: str = "ELECT_LEADERS",
    ) -> None:
        came_of = {"error": error, "failure": "timed out" if error is None else None}
        more = {"about": "t-0", "op": next(self._op), "type": "info" if error is None else "fail"}
        self.cluster.story.add(
            "admin_request", to_t, invoke_t=t, api=api, node=node, **came_of, **more
        )

    def forgotten(self, **fields: Any) -> None:
        self.given(None, **{"to_t": FROM + 30_100} | fields)


def away(orders: Orders, from_t: float, to_t: float) -> None:
    orders.cluster.event(from_t, 2, "pause")
    orders.cluster.event(to_t, 2, "resume")


CASES: dict[str, tuple[Callable[[Orders], object], int, int]] = {
    "each is told": (lambda o: (o.given(), o.given(), o.given()), 3, 0),
    "one is not": (lambda o: (o.given(), o.forgotten(), o.given()), 3, 1),
    "none is": (lambda o: (o.forgotten(), o.forgotten()), 2, 2),
    "one is told something else": (lambda o: o.given(-1), 1, 0),
    "its connection was lost": (lambda o: o.given(None), 0, 0),
    "who asked had no patience": (lambda o: o.forgotten(to_t=LET_GO + 19_000), 0, 0),
    "it hung for a while as it came back": (
        lambda o: (o.forgotten(), away(o, LET_GO + 1_000, LET_GO + 9_000)),
        1,
        1,
    ),
    "it hung until the end": (
        lambda o: (o.forgotten(), away(o, LET_GO + 1_000, LET_GO + 14_000)),
        0,
        0,
    ),
    "the successor is asked": (lambda o: o.forgotten(t=LET_GO - 500, node=3), 0, 0),
    "to move a partition": (lambda o: o.forgotten(api="ALTER_PARTITION_REASSIGNMENTS"), 1, 1),
    "it is asked for what may wait": (lambda o: o.forgotten(api="CREATE_TOPICS"), 0, 0),
    "it was asked before": (lambda o: o.forgotten(t=FROM - 100), 0, 0),
    "it is asked afterwards": (
        lambda o: o.forgotten(t=LET_GO + 100, to_t=LET_GO + 30_100),
        0,
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_waits_for_who_loses_its_session_is_told(name: str) -> Asks:
    tell, judged, broken = CASES[name]
    orders = Orders()
    tell(orders)
    story = orders.cluster.story
    outcome = yield story
    assert outcome.counts.get(RULE, 0) == broken
    assert outcome.evidence[story.arm, 0, FORSAKEN] == judged


@pytest.mark.parametrize("how", [{"is_let_go": False}, {"name": "depose-controller"}])
@judging(check)
def test_nothing_is_judged_where_nobody_says_when_it_could_hear_of_it(how: dict[str, Any]) -> Asks:
    orders = Orders(**how)
    orders.forgotten()
    story = orders.cluster.story
    outcome = yield story
    assert not outcome.counts
    assert outcome.evidence[story.arm, 0, FORSAKEN] == 0
