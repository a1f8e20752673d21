"""``stopped-ahead``: a leader is stopped in order ahead of all others, and leads again.

    a segment of the leader has begun, and its followers have the first of it
    they fetch nothing, and the leader goes on alone
    it fetches nothing from anybody either, and is stopped: another leads, and it has cut nothing
    the followers may fetch again, and it comes back: its log is whole, and cut in its last segment
    it has caught up, and is elected

Who starts after an orderly end believes its indexes, and reads no log. What it did not read it must
not forget when it cuts: a segment whose newest time is unknown once its index was cut looks as new
as its file, and whoever asks for a time finds nothing in it and no more behind it (BIPLANE-2).

Needs a partition with a follower in sync whose leader is not the controller, and a load that writes
with acks=1. Segments have to be short (segment.ms): what is appended to a segment after the cut
tells its newest time again. So the next leader's first record must be too late for it, and the last
one of the leader alone must not (of a segment that ended before the stop the newest time is known):
between the two, most of a second, the segment has to come of age (``age_ms``).
"""

from __future__ import annotations

from typing import Final

from faults.frames import client_of
from faults.leadership import elect
from faults.observing import log_end, segment_start
from faults.params import Params
from faults.protocol import Capability, Context, Link
from faults.staged import Staged

_ROLLS_MS: Final = 3_000


class StoppedAhead(Staged):
    """Parameters: partition ("t-0"); records that the leader alone is to have; age_ms: how old its
    segment is to be first; asked_ms: how long it leads again while clients ask it; timeout_ms of
    the election.

    Took hold: it was down with records beyond its followers' logs as they were when it was stopped,
    and leads again. All ends are in ``detail``, and where its last segment began (``segment``).
    """

    name = "stopped-ahead"
    needs = frozenset(
        {
            Capability.CONTROLLED_STOP,
            Capability.FRAMES,
            Capability.ELECT_LEADERS,
            Capability.LOG_FILES,
        }
    )

    def read(self, params: Params) -> None:
        self.records = params.integer("records", 10, low=1)
        self.age_ms = params.integer("age_ms", 0, low=0)
        self.asked_ms = params.integer("asked_ms", 5_000, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)

    def apply(self, ctx: Context) -> None:
        state, followers = self.led(ctx)
        leader = state.leader
        self.nodes = [leader]
        inside = Link.INTER_BROKER
        fetchers = "|".join(client_of(node) for node in followers)
        self._await_young_segment(ctx, leader, followers)
        ctx.sleep(self.age_ms / 1000)
        alone = self.hold(ctx, "alone", "FETCH", node=leader, link=inside, client=fetchers)
        self.wait(
            ctx,
            f"broker {leader} has {self.records} records alone",
            lambda: self._end(ctx, leader) >= self._shared(ctx, followers) + self.records,
        )
        uncut = self.hold(ctx, "uncut", "FETCH", link=inside, client=client_of(leader))
        shared = self._shared(ctx, followers)
        self.stop(ctx, leader)
        self.detail |= {"leader": leader, "shared": shared, "end": self._end(ctx, leader)}
        self.detail["segment"] = segment_start(ctx, leader, *self.partition)
        self.release(ctx, alone)
        self.release(ctx, uncut)
        self.start(ctx, leader)
        self.wait(ctx, "it is in sync again", lambda: leader in self.state(ctx).isr)
        elect(ctx, {self.partition: (self.state(ctx), leader)}, self.timeout_ms)
        self.took_hold = self.detail["end"] > shared
        ctx.sleep(self.asked_ms / 1000)

    def _await_young_segment(self, ctx: Context, leader: int, followers: list[int]) -> None:
        """One begins within `_ROLLS_MS`, or segments are long, and any moment will do."""
        begun = segment_start(ctx, leader, *self.partition)
        self.comes(
            ctx,
            _ROLLS_MS,
            lambda: (
                begun < segment_start(ctx, leader, *self.partition) < self._shared(ctx, followers)
            ),
        )

    def _end(self, ctx: Context, node: int) -> int:
        return log_end(ctx, node, *self.partition)

    def _shared(self, ctx: Context, followers: list[int]) -> int:
        """Where the longest of their logs ends."""
        return max(self._end(ctx, node) for node in followers)
