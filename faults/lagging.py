"""Leaders that die while who follows them lags: all followers alike, or one behind the other.

``lagged-kill``: a leader's answers no longer reach its followers, and when all of them are behind
it is killed. One entry, because two ("its link", "its death") that name a leader may mean two
brokers when the leader changes in between. Late answers would not do: a follower that was answered
a moment before the death has it all. It may be that its clients lose their connections before it
dies, and have time to send again what was not answered: it has that already, and its followers do
not.

``lagged-move``: as before, but it does not die: another is elected in its place. What waits at it
for its followers is never acknowledged, for whoever leads next does not have it.

``unanswered-kill``: a leader's answers no longer reach its clients, and when its followers have
what it took since then it is killed. Clients send that again, to its successor, which has it.

``lagging-follower``: one in-sync follower is behind another when their leader dies. Proxies stand
before listeners and delay either both followers of a leader or none; so the laggard is stopped
(SIGSTOP), for less time than its session and its place in the in-sync set last, and goes on when
the leader is dead: from then on nobody can send it what it lacks.

``uneven-failover``: the laggard leads next, and its answers do not leave, so that who has more does
not hear from it. It takes records of its own, and when it has some it is killed as well. Who has
more leads now, and each of the two has, at the same offsets, what the other one never had: in a
leader epoch of its own here, in the one before there (KIP-279).
"""

from __future__ import annotations

from typing import ClassVar, Final

from faults.base import BaseFault, wait_for
from faults.leadership import move
from faults.observing import await_full_isr, log_end, next_in_line, read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link, PartitionState
from faults.targets import partition_state

LAGGARDS: Final = ("successor", "last")
_LOOK_S: Final = 0.05
_MOVE_MS: Final = 10_000
_SETTLED_S: Final = 0.15


class _HeldKill(BaseFault):
    """A leader's answers on one link are thrown away until what is waited for has come about, then
    it is killed. The connections go with the toxic. heal starts it again. Whoever loses its office
    before is let go, and its successor meant.

    Parameters: partition, whose leader it is; records, see the kinds; in_sync_ms: how long to wait
    for a live in-sync follower; lag_ms: and for those records; least: so many are enough when half
    of that time is over (default: all of them); longer_ms: how long it lives on when they are
    there, and acknowledges what it should not.
    """

    link: ClassVar[Link]

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.records = params.integer("records", self.default_records, low=1)
        self.least = params.integer("least", self.records, low=1)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.lag_ms = params.integer("lag_ms", 8000, low=1)
        self.longer_ms = params.integer("longer_ms", 0)
        self.read(params)
        params.done()

    def read(self, params: Params) -> None:
        """What else there is to say of a kind."""

    def before_death(self, ctx: Context, leader: int) -> None:
        """What else is done to it when what was waited for has come about."""

    def end_of_office(self, ctx: Context, leader: int) -> bool:
        """It leads no more; whether that took hold."""
        self.kill(ctx, leader)
        return not ctx.nodes.is_running(leader)

    default_records: ClassVar[int] = 10

    def come_about(self, ctx: Context, leader: int, followers: list[int], at_first: int) -> int:
        """How many records there are of what is waited for; ``at_first``: where the leader's log
        ended when its answers began to be held."""
        raise NotImplementedError

    def apply(self, ctx: Context) -> None:
        until = ctx.now_ns() + self.in_sync_ms * 1_000_000
        while not self._end_one(ctx):
            if ctx.now_ns() > until:
                raise FaultFailed(f"no leader of {self.topic}-{self.partition} stays in office")

    def _end_one(self, ctx: Context) -> bool:
        """False: who was held lost its office before all had come about, and is let go. So does a
        broker that was paused before, when its session turns out to be over: it is cut to what its
        successor has."""
        leader, followers = self._await_followers(ctx)
        self.nodes = list(dict.fromkeys([*self.nodes, leader]))
        self.detail["controller"] = ctx.view.controller()
        self.hold_answers(ctx, leader, self.link)
        at_first = self.end(ctx, leader)
        patient_until = ctx.now_ns() + self.lag_ms * 500_000

        def has_come_about() -> bool:
            wanted = self.records if ctx.now_ns() < patient_until else self.least
            return self.come_about(ctx, leader, followers, at_first) >= wanted

        wait_for(
            ctx,
            lambda: has_come_about() or not self._is_in_office(ctx, leader),
            timeout_ms=self.lag_ms,
            what=f"broker {leader} has {self.records} records {self.waits_for} {followers}",
            poll_s=_LOOK_S,
        )
        if self._is_in_office(ctx, leader):
            self.before_death(ctx, leader)
            ctx.sleep(self.longer_ms / 1000)
        if not self._is_in_office(ctx, leader):
            self.detail.setdefault("succeeded", []).append(leader)
            self.let_answers(ctx, leader, self.link)
            return False
        ended = self.end_of_office(ctx, leader)
        found = self.come_about(ctx, leader, followers, at_first)
        self.detail |= {"followers": followers, "records": found}
        self.took_hold = found > 0 and ended
        self.let_answers(ctx, leader, self.link)  # who dials it when it is back is answered at once
        return True

    def _await_followers(self, ctx: Context) -> tuple[int, list[int]]:
        """The leader and its followers, as they are seen now: a moment later there may be none."""
        leader, followers = -1, list[int]()

        def has_followers() -> bool:
            nonlocal leader, followers
            state = self._state(ctx)
            leader, followers = state.leader, self._followers(ctx, state)
            return bool(followers)

        wait_for(
            ctx,
            has_followers,
            timeout_ms=self.in_sync_ms,
            what=f"the leader of {self.topic}-{self.partition} has a live follower in sync",
            poll_s=_LOOK_S,
        )
        return leader, followers

    def _is_in_office(self, ctx: Context, leader: int) -> bool:
        return self._state(ctx).leader == leader and leader in ctx.view.live_brokers()

    waits_for: ClassVar[str]

    def end(self, ctx: Context, node: int) -> int:
        return log_end(ctx, node, self.topic, self.partition)

    def _state(self, ctx: Context) -> PartitionState:
        return partition_state(ctx.view, self.topic, self.partition)

    def _followers(self, ctx: Context, state: PartitionState) -> list[int]:
        """None of a leader that is being replaced: its session is over, or nobody is in office who
        could elect another (a broker that was paused is still named for a moment)."""
        live = set(ctx.view.live_brokers())
        if state.leader not in live or ctx.view.controller() is None:
            return []
        return [r for r in state.isr if r != state.leader and r in live]


