"""What a comparison's page has to say: its tables, line by line, and what stands behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from harness.report import units

Format = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: figure ``name`` of the rounds of scenario ``of``. ``said``: put into a
    sentence as well. ``floor``: only of use when no round was played without its flood."""

    label: str
    of: str
    name: str
    write: Format
    said: bool = False
    floor: bool = False


def _per_s(value: float | None) -> str:
    return units.count(None if value is None else round(value))


_FLOOD, _ACKS1 = "request-flood", "acks1-truncation"
_LEADER, _DELETION = "leader-unavailability", "topic-deletion"

TABLES: Final[Mapping[str, tuple[str, tuple[Line, ...]]]] = {
    "Control requests": (
        "Round trip of a control request to the flooded broker, sent on a clock and counted from "
        "its planned time.",
        (
            Line("p50", _FLOOD, "flooded_p50_ms", units.ms, said=True),
            Line("p99", _FLOOD, "flooded_p99_ms", units.ms, said=True),
            Line("max", _FLOOD, "flooded_max_ms", units.ms),
            Line("before the flood, p50", _FLOOD, "before_p50_ms", units.ms, floor=True),
            Line("before the flood, p99", _FLOOD, "before_p99_ms", units.ms, floor=True),
            Line("controller's own, p50", _FLOOD, "round_trip_p50_ms", units.ms),
            Line("controller's own, p99", _FLOOD, "round_trip_p99_ms", units.ms),
            Line("controller's own, max", _FLOOD, "round_trip_max_ms", units.ms),
        ),
    ),
    "Stale metadata": (
        "From the commit of a leader until brokers told clients of it (summed over brokers and "
        "partitions), and until it was in a broker's cache. In the first scenario leaders move "
        "between brokers that are not flooded; in the second the flooded broker is demoted.",
        (
            Line("brokers behind, summed", _FLOOD, "stale_time_ms", units.ms, said=True),
            Line("stale answers", _FLOOD, "stale_share", units.share),
            Line("commit to cache, flooded broker, p50", _FLOOD, "there_p50_ms", units.ms, True),
            Line("commit to cache, flooded broker, p99", _FLOOD, "there_p99_ms", units.ms),
            Line("commit to cache, others, p50", _FLOOD, "elsewhere_p50_ms", units.ms, True),
            Line("commit to cache, others, p99", _FLOOD, "elsewhere_p99_ms", units.ms),
            Line("commit to cache, all, p50", _FLOOD, "propagation_p50_ms", units.ms),
            Line("commit to cache, all, p99", _FLOOD, "propagation_p99_ms", units.ms),
            Line("demoted: brokers behind, summed", _ACKS1, "stale_time_ms", units.ms),
            Line("demoted: commit to cache, p99", _ACKS1, "propagation_p99_ms", units.ms),
        ),
    ),
    "Records lost although acknowledged with acks=1": (
        "The flooded broker is demoted while producers write to it. Avoidable: appended after the "
        "LeaderAndIsr had been sent to it. Lawful lag: appended before the next leader was "
        "committed; no control plane can change that.",
        (
            Line("avoidable", _ACKS1, "avoidable", units.count, said=True),
            Line("within the clocks' error of it", _ACKS1, "edge", units.count),
            Line("lawful lag", _ACKS1, "before_commit", units.count, said=True),
            Line("lost in all", _ACKS1, "lost", units.count),
            Line("lost outside every truncation", _ACKS1, "lost_uncut", units.count),
            Line("acknowledged", _ACKS1, "acked_1", units.count),
            Line("cut off by brokers, their own lines", _ACKS1, "cut_records", units.count),
        ),
    ),
    "Recovery of a leaderless partition": (
        "A leader is killed and the flooded broker is the next one. From the commit of the new "
        "leader until it said that it leads, and until a produce was acknowledged there.",
        (
            Line("the new leader leads, p50", _LEADER, "leader_ready_p50_ms", units.ms, said=True),
            Line("the new leader leads, max", _LEADER, "leader_ready_max_ms", units.ms),
            Line(
                "first produce, acks=1, p50",
                _LEADER,
                "first_produce_acks_1_p50_ms",
                units.ms,
                said=True,
            ),
            Line("first produce, acks=1, max", _LEADER, "first_produce_acks_1_max_ms", units.ms),
            Line(
                "first produce, acks=all, p50",
                _LEADER,
                "first_produce_acks_all_p50_ms",
                units.ms,
                said=True,
            ),
            Line(
                "first produce, acks=all, max", _LEADER, "first_produce_acks_all_max_ms", units.ms
            ),
        ),
    ),
    "A leader that moves away from the flooded broker": (
        "From the commit of the new leader, which is not flooded, to its first acknowledged "
        "produce (acks=1): until the producer is refused by the old one and finds the new one.",
        (
            Line("first produce, p50", _ACKS1, "first_produce_p50_ms", units.ms, said=True),
            Line("first produce, max", _ACKS1, "first_produce_max_ms", units.ms),
        ),
    ),
    "Topic deletion": (
        "Topics of 5 partitions with a replica on every broker, one after the other. From the "
        "request (/admin/delete_topics) until the topic's znode is gone, and until the last "
        "replica had put its log aside; both by the servers' own clocks.",
        (
            Line("gone, p50", _DELETION, "deletion_p50_ms", units.ms, said=True),
            Line("gone, max", _DELETION, "deletion_max_ms", units.ms),
            Line("last replica stopped, p50", _DELETION, "stopped_p50_ms", units.ms, said=True),
            Line("last replica stopped, max", _DELETION, "stopped_max_ms", units.ms),
            Line("deletions", _DELETION, "deletions", units.count),
        ),
    ),
    "Throughput": (
        "Requests a second that the flood got answered (20 partitions each).",
        (
            Line("request-flood", _FLOOD, "flood_per_s", _per_s, said=True),
            Line("acks1-truncation", _ACKS1, "flood_per_s", _per_s),
            Line("leader-unavailability", _LEADER, "flood_per_s", _per_s),
            Line("topic-deletion", _DELETION, "flood_per_s", _per_s),
        ),
    ),
}

BEHIND: Final = (
    "- The flood: 640 connections, dialled beforehand, each with one produce request of 20 "
    "partitions in flight, acks=1, at one broker whose queue holds 500 requests. Fewer "
    "connections, lighter requests or acks=all with replicas leave the queue half empty and show "
    "nothing.",
    "- With one queue a control request waits for the whole of it: queued requests over requests "
    "handled a second. What is left with a queue of its own is the request's own work and the "
    "competition for processors.",
    "- The controller's own requests go to all brokers, two of which are not flooded: their "
    "medians say little.",
    "- Tails without a flood are the machine's: brokers run in small, freshly started virtual "
    "machines (384 MiB, first-tier compiler only) and share the processors with the load and each "
    "other.",
    "- A lost record is one that was acknowledged and is not in the final log. It agrees with the "
    "brokers' own lines when its offset lies in a range that one of them said it had truncated; a "
    "run with one that does not is `invalid`. Brokers cut more than was acknowledged: answers "
    "that never arrived.",
    "- Appended when: the record's own log append time, milliseconds, tied to the monotonic clock "
    "with its error (run.json); what lies within the error of the sending is counted apart.",
    "- A produce to a flooded leader waits in its data queue in either mode, and one with acks=all "
    "waits there once more for the follower's fetch: a control plane of its own does not carry "
    "them.",
    "- Times of Kafka's own lines are whole milliseconds of the wall clock; commits are dated by a "
    "watch on ZooKeeper, never before they happened and a few milliseconds later at most.",
)
