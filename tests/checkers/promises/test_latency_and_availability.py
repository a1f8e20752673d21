"""Figures: controller latency, segments, availability."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.facts.histogram import Histogram
from checkers.facts.segments import Window, segments
from checkers.promises import availability, controller_latency
from tests.checkers.together import Asks, judging


@judging(controller_latency.check)
def test_stages_of_one_request(story: Any) -> Asks:
    story.add("control_send", 90, node=9, to=1, api="UPDATE_METADATA", correlation_id=100,
              controller_epoch=1, enqueue_t=50, attempt=1, partitions=[])  # fmt: skip
    story.handled(100, 1)
    story.add("control_response", 105, node=9, to=1, api="UPDATE_METADATA", correlation_id=100,
              send_t=90, error=0)  # fmt: skip
    story.add("probe", 400, node=1, api="LEADER_AND_ISR", plane="data", planned_t=300, invoke_t=350)
    found = yield story
    figures = found.arms[story.arm]
    expected = {"queue": 40, "wire": 6, "blocked": 1, "request_queue": 1, "handler": 1,
                "response": 1, "round_trip": 15, "probe": 100}  # fmt: skip
    assert {s: figures[s]["max_ms"] for s in controller_latency.STAGES} == expected
    assert figures["retries"] == 0
    assert figures["probe_by_node"]["1"]["count"] == 1
    assert found.verdict()[0] == "valid"


@pytest.mark.parametrize(("refused", "unknown"), [(0, False), (1, False), (2, True)])
@judging(controller_latency.check)
def test_probes_that_are_refused(story: Any, refused: int, unknown: bool) -> Asks:
    for number in range(4):
        error = 41 if number < refused else 0
        story.add("probe", 100 * number, node=1, api="X", plane="data", planned_t=0, error=error)
    found = yield story
    assert bool(found.unknowns) == unknown


@judging(controller_latency.check)
def test_latencies_fall_into_fault_segments(story: Any) -> Asks:
    for phase, t in (("injected", 1000), ("healed", 3000)):
        story.add("fault", t, fault="flood", id="a", phase=phase)
    for phase, t in (("injected", 2000), ("healed", 4000)):
        story.add("fault", t, fault="kill", id="b", phase=phase)
    for t in (500, 1500, 2500, 3500, 4500):
        story.add("probe", t, node=1, api="X", plane="data", planned_t=t - 10)
    figures = (yield story).arms[story.arm]
    counts = {name: figure["count"] for name, figure in figures["probe_by_segment"].items()}
    assert counts == {"none": 2, "flood": 1, "flood+kill": 1, "kill": 1}
    assert figures["probe"]["count"] == 3  # what the faults did to probes,
    assert figures["probe_idle"]["count"] == 2  # and the floor beside it


@judging(controller_latency.check)
def test_the_controllers_own_requests_under_the_faults_of_the_probes(story: Any) -> Asks:
    for phase, t in (("injected", 1000), ("healed", 3000)):
        story.add("fault", t, fault="flood", id="a", phase=phase)
    story.add("probe", 1500, node=2, api="X", plane="control", planned_t=1400)
    for t, to in ((1500, 2), (1600, 2), (1700, 1), (3500, 2)):  # beside the flood; after it
        story.add("control_response", t, node=9, to=to, api="X", correlation_id=t, send_t=t - 7,
                  error=0)  # fmt: skip
    figures = (yield story).arms[story.arm]
    assert figures["own"]["count"] == 2
    assert figures["own"]["max_ms"] == 7
    assert figures["round_trip"]["count"] == 4


@judging(availability.check)
def test_availability_counts_from_the_commit_at_the_new_leader(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(100, 2, 1)
    story.produce(120, 1, 0, node=1)  # the old leader still answers
    story.produce(160, 2, 1, node=2)
    story.produce(170, 3, 2, acks=-1, node=2, invoke_t=50)
    story.add("fetch", 130, offset=0, value=1, invoke_t=90)  # begun before
    story.add("fetch", 180, offset=1, value=2, invoke_t=150)
    found = yield story
    assert not found.counts
    figures = found.arms[story.arm]
    assert figures["first_produce"]["max_ms"] == 60
    assert figures["first_fetch"]["max_ms"] == 80
    assert figures["held"] == 1
    assert figures["held_longest_ms"] == 120


@judging(availability.check)
def test_recovery_by_acks_and_until_the_leader_leads(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(100, 2, 1)
    led = {"role": "leader", "leader": 2, "log_end_offset": 0}
    story.add("leader_change", 110, node=1, leader_epoch=1, **{**led, "role": "follower"})
    story.add("leader_change", 130, node=2, leader_epoch=1, **led)
    story.add("leader_change", 190, node=2, leader_epoch=2, **led)  # not this commit's
    story.produce(160, 1, 0, node=2)
    story.produce(250, 2, 1, acks=-1, node=2, invoke_t=140)
    figures = (yield story).arms[story.arm]
    assert figures["leader_ready"]["max_ms"] == 30
    assert figures["first_produce_acks_1"]["max_ms"] == 60
    assert figures["first_produce_acks_all"]["max_ms"] == 150
    assert figures["first_produce"]["max_ms"] == 60


@judging(availability.check)
def test_recoveries_are_told_by_what_was_wrong_at_the_commit(story: Any) -> Asks:
    story.commit(0, 1, 0)
    for phase, t in (("injected", 1000), ("healed", 3000)):
        story.add("fault", t, fault="kill", id="a", phase=phase)
    for leader_epoch, t in enumerate((500, 1500, 3500), start=1):
        story.commit(t, 1 + leader_epoch % 2, leader_epoch)
        story.produce(t + 10 * leader_epoch, leader_epoch, leader_epoch, node=1 + leader_epoch % 2)
    figures = (yield story).arms[story.arm]
    parts = figures["first_produce_acks_1_by_segment"]
    assert {s: (p["count"], p["max_ms"]) for s, p in parts.items()} == {
        "none": (2, 30),
        "kill": (1, 20),
    }


@judging(availability.check)
def test_without_a_change_of_leader_nothing_recovers(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.produce(160, 1, 0, node=1)
    outcome = yield story
    assert "first_produce_acks_1" not in outcome.arms.get(story.arm, {})


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), max_size=6))
def test_segments_are_disjoint_and_cover_what_was_faulty(spans: list[tuple[int, int]]) -> None:
    faults = [Window(str(i), f"f{i}", a, a + n, True) for i, (a, n) in enumerate(spans)]
    cut = segments(faults)
    for t in range(45):
        here = [name for a, b, name in cut if a <= t < b]
        active = sorted(w.fault for w in faults if w.from_t <= t < w.to_t)
        assert here == (["+".join(active)] if active else [])


@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=50), st.floats(0.01, 1))
def test_quantiles_are_off_by_a_bucket_at_most(latencies: list[int], q: float) -> None:
    import math

    histogram = Histogram()
    for x in latencies:
        histogram.add(math.floor(math.log2(x + 1) * 32), 1, x)
    exact = sorted(latencies)[max(0, math.ceil(q * len(latencies)) - 1)]
    found = histogram.quantile_ns(q)
    assert found is not None
    assert found == pytest.approx(exact, rel=0.025, abs=1)


@judging(controller_latency.check)
def test_a_broker_that_does_not_tell_blocked_time_apart(story: Any) -> Asks:
    """Kafka's request log: times with an error, and the queue's time includes the blocked put."""
    story.add("control_send", 97, node=9, to=1, api="UPDATE_METADATA", correlation_id=100,
              controller_epoch=1, attempt=1, partitions=[], error_ns=1_000_000)  # fmt: skip
    story.handled(100, 1, enqueue_t=None, error_ns=1_000_000)
    figures = (yield story).arms[story.arm]
    assert figures["request_queue"]["max_ms"] == 2
    assert figures["wire"]["max_ms"] == 0
    assert "blocked" not in figures
