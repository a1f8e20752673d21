"""Append times that fall along a log, both ways."""

from __future__ import annotations

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.records.append_order import fallen_times
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

DATED = {"message.timestamp.type": "LogAppendTime"}


def log(story: Story, *times: int, epoch: int = 1, begin: int = 0, node: int = 1) -> None:
    for offset, time_ms in enumerate(times, begin):
        own = {"offset": offset, "value": offset, "leader_epoch": epoch, "append_time_ms": time_ms}
        story.add("log_read", 90_000, node=node, **own)


CASES = {
    "as they come": (lambda s: log(s, 1000, 1000, 1500), 0),
    "falls": (lambda s: log(s, 1000, 2000, 1500, 2100), 1),
    "falls behind what came long before": (lambda s: log(s, 2000, 1000, 1100, 1200), 3),
    "a little": (lambda s: log(s, 1000, 2000, 1960, 2100), 0),
    "the next leader's clock": (lambda s: (log(s, 2000), log(s, 1500, epoch=2, begin=1)), 0),
    "of who does not lead": (lambda s: (log(s, 1000), log(s, 2000, 1500, node=2)), 0),
    "of no time": (lambda s: log(s, 1000, -1, 1500), 0),
    "dated by who sends": (
        lambda s: (s.run.update(topics={"t": {"configs": {}}}), log(s, 2000, 1500)),
        0,
    ),
    "of a topic that was made anew": (
        lambda s: (log(s, 2000, 1500), s.add("topic_deletion", 900, step="requested")),
        0,
    ),
    "of a topic that was altered": (
        lambda s: (
            log(s, 2000, 1500),
            s.add(
                "fault",
                900,
                id="a",
                fault="alter-topic",
                phase="injected",
                detail='{"topic": "t", "configs": {}}',
            ),
        ),
        0,
    ),
    "on another's machine": (
        lambda s: (s.run["arms"][s.arm].pop("traces"), log(s, 2000, 1500)),
        0,
    ),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    for finding, n in fallen_times(history):
        outcome.add(finding, n)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_a_leader_dates_no_record_before_an_earlier_one(name: str) -> Asks:
    tell, broken = CASES[name]
    told = Story()
    told.run["topics"] = {"t": {"configs": DATED}}
    told.run["arms"][told.arm]["traces"] = ["exceptions"]
    own = {"log_start_offset": 0, "log_end_offset": 9, "high_watermark": 9}
    told.add("log_end", 90_000, node=1, is_leader=True, **own)
    told.add("log_end", 90_000, node=2, is_leader=False, **own)
    tell(told)
    outcome = yield told
    assert outcome.counts == ({"append-times-fell": broken} if broken else {})
