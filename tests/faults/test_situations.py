"""Faults that bring a situation about and say whether it came: what they do, see, and undo."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults import build
from faults.errors import PlanError
from faults.observing import log_end, next_in_line
from faults.protocol import FaultFailed, Link, PartitionState
from nodes.wire.records import build_batch, rewrite_base


def write_log(root: Path, node: int, partition: str, records: int) -> None:
    folder = root / str(node) / partition
    folder.mkdir(parents=True, exist_ok=True)
    data = bytearray()
    for offset in range(records):
        batch = bytearray(build_batch([(None, b"v" * 20, 1)]))
        rewrite_base(batch, 0, offset, 3)
        data += batch
    (folder / "00000000000000000000.log").write_bytes(bytes(data) + b"\0" * 512)


@pytest.fixture
def logs(ctx: Any, tmp_path: Path) -> Callable[..., None]:
    """Each broker has a log directory of its own; ``logs(node, "t-0", 7)`` fills one."""
    ctx.cluster.log_dir = lambda node: str(tmp_path / str(node))

    def write(node: int, partition: str, records: int) -> None:
        write_log(tmp_path, node, partition, records)

    for node in (1, 2, 3):
        for partition in ("t-0", "t-1"):
            write(node, partition, 5)
    return write


def elect(cluster: Any, key: tuple[str, int], leader: int, **others: Any) -> None:
    state = cluster.states[key]
    cluster.states[key] = replace(
        state, leader=leader, leader_epoch=state.leader_epoch + 1, **others
    )


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
    """Though the leadership moves in between."""
    real = ctx.cluster.add_toxic

    def add_toxic(node: int, link: Link, **toxic: Any) -> None:
        real(node, link, **toxic)
        assert (toxic["kind"], toxic["stream"]) == ("timeout", "downstream")
        elect(ctx.cluster, ("t", 0), 3)
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


# ---- in-sync sets that shrink --------------------------------------------------------------------


def following_the_links(ctx: Any) -> None:
    """What a leader would do about followers that it does not hear of, and does hear of again."""
    cluster = ctx.cluster
    real = cluster.partitions

    def partitions(topic: str | None = None) -> list[PartitionState]:
        full = real(topic)
        silent = {n for n, link in cluster.cut if link is Link.INTER_BROKER}
        silent |= {n for n, link, _ in cluster.toxics if link is Link.INTER_BROKER}
        found = []
        for state in full:
            followers = set(state.replicas) - {state.leader}
            out = cluster.paused | (followers if state.leader in silent else set())
            found.append(replace(state, isr=tuple(r for r in state.isr if r not in out)))
        return found

    cluster.partitions = partitions
    cluster._out = lambda node: not cluster.running[node]  # a short pause is no death


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
    if how == "latency":
        assert given == [(1, Link.INTER_BROKER, 200)]  # longer than the limit
    if how == "trickle":
        assert given == [(1, Link.INTER_BROKER, 25)]  # far from it
    calls = list(ctx.cluster.calls)
    fault.heal(ctx)
    assert ctx.cluster.calls == calls


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


# ---- the controller, and another -----------------------------------------------------------------


@pytest.mark.parametrize(("controller", "first", "successor"), [(3, 1, 2), (1, 2, 3)])
def test_the_controller_dies_before_it_can_hear_of_a_death(
    ctx: Any, entry: Any, controller: int, first: int, successor: int
) -> None:
    """The leader of t-0 is 1; where that is the controller, the next in line dies first."""
    cluster = ctx.cluster
    cluster.the_controller = controller
    real = cluster.kill

    def kill(node: int) -> None:
        real(node)
        if node == controller:
            cluster.the_controller = successor
            cluster.the_controller_epoch += 1

    cluster.kill = kill
    fault = build(entry("joint-death", partition="t-0", gap_ms=1))
    fault.inject(ctx)
    assert cluster.calls == [("kill", first), ("kill", controller)]
    assert fault.nodes == [first, controller]
    assert fault.took_hold is True
    assert fault.detail["successor"] == successor
    fault.heal(ctx)
    fault.heal(ctx)
    assert set(cluster.calls[2:]) == {("start", first), ("start", controller)}


def test_a_death_that_the_controller_heard_of_is_none(ctx: Any, entry: Any) -> None:
    cluster = ctx.cluster
    cluster.the_controller = 3
    real = cluster.kill

    def kill(node: int) -> None:
        real(node)
        if node == 1:
            elect(cluster, ("t", 0), 2, isr=(2, 3))
        else:
            cluster.the_controller = 2
            cluster.the_controller_epoch += 1

    cluster.kill = kill
    fault = build(entry("joint-death", partition="t-0", gap_ms=1))
    fault.inject(ctx)
    assert fault.took_hold is False
    fault.heal(ctx)


def test_nobody_dies_where_there_is_no_controller(ctx: Any, entry: Any) -> None:
    ctx.cluster.the_controller = None
    with pytest.raises(FaultFailed, match="no controller"):
        build(entry("joint-death", partition="t-0")).inject(ctx)
    assert not ctx.cluster.calls


# ---- the last one in sync ------------------------------------------------------------------------


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


# ---- two deaths ----------------------------------------------------------------------------------


def succession(ctx: Any, *, ends: bool = True) -> None:
    """Whoever dies is succeeded by the next live replica."""
    cluster = ctx.cluster
    real_kill, real_stop = cluster.kill, cluster.stop

    def succeed(down: Callable[[int], None]) -> Callable[[int], None]:
        def die(node: int) -> None:
            down(node)
            for key, state in list(cluster.states.items()):
                alive = [r for r in state.replicas if cluster.running[r]]
                if state.leader == node and alive and ends:
                    elect(cluster, key, alive[0], isr=tuple(alive))

        return die

    cluster.kill, cluster.stop = succeed(real_kill), succeed(real_stop)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_successor_dies_as_well(ctx: Any, entry: Any, how: str) -> None:
    succession(ctx)
    fault = build(entry("double-failover", partition="t-0", how=how))
    fault.inject(ctx)
    assert ctx.cluster.calls == [(how, 1), ("kill", 2)]
    assert fault.took_hold is True
    assert fault.nodes == [1, 2]
    assert [leader for leader, _ in fault.detail["leaders"]] == [1, 2, 3]
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())


def test_a_leader_that_is_not_there_yet_is_no_successor(ctx: Any, entry: Any) -> None:
    """Nor is one in whose name only the epoch went up."""
    succession(ctx, ends=False)
    cluster, real, looks = ctx.cluster, ctx.cluster.partitions, 0

    def partitions(topic: str | None = None) -> list[PartitionState]:
        nonlocal looks
        down = [n for n in cluster.ids if not cluster.running[n]]
        if down:
            looks += 1
            elect(cluster, ("t", 0), -1 if looks % 8 < 6 else [2, 3][len(down) - 1])
        return list(real(topic))

    cluster.partitions = partitions
    fault = build(entry("double-failover", partition="t-0"))
    fault.inject(ctx)
    assert cluster.calls == [("kill", 1), ("kill", 2)]
    assert fault.took_hold is True


def test_without_a_successor_nobody_else_dies(ctx: Any, entry: Any) -> None:
    succession(ctx, ends=False)
    fault = build(entry("double-failover", partition="t-0", elect_ms=20))
    with pytest.raises(FaultFailed, match="has a leader after broker 1"):
        fault.inject(ctx)
    assert ctx.cluster.calls == [("kill", 1)]
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())


# ---- a death that others answer ------------------------------------------------------------------


def test_a_kill_may_last_until_others_have_replaced_who_is_gone(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, looks, real = ctx.cluster, 0, ctx.cluster.partitions

    def partitions(topic: str | None = None) -> list[PartitionState]:
        nonlocal looks
        looks += 1
        if looks == 5:
            elect(cluster, ("t", 0), 2, isr=(2, 3))
        if looks == 9:
            elect(cluster, ("t", 1), 2, isr=(2, 3))
            cluster.states["t", 2] = replace(cluster.states["t", 1], leader=1, isr=(1,))
        return list(real(topic))

    cluster.partitions = partitions
    fault = build(entry("kill", target="1", until_replaced=True))
    fault.inject(ctx)
    assert looks == 9  # in which 1 is all of a set: there nobody can replace it
    assert fault.took_hold is True
    fault.heal(ctx)
    monkeypatch.setattr("faults.restart._REPLACE_MS", 30)
    elect(cluster, ("t", 0), 3, isr=(1, 3))
    with pytest.raises(FaultFailed, match=r"others lead and are in sync without brokers \[1\]"):
        build(entry("kill", target="1", until_replaced=True)).inject(ctx)


# ---- a lost disk ---------------------------------------------------------------------------------


def test_a_wiped_broker_keeps_only_its_name(
    ctx: Any, entry: Any, logs: Any, tmp_path: Path
) -> None:
    succession(ctx)
    home = tmp_path / "1"
    for name in ("meta.properties", "biplane.boot", "recovery-point-offset-checkpoint"):
        (home / name).write_text("x")
    (tmp_path / "2" / "meta.properties").write_text("x")
    elect(ctx.cluster, ("t", 1), 2)
    real = ctx.cluster.kill

    def kill(node: int) -> None:
        real(node)
        for key, state in list(ctx.cluster.states.items()):
            ctx.cluster.states[key] = replace(state, isr=tuple(r for r in state.isr if r != node))

    ctx.cluster.kill = kill
    fault = build(entry("wipe-disk", target="leader:t-0"))
    fault.inject(ctx)
    assert fault.detail["held_batches"] == 10
    assert ctx.cluster.calls == [("kill", 1)]
    assert sorted(p.name for p in home.iterdir()) == ["biplane.boot", "meta.properties"]
    assert (tmp_path / "2" / "t-0").exists()
    assert fault.took_hold is True
    assert fault.nodes == [1]
    fault.heal(ctx)
    assert ctx.cluster.calls == [("kill", 1), ("start", 1)]


def test_who_is_all_of_a_set_is_not_wiped(
    ctx: Any, entry: Any, logs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka would elect it with nothing, and the loss would be lawful."""
    ctx.cluster.add_topic("alone", {0: [1]})
    with pytest.raises(FaultFailed, match="broker 1 is all of the in-sync set of alone-0"):
        build(entry("wipe-disk", target="1")).inject(ctx)
    elect(ctx.cluster, ("t", 0), 1, isr=(1,))
    with pytest.raises(FaultFailed, match="every in-sync set is full"):
        build(entry("wipe-disk", target="1", in_sync_ms=20)).inject(ctx)
    assert not ctx.cluster.calls


