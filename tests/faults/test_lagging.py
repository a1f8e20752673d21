"""Leaders that die while who follows them lags, or with what they did not answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults import build
from faults.errors import PlanError
from faults.observing import log_end, next_in_line
from faults.protocol import FaultFailed, Link, PartitionState
from tests.faults.situations import elect

# ---- looking -------------------------------------------------------------------------------------


def test_a_log_ends_after_its_last_whole_batch(ctx: Any, logs: Any, tmp_path: Path) -> None:
    assert log_end(ctx, 1, "t", 0) == 5
    segment = tmp_path / "1" / "t-0" / "00000000000000000005.log"
    segment.write_bytes(b"")
    assert log_end(ctx, 1, "t", 0) == 5  # a new segment without a batch begins where it is named
    with pytest.raises(FaultFailed, match="no log of t-9"):
        log_end(ctx, 1, "t", 9)


def test_who_would_be_elected_is_first_in_the_assignment() -> None:
    state = PartitionState("t", 0, 2, 4, (3, 2, 1), (1, 2, 3), 5, 9)
    assert next_in_line(state) == [1, 3]
    assert next_in_line(replace(state, isr=(2, 3))) == [3]


# ---- a leader dies while followers lag -----------------------------------------------------------


def test_who_is_made_to_lag_is_who_is_killed(ctx: Any, entry: Any, logs: Any) -> None:
    real = ctx.cluster.add_toxic

    def add_toxic(node: int, link: Link, **toxic: Any) -> None:
        real(node, link, **toxic)
        assert (toxic["kind"], toxic["stream"]) == ("timeout", "downstream")
        logs(1, "t-0", 20)  # it goes on, and its followers do not

    ctx.cluster.add_toxic = add_toxic
    fault = build(entry("lagged-kill", partition="t-0"))
    fault.inject(ctx)
    assert ctx.cluster.calls == [
        ("add_toxic", 1, Link.INTER_BROKER, "e1"),
        ("kill", 1),
        ("remove_toxic", 1, Link.INTER_BROKER, "e1"),
    ]
    assert fault.took_hold is True
    assert fault.nodes == [1]
    assert (fault.detail["followers"], fault.detail["records"]) == ([2, 3], 15)
    fault.heal(ctx)
    fault.heal(ctx)
    assert ctx.cluster.calls[3:] == [("start", 1)]
    assert not ctx.cluster.toxics


@pytest.mark.parametrize("when", ["as it is held", "as it lives on", "its session ends"])
def test_who_loses_its_office_is_let_go_and_its_successor_held(
    ctx: Any, entry: Any, logs: Any, when: str
) -> None:
    """Who was paused before leads until its session is known to be over."""
    real, sleep, remove = ctx.cluster.add_toxic, ctx.sleep, ctx.cluster.remove_toxic
    session_ends = when == "its session ends"

    def succeeded() -> None:
        logs(1, "t-0", 5)
        if session_ends:  # nobody is elected yet
            ctx.cluster.live_brokers = lambda: [2, 3]
        else:
            elect(ctx.cluster, ("t", 0), 3)

    def remove_toxic(node: int, link: Link, **toxic: Any) -> None:
        remove(node, link, **toxic)
        if session_ends and node == 1:
            elect(ctx.cluster, ("t", 0), 3)

    ctx.cluster.remove_toxic = remove_toxic

    def add_toxic(node: int, link: Link, **toxic: Any) -> None:
        real(node, link, **toxic)
        logs(node, "t-0", 20)
        if node == 1 and when != "as it lives on":
            succeeded()

    def sleeps(seconds: float) -> None:
        if seconds == 0.04 and ctx.cluster.states["t", 0].leader == 1:
            succeeded()
        sleep(seconds)

    ctx.cluster.add_toxic, ctx.sleep = add_toxic, sleeps
    fault = build(entry("lagged-kill", partition="t-0", longer_ms=40))
    fault.inject(ctx)
    assert ctx.cluster.calls == [
        ("add_toxic", 1, Link.INTER_BROKER, "e1"),
        ("remove_toxic", 1, Link.INTER_BROKER, "e1"),
        ("add_toxic", 3, Link.INTER_BROKER, "e1"),
        ("kill", 3),
        ("remove_toxic", 3, Link.INTER_BROKER, "e1"),
    ]
    assert (fault.took_hold, fault.nodes) == (True, [1, 3])
    assert fault.detail["succeeded"] == [1]
    assert fault.detail["followers"] == ([2] if session_ends else [1, 2])
    fault.heal(ctx)


def test_where_nobody_stays_in_office_nobody_is_killed(ctx: Any, entry: Any, logs: Any) -> None:
    real = ctx.cluster.add_toxic

    def add_toxic(node: int, link: Link, **toxic: Any) -> None:
        real(node, link, **toxic)
        elect(ctx.cluster, ("t", 0), 3 if node == 1 else 1)

    ctx.cluster.add_toxic = add_toxic
    fault = build(entry("lagged-kill", partition="t-0", in_sync_ms=30))
    with pytest.raises(FaultFailed, match="no leader of t-0 stays in office"):
        fault.inject(ctx)
    assert not any(call[0] == "kill" for call in ctx.cluster.calls)
    assert not ctx.cluster.toxics


def test_who_is_being_replaced_is_not_made_to_lag(
    ctx: Any, entry: Any, logs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was paused is named until somebody in office elects another."""
    logs(1, "t-0", 20)
    for name, gone in (("the_controller", None), ("without_session", {1})):
        with monkeypatch.context() as patch:
            if name == "the_controller":
                patch.setattr(ctx.cluster, name, gone)
            else:
                patch.setattr(ctx.cluster, "live_brokers", lambda: {2, 3})
            fault = build(entry("lagged-kill", partition="t-0", in_sync_ms=30))
            with pytest.raises(FaultFailed, match="has a live follower in sync"):
                fault.inject(ctx)
    assert ctx.cluster.calls == []


