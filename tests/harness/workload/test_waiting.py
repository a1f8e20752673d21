"""For which partitions a consumer asks, and is given nothing of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.workload.waiting import Waiting


class Rows:
    def __init__(self) -> None:
        self.told: list[tuple[str, int, int, int, int]] = []

    def event(self, kind: str, **row: Any) -> None:
        assert kind == "waiting"
        names = ("topic", "partition", "node", "from_t", "t")
        self.told.append(tuple(row[name] for name in names))


def statistics(
    requests: dict[int, dict[str, int]],
    *,
    state: str = "active",
    broker: int = 1,
    unanswered: int = 0,
) -> str:
    """Two partitions of topic t: 0 is at that broker in that state; 1 was never begun."""
    brokers = {
        f"node-{node}/{node}": {"nodeid": node, "waitresp_cnt": unanswered, "req": req}
        for node, req in requests.items()
    }
    partitions = {
        "-1": {"fetch_state": "none", "broker": -1},
        "0": {"fetch_state": state, "broker": broker},
        "1": {"fetch_state": "none", "broker": -1},
    }
    return json.dumps({"brokers": brokers, "topics": {"t": {"partitions": partitions}}})


FIRST = statistics({1: {"Fetch": 5, "ListOffsets": 1}, 2: {"Fetch": 5}})
CASES: dict[str, tuple[str, bool]] = {
    "it fetches": (statistics({1: {"Fetch": 6}}), True),
    "it waits for its answer": (statistics({1: {"Fetch": 5}}, unanswered=1), True),
    "it asks nobody": (statistics({1: {"Fetch": 5}}), False),
    "it asks another broker": (statistics({1: {"Fetch": 5}, 2: {"Fetch": 9}}), False),
    "it asks for something else": (statistics({1: {"Fetch": 5, "Metadata": 9}}), False),
    "it knows no broker": (statistics({1: {"Fetch": 6}}, broker=-1), False),
    "it asks where the log begins": (
        statistics({1: {"Fetch": 5, "ListOffsets": 2}}, state="offset-query"),
        True,
    ),
    "it waits to ask that": (
        statistics({1: {"Fetch": 9, "ListOffsets": 1}}, state="offset-query"),
        False,
    ),
    "it is stopped": (statistics({1: {"Fetch": 9}}, state="stopped"), False),
}


@pytest.mark.parametrize("name", CASES)
def test_who_is_asked_for_what(name: str) -> None:
    second, asked = CASES[name]
    rows, now = Rows(), iter([10, 20])
    waiting = Waiting(rows, lambda: next(now))  # type: ignore[arg-type]
    waiting.told(FIRST)
    assert rows.told == [], "nobody knows since when"
    waiting.told(second)
    assert rows.told == [("t", 0, 1, 10, 20)] * asked


def test_what_was_given_was_not_waited_for() -> None:
    rows, now = Rows(), iter([10, 20, 30])
    waiting = Waiting(rows, lambda: next(now))  # type: ignore[arg-type]
    waiting.told(FIRST)
    waiting.given("t", 0)
    waiting.told(statistics({1: {"Fetch": 6}}))
    assert rows.told == []
    waiting.told(statistics({1: {"Fetch": 7}}))
    assert rows.told == [("t", 0, 1, 20, 30)]


def test_a_broker_by_two_names_is_one() -> None:
    rows, now = Rows(), iter([10, 20])
    waiting = Waiting(rows, lambda: next(now))  # type: ignore[arg-type]
    brokers = {
        name: {"nodeid": 1, "waitresp_cnt": 0, "req": {"Fetch": 5}} for name in ("a/1", "b/1")
    }
    partitions = {"0": {"fetch_state": "active", "broker": 1}}
    waiting.told(json.dumps({"brokers": brokers, "topics": {"t": {"partitions": partitions}}}))
    brokers["b/1"]["req"] = {"Fetch": 6}
    waiting.told(json.dumps({"brokers": brokers, "topics": {"t": {"partitions": partitions}}}))
    assert rows.told == [("t", 0, 1, 10, 20)]
