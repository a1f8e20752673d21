"""Records sent with acks=0 once all was calm, both ways."""

from __future__ import annotations

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.records.unanswered import SENT, judge_unanswered
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

CALM = 20_000
"""Long after all was healed."""


def sent(story: Story, t: float, value: int, failure: str | None = "unanswered") -> None:
    more = {"type": "info", "failure": failure, "invoke_t": t - 1}
    story.produce(t, value, -1, 0, **more)


CASES = {
    "it is there": 0,
    "it is not": 1,
    "nobody knows that it was sent": 0,
    "before all was calm": 0,
    "its leader was elected just before": 0,
    "in its producer's last second": 0,
    "it is in a follower's log": 1,
    "the log begins later": 0,
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    judge_unanswered(history, outcome)
    return outcome


@pytest.mark.parametrize("how", CASES)
@judging(check)
def test_what_is_sent_is_appended(how: str) -> Asks:
    story = Story()
    story.commit(100, 1, 0)
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    early, late = how.startswith("before"), "last second" in how
    sent(story, 10_500 if early else CALM, 1, None if how.startswith("nobody") else "unanswered")
    sent(story, CALM + (500 if late else 5_000), 2)
    if "elected" in how:
        story.commit(CALM - 100, 1, 1)
    begins = 1 if "begins" in how else 0
    story.final_log({begins: 2} | ({begins + 1: 1} if how == "it is there" else {}))
    story.final_log({begins: 2, begins + 1: 1}, node=2, leader=False)
    if begins:
        for row in story.rows["log_end"]:
            row["log_start_offset"] = begins
        story.add("records_deleted", 9_000, node=1, offset=begins, low_watermark=begins)
    outcome = yield story
    assert outcome.counts == ({"sent-in-vain": 1} if CASES[how] else {})
    judged = how in ("it is there", "it is not", "it is in a follower's log")
    assert outcome.evidence[story.arm, 0, SENT] == judged
