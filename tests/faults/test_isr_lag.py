"""In-sync sets that shrink by lag, and fill again."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.plan import PlanError
from faults.protocol import FaultFailed, Link
from tests.faults.situations import following_the_links


@pytest.mark.parametrize(
    ("how", "left"), [("pause", 2), ("latency", 1), ("cut", 1), ("trickle", 1)]
)
def test_lag_shrinks_the_set_and_its_end_fills_it(
    ctx: Any, entry: Any, how: str, left: int
) -> None:
    following_the_links(ctx)
    given: list[Any] = []
    real = ctx.cluster.add_toxic

    def add_toxic(node: int, link: Link, **toxic: Any) -> None:
        given.append((node, link, toxic["attributes"]["latency"]))
        real(node, link, **toxic)

    ctx.cluster.add_toxic = add_toxic
    fault = build(entry("isr-lag", partition="t-0", how=how, hold_ms=1, lag_ms=100))
    fault.inject(ctx)
    assert fault.took_hold is True
    assert len(fault.detail["smaller_isr"]) == left
    assert not ctx.cluster.paused
    assert not ctx.cluster.cut
    assert not ctx.cluster.toxics
    (node,) = fault.nodes
    assert (node == 1) is (how != "pause")  # the leader's link, or one follower of it
    one = ["client", "inter-broker", "control"]  # all have one address here
    assert fault.detail.get("links") == (None if how == "pause" else one)
    if how == "latency":
        assert given == [(1, Link.INTER_BROKER, 200)]  # longer than the limit
    if how == "trickle":
        assert given == [(1, Link.INTER_BROKER, 25)]  # far from it
    calls = list(ctx.cluster.calls)
    assert ("record_gauges", 1, fault.id, frozenset(fault.detail["smaller_isr"])) in calls
    fault.heal(ctx)
    assert ctx.cluster.calls == calls


def test_it_tells_which_links_it_hurts(ctx: Any, entry: Any) -> None:
    following_the_links(ctx)
    ctx.cluster.addresses[1, Link.INTER_BROKER] = ("127.0.0.1", 7)
    fault = build(entry("isr-lag", partition="t-0", how="cut", hold_ms=1))
    fault.inject(ctx)
    assert fault.detail["links"] == ["inter-broker"]


def test_without_a_control_listener_it_hurts_the_controller_as_well(ctx: Any, entry: Any) -> None:
    following_the_links(ctx)
    for link in (Link.INTER_BROKER, Link.CONTROL):
        ctx.cluster.addresses[1, link] = ("127.0.0.1", 7)
    fault = build(entry("isr-lag", partition="t-0", how="cut", hold_ms=1))
    fault.inject(ctx)
    assert fault.detail["links"] == ["inter-broker", "control"]


def test_who_commits_the_smaller_set_is_not_who_is_paused(ctx: Any, entry: Any) -> None:
    following_the_links(ctx)
    for controller, paused in ((2, 3), (3, 2)):
        ctx.cluster.the_controller = controller
        fault = build(entry("isr-lag", partition="t-0", hold_ms=1))
        fault.inject(ctx)
        assert fault.nodes == [paused]
    ctx.cluster.add_topic("two", {0: [1, 2]})
    ctx.cluster.the_controller = 2
    with pytest.raises(FaultFailed, match="no follower of two-0 but the controller"):
        build(entry("isr-lag", partition="two-0")).inject(ctx)
    assert not ctx.cluster.paused


def test_a_set_that_does_not_shrink_is_no_lag(ctx: Any, entry: Any) -> None:
    fault = build(entry("isr-lag", partition="t-0", how="cut", timeout_ms=30))
    with pytest.raises(FaultFailed, match="dropped from its in-sync set"):
        fault.inject(ctx)
    assert ctx.cluster.cut == {(1, Link.INTER_BROKER)}
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert fault.took_hold is None


def test_a_set_that_stays_small_did_not_take_hold(ctx: Any, entry: Any) -> None:
    following_the_links(ctx)
    ctx.cluster.resume = lambda node: None  # it never comes back
    fault = build(entry("isr-lag", partition="t-0", hold_ms=1, timeout_ms=50))
    with pytest.raises(FaultFailed, match="in sync"):
        fault.inject(ctx)
    assert fault.took_hold is None


def test_who_died_did_not_only_lag(ctx: Any, entry: Any) -> None:
    following_the_links(ctx)
    ctx.cluster._out = lambda node: node in ctx.cluster.paused
    with pytest.raises(FaultFailed, match="not by lag alone"):
        build(entry("isr-lag", partition="t-0", hold_ms=1)).inject(ctx)


@pytest.mark.parametrize(("control", "links"), [(True, 2), (False, 1)])
def test_who_is_in_sync_again_is_paused_before_its_leader_hears_of_it(
    ctx: Any, entry: Any, control: bool, links: int
) -> None:
    following_the_links(ctx)
    ctx.cluster.the_controller = 2
    if control:
        ctx.cluster.addresses[2, Link.CONTROL] = ("127.0.0.1", 2)
    fault = build(entry("isr-lag", partition="t-0", hold_ms=1, unheard_ms=30))
    fault.inject(ctx)
    assert fault.took_hold is True
    names = ("pause", "resume", "add_toxic", "remove_toxic")
    done = [call[:2] for call in ctx.cluster.calls if call[0] in names]
    late, heard = [("add_toxic", 2)] * links, [("remove_toxic", 2)] * links
    assert done[:2] == [("pause", 3), late[0]]
    assert done[1:][:links] == late
    assert done[1 + links :][:2] == [("resume", 3), ("pause", 3)]
    assert sorted(done[3 + links :]) == sorted([*heard, ("resume", 3)])
    assert fault.detail["let_go_t"] < ctx.now_ns()


@pytest.mark.parametrize("joins", [True, False])
def test_who_comes_back_by_a_slow_way_is_looked_at_for_longer_than_the_limit(
    ctx: Any, entry: Any, joins: bool
) -> None:
    """Whether it is let in or not: that is for whoever judges."""

    class NotMinded(dict[Any, Any]):
        """Nobody is dropped for these."""

        def __iter__(self) -> Any:
            return iter(())

    following_the_links(ctx)
    cluster = ctx.cluster
    if joins:
        cluster.toxics = NotMinded()
    slept_s: list[float] = []
    really = ctx.sleep

    def sleep(seconds: float) -> None:
        slept_s.append(seconds)
        really(seconds)

    ctx.sleep = sleep
    params = {
        "partition": "t-0",
        "how": "cut",
        "hold_ms": 1,
        "lag_ms": 40,
        "far_ms": 7,
        "joins_ms": 60,
    }
    fault = build(entry("isr-lag", **params))
    fault.inject(ctx)
    assert fault.took_hold is True
    names = ("disable", "add_toxic", "enable", "remove_toxic")
    done = [call[0] for call in cluster.calls if call[0] in names]
    assert done == list(names)
    assert fault.detail["far_ms"] == 7
    assert slept_s[-1] > 1.5 * 0.04  # within which a leader drops whoever lags
    looked_ns = fault.detail["far_until_t"] - fault.detail["let_go_t"]
    assert (looked_ns >= 60_000_000) is not joins  # in vain, as long as for anything


def test_only_who_is_cut_off_comes_from_afar(ctx: Any, entry: Any) -> None:
    with pytest.raises(PlanError, match=r"far_ms.*goes with how: cut alone"):
        build(entry("isr-lag", partition="t-0", how="pause", far_ms=7))


def test_a_leader_that_is_the_controller_hears_at_once(ctx: Any, entry: Any) -> None:
    following_the_links(ctx)
    ctx.cluster.the_controller = 1
    fault = build(entry("isr-lag", partition="t-0", hold_ms=1, unheard_ms=30))
    with pytest.raises(FaultFailed, match="broker 1 is the controller"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.paused


def test_only_who_is_paused_can_be_paused_once_more(entry: Any) -> None:
    with pytest.raises(PlanError, match="unheard_ms"):
        build(entry("isr-lag", partition="t-0", how="cut", unheard_ms=30))
