"""What cannot be done is refused, each time; both ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkers.promises.administration import ANSWERED, check
from checkers.promises.administration.impossible import REFUSED as OF_WHAT_CANNOT_BE
from tests.checkers.promises.administration.cluster import ASKED, Cluster
from tests.checkers.together import Asks, judging


def refused(
    cluster: Cluster,
    t: float,
    api: str,
    error: int | None,
    took: float = 5,
    failure: str = "timeout",
    wanted: int = 39,
    about: str = "",
) -> None:
    """Of role refused-asker, to node 1."""
    fields = {"type": "ok" if error == 0 else "info" if error is None else "fail", "error": error}
    more = {"node": 1, "api": api, "about": about or f"what {api} cannot do", "wanted": wanted}
    lost = {"failure": failure if error is None else None, "process": "refused-asker"}
    cluster.story.add("admin_request", t + took, invoke_t=t, **fields, **more, **lost)


def may(cluster: Cluster, what: str, whether: bool) -> None:
    story = cluster.story
    facts = {**story.run["arms"].get(story.arm, {}), what: whether}
    story.run = {**story.run, "arms": {story.arm: facts}}


def asked_in_turn(
    cluster: Cluster, until: float, *, others: int | None = 41, then: int | None = None
) -> None:
    """ELECT_LEADERS in vain, every 5 s from 3 s on, and another after it; ``then``: the last."""
    for t in range(3_000, int(until), 5_000):
        last = t + 5_000 >= until
        refused(cluster, t, "ELECT_LEADERS", then if last else None, 3_000)
        refused(cluster, t + 3_500, "CREATE_TOPICS", others, 5 if others is not None else 1_000)


def tripped(cluster: Cluster, healed: float, *, error: int = -1, times: int = 3) -> None:
    """So often, and a fault that was healed at that time (ms)."""
    cluster.fault("kill", 5_000, healed, [1])
    for n in range(times):
        refused(cluster, ASKED + 100 * n, "CREATE_TOPICS", error)


def half_sent(cluster: Cluster, waited: float) -> None:
    """What nobody can read, in turn with what is refused, until its connection is ended."""
    for t in range(3_000, 60_000, 5_000):
        refused(cluster, t, "DELETE_RECORDS", None, waited)
        refused(cluster, t + 3_500, "CREATE_TOPICS", 41)


IMPOSSIBLE: dict[str, tuple[Callable[[Cluster], object], list[str]]] = {
    "whose connection is ended": (lambda c: half_sent(c, 5), []),
    "whose connection is held": (lambda c: half_sent(c, 2_000), ["never-refused"]),
    "out of turn": (
        lambda c: [
            refused(c, ASKED + n, "DELETE_TOPICS", None, failure="out-of-turn") for n in range(2)
        ],
        ["answered-out-of-turn"],
    ),
    "lost": (
        lambda c: refused(c, ASKED, "DELETE_TOPICS", None, failure="disconnect"),
        [],
    ),
    "refused": (lambda c: refused(c, ASKED, "CREATE_TOPICS", 39), []),
    "refused by who is no controller": (lambda c: refused(c, ASKED, "CREATE_TOPICS", 41), []),
    "refused by who no longer leads": (lambda c: refused(c, ASKED, "PRODUCE", 6), []),
    "refused while it is moved": (lambda c: refused(c, ASKED, "CREATE_PARTITIONS", 60), []),
    "refused otherwise": (
        lambda c: [refused(c, ASKED + n, "CREATE_TOPICS", 42) for n in range(3)],
        ["refused-otherwise"],
    ),
    "refused otherwise beside a fault": (
        lambda c: (c.fault("kill", 30_000, 60_000, [1]), refused(c, ASKED, "CREATE_TOPICS", 38)),
        ["refused-otherwise"],
    ),
    "refused by who is no controller, as who is no leader is": (
        lambda c: refused(c, ASKED, "CREATE_TOPICS", 6),
        ["refused-otherwise"],
    ),
    "refused by who does not lead, as who is no controller is": (
        lambda c: refused(c, ASKED, "PRODUCE", 41, wanted=10),
        ["refused-otherwise"],
    ),
    "refused by who trips in calm": (lambda c: tripped(c, 6_000), ["refused-otherwise"]),
    "refused by who runs out of time in calm": (
        lambda c: tripped(c, 6_000, error=7),
        ["refused-otherwise"],
    ),
    "refused by who trips as a fault lasts": (lambda c: tripped(c, ASKED + 5_000), []),
    "refused by who trips just after a fault": (lambda c: tripped(c, ASKED - 50), []),
    "refused by who trips twice": (lambda c: tripped(c, 6_000, times=2), []),
    "refused by who tripped": (
        lambda c: (tripped(c, 6_000), refused(c, ASKED + 400, "CREATE_TOPICS", 41)),
        [],
    ),
    "refused by who trips over one sort": (
        lambda c: (tripped(c, 6_000), refused(c, ASKED + 400, "DELETE_TOPICS", 41)),
        ["refused-otherwise"],
    ),
    "records refused as before 2.4": (
        lambda c: refused(c, ASKED, "PRODUCE", 2, wanted=87),
        [],
    ),
    "by one that did": (
        lambda c: (may(c, "records_corrupt", True), refused(c, ASKED, "PRODUCE", 2, wanted=87)),
        [],
    ),
    "by a newer one": (
        lambda c: (may(c, "records_corrupt", False), refused(c, ASKED, "PRODUCE", 2, wanted=87)),
        ["refused-otherwise"],
    ),
    "refused as before 3.3": (lambda c: refused(c, ASKED, "CONFIGS", 42, wanted=40), []),
    "refused as before 3.3, by who says so": (
        lambda c: (
            may(c, "mixes_config_errors", True),
            refused(c, ASKED, "CONFIGS", 42, wanted=40),
        ),
        [],
    ),
    "refused as before 3.3, by who is newer": (
        lambda c: (
            may(c, "mixes_config_errors", False),
            refused(c, ASKED, "CONFIGS", 42, wanted=40),
        ),
        ["refused-otherwise"],
    ),
    "refused as it should be, by who is newer": (
        lambda c: (
            may(c, "mixes_config_errors", False),
            refused(c, ASKED, "CONFIGS", 40, wanted=40),
        ),
        [],
    ),
    "refused in a form that nobody reads": (
        lambda c: refused(c, ASKED, "API_VERSIONS", None, failure="unreadable", wanted=35),
        ["refused-otherwise"],
    ),
    "refused in a form that nobody reads, again and again": (
        lambda c: [
            refused(c, ASKED + n, "API_VERSIONS", None, failure="unreadable", wanted=35)
            for n in range(3)
        ],
        ["refused-otherwise"],
    ),
    "its connection is lost": (
        lambda c: refused(c, ASKED, "API_VERSIONS", None, failure="disconnect", wanted=35),
        [],
    ),
    "done": (lambda c: refused(c, ASKED, "CREATE_TOPICS", 0), ["impossible-done"]),
    "done again and again": (
        lambda c: [refused(c, ASKED + n, "CREATE_TOPICS", 0) for n in range(3)],
        ["impossible-done"],
    ),
    "done beside a fault": (
        lambda c: (c.fault("kill", 30_000, 60_000, [1]), refused(c, ASKED, "CREATE_TOPICS", 0)),
        ["impossible-done"],
    ),
    "never answered": (lambda c: asked_in_turn(c, 60_000), ["never-refused"]),
    "never answered, beside others of its kind": (
        lambda c: (
            asked_in_turn(c, 60_000),
            [
                refused(c, t + 3_200, "ELECT_LEADERS", 41, about="it")
                for t in range(0, 60_000, 5_000)
            ],
        ),
        ["never-refused"],
    ),
    "answered in the end": (lambda c: asked_in_turn(c, 60_000, then=41), []),
    "answered before": (
        lambda c: (refused(c, 2_500, "ELECT_LEADERS", 41), asked_in_turn(c, 60_000)),
        ["never-refused"],
    ),
    "not often enough": (lambda c: asked_in_turn(c, 13_000), []),
    "nothing is answered": (lambda c: asked_in_turn(c, 60_000, others=None), []),
    "only before it was healed": (
        lambda c: (c.fault("link-down", 5_000, 70_000, [1]), asked_in_turn(c, 60_000)),
        [],
    ),
    "once after it was healed": (
        lambda c: (c.fault("link-down", 5_000, 57_000, [1]), asked_in_turn(c, 60_000)),
        [],
    ),
    "after it was healed as well": (
        lambda c: (c.fault("link-down", 5_000, 40_000, [1]), asked_in_turn(c, 60_000)),
        ["never-refused"],
    ),
    "it may not be healed yet": (
        lambda c: (
            c.story.add("fault", 5_000, phase="injected", fault="kill", id="k", detail="{}"),
            asked_in_turn(c, 60_000),
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@judging(check)
def test_what_cannot_be_done_is_refused(name: str) -> Asks:
    tell, rules = IMPOSSIBLE[name]
    cluster = Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings] == rules
    assert not outcome.evidence[cluster.story.arm, 0, ANSWERED]
    seen = outcome.evidence[cluster.story.arm, 0, OF_WHAT_CANNOT_BE]
    unanswered = ("nothing is answered", "out of turn", "lost", "its connection is lost")
    assert (seen == 0) is (name in unanswered)