def test_who_is_still_in_a_set_is_not_wiped(
    ctx: Any, entry: Any, logs: Any, tmp_path: Path
) -> None:
    fault = build(entry("wipe-disk", target="1", in_sync_ms=30))
    with pytest.raises(FaultFailed, match="no in-sync set names broker 1"):
        fault.inject(ctx)
    assert (tmp_path / "1" / "t-0").exists()
    fault.heal(ctx)
    assert ctx.cluster.running[1]


# ---- reassignments -------------------------------------------------------------------------------


def test_replicas_wander_along_the_ring(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2], 1: [3, 1]})
    real = ctx.cluster.reassign

    def reassign(assignment: Any) -> None:
        real(assignment)
        for key, replicas in assignment.items():
            elect(ctx.cluster, key, replicas[0], isr=tuple(replicas))

    ctx.cluster.reassign = reassign
    fault = build(entry("reassign", partitions="w-*", times=2, interval_ms=0))
    fault.inject(ctx)
    assert [(m["partition"], m["added"], m["removed"]) for m in fault.detail["moves"]] == [
        ("w-0", [3], [1]),
        ("w-1", [2], [3]),
        ("w-0", [1], [2]),
        ("w-1", [3], [1]),
    ]
    assert fault.took_hold is True


def test_a_move_that_changes_no_replica_is_none(ctx: Any, entry: Any) -> None:
    fault = build(entry("reassign", partitions="t-0", interval_ms=0))  # on every broker already
    fault.inject(ctx)
    assert fault.took_hold is False
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.reassign = lambda assignment: None
    with pytest.raises(FaultFailed, match="w-0 is on"):
        build(entry("reassign", partitions="w-0")).inject(ctx)


