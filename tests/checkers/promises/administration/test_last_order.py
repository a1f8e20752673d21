"""Orders that contradict each other, both ways."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count

import pytest

from checkers.promises.administration import check
from checkers.promises.administration.last_order import CONTRARY
from tests.checkers.promises.administration.cluster import Cluster
from tests.checkers.together import Asks, judging

RULE = "older-order-stands"
FROM = 20_000
"""When (ms) the first order is given."""
OTHER, FIRST = [3, 1], [1, 3]
ORDERS = [OTHER, FIRST, OTHER]


class Orders:
    """Three orders about t-0, half a second apart, answered from 22 s on."""

    def __init__(self, orders: Sequence[Sequence[int]] = ORDERS) -> None:
        self.cluster = Cluster()
        self.cluster.made(10_000, state_after=100)
        self._op = count(1)
        detail = {"partition": "t-0", "orders": orders}
        for phase, t in (("inject", FROM - 10), ("injected", 24_000), ("healed", 24_500)):
            self.cluster.story.add(
                *("fault", t),
                **{"id": "f", "fault": "contrary-orders", "phase": phase, "nodes": [2]},
                detail=json.dumps(detail if phase != "inject" else {}),
            )

    def given(self, *at: float, to_t: float = 22_000, error: int = 0, node: int = 2) -> None:
        for t in at:
            fields = {"api": "ALTER_PARTITION_REASSIGNMENTS", "node": node, "error": error}
            more = {"about": "t-0", "op": next(self._op), "type": "fail" if error else "ok"}
            self.cluster.story.add("admin_request", to_t, invoke_t=t, **fields, **more)

    def asked(self) -> None:
        self.given(FROM, FROM + 500, FROM + 1000)

    def wrote(self, *orders: Sequence[int], t: float = FROM + 100, topic: str = "t") -> None:
        for number, replicas in enumerate(orders):
            where = {"topic": topic, "partition": 0, "replicas": list(replicas)}
            self.cluster.wrote(t + 10 * number, "topic", "set", **where)


CASES: dict[str, tuple[Callable[[Orders], object], bool, int]] = {
    "in their order": (lambda o: (o.asked(), o.wrote(OTHER, FIRST, OTHER)), True, 0),
    "newest first": (lambda o: (o.asked(), o.wrote(OTHER, OTHER, FIRST)), True, 1),
    "the last is left out": (lambda o: (o.asked(), o.wrote(OTHER, FIRST)), True, 1),
    "each is written twice": (
        lambda o: (o.asked(), o.wrote(OTHER, OTHER, FIRST, FIRST, OTHER, OTHER)),
        True,
        0,
    ),
    "moved again, later": (
        lambda o: (o.asked(), o.wrote(*ORDERS), o.wrote(FIRST, t=30_000)),
        True,
        0,
    ),
    "another topic is written": (
        lambda o: (o.asked(), o.wrote(*ORDERS), o.wrote(FIRST, t=21_000, topic="u")),
        True,
        0,
    ),
    "two came at once": (
        lambda o: (o.given(FROM, FROM + 500, FROM + 510), o.wrote(OTHER, OTHER, FIRST)),
        False,
        0,
    ),
    "one is refused": (
        lambda o: (
            o.given(FROM, FROM + 500),
            o.given(FROM + 1000, error=7),
            o.wrote(OTHER, FIRST),
        ),
        False,
        0,
    ),
    "one is tried again": (
        lambda o: (
            o.asked(),
            o.given(FROM + 1500),
            o.wrote(OTHER, OTHER, FIRST),
        ),
        False,
        0,
    ),
    "none of them waited": (
        lambda o: (o.given(FROM, FROM + 500, FROM + 1000, to_t=20_900), o.wrote(OTHER, FIRST)),
        False,
        0,
    ),
    "another broker is asked for one": (
        lambda o: (
            o.given(FROM, FROM + 500),
            o.given(FROM + 1000, node=3),
            o.wrote(OTHER, OTHER, FIRST),
        ),
        False,
        0,
    ),
    "a controller goes": (
        lambda o: (o.asked(), o.cluster.elected(21_000, 3, 2), o.wrote(OTHER, OTHER, FIRST)),
        False,
        0,
    ),
    "nobody wrote it down": (lambda o: o.wrote(OTHER, OTHER, FIRST), False, 0),
    "nothing is written": (lambda o: o.asked(), False, 0),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_of_contrary_orders_the_last_one_stands(name: str) -> Asks:
    tell, is_judged, broken = CASES[name]
    orders = Orders()
    tell(orders)
    story = orders.cluster.story
    outcome = yield story
    assert outcome.counts.get(RULE, 0) == broken
    assert outcome.evidence[story.arm, 0, CONTRARY] == 3 * is_judged
