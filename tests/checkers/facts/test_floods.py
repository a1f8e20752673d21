"""A flood that does not last makes a run unknown; one that does, or may not, does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from checkers.facts.floods import broken_off, floods
from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.judging.verdict import Verdict
from checkers.promises import activity
from tests.checkers.together import Asks, judging

SECOND = 1000.0
FROM, TO, HEALED = 1 * SECOND, 11 * SECOND, 11.3 * SECOND
STEP = 250.0
PLACES = 500

Row = Callable[[float], dict[str, Any] | None]
"""What a worker wrote at a time: columns that differ from a healthy row's; None: nothing."""


def flooded(
    story: Any,
    row: Row = lambda _t: {},
    *,
    healed: dict[str, Any] | None = None,
    places: int | None = PLACES,
    process: str = "flood-a-1-1",
    until: float = HEALED,
) -> None:
    """A flood of broker 1 from second 1 to 11, by one worker."""
    detail: dict[str, Any] = {"connections": {"1": 640}}
    if places is not None:
        detail["queue_places"] = places
    fault = {"fault": "flood-heavy-produce", "id": "a", "nodes": [1]}
    for t, phase in ((FROM - 300, "inject"), (FROM, "injected"), (TO, "heal"), (HEALED, "healed")):
        told = detail | (healed or {}) if phase == "healed" else detail
        took_hold = True if phase in ("injected", "healed") else None
        story.add("fault", t, phase=phase, took_hold=took_hold, detail=json.dumps(told), **fault)
    worked(story, row, process=process, until=until)


def worked(
    story: Any, row: Row = lambda _t: {}, *, process: str = "flood-a-1-1", until: float = HEALED
) -> None:
    t = FROM - 50
    while t < until:
        found = row(t)
        if found is not None:
            healthy = {"connections": 640, "sent": 800, "completed": 800, "errors": 0}
            fields = {"id": "a", "node": 1, "interval_ns": int(STEP * 1e6), "process": process}
            story.add("flood", t, **{**fields, **healthy, **found})
        t += STEP


def dead(*spans: tuple[float, float], **fields: Any) -> Row:
    """Nothing completed in these spans of time."""
    bad = {"sent": 0, "completed": 0, **fields}
    return lambda t: bad if any(a < t <= b for a, b in spans) else {}


def silent(*spans: tuple[float, float]) -> Row:
    return lambda t: None if any(a < t <= b for a, b in spans) else {}


def check(history: History) -> Outcome:
    """What breaks off, as reasons why a trial is unknown."""
    outcome = Outcome()
    for flood, why in broken_off(history):
        outcome.unknown(flood.arm, flood.trial, why)
    return outcome


@judging(activity.check)
def test_a_flood_that_lasts_is_said_to(story: Any) -> Asks:
    story.produce(20, 1, 0)
    flooded(story)
    found = yield story
    assert not found.unknowns
    (figures,) = found.arms[story.arm]["floods"]
    assert (figures["node"], figures["seconds"]) == (1, 10.0)
    assert figures["completed_per_s"] == pytest.approx(3200, rel=0.05)
    assert figures["fewest_connections"] == 640


@pytest.mark.parametrize(
    ("each", "broken"),
    [
        ({"latency_max_ns": 300_000_000}, False),  # 3,200 a second for 0.3 s at most: all wait
        ({"latency_max_ns": 300_000_000, "completed": 8}, True),
        ({"latency_max_ns": 100_000_000}, True),  # 320 at once
        ({"latency_max_ns": 155_000_000}, False),  # and what was under way in the end
        ({"latency_max_ns": None, "completed": 8}, False),  # nobody says how long
        ({"latency_max_ns": 0, "completed": 8}, False),
    ],
)
@judging(check)
def test_a_flood_that_is_too_light_for_the_queue(
    story: Any, each: dict[str, Any], broken: bool
) -> Asks:
    flooded(story, lambda _t: each)
    why = (yield story).unknowns
    assert [("was light" in one) for one in why] == [True] * broken