class Moving:
    """A reassignment that goes on when its leader's answers leave again, under a new controller."""

    def __init__(self, ctx: Any, how: str) -> None:
        self.cluster, self.how = ctx.cluster, how
        self.elected_at = self.cluster.the_controller_epoch

    def __call__(self, assignment: Any) -> None:
        ((key, wanted),) = assignment.items()
        if self.how == "refused":
            raise FaultFailed("reassigning partitions: NOT_NOW")
        before = self.cluster.states[key]
        both = tuple(dict.fromkeys([*wanted, *before.replicas]))
        self.cluster.states[key] = replace(before, replicas=both)
        deadline = time.monotonic() + 30
        while self.cluster.toxics or self.cluster.the_controller_epoch == self.elected_at:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        if self.how != "forgotten":
            elect(self.cluster, key, wanted[0], isr=tuple(wanted))
            self.cluster.states[key] = replace(self.cluster.states[key], replicas=tuple(wanted))


def test_a_controller_is_succeeded_in_the_middle_of_a_move(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.reassign = Moving(ctx, "sound")
    fault = build(entry("reassign-succeeded", partitions="w-0", interval_ms=0))
    fault.inject(ctx)
    calls = [c for c in ctx.cluster.calls if "toxic" in c[0] or c[0] == "remove_controller"]
    assert calls == [
        ("add_toxic", 1, Link.INTER_BROKER, "e1"),
        ("remove_controller",),
        ("remove_toxic", 1, Link.INTER_BROKER, "e1"),
    ]
    assert [(m["added"], m["removed"]) for m in fault.detail["moves"]] == [([3], [1])]
    assert fault.detail["successor"] == 2
    assert fault.took_hold is True


@pytest.mark.parametrize("how", ["refused", "forgotten"])
def test_a_move_that_nobody_goes_on_with_is_told(ctx: Any, entry: Any, how: str) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.reassign = Moving(ctx, how)
    fault = build(entry("reassign-succeeded", partitions="w-0", interval_ms=0, timeout_ms=200))
    with pytest.raises(FaultFailed, match=r"to have a replica|w-0 is on"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert fault.took_hold is None
    assert not ctx.cluster.toxics


def test_a_partition_on_every_broker_cannot_be_moved_meanwhile(ctx: Any, entry: Any) -> None:
    with pytest.raises(FaultFailed, match="would not move"):
        build(entry("reassign-succeeded", partitions="t-0")).inject(ctx)
    assert not ctx.cluster.toxics


# ---- elections while nobody writes ---------------------------------------------------------------


def test_elections_wait_for_an_idle_moment(ctx: Any, entry: Any, logs: Any) -> None:
    looks = 0
    real = ctx.cluster.log_dir

    def log_dir(node: int) -> str:
        nonlocal looks
        looks += 1
        if looks < 20:
            logs(1, "t-0", 5 + looks)
        return str(real(node))

    ctx.cluster.log_dir = log_dir
    fault = build(entry("idle-elections", partitions="t-*", times=2))
    fault.inject(ctx)
    assert fault.took_hold is True
    assert len(fault.detail["moves"]) == 4
    assert looks > 20


def test_elections_under_load_are_not_idle(ctx: Any, entry: Any, logs: Any) -> None:
    real = ctx.cluster.elect_preferred

    def elect_preferred(partitions: Any) -> None:
        real(partitions)
        logs(2, "t-1", 6)

    ctx.cluster.elect_preferred = elect_preferred
    fault = build(entry("idle-elections", partitions="t-*", times=1))
    fault.inject(ctx)
    assert fault.took_hold is False
    assert fault.detail["grown"] == {"t-1@2": 6}


def test_a_leader_dies_in_the_idle_moment(ctx: Any, entry: Any, logs: Any) -> None:
    succession(ctx)
    fault = build(entry("idle-elections", partitions="t-0", times=1, kill=True))
    fault.inject(ctx)
    assert fault.took_hold is True
    assert (fault.detail["killed"], fault.detail["succeeded"]) == (2, 1)
    assert not ctx.cluster.running[2]
    fault.heal(ctx)
    assert ctx.cluster.running[2]


# ---- a control plane for a running cluster -------------------------------------------------------


@pytest.fixture
def upgradable(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Brokers that listen for controllers once they were started with the listener."""
    cluster = ctx.cluster
    cluster.pending, cluster.listening, cluster.refused = {}, set(), "needs {name}: no listener"
    real = cluster.start

    def start(node: int, **how: Any) -> None:
        real(node, **how)
        if node in cluster.pending:
            cluster.listening.add(node)

    def reconfigure(node: int, properties: Any, *, without: Any = ()) -> None:
        cluster.calls.append(("reconfigure", node, dict(properties), list(without)))
        cluster.pending[node] = properties

    def refusal(node: int, properties: Any, *, without: Any = ()) -> str:
        cluster.calls.append(("refusal", node, dict(properties), list(without)))
        return cluster.refused.format(name=next(iter(properties)))  # type: ignore[no-any-return]

    def set_broker_config(node: int, name: str, value: str) -> None:
        cluster.calls.append(("set", node, name, value))
        if cluster.refused:
            raise FaultFailed(f"INVALID_REQUEST: {name}")

    cluster.start, cluster.reconfigure, cluster.refusal = start, reconfigure, refusal
    cluster.set_broker_config = set_broker_config
    cluster.address = lambda node, link, direct=False: (str(node), 0)

    def probe(address: tuple[str, int], *, timeout_s: float) -> Any:
        class Seen:
            failure = None if int(address[0]) in cluster.listening else "closed"

        return Seen()

    monkeypatch.setattr("faults.plane_upgrade.probe", probe)
    return cluster


NAME = "control.plane.listener.name"


def test_two_rounds_first_the_listener_then_its_name(ctx: Any, entry: Any, upgradable: Any) -> None:
    fault = build(entry("plane-upgrade"))
    fault.inject(ctx)
    order = fault.detail["order"]
    assert sorted(order) == [1, 2, 3]
    assert upgradable.calls == [
        step
        for value in ("", "CONTROLLER")
        for n in order
        for step in (("reconfigure", n, {NAME: value}, []), ("stop", n), ("start", n))
    ]
    assert fault.took_hold is True
    with pytest.raises(FaultFailed, match="have a control listener already"):
        build(entry("plane-upgrade")).inject(ctx)


def test_leaders_move_when_all_is_done(ctx: Any, entry: Any, upgradable: Any) -> None:
    fault = build(entry("plane-upgrade", then_move="t-0"))
    fault.inject(ctx)
    last_start = max(n for n, call in enumerate(upgradable.calls) if call[0] == "start")
    assert [c for c in upgradable.calls[last_start:] if c[0] == "elect_preferred"]
    assert [move["partition"] for move in fault.detail["moves"]] == ["t-0"]
    assert fault.took_hold is True


def test_the_last_of_each_round_may_straggle(ctx: Any, entry: Any, upgradable: Any) -> None:
    slept: list[float] = []
    ctx.sleep = slept.append
    fault = build(entry("plane-upgrade", straggle_ms=1500))
    real = upgradable.reconfigure

    def reconfigure(node: int, *how: Any, **more: Any) -> None:
        assert (1.5 in slept) is (node == fault.detail["order"][-1])
        slept.clear()
        real(node, *how, **more)

    upgradable.reconfigure = reconfigure
    fault.inject(ctx)
    assert fault.took_hold is True


def test_what_must_be_refused_is_tried_first(ctx: Any, entry: Any, upgradable: Any) -> None:
    fault = build(entry("plane-upgrade", wrong_order=True, dynamic=True))
    fault.inject(ctx)
    first = fault.detail["order"][0]
    assert upgradable.calls[:2] == [
        ("refusal", first, {NAME: "CONTROLLER"}, [Link.CONTROL]),
        ("set", first, NAME, "CONTROLLER"),
    ]
    assert fault.took_hold is True


@pytest.mark.parametrize("wrong", ["wrong_order", "dynamic"])
def test_what_is_not_refused_as_it_should_be_ends_the_upgrade(
    ctx: Any, entry: Any, upgradable: Any, wrong: str
) -> None:
    upgradable.refused = ""
    with pytest.raises(FaultFailed, match=r"for another reason|accepted"):
        build(entry("plane-upgrade", **{wrong: True})).inject(ctx)
    assert not [c for c in upgradable.calls if c[0] == "stop"]


def test_a_broker_without_the_listener_after_round_one_fails_it(
    ctx: Any, entry: Any, upgradable: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faults.plane_upgrade._LISTENS_MS", 20)
    upgradable.listening = frozenset()
    upgradable.start = lambda node, **how: upgradable.running.update({node: True})
    with pytest.raises(FaultFailed, match="has a control listener"):
        build(entry("plane-upgrade")).inject(ctx)
