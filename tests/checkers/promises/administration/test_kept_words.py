"""What is answered is what is done; both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from checkers.promises.administration import check
from tests.checkers.promises.administration.cluster import ASKED, Cluster
from tests.checkers.together import Asks, judging


def whole(cluster: Cluster) -> None:
    """ZooKeeper's log from its beginning."""
    cluster.wrote(100, "controller_epoch", "created", controller_epoch=0)


def asks(cluster: Cluster, api: str, error: int | None, t: float = ASKED, about: str = "t") -> None:
    came_of = "info" if error is None else "fail" if error else "ok"
    fields = {"type": came_of, "error": error, "failure": "timeout" if error is None else None}
    where = {"node": 2, "api": api, "about": about, "process": "harness"}
    cluster.story.add("admin_request", t + 10, invoke_t=t, **where, **fields)


def deletes(cluster: Cluster, t: float) -> None:
    cluster.story.add("topic_deletion", t, topic="t", step="requested")
    cluster.wrote(t + 50, "topic", "removed", topic="t")


def led(cluster: Cluster, t: float, leader: int, isr: Sequence[int] = (1, 3)) -> None:
    at = {"topic": "t", "partition": 0, "controller_epoch": 1}
    cluster.wrote(t, "state", "set", leader=leader, leader_epoch=1, isr=list(isr), **at)


def assigned(cluster: Cluster, t: float, replicas: list[int]) -> None:
    cluster.wrote(t, "topic", "set", replicas=replicas, topic="t", partition=0)


CREATE, DELETE, ELECT = "CREATE_TOPICS", "DELETE_TOPICS", "ELECT_LEADERS"
MOVE, GROW = "ALTER_PARTITION_REASSIGNMENTS", "CREATE_PARTITIONS"
GRANTED, DENIED = ["granted-and-not-done"], ["refused-and-done"]
NOT_NEEDED = ["election-denied"]


def grown(cluster: Cluster, t: float) -> None:
    cluster.wrote(t, "topic", "set", replicas=[1, 3], topic="t", partition=0, zxid=900)
    cluster.wrote(t, "topic", "set", replicas=[2, 3], topic="t", partition=1, zxid=900)


