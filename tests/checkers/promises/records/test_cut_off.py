"""Who waits at a broker that runs is answered, and not cut off: both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.facts.connections import NEAR_NS
from checkers.promises.records import check
from tests.checkers.conftest import ARM, MS, Story, judged_together

SENT, LOST = 10_000, 10_300
NEAR = NEAR_NS // MS


def story(role: str = "direct-producer") -> Story:
    told = Story()
    workload = {"process": "p", "role": role, "acks": -1, "topics": {"t": [0]}}
    told.run["trials"] = [{"arm": ARM, "trial": 0, "workloads": [workload]}]
    told.add("node_event", 10, node=1, event="start")
    told.add("node_event", 20, node=1, event="ready")
    told.produce(5_000, 1, 0, acks=-1)
    told.final_log({0: 1})
    return told


def lose(told: Story, value: int = 7, **more: Any) -> None:
    how = {"type": "info", "error": None, "failure": "disconnect", "invoke_t": SENT, "node": 1}
    told.produce(LOST, value, None, **{"process": "p", "acks": -1, **how, **more})


def fault(told: Story, name: str, *nodes: int, **detail: Any) -> None:
    for t, phase in ((9_000, "inject"), (9_100, "injected"), (20_000, "healed")):
        told.add(
            "fault", t, id="f", fault=name, phase=phase, nodes=nodes, detail=json.dumps(detail)
        )


def ended(t: float, event: str, node: int = 1) -> Callable[[Story], None]:
    return lambda told: told.add("node_event", t, node=node, event=event)


def failed(told: Story, t: float) -> None:
    told.add("infra", t, component="toxiproxy", reason="it has ended")


CASES: dict[str, tuple[Callable[[Story], Any], bool]] = {
    "cut off": (lambda s: None, True),
    "and another record with it": (lambda s: lose(s, 8), True),
    "as it was killed": (ended(LOST + NEAR - 10, "kill"), False),
    "long before it was killed": (ended(LOST + NEAR + 10, "kill"), True),
    "as another was killed": (ended(LOST, "kill", node=2), True),
    "while it was paused": (ended(5_000, "pause"), False),
    "just after it was resumed": (
        lambda s: (ended(5_000, "pause")(s), ended(SENT - NEAR + 10, "resume")(s)),
        False,
    ),
    "while its registration was gone": (ended(LOST, "unregistered"), True),
    "as the proxies failed": (lambda s: failed(s, LOST + 9_000), False),
    "long before the proxies failed": (lambda s: failed(s, LOST + NEAR + 10_010), True),
    "flooded": (lambda s: fault(s, "flood-fetch", 1), True),
    "flooded with connections": (lambda s: fault(s, "flood-connections", 1), False),
    "another flooded": (lambda s: fault(s, "flood-fetch", 2), True),
    "a fault that names nobody": (lambda s: fault(s, "isolate"), False),
    "its followers kept from fetching": (lambda s: fault(s, "isr-lag", 1), True),
    "its leaders moved": (lambda s: fault(s, "move-leadership", 1), True),
    "a slow link of its clients": (lambda s: fault(s, "toxic", 1, links=["client"]), False),
    "another slow link": (lambda s: fault(s, "toxic", 1, links=["control"]), True),
    "links of which it does not tell": (lambda s: fault(s, "toxic", 1), False),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "its time was over": lambda: _lost(failure="timeout"),
    "answered that it was": lambda: _lost(error=7, failure=None),
    "to nobody in particular": lambda: _lost(node=None),
    "of librdkafka": lambda: _lost("producer"),
}


def _lost(role: str = "direct-producer", **more: Any) -> Story:
    told = story(role)
    lose(told, **more)
    return told


@pytest.fixture(scope="module")
def judged(spark: Any) -> Any:
    stories = {name: make() for name, make in LAWFUL.items()}
    for name, (tell, _) in CASES.items():
        stories[name] = _lost()
        tell(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", [*CASES, *LAWFUL])
def test_who_waits_is_answered(judged: Any, name: str) -> None:
    rules, _ = judged[name]
    wrong = name in CASES and CASES[name][1]
    assert rules == ({"cut-off": 1} if wrong else {})
