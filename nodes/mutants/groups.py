"""Planted bugs: who is a member of a group, and what is kept for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nodes.mutants.model import Mutant, no


def _any_generation(_generation: int, _present: int) -> bool:
    return True


def _hours(asked_ms: int) -> int:
    return asked_ms * 1000


def _to_the_watermark(high_watermark: int, _log_end_offset: int) -> int:
    return high_watermark


def _first_replica() -> int:
    return 1


def _from_the_start(_stored: int) -> int:
    return 0


def _for_who_is_new(present: int, anybody_is_new: bool) -> int:
    return present + (anybody_is_new or not present)


def _longest(assignments: Mapping[str, bytes], _member_id: str) -> bytes:
    return max(assignments.values(), key=len, default=b"")


def _first_of_the_first(offers: Sequence[Sequence[str]]) -> str:
    return offers[0][0]


GROUPS: Final = (
    Mutant(
        name="forget-group-offsets",
        says="a new coordinator does not read its groups' offsets from the log",
        stands_for="KAFKA-2841: group metadata is not safely loaded by a new coordinator",
        scenario="group-rebalance",
        found_by="groups",
        rule="group-offset-went-back",
        breaks={"loads_groups": no},
    ),
    Mutant(
        name="load-groups-to-the-watermark",
        says="a new coordinator reads its groups only as far as it knows them to be committed",
        stands_for="KAFKA-2841: group metadata is not safely loaded by a new coordinator",
        scenario="group-rebalance",
        found_by="groups",
        rule="committed-offset-lost",
        breaks={"groups_upto": _to_the_watermark},
    ),
    Mutant(
        name="commit-offsets-unreplicated",
        says="a coordinator acknowledges a commit after its own append alone",
        stands_for="KAFKA-1555: what is acknowledged must survive its leader",
        scenario="group-rebalance",
        found_by="groups",
        rule="committed-offset-lost",
        breaks={"offsets_commit_acks": _first_replica},
    ),
    Mutant(
        name="tell-what-is-not-kept",
        says="a position is told of as soon as somebody asks to keep it",
        stands_for="KIP-447: who asks for positions is not told of some that are still pending",
        scenario="group-rebalance",
        found_by="groups",
        rule="shown-before-kept",
        breaks={"takes_in_what_is_kept": no},
    ),
    Mutant(
        name="obey-past-generations",
        says="a member commits for a generation of its group that is over",
        stands_for="KIP-62: ILLEGAL_GENERATION, so that nobody goes back on who came after it",
        scenario="group-rebalance",
        found_by="groups",
        rule="stranger-committed",
        breaks={"is_present_generation": _any_generation},
    ),
    Mutant(
        name="assign-the-same-to-all",
        says="all members of a group are given the same partitions",
        stands_for="KIP-62: a partition is one member's at a time",
        scenario="group-rebalance",
        found_by="groups",
        rule="committed-by-two",
        breaks={"assignment_of": _longest},
    ),
    Mutant(
        name="wait-for-who-is-gone",
        says="a member of a group that says nothing any more keeps its place for hours",
        stands_for="KIP-62: session.timeout.ms is how long a member may be silent",
        scenario="group-rebalance",
        found_by="polls",
        rule="never-delivered",
        breaks={"session_timeout_ms": _hours},
    ),
    Mutant(
        name="ignore-heartbeats",
        says="a member's heartbeats do not keep its session alive",
        stands_for="KIP-62: heartbeats, from a thread of their own, say that a member lives",
        scenario="group-rebalance",
        found_by="groups",
        rule="thrown-out",
        breaks={"heartbeats_count": no},
    ),
    Mutant(
        name="keep-what-is-erased",
        says="a new coordinator brings back groups that were deleted",
        stands_for="KIP-229: a group that is deleted is gone, with its offsets",
        scenario="group-rebalance",
        found_by="groups",
        rule="deleted-group-back",
        breaks={"erases_on_load": no},
    ),
    Mutant(
        name="erase-from-memory-alone",
        says="a position whose time is over goes from memory, and not from the log",
        stands_for="KIP-211: what is expired is gone, whoever coordinates",
        scenario="group-rebalance",
        found_by="groups",
        rule="expired-offset-back",
        breaks={"erases_what_expires": no},
    ),
    Mutant(
        name="remember-groups-of-before",
        says="who coordinates a group again goes on from what it knew when it last did",
        stands_for="KAFKA-1012: a coordinator reads what is kept from the log that it leads",
        scenario="group-rebalance",
        found_by="groups",
        rule="committed-offset-lost",
        breaks={"forgets_at_resignation": no},
    ),
    Mutant(
        name="forget-who-came-back",
        says="that a static member came back under a new id is known to its coordinator alone",
        stands_for="KAFKA-10284: a static member is fenced by the next coordinator",
        scenario="group-rebalance",
        found_by="groups",
        rule="member-fenced",
        breaks={"keeps_who_came_back": no},
    ),
    Mutant(
        name="keep-who-leaves",
        says="a member that leaves in order is told that it did, and stays until its session ends",
        stands_for="KIP-62: who leaves says so, and the others need not wait for its session's end",
        scenario="group-rebalance",
        found_by="groups",
        rule="left-and-member",
        breaks={"lets_go": no},
    ),
    Mutant(
        name="tell-nobody-of-rebalances",
        says="members are told that all is well as their group comes together anew",
        stands_for="KIP-62: members hear by their heartbeats that they have to join anew",
        scenario="group-rebalance",
        found_by="groups",
        rule="rebalance-untold",
        breaks={"tells_of_rebalances": no},
    ),
    Mutant(
        name="refuse-who-has-to-join",
        says="a member is refused commits from the moment that its group has to come together anew",
        stands_for="KIP-62: a member commits what it has read, and then joins anew",
        scenario="group-rebalance",
        found_by="groups",
        rule="commit-refused",
        breaks={"commits_until_joined": no},
    ),
    Mutant(
        name="keep-positions-of-deleted",
        says="groups keep their positions in topics that are deleted",
        stands_for="KAFKA-2000: positions of deleted topics are deleted",
        scenario="topic-deletion",
        found_by="topic-deletion",
        rule="position-outlived-topic",
        breaks={"forgets_with_topics": no},
    ),
    Mutant(
        name="forget-generations",
        says="a new coordinator takes a group's members in, and begins with generation 0",
        stands_for="KAFKA-2841: group metadata is not safely loaded by a new coordinator",
        scenario="group-rebalance",
        found_by="groups",
        rule="member-denied",
        breaks={"loaded_generation": _from_the_start},
    ),
    Mutant(
        name="keep-generations",
        says="a group that somebody leaves comes together anew in the same generation",
        stands_for="KIP-62: a rebalance raises the generation, by which the past is told apart",
        scenario="group-rebalance",
        found_by="groups",
        rule="generation-not-raised",
        breaks={"next_generation": _for_who_is_new},
    ),
    Mutant(
        name="go-by-the-first-members-favourite",
        says="a group goes by what its first member would have, whether others know it or not",
        stands_for="KAFKA-9701: members are told a protocol that they do not know "
        "(InconsistentGroupProtocolException)",
        scenario="group-rebalance",
        found_by="groups",
        rule="protocol-otherwise",
        breaks={"chosen_protocol": _first_of_the_first},
    ),
    Mutant(
        name="watch-nobody-who-is-loaded",
        says="a new coordinator waits for members that it has never heard of for as long as may be",
        stands_for="KAFKA-9752: a member whose session nobody watches is waited for without end",
        scenario="group-rebalance",
        found_by="groups",
        rule="kept-waiting",
        breaks={"watches_who_is_loaded": no},
    ),
    Mutant(
        name="leave-who-waits-for-a-part",
        says="who waits for its part hears nothing when the member who was to assign it is gone",
        stands_for="KIP-62: a member is waited for as long as its session lasts, and no longer",
        scenario="group-rebalance",
        found_by="groups",
        rule="kept-waiting",
        breaks={"frees_who_syncs": no},
    ),
    Mutant(
        name="keep-past-deadlines",
        says="the time to join anew goes on after its rebalance, and ends one that comes later",
        stands_for="KIP-62: who has to join anew has the time of its own rebalance for it",
        scenario="group-rebalance",
        found_by="groups",
        rule="put-out-too-soon",
        breaks={"deadlines_end": no},
    ),
)