def test_who_lags_may_go_on_for_a_while(ctx: Any, entry: Any, logs: Any) -> None:
    logs(1, "t-0", 30)
    slept, real = [], ctx.sleep
    ctx.sleep = lambda s: (slept.append((s, len(ctx.cluster.toxics))), real(s))
    fault = build(entry("lagged-kill", partition="t-0", longer_ms=40))
    fault.inject(ctx)
    assert (0.04, 1) in slept  # its followers still get nothing
    fault.heal(ctx)


def test_clients_of_who_lags_lose_their_connections_and_have_time(
    ctx: Any, entry: Any, logs: Any
) -> None:
    logs(1, "t-0", 30)
    slept, real = [], ctx.sleep
    ctx.sleep = lambda s: (slept.append((s, len(ctx.cluster.calls))), real(s))
    fault = build(entry("lagged-kill", partition="t-0", resend=True, longer_ms=40))
    fault.inject(ctx)
    assert ctx.cluster.calls == [
        ("add_toxic", 1, Link.INTER_BROKER, "e1"),
        ("disable", 1, Link.CLIENT),
        ("enable", 1, Link.CLIENT),
        ("kill", 1),
        ("remove_toxic", 1, Link.INTER_BROKER, "e1"),
    ]
    assert (0.04, 3) in slept  # between its clients' return and its death
    fault.heal(ctx)


def test_a_leader_that_is_not_ahead_of_all_is_not_killed(ctx: Any, entry: Any, logs: Any) -> None:
    logs(1, "t-0", 30)
    logs(2, "t-0", 30)
    fault = build(entry("lagged-kill", partition="t-0", lag_ms=30))
    with pytest.raises(FaultFailed, match=r"broker 1 has 10 records that are not with \[2, 3\]"):
        fault.inject(ctx)
    assert ctx.cluster.running[1]
    fault.heal(ctx)
    assert not ctx.cluster.toxics


