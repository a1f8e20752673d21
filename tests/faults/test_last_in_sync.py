"""The last one in sync dies; who is not in sync is asked to lead."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, Link
from tests.faults.situations import elect, following_the_links


def goes_on_alone(ctx: Any, logs: Any) -> None:
    """A leader that is cut off drops everybody, and takes more records."""
    following_the_links(ctx)
    real = ctx.cluster.disable

    def disable(node: int, link: Link) -> None:
        real(node, link)
        logs(node, "t-0", 30)

    ctx.cluster.disable = disable


def test_who_is_alone_in_sync_dies_and_nobody_may_lead(ctx: Any, entry: Any, logs: Any) -> None:
    goes_on_alone(ctx, logs)
    real = ctx.cluster.kill

    def kill(node: int) -> None:
        real(node)
        elect(ctx.cluster, ("t", 0), -1, isr=(1,))

    def elect_preferred(partitions: Any) -> None:
        assert partitions == [("t", 0)]
        raise FaultFailed("PREFERRED_LEADER_NOT_AVAILABLE")

    ctx.cluster.kill, ctx.cluster.elect_preferred = kill, elect_preferred
    fault = build(entry("last-in-sync", partition="t-0", alone_ms=1))
    fault.inject(ctx)
    assert ctx.cluster.calls == [
        ("disable", 1, Link.INTER_BROKER),
        ("kill", 1),
        ("enable", 1, Link.INTER_BROKER),
    ]
    assert fault.took_hold is True
    assert fault.nodes == [1]
    found = {name: fault.detail[name] for name in ("led_by", "ahead_records", "refused")}
    assert found == {
        "led_by": -1,
        "ahead_records": 25,
        "refused": "PREFERRED_LEADER_NOT_AVAILABLE",
    }
    fault.heal(ctx)
    fault.heal(ctx)
    assert ctx.cluster.calls[3:] == [("start", 1)]


def back_and_behind(ctx: Any) -> None:
    elect(ctx.cluster, ("t", 0), 2, isr=(2, 3))


def test_a_preferred_leader_that_is_not_in_sync_is_asked_for(ctx: Any, entry: Any) -> None:
    back_and_behind(ctx)
    ctx.cluster.running[1] = False
    looks = 0
    real = ctx.cluster.live_brokers

    def live_brokers() -> Any:
        nonlocal looks
        looks += 1
        ctx.cluster.running[1] = looks > 3
        return real()

    def elect_preferred(partitions: Any) -> None:
        assert partitions == [("t", 0)]
        assert looks > 3
        raise FaultFailed("PREFERRED_LEADER_NOT_AVAILABLE")

    ctx.cluster.live_brokers, ctx.cluster.elect_preferred = live_brokers, elect_preferred
    fault = build(entry("unready-preferred", partition="t-0"))
    fault.inject(ctx)
    assert fault.took_hold is True
    assert fault.detail["refused"] == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert (fault.detail["preferred"], fault.detail["isr"]) == (1, [2, 3])


def test_a_preferred_leader_that_is_elected_all_the_same_took_hold(ctx: Any, entry: Any) -> None:
    """Not judged here: who decided what is in the history."""
    back_and_behind(ctx)
    ctx.cluster.elect_preferred = lambda _: elect(ctx.cluster, ("t", 0), 1, isr=(1, 2, 3))
    fault = build(entry("unready-preferred", partition="t-0"))
    fault.inject(ctx)
    assert (fault.took_hold, fault.detail["refused"], fault.detail["led_by"]) == (True, None, 1)


def test_who_caught_up_meanwhile_was_not_unready(ctx: Any, entry: Any) -> None:
    back_and_behind(ctx)
    ctx.cluster.elect_preferred = lambda _: elect(ctx.cluster, ("t", 0), 2, isr=(1, 2, 3))
    fault = build(entry("unready-preferred", partition="t-0"))
    fault.inject(ctx)
    assert fault.took_hold is False


def test_who_is_in_sync_before_anybody_asks_is_not_asked_for(ctx: Any, entry: Any) -> None:
    ctx.cluster.elect_preferred = lambda _: pytest.fail("asked")
    fault = build(entry("unready-preferred", partition="t-0"))
    fault.inject(ctx)
    assert fault.took_hold is None


def test_an_election_that_should_have_been_refused_is_told(ctx: Any, entry: Any, logs: Any) -> None:
    """Not judged here: who decided what is in the history."""
    goes_on_alone(ctx, logs)
    ctx.cluster.elect_preferred = lambda partitions: elect(ctx.cluster, ("t", 0), 1)
    fault = build(entry("last-in-sync", partition="t-0", alone_ms=1))
    fault.inject(ctx)
    assert (fault.detail["refused"], fault.detail["led_by"]) == (None, 1)
    assert fault.took_hold is True


@pytest.mark.parametrize(
    ("why", "says"), [("not dropped", "all of the in-sync set"), ("not ahead", "10 records ahead")]
)
def test_who_is_not_alone_or_not_ahead_is_not_killed(
    ctx: Any, entry: Any, logs: Any, why: str, says: str
) -> None:
    if why == "not ahead":
        following_the_links(ctx)
    fault = build(entry("last-in-sync", partition="t-0", in_sync_ms=40, lead_ms=40))
    with pytest.raises(FaultFailed, match=says):
        fault.inject(ctx)
    fault.heal(ctx)
    assert ctx.cluster.running[1]
    assert not ctx.cluster.cut
