"""A refusal has an error that answers what was asked for; both ways (rule refused-otherwise)."""

from __future__ import annotations

import pytest

from checkers.promises.administration import check
from checkers.promises.administration.misnamed import OF_ONE
from tests.checkers.promises.administration.cluster import Cluster
from tests.checkers.promises.administration.test_withheld import CREATE, DELETE, ELECT, GROW, asks
from tests.checkers.together import Asks, judging

MOVE, CONFIGS = "ALTER_PARTITION_REASSIGNMENTS", "ALTER_CONFIGS"
RULE = "refused-otherwise"
LAWFUL = [
    *((CREATE, 36), (CREATE, 37), (CREATE, 7), (CREATE, 0), (GROW, 37), (GROW, 60), (GROW, 3)),
    *((DELETE, 73), (DELETE, 3), (DELETE, 41), (ELECT, 80), (ELECT, 84), (ELECT, 3)),
    *((MOVE, 60), (MOVE, 85), (MOVE, 39), (CONFIGS, 40)),
]
WRONG = [
    *((ELECT, 83), (CREATE, 80), (DELETE, 36), (GROW, 36), (MOVE, 84), (ELECT, 85)),
    *((CREATE, 60), (DELETE, 37), (CREATE, 73), (CONFIGS, 36)),
]


def test_every_error_is_asked_about() -> None:
    assert {error for _, error in WRONG} == set(OF_ONE)


@pytest.mark.parametrize(("api", "error"), [*LAWFUL, *WRONG])
@judging(check)
def test_a_refusal_answers_what_was_asked_for(api: str, error: int) -> Asks:
    cluster = Cluster()
    asks(cluster, api, 10, about="t-0" if api in (ELECT, MOVE) else "t", error=error, node=1)
    outcome = yield cluster.story
    found = [finding.rule for finding in outcome.findings].count(RULE)
    assert found == ((api, error) in WRONG)


@judging(check)
def test_it_is_told_once() -> Asks:
    cluster = Cluster()
    for t in (20_000, 30_000):
        asks(cluster, ELECT, 10, about="t-0", error=83, t=t)
    outcome = yield cluster.story
    assert [finding.rule for finding in outcome.findings].count(RULE) == 1
