"""Acknowledgements that name no offset, both ways."""

from __future__ import annotations

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.records.unplaced import unplaced
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

RULE = "acknowledged-nowhere"


def acked(
    told: Story,
    offset: int | None,
    *,
    delivery: str | None = "once-a-leader",
    acks: int = 1,
    **more: object,
) -> None:
    workload = {"process": "p", "role": "producer", "delivery": delivery}
    told.run["trials"] = [{"arm": told.arm, "trial": told.trial, "workloads": [workload]}]
    told.produce(1_000, 1, offset, acks, **more)


CASES = {
    "at an offset": (lambda s: acked(s, 0), 0),
    "at none": (lambda s: acked(s, -1), 1),
    "at none that it names": (lambda s: acked(s, None, acks=-1), 1),
    "some of them": (lambda s: (acked(s, 4), acked(s, -1), acked(s, -1)), 2),
    "once": (lambda s: acked(s, -1, delivery="once"), 1),
    "idempotent, sent again": (lambda s: acked(s, -1, delivery="idempotent"), 0),
    "nobody knows how it sends": (lambda s: acked(s, -1, delivery=None), 0),
    "acks=0": (lambda s: acked(s, -1, acks=0), 0),
    "not acknowledged": (lambda s: acked(s, -1, type="info", error=7), 0),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    for finding, n in unplaced(history):
        outcome.add(finding, n)
    return outcome


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_acknowledges_a_record_says_where_it_is(name: str) -> Asks:
    tell, broken = CASES[name]
    told = Story()
    told.commit(100, 1, 0)
    tell(told)
    assert (yield told).counts == ({RULE: broken} if broken else {})
