"""Acknowledgements that say nothing of an append time, both ways."""

from __future__ import annotations

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.records.untimed import DATED, judge_untimed
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

RULE = "append-time-missing"


def acked(
    told: Story, time_ms: int | None, *, acks: int = 1, offset: int = 0, **more: object
) -> None:
    told.produce(1_000, 1, offset, acks, log_append_time_ms=time_ms, **more)


def by_brokers(told: Story, **configs: str) -> None:
    """It is brokers that date, by default; the topic has settings of its own."""
    told.run["settings"] = {"overrides": {"log.message.timestamp.type": "LogAppendTime"}}
    told.run["topics"] = {"t": {"configs": {"min.insync.replicas": "2", **configs}}}


CASES = {
    "none": (lambda s: acked(s, -1), 1),
    "nothing": (lambda s: acked(s, None, acks=-1), 1),
    "some of them": (lambda s: (acked(s, 900), acked(s, -1), acked(s, -1)), 2),
    "told": (lambda s: acked(s, 900), 0),
    "acks=0": (lambda s: acked(s, -1, acks=0, offset=-1), 0),
    "not acknowledged": (lambda s: acked(s, -1, type="info", error=7), 0),
    "none, by brokers that date": (lambda s: (by_brokers(s), acked(s, -1)), 1),
    "none, of a topic that brokers are not to date": (
        lambda s: (by_brokers(s, **{"message.timestamp.type": "CreateTime"}), acked(s, -1)),
        0,
    ),
    "another topic": (lambda s: acked(s, -1, topic="undated"), 0),
    "a topic that was deleted": (
        lambda s: (acked(s, -1), s.add("topic_deletion", 900, step="requested")),
        0,
    ),
    "a black box": (
        lambda s: (
            acked(s, -1),
            s.rows["leadership"].clear(),
            s.commit(100, 1, 0, source="shown"),
        ),
        0,
    ),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    judge_untimed(history, outcome)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_dates_what_is_appended_says_so(name: str) -> Asks:
    tell, broken = CASES[name]
    told = Story()
    told.run["topics"] = {"t": {"configs": {"message.timestamp.type": "LogAppendTime"}}}
    told.commit(100, 1, 0)
    tell(told)
    outcome = yield told
    assert outcome.counts == ({RULE: broken} if broken else {})
    assert bool(outcome.evidence[told.arm, 0, DATED]) is (bool(broken) or name == "told")