KEPT_WORDS: dict[str, tuple[Callable[[Cluster], object], list[str]]] = {
    "made": (lambda c: (asks(c, CREATE, 0), c.made(ASKED + 5, state_after=1)), []),
    "said to be made": (lambda c: asks(c, CREATE, 0), GRANTED),
    "made long after": (
        lambda c: (asks(c, CREATE, 0), c.made(ASKED + 5_000, state_after=1)),
        GRANTED,
    ),
    "refused, and not made": (lambda c: asks(c, CREATE, 38), []),
    "refused, and made": (
        lambda c: (asks(c, CREATE, 38), c.made(ASKED + 5, state_after=1)),
        DENIED,
    ),
    "refused by who is no controller, and made": (
        lambda c: (asks(c, CREATE, 41), c.made(ASKED + 5, state_after=1)),
        DENIED,
    ),
    "refused, then made": (
        lambda c: (asks(c, CREATE, 41), asks(c, CREATE, 0, ASKED + 100), c.made(ASKED + 105)),
        [],
    ),
    "its time was up, and it was made": (
        lambda c: (asks(c, CREATE, 7), c.made(ASKED + 500, state_after=1)),
        [],
    ),
    "lost, then there already": (
        lambda c: (
            asks(c, CREATE, None, about=""),
            c.made(ASKED + 300, state_after=1),
            asks(c, CREATE, 36, ASKED + 600),
        ),
        [],
    ),
    "there already, and made": (
        lambda c: (asks(c, CREATE, 36), c.made(ASKED + 5, state_after=1)),
        DENIED,
    ),
    "made by nobody's request": (lambda c: c.made(ASKED, state_after=1), []),
    "another is refused": (
        lambda c: (asks(c, CREATE, 38, about="u"), c.made(ASKED + 5, state_after=1)),
        [],
    ),
    "made again, and refused": (
        lambda c: (
            *(asks(c, CREATE, 0, 20_000), c.made(20_005, state_after=1), deletes(c, 25_000)),
            *(asks(c, CREATE, 37), c.made(ASKED + 5, state_after=1)),
        ),
        DENIED,
    ),
    "deleted": (lambda c: (asks(c, DELETE, 0), deletes(c, ASKED + 5)), []),
    "said to be deleted": (lambda c: asks(c, DELETE, 0), GRANTED),
    "deletion refused": (lambda c: asks(c, DELETE, 41), []),
    "deletion refused, and begun": (
        lambda c: (asks(c, DELETE, 41), deletes(c, ASKED + 5)),
        DENIED,
    ),
    "elected": (
        lambda c: (c.made(state_after=1), asks(c, ELECT, 0, about="t-0"), led(c, ASKED + 5, 1)),
        [],
    ),
    "said to be elected": (
        lambda c: (c.made(state_after=1), asks(c, ELECT, 0, about="t-0"), led(c, ASKED + 5, 3)),
        GRANTED,
    ),
    "led by it already": (
        lambda c: (c.made(state_after=1), asks(c, ELECT, 84, about="t-0")),
        [],
    ),
    "led by another": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3)),
            *(asks(c, ELECT, 84, about="t-0"), asks(c, ELECT, 84, 50_000, about="t-0")),
        ),
        NOT_NEEDED,
    ),
    "led by another, and refused otherwise": (
        lambda c: (c.made(state_after=1), led(c, 30_000, 3), asks(c, ELECT, 41, about="t-0")),
        [],
    ),
    "led by another until a moment ago": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3), led(c, ASKED - 50, 1)),
            asks(c, ELECT, 84, about="t-0"),
        ),
        [],
    ),
    "led by it a moment later": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3), led(c, ASKED + 5, 1)),
            asks(c, ELECT, 84, about="t-0"),
        ),
        [],
    ),
    "led by another, which was moved to the front": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3)),
            c.wrote(35_000, "topic", "set", replicas=[3, 1], topic="t", partition=0),
            asks(c, ELECT, 84, about="t-0"),
        ),
        [],
    ),
    "led by it, which was moved to the end": (
        lambda c: (
            *(c.made(state_after=1), asks(c, ELECT, 84, about="t-0")),
            c.wrote(35_000, "topic", "set", replicas=[3, 1], topic="t", partition=0),
        ),
        NOT_NEEDED,
    ),
    "moved": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 0, about="t-0")),
            c.wrote(ASKED + 5, "topic", "set", replicas=[2, 1, 3], topic="t", partition=0),
        ),
        [],
    ),
    "moved to where it is": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 0, about="t-0")),
            c.wrote(ASKED + 5, "topic", "set", replicas=[1, 3], topic="t", partition=0),
        ),
        [],
    ),
    "said to be moved": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 0, about="t-0")),
            c.wrote(ASKED + 5, "topic", "set", replicas=[2, 1, 3], topic="u", partition=0),
        ),
        GRANTED,
    ),
    "a move that was refused": (
        lambda c: (c.made(state_after=1), asks(c, MOVE, 41, about="t-0")),
        [],
    ),
    "a move that was refused, and began": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 60, about="t-0")),
            *(asks(c, MOVE, 0, about=""), assigned(c, ASKED + 5, [2, 1, 3])),
        ),
        DENIED,
    ),
    "by who is no controller, and began": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 41, about="")),
            assigned(c, ASKED + 5, [2, 1, 3]),
        ),
        DENIED,
    ),
    "by who is no controller, then granted": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 41, about="")),
            *(asks(c, MOVE, 0, ASKED + 100, about="t-0"), assigned(c, ASKED + 105, [2, 1, 3])),
        ),
        [],
    ),
    "another's move, while one was refused": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 60, about="u-0")),
            assigned(c, ASKED + 5, [2, 1, 3]),
        ),
        [],
    ),
    "the end of a move, while one was refused": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 0, 30_000, about="t-0")),
            *(assigned(c, 30_005, [2, 1, 3]), asks(c, MOVE, 60, about="t-0")),
            assigned(c, ASKED + 5, [2, 3]),
        ),
        [],
    ),
    "a move of which nobody knew, then refused": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, None, about="")),
            *(assigned(c, ASKED + 5, [2, 1, 3]), asks(c, MOVE, 60, ASKED + 100, about="t-0")),
        ),
        [],
    ),
    "a topic made anew while a move was refused": (
        lambda c: (
            *(c.made(state_after=1), asks(c, DELETE, 0, 20_000), deletes(c, 20_005)),
            *(asks(c, MOVE, 3, about="t-0"), asks(c, CREATE, 0)),
            c.wrote(ASKED + 5, "topic", "created", replicas=[2, 3], topic="t", partition=0),
        ),
        [],
    ),
    "an election that was refused, and came": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3), asks(c, ELECT, 41, about="t-0")),
            *(asks(c, ELECT, 0, about=""), led(c, ASKED + 5, 1)),
        ),
        DENIED,
    ),
    "as its leader left": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3), asks(c, ELECT, 41, about="t-0")),
            led(c, ASKED + 5, 1, isr=[1]),
        ),
        [],
    ),
    "of a partition that had been moved": (
        lambda c: (
            *(c.made(state_after=1), assigned(c, 25_000, [1, 3, 2]), led(c, 30_000, 3)),
            *(asks(c, ELECT, 41, about="t-0"), led(c, ASKED + 5, 1)),
        ),
        [],
    ),
    "of controllers that give leaderships back": (
        lambda c: (
            c.story.run.update(settings={"overrides": {"auto.leader.rebalance.enable": "true"}}),
            *(c.made(state_after=1), led(c, 30_000, 3), asks(c, ELECT, 41, about="t-0")),
            led(c, ASKED + 5, 1),
        ),
        [],
    ),
    "said to be unable to lead": (
        lambda c: (c.made(state_after=1), led(c, 30_000, 3), asks(c, ELECT, 80, about="t-0")),
        NOT_NEEDED,
    ),
    "said to be unable to lead, as it was out of sync": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3, isr=[3])),
            asks(c, ELECT, 80, about="t-0"),
        ),
        [],
    ),
    "said to be unable to lead, as it was just back": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3), c.event(ASKED - 2_000, 1, "kill")),
            *(c.event(ASKED - 1_000, 1, "start"), asks(c, ELECT, 80, about="t-0")),
        ),
        [],
    ),
    "grown": (
        lambda c: (
            *(c.made(state_after=1), asks(c, GROW, 0)),
            c.wrote(ASKED + 5, "topic", "set", replicas=[2, 3], topic="t", partition=1),
        ),
        [],
    ),
    "said to be grown": (lambda c: (c.made(state_after=1), asks(c, GROW, 0)), GRANTED),
    "growth that was refused": (lambda c: (c.made(state_after=1), asks(c, GROW, 37)), []),
    "growth that was refused, and came": (
        lambda c: (c.made(state_after=1), asks(c, GROW, 37), grown(c, ASKED + 5)),
        DENIED,
    ),
    "growth that nobody knew of, then refused": (
        lambda c: (
            *(c.made(state_after=1), asks(c, GROW, None), grown(c, ASKED + 5)),
            asks(c, GROW, 37, ASKED + 100),
        ),
        [],
    ),
    "grown before it was refused": (
        lambda c: (c.made(state_after=1), grown(c, ASKED - 5_000), asks(c, GROW, 37)),
        [],
    ),
    "moved while growth was refused": (
        lambda c: (
            *(c.made(state_after=1), asks(c, GROW, 37)),
            c.wrote(ASKED + 5, "topic", "set", replicas=[2, 3], topic="t", partition=0),
        ),
        [],
    ),
    "the request as a whole": (
        lambda c: (c.made(state_after=1), asks(c, ELECT, 0, about="")),
        [],
    ),
}


@pytest.mark.parametrize("name", KEPT_WORDS)
@judging(check)
def test_what_is_answered_is_what_is_done(name: str) -> Asks:
    tell, rules = KEPT_WORDS[name]
    cluster = Cluster()
    whole(cluster)
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings if f.rule in GRANTED + DENIED + NOT_NEEDED] == rules


@judging(check)
def test_what_is_answered_is_not_held_against_half_of_a_log() -> Asks:
    cluster = Cluster()
    asks(cluster, CREATE, 0)
    assert not (yield cluster.story).findings