class LaggedKill(_HeldKill):
    """Its followers are not answered; records: by how many its log is longer than the longest of
    theirs; resend: its clients' connections are broken when it is so, and may be made anew at once
    (``longer_ms`` is their time to send again). Took hold: it was so after its death."""

    name = "lagged-kill"
    needs = frozenset({Capability.KILL, Capability.LINKS, Capability.LOG_FILES})
    link = Link.INTER_BROKER
    waits_for = "that are not with"

    def read(self, params: Params) -> None:
        self.resend = params.flag("resend", False)

    def before_death(self, ctx: Context, leader: int) -> None:
        if self.resend:
            self.cut(ctx, leader, Link.CLIENT)
            self.mend(ctx, leader, Link.CLIENT)

    def come_about(self, ctx: Context, leader: int, followers: list[int], at_first: int) -> int:
        return self.end(ctx, leader) - max(self.end(ctx, node) for node in followers)


class LaggedMove(LaggedKill):
    """``lagged-kill`` without a death: the next in-sync replica is elected, as an operator would
    have it (`faults.leadership`). Took hold: it leads, and did not have those records."""

    name = "lagged-move"
    needs = frozenset({Capability.ELECT_LEADERS, Capability.LINKS, Capability.LOG_FILES})
    _behind = 0

    def apply(self, ctx: Context) -> None:
        """Who is the controller, too, may be told by the same link what it decides itself: then
        nobody could be elected. Another leads first."""
        state = self._state(ctx)
        if state.leader == ctx.view.controller():
            move(ctx, [state], "next", ctx.rng, _MOVE_MS, "rotate")
        super().apply(ctx)

    def end_of_office(self, ctx: Context, leader: int) -> bool:
        followers = self._followers(ctx, self._state(ctx))
        self._behind = super().come_about(ctx, leader, followers, 0) if followers else 0
        moves = move(ctx, [self._state(ctx)], "next", ctx.rng, _MOVE_MS, "rotate")
        self.nodes = list(dict.fromkeys([*self.nodes, *(one["to"] for one in moves)]))
        self.detail["moves"] = moves
        return self._state(ctx).leader != leader

    def come_about(self, ctx: Context, leader: int, followers: list[int], at_first: int) -> int:
        """Once another leads, logs grow and are cut: what was so before counts."""
        return self._behind or super().come_about(ctx, leader, followers, at_first)


class UnansweredKill(_HeldKill):
    """Its clients are not answered; records: how many of those that it took since then each in-sync
    follower has. Took hold: it died with such records."""

    name = "unanswered-kill"
    needs = frozenset({Capability.KILL, Capability.LINKS, Capability.LOG_FILES})
    link = Link.CLIENT
    waits_for = "that were not answered and are with"
    default_records = 1

    def come_about(self, ctx: Context, leader: int, followers: list[int], at_first: int) -> int:
        return min(self.end(ctx, node) for node in followers) - at_first


