"""Who is kept from fetching is dropped: each defect beside what is lawful and looks alike."""

from __future__ import annotations

import json

import pytest

from checkers.promises.departures import check
from tests.checkers.conftest import MS, judged_together
from tests.checkers.promises.test_departures import Zoo

LAG_MS = 1500
DUE_MS = 10_000 + 1.5 * LAG_MS + 3000
LONG_DUE_MS = DUE_MS + 5000


def held(*, let_go: float = 30_000, had_all: float = 9_900, **more: object) -> Zoo:
    """Broker 2 can fetch nothing from 10 s on, and its leader takes a record; nobody minds.
    ``had_all``: what was sent then, to whatever partition, was acknowledged by all in sync."""
    story = Zoo()
    detail = {"how": "pause", "partition": "t-0", "leader": 1, "lag_ms": LAG_MS, "held": [2]}
    detail |= {"held_t": 10_000 * MS, "let_go_t": let_go * MS, **more}
    story.add("fault", 9_000, id="f", fault="isr-lag", phase="inject", detail="{}", nodes=[2])
    story.add("fault", let_go, id="f", fault="isr-lag", phase="failed", detail=json.dumps(detail))
    story.produce(10_100, 1, 1)
    for p in range(3):
        story.produce(had_all + 20, 70 + p, 5, acks=-1, partition=p, invoke_t=had_all)
    return story


def beside(
    story: Zoo,
    t: float,
    isr: list[int] | None,
    *,
    leader: int = 1,
    before: tuple[int, ...] = (1, 2, 3),
) -> None:
    """Of another partition, whose set had been so before; of t-0 it is dropped in time."""
    story.state(12_500, 1, [1, 3])
    story.state(1_500, leader, list(before), partition=1)
    story.state(t, leader, isr, partition=1)


def dropped() -> Zoo:
    story = held()
    story.state(12_500, 1, [1, 3])
    return story


def dropped_too_late() -> Zoo:
    story = held()
    story.state(DUE_MS + 100, 1, [1, 3])
    return story


def with_(change) -> Zoo:
    story = held()
    change(story)
    return story


# How many rules are broken: of those who are held for long two.
STORIES = {
    "stays": (held, 2),
    "fetches, and never has it all": (lambda: held(how="trickle"), 2),
    "dropped too late": (dropped_too_late, 1),
    "another is dropped": (lambda: with_(lambda s: s.state(12_500, 1, [1, 2])), 2),
    "one of two stays": (
        lambda: (s := held(how="cut", held=[2, 3]), s.state(12_500, 1, [1, 3]))[0],
        2,
    ),
    "held for less than long": (lambda: held(let_go=LONG_DUE_MS - 100), 1),
    "dropped before it was long": (
        lambda: with_(lambda s: s.state(LONG_DUE_MS - 100, 1, [1, 3])),
        1,
    ),
    "dropped when it had been long": (
        lambda: with_(lambda s: s.state(LONG_DUE_MS + 100, 1, [1, 3])),
        2,
    ),
    "another leader before it was long": (
        lambda: with_(lambda s: s.state(LONG_DUE_MS - 100, 3, [1, 2, 3])),
        1,
    ),
    "its leader was stopped before it was long": (
        lambda: with_(lambda s: s.add("node_event", LONG_DUE_MS - 100, node=1, event="pause")),
        1,
    ),
    "dropped": (dropped, 0),
    "both are dropped": (
        lambda: (s := held(how="cut", held=[2, 3]), s.state(12_500, 1, [1]))[0],
        0,
    ),
    "had been dropped before": (lambda: with_(lambda s: s.state(9_500, 1, [1, 3])), 0),
    "let go before": (lambda: held(let_go=DUE_MS - 100), 0),
    "answers late": (lambda: held(how="latency"), 0),
    "nobody writes": (lambda: with_(lambda s: s.rows["produce"].clear()), 0),
    "nothing was taken": (lambda: with_(lambda s: s.rows["produce"][0].update(type="info")), 0),
    "another leader": (lambda: with_(lambda s: s.state(11_000, 3, [1, 2, 3])), 0),
    "its leader was stopped, too": (
        lambda: with_(lambda s: s.add("node_event", 11_000, node=1, event="pause")),
        0,
    ),
    "it was stopped itself": (
        lambda: with_(lambda s: s.add("node_event", 10_000, node=2, event="pause")),
        2,
    ),
    "another was stopped before": (
        lambda: with_(
            lambda s: (
                s.add("node_event", 5_000, node=1, event="pause"),
                s.add("node_event", 8_000, node=1, event="resume"),
            )
        ),
        2,
    ),
    "no controller": (lambda: with_(lambda s: s.write(11_000, "controller", "removed")), 0),
}


@pytest.fixture(scope="module")
def judged(spark):
    return judged_together(spark, check, {name: make() for name, (make, _) in STORIES.items()})


@pytest.mark.parametrize("name", STORIES)
def test_who_is_kept_from_fetching(judged, name):
    rules, _ = judged[name]
    told = ("lagging-in-sync", "lagging-for-long")[: STORIES[name][1]]
    assert rules == dict.fromkeys(told, 1)


