"""Who said that a topic was made knows it until it is to be deleted; both ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkers.promises.administration import check
from tests.checkers.promises.administration.cluster import Cluster
from tests.checkers.together import Asks, judging

MADE_AND = "made-and-denied"
FORGOTTEN: dict[str, tuple[Callable[[Cluster], object], str | None]] = {
    "deleted": (lambda c: (churn(c, 10, "CREATE"), churn(c, 20, "DELETE")), None),
    "none, by name": (lambda c: (churn(c, 10, "CREATE"), churn(c, 20, "DELETE", 3)), MADE_AND),
    "none, by id": (lambda c: (churn(c, 10, "CREATE"), churn(c, 20, "DELETE", 100)), MADE_AND),
    "none, beside a fault": (
        lambda c: (
            c.fault("delete-topic", 19_000, 22_000, [1, 2, 3]),
            churn(c, 10, "CREATE"),
            churn(c, 20, "DELETE", 3),
        ),
        MADE_AND,
    ),
    "none that could grow": (
        lambda c: (churn(c, 10, "CREATE"), churn(c, 20, "GROW", 3)), MADE_AND,
    ),
    "none, once it was to be deleted": (
        lambda c: (churn(c, 10, "CREATE"), churn(c, 20, "DELETE", 7), churn(c, 30, "DELETE", 3)),
        None,
    ),
    "none, once it may have been": (
        lambda c: (
            churn(c, 10, "CREATE"), churn(c, 20, "DELETE", None), churn(c, 30, "GROW", 3),
        ),
        None,
    ),
    "none, and nobody said that it was made": (
        lambda c: (churn(c, 10, "CREATE", 7), churn(c, 20, "DELETE", 3)), None,
    ),
    "none, asked of another": (
        lambda c: (churn(c, 10, "CREATE"), churn(c, 20, "DELETE", 3, node=1)), None,
    ),
    "none, after it was away": (
        lambda c: (
            churn(c, 10, "CREATE"),
            c.event(12_000, 2, "kill"),
            c.event(14_000, 2, "start"),
            churn(c, 20, "DELETE", 3),
        ),
        None,
    ),
    "none, asked before it was made": (
        lambda c: (churn(c, 10, "CREATE", took=9_000), churn(c, 15, "DELETE", 3)), None,
    ),
    "not allowed": (lambda c: (churn(c, 10, "CREATE"), churn(c, 20, "DELETE", 73)), None),
    "deleted, made again, and none": (
        lambda c: (
            churn(c, 10, "CREATE"), churn(c, 20, "DELETE"),
            churn(c, 30, "CREATE"), churn(c, 40, "DELETE", 3),
        ),
        MADE_AND,
    ),
}  # fmt: skip


def churn(
    c: Cluster, at_s: float, what: str, error: int | None = 0, *, node: int = 2, took: float = 10
) -> None:
    api = {"GROW": "CREATE_PARTITIONS"}.get(what, f"{what}_TOPICS")
    came_of = "info" if error is None else "fail" if error else "ok"
    more = {"node": node, "api": api, "about": "churn", "type": came_of, "error": error}
    t = at_s * 1_000
    c.story.add("admin_request", t + took, invoke_t=t, **more)


@pytest.mark.parametrize("name", FORGOTTEN)
@judging(check)
def test_who_has_made_a_topic_knows_it(name: str) -> Asks:
    tell, rule = FORGOTTEN[name]
    cluster = Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert outcome.counts.get(MADE_AND, 0) == (1 if rule else 0)