class LaggingFollower(BaseFault):
    """Parameters: partition (three replicas or more); laggard: "successor" (who will lead next) or
    "last"; records: by how many it must be behind before the leader is killed; in_sync_ms and
    lag_ms: how long to wait for a full in-sync set and for the lag.

    Took hold: after the leader's death the laggard's log ended before another in-sync follower's,
    and both were in the committed in-sync set. heal starts the leader again.
    """

    name = "lagging-follower"
    needs = frozenset({Capability.KILL, Capability.PAUSE, Capability.LOG_FILES})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.records = params.integer("records", 10, low=1)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.lag_ms = params.integer("lag_ms", 2000, low=1)
        self.read(params)
        params.done()

    def read(self, params: Params) -> None:
        """A kind's own parameters."""
        self.laggard = params.choice("laggard", LAGGARDS, LAGGARDS[0])

    def apply(self, ctx: Context) -> None:
        self.leave_uneven(ctx)

    def before_death(self, ctx: Context, laggard: int) -> None:
        """What else is done when the laggard is behind."""

    def leave_uneven(self, ctx: Context) -> tuple[PartitionState, int, int]:
        """Who led, the laggard, and who has more."""
        state = await_full_isr(ctx, self.topic, self.partition, timeout_ms=self.in_sync_ms, least=3)
        line = next_in_line(state)
        laggard, other = line[0], line[-1]
        if self.laggard == "last":
            laggard, other = other, laggard
        self.nodes = [state.leader, laggard]
        self.pause(ctx, laggard)
        wait_for(
            ctx,
            lambda: self._behind(ctx, laggard, other) >= self.records,
            timeout_ms=self.lag_ms,
            what=f"broker {laggard} is {self.records} records behind broker {other}",
            poll_s=_LOOK_S,
        )
        self.before_death(ctx, laggard)
        self.kill(ctx, state.leader)
        self.resume(ctx, laggard)
        ctx.sleep(_SETTLED_S)  # what had reached its socket is in its log now
        now = partition_state(ctx.view, self.topic, self.partition)
        behind = self._behind(ctx, laggard, other)
        self.detail |= {
            "leader": state.leader,
            "laggard": laggard,
            "other": other,
            "behind_records": behind,
            "isr": list(now.isr),
            "leader_epoch": now.leader_epoch,
        }
        self.took_hold = behind > 0 and {laggard, other} <= set(now.isr)
        return state, laggard, other

    def _behind(self, ctx: Context, laggard: int, other: int) -> int:
        end = log_end(ctx, other, self.topic, self.partition)
        return end - log_end(ctx, laggard, self.topic, self.partition)


class UnevenFailover(LaggingFollower):
    """Parameters beyond: own_records, how many the laggard must have taken as the leader; elect_ms,
    how long each election may take, and those records.

    Took hold: both elections were seen committed, the laggard died with such records, and its
    log and that of its successor had parted before. heal starts both again.
    """

    name = "uneven-failover"
    needs = LaggingFollower.needs | {Capability.LINKS}

    def read(self, params: Params) -> None:
        self.laggard = LAGGARDS[0]
        self.own_records = params.integer("own_records", 3, low=1)
        self.elect_ms = params.integer("elect_ms", 20_000, low=1)

    def before_death(self, ctx: Context, laggard: int) -> None:
        self.hold_answers(ctx, laggard, Link.INTER_BROKER)

    def apply(self, ctx: Context) -> None:
        before, laggard, other = self.leave_uneven(ctx)
        begins = self._end(ctx, laggard)
        self._await_leader(ctx, laggard, before.leader_epoch)
        wait_for(
            ctx,
            lambda: self._end(ctx, laggard) >= begins + self.own_records,
            timeout_ms=self.elect_ms,
            what=f"broker {laggard} has {self.own_records} records of its own",
            poll_s=_LOOK_S,
        )
        own = partition_state(ctx.view, self.topic, self.partition)
        self.kill(ctx, laggard)
        own_records = self._end(ctx, laggard) - begins
        behind = self._end(ctx, other) - begins
        self._await_leader(ctx, other, own.leader_epoch)
        self.let_answers(ctx, laggard, Link.INTER_BROKER)  # who dials it when it is back
        self.detail |= {"own_records": own_records, "behind_records": behind}
        self.took_hold = bool(self.took_hold) and min(own_records, behind) > 0

    def _end(self, ctx: Context, node: int) -> int:
        return log_end(ctx, node, self.topic, self.partition)

    def _await_leader(self, ctx: Context, node: int, after_epoch: int) -> None:
        def leads() -> bool:
            now = partition_state(ctx.view, self.topic, self.partition)
            return now.leader == node and now.leader_epoch > after_epoch

        wait_for(
            ctx,
            leads,
            timeout_ms=self.elect_ms,
            what=f"broker {node} leads {self.topic}-{self.partition}",
            poll_s=_LOOK_S,
        )