SOON = {
    "in time": (lambda: with_(lambda s: s.state(11_600, 1, [1, 3])), 0),
    "a little too soon": (lambda: with_(lambda s: s.state(11_200, 1, [1, 3])), 0),
    "too soon": (lambda: with_(lambda s: s.state(10_900, 1, [1, 3])), 1),
    "too soon, of who may have lagged before": (
        lambda: (s := held(had_all=9_500), s.state(10_900, 1, [1, 3]))[0],
        0,
    ),
    "in time, of who had all a moment before": (
        lambda: (s := held(had_all=9_700), s.state(10_900, 1, [1, 3]))[0],
        0,
    ),
    "too soon, of who had all when it was stopped": (
        lambda: (s := held(had_all=10_010), s.state(10_900, 1, [1, 3]))[0],
        1,
    ),
    "too soon, and nothing was acknowledged before": (
        lambda: (s := held(had_all=10_950), s.state(10_900, 1, [1, 3]))[0],
        0,
    ),
    "too soon, though it was let go": (
        lambda: (s := held(let_go=10_500), s.state(10_400, 1, [1, 3]))[0],
        1,
    ),
    "one of two, too soon": (
        lambda: (s := held(how="cut", held=[2, 3], let_go=11_000), s.state(10_900, 1, [1, 3]))[0],
        1,
    ),
    "fetched on": (lambda: (s := held(how="trickle"), s.state(10_900, 1, [1, 3]))[0], 0),
    "another was dropped": (
        lambda: (s := held(), s.state(10_900, 1, [1, 2]), s.state(12_500, 1, [1]))[0],
        0,
    ),
    "of another partition of that leader's, too soon": (
        lambda: with_(lambda s: beside(s, 10_900, [1, 3])),
        1,
    ),
    "one of three, too soon": (
        lambda: with_(
            lambda s: (
                beside(s, 10_900, [1, 3]),
                s.state(1_500, 1, [1, 2, 3], partition=2),
                s.state(12_000, 1, [1, 3], partition=2),
            )
        ),
        0,
    ),
    "of another partition of that leader's, in time": (
        lambda: with_(lambda s: beside(s, 11_600, [1, 3])),
        0,
    ),
    "of another partition, in which it had been out of sync": (
        lambda: with_(lambda s: beside(s, 10_900, [1], before=(1, 3))),
        0,
    ),
    "of another partition, of another leader's": (
        lambda: with_(lambda s: beside(s, 10_900, [3], leader=3)),
        0,
    ),
    "another partition's topic was deleted": (
        lambda: with_(lambda s: beside(s, 10_900, None)),
        0,
    ),
    "another leader": (lambda: with_(lambda s: s.state(10_900, 3, [1, 3])), 0),
    "another led a moment before": (
        lambda: with_(lambda s: (s.state(9_000, 3, [1, 2, 3]), s.state(10_900, 1, [1, 3]))),
        0,
    ),
}


@pytest.fixture(scope="module")
def judged_soon(spark):
    return judged_together(spark, check, {name: make() for name, (make, _) in SOON.items()})


@pytest.mark.parametrize("name", SOON)
def test_who_is_dropped_too_soon(judged_soon, name):
    rules, _ = judged_soon[name]
    assert rules == ({"dropped-too-soon": 1} if SOON[name][1] else {})


def far(*states: tuple[float, list[int]], until: float = 20_000, **more: object) -> Zoo:
    """Brokers 2 and 3 are cut off at 10 s, dropped at 12 s, and come back by a slow way at 14 s."""
    detail = {"how": "cut", "far_ms": 100, "far_until_t": until * MS, **more}
    story = held(held=[2, 3], let_go=14_000, **detail)
    story.produce(15_000, 2, 6)
    story.state(12_000, 1, [1])
    for t, isr in states:
        story.state(t, 1, isr)
    return story


def far_and(change) -> Zoo:
    story = far((14_500, [1, 2, 3]), (17_000, [1, 3]))
    change(story)
    return story


SOON_, OUT = "dropped-too-soon", "not-let-in"
FAR = {
    "let in, and stay": (lambda: far((14_500, [1, 2]), (14_600, [1, 2, 3])), None),
    "let in late": (lambda: far((18_500, [1, 2, 3])), OUT),
    "let in on a slow machine": (lambda: far((18_200, [1, 2, 3])), None),
    "kept out": (far, OUT),
    "kept out, and not looked at for long": (lambda: far(until=18_000), None),
    "one is kept out": (lambda: far((14_500, [1, 2])), OUT),
    "one is dropped again": (lambda: far((14_500, [1, 2, 3]), (17_000, [1, 3])), SOON_),
    "dropped when the way is short again": (
        lambda: far((14_500, [1, 2, 3]), (20_100, [1, 3])),
        None,
    ),
    "dropped by another leader": (
        lambda: far_and(lambda s: s.state(16_000, 2, [1, 2, 3])),
        None,
    ),
    "another was stopped": (
        lambda: far_and(lambda s: s.add("node_event", 15_000, node=1, event="pause")),
        None,
    ),
    "of another way": (lambda: far(how="pause"), None),
    "nobody writes meanwhile": (
        lambda: far_and(
            lambda s: s.rows.update(produce=[r for r in s.rows["produce"] if r["t"] < 14_000 * MS])
        ),
        None,
    ),
    "where two have to be in sync": (
        lambda: far_and(
            lambda s: s.run.update(topics={"t": {"configs": {"min.insync.replicas": "2"}}})
        ),
        None,
    ),
    "where one is enough": (
        lambda: far_and(
            lambda s: s.run.update(topics={"t": {"configs": {"min.insync.replicas": "1"}}})
        ),
        SOON_,
    ),
    "the fault came to nothing before": (lambda: far(far_until_t=None), None),
}


@pytest.fixture(scope="module")
def judged_far(spark):
    return judged_together(spark, check, {name: make() for name, (make, _) in FAR.items()})


@pytest.mark.parametrize("name", FAR)
def test_who_is_one_round_behind_is_let_in_and_stays(judged_far, name):
    rules, _ = judged_far[name]
    rule = FAR[name][1]
    assert {r: n for r, n in rules.items() if r in (SOON_, OUT)} == ({rule: 1} if rule else {})