def test_a_follower_that_is_dead_or_out_of_sync_lags_anyhow(
    ctx: Any, entry: Any, logs: Any
) -> None:
    logs(1, "t-0", 30)
    ctx.cluster.running[3] = False
    fault = build(entry("lagged-kill", partition="t-0"))
    fault.inject(ctx)
    assert fault.detail["followers"] == [2]
    fault.heal(ctx)
    elect(ctx.cluster, ("t", 0), 1, isr=(1, 3))
    with pytest.raises(FaultFailed, match="has a live follower in sync"):
        build(entry("lagged-kill", partition="t-0", in_sync_ms=20)).inject(ctx)


def test_who_lags_is_who_was_in_sync_when_it_was_looked_at(ctx: Any, entry: Any, logs: Any) -> None:
    """Its brokers may be gone the moment after, as ZooKeeper sees it."""
    logs(1, "t-0", 30)
    looks = iter([[1, 2, 3]])
    ctx.cluster.live_brokers = lambda: next(looks, [1])
    fault = build(entry("lagged-kill", partition="t-0"))
    fault.inject(ctx)
    assert (fault.took_hold, fault.detail["followers"]) == (True, [2, 3])
    fault.heal(ctx)


def test_who_is_succeeded_lives_on_with_what_nobody_else_has(
    ctx: Any, entry: Any, logs: Any
) -> None:
    real = ctx.cluster.elect_preferred

    def elect_preferred(partitions: Any) -> None:
        real(partitions)
        logs(2, "t-0", 40)  # it leads, and takes records of its own

    ctx.cluster.elect_preferred, ctx.cluster.the_controller = elect_preferred, 3
    logs(1, "t-0", 30)
    fault = build(entry("lagged-move", partition="t-0"))
    fault.inject(ctx)
    assert [call[0] for call in ctx.cluster.calls] == [
        *("add_toxic", "reassign", "elect_preferred", "remove_toxic"),
    ]
    assert fault.took_hold is True
    assert (fault.nodes, fault.detail["records"]) == ([1, 2], 25)
    assert ctx.cluster.running[1]
    fault.heal(ctx)
    assert len(ctx.cluster.calls) == 4


def test_the_controller_is_succeeded_before_its_answers_are_held(
    ctx: Any, entry: Any, logs: Any
) -> None:
    """By the same link it may tell itself who is to lead."""
    logs(2, "t-0", 30)
    fault = build(entry("lagged-move", partition="t-0"))
    assert ctx.cluster.the_controller == ctx.cluster.states["t", 0].leader == 1
    fault.inject(ctx)
    assert [call[:2] for call in ctx.cluster.calls if call[0].endswith("_toxic")] == [
        *(("add_toxic", 2), ("remove_toxic", 2)),
    ]
    assert [call[0] for call in ctx.cluster.calls][:3] == [
        *("reassign", "elect_preferred", "add_toxic"),
    ]
    assert fault.took_hold
    fault.heal(ctx)


def test_who_is_killed_unanswered_has_given_its_followers_all(
    ctx: Any, entry: Any, logs: Any
) -> None:
    real = ctx.cluster.add_toxic

    def add_toxic(node: int, link: Link, **toxic: Any) -> None:
        real(node, link, **toxic)
        logs(1, "t-0", 9)
        logs(2, "t-0", 9)

    def log_dir(node: int) -> str:
        """The other follower gets it somewhat later."""
        nonlocal looks
        looks += 1
        if looks == 20:
            logs(3, "t-0", 13)
            logs(2, "t-0", 13)
        return str(home(node))

    looks, home = 0, ctx.cluster.log_dir
    ctx.cluster.add_toxic, ctx.cluster.log_dir = add_toxic, log_dir
    fault = build(entry("unanswered-kill", partition="t-0"))
    fault.inject(ctx)
    assert [c[:3] for c in ctx.cluster.calls] == [
        ("add_toxic", 1, Link.CLIENT),
        ("kill", 1),
        ("remove_toxic", 1, Link.CLIENT),
    ]
    assert (fault.took_hold, fault.detail["records"]) == (True, 4)
    fault.heal(ctx)
    assert ctx.cluster.running[1]


