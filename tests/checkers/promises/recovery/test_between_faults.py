"""What takes no record between two faults although nothing keeps it, and all that may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.history.schema import SENT
from checkers.judging.outcome import Outcome
from checkers.promises.recovery.between_faults import BETWEEN, LIMIT_NS, between_faults
from tests.checkers.conftest import ARM, MS, Story
from tests.checkers.together import Asks, judging

HEALED = 20_000
NEXT = HEALED + LIMIT_NS // MS + 2_000
RULE = "not-accepted"


def fault(told: Story, name: str, from_t: float, to_t: float | None) -> None:
    steps = [("inject", from_t), ("injected", from_t + 1)]
    for phase, t in steps if to_t is None else [*steps, ("healed", to_t)]:
        told.add("fault", t, fault="link-down", id=name, phase=phase, nodes=[1])


def produces(told: Story, kind: str, from_t: float, to_t: float, **more: Any) -> None:
    fields = {"acks": -1, "process": "all", "type": kind, **more}
    if kind == "info" and not {"error", "failure"} & more.keys():
        fields["failure"] = f"_MSG_TIMED_OUT{SENT}"
    for t in range(int(from_t), int(to_t), 200):
        offset = t if kind == "ok" else None
        told.add("produce", t + 50, invoke_t=t, value=t, offset=offset, **fields)


def story(kind: str = "info", **more: Any) -> Story:
    """Two faults, and what a producer was told between them; before the first all was well."""
    told = Story()
    told.commit(1_000, leader=1, leader_epoch=0)
    produces(told, "ok", 2_000, 10_000, **more)
    fault(told, "first", 12_000, HEALED)
    told.commit(HEALED - 500, leader=2, leader_epoch=1)
    produces(told, kind, HEALED + 100, NEXT - 100, **more)
    fault(told, "second", NEXT, NEXT + 1_000)
    return told


def kept_back() -> Story:
    return story(failure="_MSG_TIMED_OUT")


def taken_at_last(told: Story) -> None:
    produces(told, "ok", NEXT - 600, NEXT - 300)


def backlog(told: Story, until: float) -> None:
    """What was offered before is taken one by one from the end of the first fault on."""
    for t in range(HEALED + 10, int(until), 200):
        old = {"acks": -1, "process": "all", "type": "ok"}
        told.add("produce", t, invoke_t=t - 9_000, value=t, offset=t, **old)


def asked(told: Story, n: int) -> None:
    """Of so many of what it was to write between them its client asked a broker."""
    for row in [row for row in told.rows["produce"] if row["type"] == "info"][:n]:
        row["error"] = 6


CASES: dict[str, tuple[Callable[[], Story], Callable[[Story], Any], int, int]] = {
    "nothing is taken": (story, lambda _: None, 1, 1),
    "all refused for another leader": (lambda: story("fail", error=6), lambda _: None, 1, 1),
    "no broker was asked": (kept_back, lambda _: None, 0, 0),
    "a broker was asked seldom": (kept_back, lambda s: asked(s, 9), 0, 0),
    "a broker was asked often enough": (kept_back, lambda s: asked(s, 10), 1, 1),
    "all is taken": (lambda: story("ok"), lambda _: None, 0, 1),
    "some is taken, late": (story, taken_at_last, 0, 1),
    "a backlog is worked off": (story, lambda s: backlog(s, NEXT - 100), 0, 1),
    "and no more of it in the end": (story, lambda s: backlog(s, NEXT - 2_600), 1, 1),
    "and more of it after that": (
        story,
        lambda s: (backlog(s, NEXT - 2_600), produces(s, "ok", NEXT + 100, NEXT + 900)),
        *(1, 1),
    ),
    "a follower is out of sync": (
        story,
        lambda s: s.commit(HEALED - 400, 2, 1, isr=[1, 2], partition_epoch=2),
        *(0, 0),
    ),
    "a follower comes in sync again meanwhile": (
        story,
        lambda s: (
            s.commit(HEALED - 400, 2, 1, isr=[1, 2], partition_epoch=2),
            s.commit(NEXT - 3_000, 2, 1, partition_epoch=3),
        ),
        *(0, 0),
    ),
    "nobody leads": (story, lambda s: s.commit(HEALED - 400, -1, 2), 0, 0),
    "led anew meanwhile": (story, lambda s: s.commit(HEALED + 3_500, 3, 2), 0, 0),
    "another fault is in place": (
        story,
        lambda s: fault(s, "third", HEALED + 3_500, HEALED + 3_600),
        *(0, 0),
    ),
    "the first fault was never healed": (
        story,
        lambda s: s.rows["fault"].remove(
            next(r for r in s.rows["fault"] if r["id"] == "first" and r["phase"] == "healed")
        ),
        *(0, 0),
    ),
    "a broker ended by itself": (
        story,
        lambda s: s.add("node_event", 15_000, node=3, event="exited"),
        *(0, 0),
    ),
    "the topic is deleted": (
        story,
        lambda s: s.add("topic_deletion", 15_000, topic="t", step="requested"),
        *(0, 0),
    ),
    "acks=1": (lambda: story(acks=1), lambda _: None, 0, 0),
    "one whose records are never taken": (
        story,
        lambda s: [r.update(process="refused") for r in s.rows["produce"] if r["type"] != "ok"],
        *(0, 0),
    ),
    "hardly tried": (
        story,
        lambda s: s.rows.update(produce=s.rows["produce"][:45]),
        *(0, 0),
    ),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    between_faults(history, outcome)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_what_is_whole_takes_records_between_faults(name: str) -> Asks:
    begin, tell, broken, judged = CASES[name]
    told = begin()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == [RULE] * broken
    assert outcome.evidence[ARM, 0, BETWEEN] == judged
    unasked = begin is kept_back and not broken
    assert ["nobody tells" in why for why in outcome.unknowns] == [True] * unasked