@judging(check)
def test_a_flood_that_sends_no_more_than_the_plan_lets_it_may_be_light(story: Any) -> Asks:
    flooded(
        story,
        lambda _t: {"latency_max_ns": 300_000_000, "completed": 8},
        healed={"bounded": ["flood-a-1-1"]},
    )
    assert not (yield story).unknowns


@judging(check)
def test_a_flood_that_need_not_fill_a_queue_may_be_light(story: Any) -> Asks:
    flooded(story, lambda _t: {"latency_max_ns": 300_000_000, "completed": 8}, places=None)
    assert not (yield story).unknowns


@judging(activity.check)
def test_a_flood_that_dies_makes_the_run_unknown(story: Any) -> Asks:
    story.produce(20, 1, 0)
    story.add("phase", 500, name="chaos", event="begin")
    flooded(story, until=4 * SECOND, healed={"ended": {"flood-a-1-1": -9}})
    found = yield story
    assert found.verdict()[0] is Verdict.UNKNOWN
    (why,) = found.unknowns
    assert why.startswith(f"{story.arm}, trial 0: fault a (flood-heavy-produce) on broker 1 died ")
    assert "3.5 s into chaos, 7.0 s before it was to end" in why
    assert "worker flood-a-1-1 ended with signal 9; 9,600 requests were completed by then" in why


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (silent((4 * SECOND, 99 * SECOND)), "died 3.0 s after it had set in, 7.0 s before"),
        (silent((4 * SECOND, 7 * SECOND)), "fell silent 3.0 s after it had set in for 3.2 s"),
        (dead((4 * SECOND, 7 * SECOND)), "stalled 3.0 s after it had set in for 3.0 s: no request"),
        (dead((4 * SECOND, 7 * SECOND), completed=9, errors=9), "was completed, 108 errors"),
        (dead((8 * SECOND, 99 * SECOND)), "stalled 7.0 s after it had set in for 3.0 s"),
        (dead((4 * SECOND, 7 * SECOND), completed=5, connections=PLACES), "ran thin 3.0 s after"),
        (lambda t: {"connections": 0} if t > 6 * SECOND else {}, "0 connections, no more than"),
    ],
)
@judging(check)
def test_a_flood_that_breaks_off(story: Any, row: Row, says: str) -> Asks:
    flooded(story, row)
    (why,) = (yield story).unknowns
    assert says in why
    assert "fault a (flood-heavy-produce) on broker 1" in why


@pytest.mark.parametrize(
    "row",
    [
        dead((4 * SECOND, 5.9 * SECOND)),  # slow, but not for long
        silent((4 * SECOND, 5.7 * SECOND)),
        dead((4 * SECOND, 7 * SECOND), completed=1),  # very slow
        dead((4 * SECOND, 7 * SECOND), completed=5, connections=PLACES + 1),
        dead((4 * SECOND, 5.9 * SECOND), completed=5, connections=0),
        dead((4 * SECOND, 5.5 * SECOND), (6 * SECOND, 7.5 * SECOND)),
        silent((TO - 1.7 * SECOND, 99 * SECOND)),  # its last rows were lost with the machine's load
        dead((-1, FROM), (TO, 99 * SECOND)),
    ],
)
@judging(check)
def test_a_slow_flood_is_a_flood(story: Any, row: Row) -> Asks:
    flooded(story, row)
    assert (yield story).unknowns == []


def down(story: Any, *events: tuple[float, str]) -> None:
    for t, event in events:
        story.add("node_event", t, node=1, event=event)


@pytest.mark.parametrize(
    "events",
    [
        ((4 * SECOND, "kill"), (5 * SECOND, "start"), (7 * SECOND, "ready")),
        ((4 * SECOND, "stop"), (5 * SECOND, "stopped")),
        ((4 * SECOND, "pause"), (6 * SECOND, "resume")),
    ],
)
@judging(check)
def test_a_broker_that_is_down_by_plan_excuses(
    story: Any, events: Iterable[tuple[float, str]]
) -> Asks:
    flooded(story, dead((4 * SECOND, 10 * SECOND), connections=0))
    down(story, *events)
    assert (yield story).unknowns == []


