"""Leaders that go by settings of before, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.records.unheeded import HEEDED, judge_unheeded
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import Asks, judging

SENDER = {"message.timestamp.type": "CreateTime"}
DATES = {"message.timestamp.type": "LogAppendTime"}


def altered(
    *,
    configs: dict[str, str] = DATES,
    topic: str = "t",
    again: dict[str, str] | None = None,
    away_until: float = 3_000,
    phase: str = "injected",
    phase_again: str = "injected",
) -> Story:
    """At 2 s; another fault is over at 3 s."""
    story = Story()
    story.commit(100, 1, 0)
    for t, of, came in ((2_000, configs, phase), (2_500, again, phase_again)):
        if of is not None:
            detail = json.dumps({"topic": topic, "configs": of})
            fault = {"id": f"reset-{t}", "fault": "alter-topic", "took_hold": True}
            story.add("fault", t, phase=came, detail=detail, **fault)
            story.add("fault", t + 1, phase="healed", detail=detail, **fault)
    for t, step in ((1_000, "injected"), (away_until, "healed")):
        story.add("fault", t, id="away", fault="pause", phase=step, nodes=[2], took_hold=True)
    return story


def acked(story: Story, sent: float, time_ms: int | None, **more: Any) -> Story:
    given = {"acks": 1, **more}
    story.produce(sent + 5, 1, 0, log_append_time_ms=time_ms, invoke_t=sent, **given)
    return story


def dating(story: Story) -> Story:
    """Of brokers that date what has no setting of its own."""
    story.run.update(settings={"overrides": {"log.message.timestamp.type": "LogAppendTime"}})
    return story


LATE = 40_000.0
CASES: dict[str, tuple[Story, int]] = {
    "nothing": (acked(altered(), LATE, -1), 1),
    "acks=all": (acked(altered(), LATE, None, acks=-1), 1),
    "altered again, to the same": (acked(altered(again=DATES), LATE, -1), 1),
    "told": (acked(altered(), LATE, 900), 0),
    "before it was altered": (acked(altered(), 1_500, -1), 0),
    "while somebody was away": (acked(altered(away_until=39_900), LATE, -1), 0),
    "another setting": (acked(altered(configs={"retention.ms": "1"}), LATE, -1), 0),
    "altered back": (acked(altered(again={}), LATE, -1), 0),
    "altered back, and dated": (acked(altered(again={}), LATE, 900), 1),
    "altered back, and dated before": (acked(altered(again={}), 2_200, 900), 0),
    "altered back, not acknowledged": (
        acked(altered(again={}), LATE, 900, type="info", error=7),
        0,
    ),
    "given the other": (acked(altered(again=SENDER), LATE, -1), 0),
    "given the other, and dated": (acked(altered(again=SENDER), LATE, 900), 1),
    "another setting, and dated": (acked(altered(configs={"retention.ms": "1"}), LATE, 900), 1),
    "altered back to brokers that date": (acked(dating(altered(again={})), LATE, 900), 0),
    "altered back to brokers that date, and not": (acked(dating(altered(again={})), LATE, -1), 1),
    "given the other by brokers that date": (acked(dating(altered(again=SENDER)), LATE, 900), 1),
    "altered back, perhaps": (acked(altered(again={}, phase_again="failed"), LATE, -1), 0),
    "altered back, perhaps, and dated": (
        acked(altered(again={}, phase_again="failed"), LATE, 900),
        0,
    ),
    "another topic's": (acked(altered(topic="other"), LATE, -1), 0),
    "it was not done": (acked(altered(phase="failed"), LATE, -1), 0),
    "nobody answers": (acked(altered(), LATE, -1, acks=0), 0),
    "not acknowledged": (acked(altered(), LATE, -1, type="info", error=7), 0),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    judge_unheeded(history, outcome)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_a_leader_goes_by_its_topics_settings(name: str) -> Asks:
    story, broken = CASES[name]
    outcome = yield story
    assert outcome.counts == ({"setting-unheeded": broken} if broken else {})


@judging(check)
def test_who_was_deleted_is_held_to_nothing() -> Asks:
    story = acked(altered(), LATE, -1)
    story.add("topic_deletion", 900, topic="t", step="requested")
    assert not (yield story).counts


@judging(check)
def test_what_was_told_then_counts() -> Asks:
    outcome = yield acked(acked(altered(), LATE, 900), LATE, 901)
    assert outcome.evidence == {(ARM, 0, HEEDED): 2}