@pytest.mark.parametrize(("least", "dies"), [(3, True), (4, True), (5, False), (None, False)])
def test_fewer_are_enough_when_half_of_the_time_is_over(
    ctx: Any, entry: Any, logs: Any, least: int | None, dies: bool
) -> None:
    real = ctx.cluster.add_toxic

    def add_toxic(node: int, link: Link, **toxic: Any) -> None:
        real(node, link, **toxic)
        for follower in (2, 3):
            logs(follower, "t-0", 9)  # four more than the leader had

    ctx.cluster.add_toxic = add_toxic
    more = {} if least is None else {"least": least}
    fault = build(entry("unanswered-kill", partition="t-0", records=8, lag_ms=60, **more))
    if dies:
        fault.inject(ctx)
    else:
        with pytest.raises(FaultFailed, match="8 records that were not answered"):
            fault.inject(ctx)
    assert ctx.cluster.running[1] is not dies
    fault.heal(ctx)


def test_without_what_was_not_answered_nobody_is_killed(ctx: Any, entry: Any, logs: Any) -> None:
    logs(2, "t-0", 30)
    fault = build(entry("unanswered-kill", partition="t-0", lag_ms=30))
    with pytest.raises(FaultFailed, match="not answered and are with"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert ctx.cluster.running[1]
    assert not ctx.cluster.toxics


def test_a_lagged_kill_that_fails_takes_its_toxic_back(ctx: Any, entry: Any, logs: Any) -> None:
    def kill(_node: int) -> None:
        raise FaultFailed("no")

    ctx.cluster.kill = kill
    logs(1, "t-0", 30)
    fault = build(entry("lagged-kill", partition="t-0"))
    with pytest.raises(FaultFailed):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.toxics


@pytest.mark.parametrize(("which", "laggard", "other"), [("successor", 2, 3), ("last", 3, 2)])
def test_one_follower_is_behind_another_when_the_leader_dies(
    ctx: Any, entry: Any, logs: Any, which: str, laggard: int, other: int
) -> None:
    pause = ctx.cluster.pause

    def and_the_load_goes_on(node: int) -> None:
        pause(node)
        logs(other, "t-0", 30)

    ctx.cluster.pause = and_the_load_goes_on
    fault = build(entry("lagging-follower", partition="t-0", laggard=which, records=20))
    fault.inject(ctx)
    assert ctx.cluster.calls == [("pause", laggard), ("kill", 1), ("resume", laggard)]
    assert fault.took_hold is True
    assert (fault.detail["laggard"], fault.detail["behind_records"]) == (laggard, 25)
    fault.heal(ctx)
    assert ctx.cluster.calls[3:] == [("start", 1)]


def test_a_laggard_that_caught_up_or_fell_out_was_no_laggard(
    ctx: Any, entry: Any, logs: Any
) -> None:
    def played(before_the_end: Callable[[], None]) -> Any:
        ctx.cluster.running[1] = True
        logs(2, "t-0", 5)
        logs(3, "t-0", 30)
        real = type(ctx.cluster).resume

        def resume(node: int) -> None:
            real(ctx.cluster, node)
            before_the_end()

        ctx.cluster.resume = resume
        fault = build(entry("lagging-follower", partition="t-0"))
        fault.inject(ctx)
        fault.heal(ctx)
        return fault.took_hold

    assert played(lambda: None) is True
    assert played(lambda: logs(2, "t-0", 30)) is False
    state = ctx.cluster.states["t", 0]
    assert (
        played(lambda: ctx.cluster.states.update({("t", 0): replace(state, isr=(1, 3))})) is False
    )


def uneven(ctx: Any, entry: Any, logs: Any, *, own: int, heard: bool = False) -> Any:
    """Broker 3 has 30 records when broker 1 dies, broker 2 only 5. It leads next and takes ``own``;
    broker 3 leads after it, and may have ``heard`` of it before."""
    pause, kill, sleep = ctx.cluster.pause, ctx.cluster.kill, ctx.sleep
    later: list[Callable[[], None]] = []

    def and_the_load_goes_on(node: int) -> None:
        pause(node)
        logs(3, "t-0", 30)

    def and_another_is_elected(node: int) -> None:
        kill(node)
        later.append(lambda: elect(ctx.cluster, ("t", 0), 2 if node == 1 else 3))
        if node == 1:
            assert ("add_toxic", 2, Link.INTER_BROKER, "e1") in ctx.cluster.calls
            later.append(lambda: logs(2, "t-0", 5 + own))
        elif heard:
            logs(3, "t-0", 5)

    def in_time(seconds: float) -> None:
        sleep(seconds)
        if later and seconds < 0.1:  # who waits for something looks often
            later.pop(0)()

    ctx.cluster.pause, ctx.cluster.kill = and_the_load_goes_on, and_another_is_elected
    ctx.sleep = in_time
    return build(entry("uneven-failover", partition="t-0", elect_ms=2000))


def test_a_laggard_leads_takes_records_and_dies_unheard(ctx: Any, entry: Any, logs: Any) -> None:
    fault = uneven(ctx, entry, logs, own=7)
    fault.inject(ctx)
    assert fault.took_hold is True
    assert [c[:2] for c in ctx.cluster.calls] == [
        ("pause", 2),
        ("add_toxic", 2),
        ("kill", 1),
        ("resume", 2),
        ("kill", 2),
        ("remove_toxic", 2),
    ]
    assert fault.nodes == [1, 2]
    assert (fault.detail["own_records"], fault.detail["behind_records"]) == (7, 25)
    fault.heal(ctx)
    assert {c for c in ctx.cluster.calls if c[0] == "start"} == {("start", 1), ("start", 2)}
    assert not ctx.cluster.toxics


def test_logs_that_have_not_parted_prove_nothing(ctx: Any, entry: Any, logs: Any) -> None:
    fault = uneven(ctx, entry, logs, own=7, heard=True)
    fault.inject(ctx)
    assert fault.took_hold is False
    fault.heal(ctx)


@pytest.mark.slow
def test_a_laggard_that_took_nothing_lives(ctx: Any, entry: Any, logs: Any) -> None:
    fault = uneven(ctx, entry, logs, own=2)
    with pytest.raises(FaultFailed, match="broker 2 has 3 records of its own"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert ("kill", 2) not in ctx.cluster.calls
    assert not ctx.cluster.toxics


def test_without_a_lag_nobody_is_killed(ctx: Any, entry: Any, logs: Any) -> None:
    fault = build(entry("lagging-follower", partition="t-0", lag_ms=30))
    with pytest.raises(FaultFailed, match="broker 2 is 10 records behind broker 3"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert ctx.cluster.calls == [("pause", 2), ("resume", 2)]


def test_who_is_dead_is_not_in_sync_whatever_the_set_says(ctx: Any, entry: Any, logs: Any) -> None:
    ctx.cluster.running[3] = False
    with pytest.raises(FaultFailed, match="every replica of t-0 is in sync"):
        build(entry("lagging-follower", partition="t-0", in_sync_ms=20)).inject(ctx)
    assert not ctx.cluster.calls


def test_lagging_takes_three_in_sync(ctx: Any, entry: Any, logs: Any) -> None:
    elect(ctx.cluster, ("t", 0), 1, isr=(1, 2))
    with pytest.raises(FaultFailed, match="every replica of t-0 is in sync"):
        build(entry("lagging-follower", partition="t-0", in_sync_ms=20)).inject(ctx)
    ctx.cluster.add_topic("two", {0: [1, 2]})
    with pytest.raises(FaultFailed, match="2 replicas, not 3"):
        build(entry("lagging-follower", partition="two-0")).inject(ctx)
    with pytest.raises(PlanError, match="partition"):
        build(entry("lagging-follower", partition="nonsense"))