@judging(check)
def test_an_excuse_is_one_of_its_own_broker_and_time(story: Any) -> Asks:
    flooded(story, dead((2 * SECOND, 99 * SECOND)))
    story.add("node_event", 2 * SECOND, node=2, event="kill")
    down(story, (1.5 * SECOND, "pause"), (2 * SECOND, "resume"))  # back by 2 s, dialled by 7 s
    (why,) = (yield story).unknowns
    assert "stalled 6.0 s after it had set in for 4.0 s" in why


@judging(check)
def test_a_worker_has_no_such_excuse(story: Any) -> Asks:
    flooded(story, until=5 * SECOND, healed={"ended": {"flood-a-1-1": 0}})
    down(story, (4 * SECOND, "pause"))
    (why,) = (yield story).unknowns
    assert "ended with exit code 0" in why


@pytest.mark.parametrize(("fault", "excuses"), [("disconnect", True), ("move-leadership", False)])
@judging(check)
def test_another_fault_that_cuts_the_broker_off_excuses(
    story: Any, fault: str, excuses: bool
) -> Asks:
    flooded(story, dead((4 * SECOND, 9 * SECOND)))
    for t, phase in ((3.9 * SECOND, "inject"), (4 * SECOND, "injected"), (6 * SECOND, "healed")):
        story.add("fault", t, fault=fault, id="b", phase=phase, nodes=[1])
    assert bool((yield story).unknowns) is not excuses


@pytest.mark.parametrize("proxied", [False, True])
@judging(check)
def test_a_proxy_is_no_excuse_for_a_flood_that_goes_past_it(story: Any, proxied: bool) -> Asks:
    flooded(story, dead((4 * SECOND, 9 * SECOND)), healed={"proxied": proxied})
    story.add("fault", 4 * SECOND, fault="link-down", id="b", phase="injected", nodes=[1])
    assert bool((yield story).unknowns) is not proxied


@judging(check)
def test_a_worker_that_sent_all_it_may_is_done(story: Any) -> Asks:
    flooded(story, until=4 * SECOND, healed={"bounded": ["flood-a-1-1"]})
    assert (yield story).unknowns == []


@judging(check)
def test_held_connections_need_no_answers(story: Any) -> Asks:
    flooded(story, dead((0, 99 * SECOND)), places=None)
    assert (yield story).unknowns == []


def test_one_of_two_workers_is_enough_to_break_off(story: Any, spark: Any) -> None:
    half = {"connections": 320}
    flooded(story, lambda _t: half, until=5 * SECOND)
    worked(story, lambda _t: half, process="flood-a-1-2")
    history = story.history(spark)
    (flood,) = floods(history)
    assert set(flood.workers) == {"flood-a-1-1", "flood-a-1-2"}
    (why,) = check(history).unknowns
    assert "worker flood-a-1-1 wrote nothing more" in why
    assert flood.fewest_connections() == 320


@judging(check)
def test_a_broker_of_which_nothing_was_written_down(story: Any) -> Asks:
    flooded(story, lambda _t: None)
    (why,) = (yield story).unknowns
    assert "no worker wrote down what it reached" in why


@judging(activity.check)
def test_a_flood_that_never_set_in_is_not_judged_twice(story: Any) -> Asks:
    story.produce(20, 1, 0)
    fault = {"fault": "flood-heavy-produce", "id": "a", "nodes": [1]}
    few = json.dumps({"connections": {"1": 4}, "queue_places": PLACES})
    story.add("fault", FROM, phase="injected", took_hold=False, detail=few, **fault)
    found = yield story
    assert len(found.unknowns) == 1
    assert "did not take hold" in found.unknowns[0]
