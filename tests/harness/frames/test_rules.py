"""Which frames a rule means, and how often it acts."""

from __future__ import annotations

from typing import Any

import pytest

from harness.frames.rules import MAX_RULES, Action, BadRule, Direction, Rule, RuleBook, Seen

FETCH, ALTER_PARTITION = 1, 56
FETCHER = "broker-3-fetcher-0"


def rule(**fields: Any) -> Rule:
    return Rule.of({"id": "r", "api": FETCH, "action": "hold", **fields})


def seen(**fields: Any) -> Seen:
    whole: dict[str, Any] = {
        "node": 1,
        "link": "inter-broker",
        "direction": Direction.REQUEST,
        "api": FETCH,
        "client_id": FETCHER,
    }
    return Seen(**{**whole, **fields})


@pytest.mark.parametrize(
    ("asked", "frame", "meant"),
    [
        ({}, {}, True),
        ({}, {"api": ALTER_PARTITION}, False),
        ({}, {"direction": Direction.RESPONSE}, False),
        ({"direction": "response"}, {"direction": Direction.RESPONSE}, True),
        ({"node": 1}, {}, True),
        ({"node": 1}, {"node": 2}, False),
        ({"link": "control"}, {}, False),
        ({"link": "inter-broker"}, {}, True),
        ({"client": r"3|broker-3-fetcher-\d+"}, {}, True),
        ({"client": r"3|broker-3-fetcher-\d+"}, {"client_id": "3"}, True),
        ({"client": r"3|broker-3-fetcher-\d+"}, {"client_id": "broker-33-fetcher-0"}, False),
        ({"client": "broker-3"}, {}, False),  # the whole of it
    ],
)
def test_a_rule_means_what_it_names(asked: Any, frame: Any, meant: bool) -> None:
    book = RuleBook()
    book.add(rule(**asked))
    assert (book.decide(seen(**frame)) is not None) is meant
    assert book.counts["r"].matched == int(meant)


def acts(asked: Any, frames: int) -> list[int]:
    """Which of so many frames were acted on, from 1."""
    book = RuleBook()
    book.add(rule(**asked))
    return [n for n in range(1, frames + 1) if book.decide(seen()) is not None]


def test_the_nth_and_no_more() -> None:
    assert acts({}, 3) == [1, 2, 3]
    assert acts({"times": 1}, 3) == [1]
    assert acts({"skip": 1, "times": 2}, 5) == [2, 3]
    assert acts({"skip": 4}, 3) == []


def test_one_rule_has_a_frame_and_the_others_count_it() -> None:
    book = RuleBook()
    book.add(rule(id="first", times=1))
    book.add(rule(id="second", action="drop"))
    frames = [book.decide(seen()) for _ in range(2)]
    assert [f.id for f in frames if f] == ["first", "second"]
    assert (book.counts["second"].matched, book.counts["second"].applied) == (2, 1)
    assert book.remove("first").applied == 1
    assert book.remove("first").applied == 0


def test_who_cannot_act_has_not_and_leaves_the_frame_to_others() -> None:
    book = RuleBook()
    book.add(rule(id="unable", action="error", times=1))
    book.add(rule(id="able", action="drop"))
    acting = book.decide(seen(), lambda one: one.action is not Action.ERROR)
    assert acting == book.rules["able"]
    assert (book.counts["unable"].matched, book.counts["unable"].applied) == (1, 0)
    acting = book.decide(seen())
    assert acting == book.rules["unable"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"action": "eat"}, "action: 'eat'; allowed: hold, delay, drop"),
        ({"direction": "up"}, "direction: 'up'; allowed: request, response"),
        ({"colour": 1}, "colour: is unknown"),
        ({"times": -2}, "times: -2; allowed: an integer"),
        ({"times": True}, "times: True; allowed: an integer"),
        ({"delay_ms": 10**8}, "delay_ms: 100000000; allowed: at most"),
        ({"client": "("}, "a rule; .*"),
        ({"id": ""}, "id: ''; allowed: a text"),
        ({"action": "error", "direction": "response"}, "action: error; allowed: for requests"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(fields: Any, says: str) -> None:
    with pytest.raises(BadRule, match=says):
        rule(**fields)


def test_rules_are_bounded_and_their_names_their_own() -> None:
    book = RuleBook()
    for n in range(MAX_RULES):
        book.add(rule(id=str(n)))
    with pytest.raises(BadRule, match="at a time"):
        book.add(rule(id="more"))
    book.remove("0")
    with pytest.raises(BadRule, match="not in use"):
        book.add(rule(id="1"))
    assert rule(action="drop").action is Action.DROP
