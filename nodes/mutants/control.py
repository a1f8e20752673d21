"""Planted bugs: what controllers decide, whom they tell, and by which way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from nodes.core.leader_and_isr import LeaderAndIsr
from nodes.core.rules import RULES
from nodes.mutants.model import Mutant, no


def _inter_broker_for_clients(_asked_by: str, inter_broker: str) -> str:
    return inter_broker


def _all_by_null(topics: Sequence[object] | None, _version: int) -> bool:
    return topics is None


def _after_the_first(deleted: int, _replicas: int) -> bool:
    return deleted > 0


def _unclean(
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live_replicas: Collection[int],
    *,
    unclean_allowed: bool,
) -> LeaderAndIsr | None:
    del unclean_allowed
    return RULES.elect_for_offline(state, assignment, live_replicas, unclean_allowed=True)


def _left_in_sync(state: LeaderAndIsr, replica: int) -> LeaderAndIsr:
    leader = -1 if replica == state.leader else state.leader
    return state.new_leader_and_isr(leader, state.isr)


def _handed_over_in_sync(
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live_or_shutting_down_replicas: Collection[int],
    shutting_down_brokers: Collection[int],
) -> LeaderAndIsr | None:
    elected = RULES.elect_for_controlled_shutdown(
        state, assignment, live_or_shutting_down_replicas, shutting_down_brokers
    )
    return None if elected is None else state.new_leader_and_isr(elected.leader, state.isr)


def _by_id(targets: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(targets))


def _always_inter_broker(inter_broker: str, _control_plane: str | None) -> str:
    return inter_broker


def _control_plane_too(inter_broker: str, control_plane: str | None) -> str:
    return control_plane or inter_broker


def _first_live(
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live_replicas: Collection[int],
    *,
    unclean_allowed: bool,
) -> LeaderAndIsr | None:
    del unclean_allowed
    leader = next((replica for replica in assignment if replica in live_replicas), None)
    if leader is None:
        return None
    isr = {replica for replica in state.isr if replica in live_replicas}
    return state.new_leader_and_isr(leader, tuple(sorted({leader, *isr})))


def _first_if_live(
    state: LeaderAndIsr, assignment: Sequence[int], live_replicas: Collection[int]
) -> LeaderAndIsr | None:
    preferred = assignment[0]
    return state.new_leader(preferred) if preferred in live_replicas else None


def _moved_at_once(_targets: Collection[int], _isr: Collection[int]) -> bool:
    return True


def _epoch_of_before(previous: int, _elected: int) -> int:
    return previous


def _at_once(_deleted: int, _replicas: int) -> bool:
    return True


def _last_in_order(
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live_replicas: Collection[int],
    *,
    unclean_allowed: bool,
) -> LeaderAndIsr | None:
    backwards = tuple(reversed(assignment))
    return RULES.elect_for_offline(state, backwards, live_replicas, unclean_allowed=unclean_allowed)


def _all_of_them(_live: tuple[int, ...], replicas: tuple[int, ...]) -> tuple[int, ...]:
    return replicas


CONTROL: Final = (
    Mutant(
        name="bypass-control-listener",
        says="a controller talks to the inter-broker listener although there is a control listener",
        stands_for="KAFKA-4453 (KIP-291): control requests wait behind the data again",
        scenario="log-recovery",
        found_by="planes",
        rule="control-request-on-data-plane",
        breaks={"controllers_listener": _always_inter_broker},
    ),
    Mutant(
        name="fetch-from-control-listener",
        says="followers fetch from their leader's control listener",
        stands_for="KAFKA-4453 (KIP-291): data on the control plane",
        scenario="log-recovery",
        found_by="planes",
        rule="data-on-control-plane",
        breaks={"replication_listener": _control_plane_too},
    ),
    Mutant(
        name="forget-replicas-of-deleted",
        says="a topic that is to be deleted is gone before its replicas are told to stop",
        stands_for="KAFKA-330: a topic is deleted when all of its replicas are",
        scenario="topic-deletion",
        found_by="recovery",
        rule="left-behind",
        breaks={"deletion_is_complete": _at_once},
    ),
    Mutant(
        name="tell-no-one-of-elections",
        says="brokers are not told of elections by UpdateMetadata",
        stands_for="KAFKA-9212: brokers are left with the leader epoch of before",
        scenario="request-flood",
        found_by="stale-metadata",
        rule="metadata-never-converged",
        breaks={"tells_all_of_elections": no},
    ),
    Mutant(
        name="reuse-leader-epoch",
        says="an election does not raise the leader epoch",
        stands_for="KAFKA-15109: brokers ignore a state whose leader epoch was not bumped",
        scenario="broker-restart",
        found_by="epochs",
        rule="two-leaders-in-epoch",
        breaks={"elected_leader_epoch": _epoch_of_before},
    ),
    Mutant(
        name="elect-outside-isr",
        says="the first live replica of the assignment is elected, in sync or not",
        stands_for="KAFKA-1028: unclean elections where they are switched off",
        scenario="returning-follower",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"elect_for_offline": _first_live},
    ),
    Mutant(
        name="elect-any-preferred",
        says="a preferred election does not ask whether the preferred replica is in sync",
        stands_for="KIP-183: a preferred leader that is not in sync is not available",
        scenario="returning-leader",
        found_by="epochs",
        rule="unclean-election",
        breaks={"elect_preferred": _first_if_live},
    ),
    Mutant(
        name="forget-the-dead-at-failover",
        says="who takes office does not look whether those who are in sync live",
        stands_for="KAFKA-3083: a partition that a succession of controllers leaves as it was",
        scenario="controller-death",
        found_by="departures",
        rule="dead-in-sync",
        breaks={"looks_for_the_dead": no},
    ),
    Mutant(
        name="move-at-once",
        says="a partition that moves drops its old replicas before the new ones are in sync",
        stands_for="KIP-455: a reassignment ends when all of its targets are in sync",
        scenario="reassignment",
        found_by="epochs",
        rule="moved-before-in-sync",
        breaks={"move_is_complete": _moved_at_once},
    ),
    Mutant(
        name="tell-who-comes-of-its-own-alone",
        says="a broker that comes back is told of the partitions that it has, and of no others",
        stands_for="KAFKA-9839: a broker's metadata stays behind after it has registered",
        scenario="broker-restart",
        found_by="whole-metadata",
        rule="metadata-forgot",
        breaks={"tells_all_to_who_comes": no},
    ),
    Mutant(
        name="stop-without-handing-over",
        says="a broker that stops in order is told that it may, and leads until it is gone",
        stands_for="KAFKA-340: a controlled shutdown moves leaders first",
        scenario="broker-restart",
        found_by="handing-over",
        rule="left-leading",
        breaks={"hands_over": no},
    ),
    Mutant(
        name="gone-at-first-answer",
        says="a topic is gone when the first broker has answered that it deleted its replicas",
        stands_for="KAFKA-330: a topic is deleted when all of its replicas are",
        scenario="topic-deletion",
        found_by="topic-deletion",
        rule="gone-before-stopped",
        breaks={"deletion_is_complete": _after_the_first},
    ),
    Mutant(
        name="elect-when-none-is-in-sync",
        says="where nobody in sync lives, whoever lives is elected",
        stands_for="KIP-106: unclean leader elections are off unless a topic allows them",
        scenario="last-in-sync",
        found_by="epochs",
        rule="unclean-election",
        breaks={"elect_for_offline": _unclean},
    ),
    Mutant(
        name="leave-the-dead-in-sync",
        says="a broker that died stays in the in-sync sets",
        stands_for="KIP-841: who is not alive may not be in sync",
        scenario="returning-follower",
        found_by="departures",
        rule="dead-in-sync",
        breaks={"without_replica": _left_in_sync},
    ),
    Mutant(
        name="forget-moves-at-failover",
        says="a new controller does not go on with the reassignments of its predecessor",
        stands_for="KIP-455: what is being moved is in ZooKeeper, for whoever is controller",
        scenario="reassignment",
        found_by="recovery",
        rule="never-ended",
        breaks={"goes_on_with_moves": no},
    ),
    Mutant(
        name="send-clients-elsewhere",
        says="clients are told the brokers' endpoints of the inter-broker listener",
        stands_for="KIP-103: a client is told endpoints of the listener that it asked by",
        scenario="broker-restart",
        found_by="whole-metadata",
        rule="named-elsewhere",
        breaks={"clients_listener": _inter_broker_for_clients},
    ),
    Mutant(
        name="show-old-clients-nothing",
        says="who asks for all topics as the oldest clients do is shown none",
        stands_for="KIP-35: a broker serves the versions that it says it serves, for as long as "
        "there are clients that know no other",
        scenario="broker-restart",
        found_by="descriptions",
        rule="versions-disagree",
        breaks={"asks_for_all_topics": _all_by_null},
    ),
    Mutant(
        name="elect-the-last-in-order",
        says="of those who live and are in sync the last assigned leads, not the first",
        stands_for="KIP-491: leaders are elected in the order of the assignment, which is how "
        "operators spread them",
        scenario="double-failover",
        found_by="epochs",
        rule="elected-out-of-order",
        breaks={"elect_for_offline": _last_in_order},
    ),
    Mutant(
        name="leave-settings-behind",
        says="a topic that is deleted leaves its configuration to the next one of its name",
        stands_for="KAFKA-330: nothing of a deleted topic stays in ZooKeeper",
        scenario="topic-deletion",
        found_by="recovery",
        rule="left-behind",
        breaks={"deletes_settings": no},
    ),
    Mutant(
        name="go-on-with-what-is-called-off",
        says="who calls a move off is told that it is, and it goes on",
        stands_for="KIP-455: a reassignment that is cancelled leaves the replicas of before",
        scenario="reassignment",
        found_by="epochs",
        rule="called-off-in-vain",
        breaks={"calls_off_moves": no},
    ),
    Mutant(
        name="move-to-the-same-set",
        says="a partition that has moved has its new replicas in the order of their ids",
        stands_for="KIP-455: the first of the replicas that are asked for is the preferred leader",
        scenario="reassignment",
        found_by="epochs",
        rule="moved-otherwise",
        breaks={"replicas_after_move": _by_id},
    ),
    Mutant(
        name="take-a-bounce-for-a-start",
        says="a broker that ended and began anew unseen is told everything, and leads on",
        stands_for="KIP-380: who bounced is taken for one that failed and then started",
        scenario="unheard-orders",
        found_by="departures",
        rule="led-on",
        breaks={"fails_when_bounced": no},
    ),
    Mutant(
        name="list-no-moves",
        says="who asks for all that is being moved is told that nothing is",
        stands_for="KIP-455: an operator sees what is under way before another move is asked for",
        scenario="reassignment",
        found_by="descriptions",
        rule="moves-otherwise",
        breaks={"lists_moves": no},
    ),
    Mutant(
        name="keep-who-stops-in-sync",
        says="a broker that stops in order hands over what it led, and stays in sync there",
        stands_for="KAFKA-340: who is shutting down leaves the in-sync sets with the lead",
        scenario="broker-restart",
        found_by="handing-over",
        rule="left-in-sync",
        breaks={"elect_for_controlled_shutdown": _handed_over_in_sync},
    ),
    Mutant(
        name="make-with-the-dead",
        says="a new partition's first in-sync set has all of its replicas, dead ones as well",
        stands_for="KIP-497: who is in sync is alive, and has all that is committed",
        scenario="topic-deletion",
        found_by="departures",
        rule="dead-made-in-sync",
        breaks={"first_in_sync": _all_of_them},
    ),
    Mutant(
        name="forget-deletions-at-failover",
        says="a new controller knows of deletions under way, and does nothing for them",
        stands_for="KAFKA-2937: topics that are marked for deletion and never go",
        scenario="topic-deletion",
        found_by="recovery",
        rule="never-ended",
        breaks={"goes_on_with_deletions": no},
    ),
    Mutant(
        name="leave-deletions-to-others",
        says="a broker that comes back is no reason to go on with the deletions that wait for it",
        stands_for="KAFKA-2937: topics that are marked for deletion and never go",
        scenario="topic-deletion",
        found_by="topic-deletion",
        rule="deletion-stalled",
        breaks={"goes_on_for_who_comes": no},
    ),
    Mutant(
        name="halt-deletions-for-good",
        says="a deletion that waits for the end of a move does not go on then",
        stands_for="KAFKA-2937: topics that are marked for deletion and never go",
        scenario="reassignment",
        found_by="recovery",
        rule="never-ended",
        breaks={"goes_on_after_moves": no},
    ),
    Mutant(
        name="leave-who-never-led-alone",
        says="a broker that comes is no reason to look for partitions that never had a leader",
        stands_for="KIP-4: who makes a topic may wait until each of its partitions has a leader",
        scenario="topic-deletion",
        found_by="epochs",
        rule="made-without-leader",
        breaks={"tries_new_ones": no},
    ),
    Mutant(
        name="ignore-what-is-allowed",
        says="a topic that allows unclean elections since now gets none until something happens",
        stands_for="KAFKA-6835: unclean elections that are allowed while a controller is in office",
        scenario="last-in-sync",
        found_by="epochs",
        rule="allowed-and-not-led",
        breaks={"heeds_what_is_allowed": no},
    ),
    Mutant(
        name="give-up-on-who-has-not-heard",
        says="a follower follows no more whom it asks before that one has heard that it leads",
        stands_for="KIP-320: UNKNOWN_LEADER_EPOCH passes, and is a reason to ask again",
        scenario="unheard-orders",
        found_by="recovery",
        rule="not-accepted",
        breaks={"asks_again_who_has_not_heard": no},
    ),
    Mutant(
        name="answer-out-of-turn",
        says="a connection is read on while its request is under way, so that answers overtake",
        stands_for="KAFKA-5494: requests in flight on a connection are handled in order",
        scenario="reassignment",
        found_by="administration",
        rule="answered-out-of-turn",
        breaks={"mutes_who_waits": no},
    ),
    Mutant(
        name="measure-the-other-plane",
        says="the control plane's metrics show the data plane's queue, handlers and threads",
        stands_for="KIP-291: what an operator sees of a control plane that is starved",
        scenario="request-flood",
        found_by="planes",
        rule="plane-metric-otherwise",
        breaks={"measures_own_plane": no},
    ),
    Mutant(
        name="wait-for-who-is-given-up",
        says="a controller decides about nothing until who is gone has answered, or 30 s are over",
        stands_for="KAFKA-6846: dead brokers hold up the controller's event thread for a minute",
        scenario="zombie-broker",
        found_by="departures",
        rule="dead-leads",
        breaks={"gives_up_requests": no},
    ),
    Mutant(
        name="name-what-others-lead",
        says="a broker that is stopped is told that what others lead by now remains to be moved",
        stands_for="KAFKA-340: a controlled shutdown is over when no leader remains to be moved",
        scenario="broker-restart",
        found_by="handing-over",
        rule="asked-again",
        breaks={"counts_what_remains": no},
    ),
    Mutant(
        name="hear-nothing-while-stopping",
        says="a broker that is to stop closes its control plane before it asks to be relieved",
        stands_for="KIP-291: who still leads hears that it leads no more",
        scenario="broker-restart",
        found_by="handing-over",
        rule="would-not-hear",
        breaks={"hears_until_relieved": no},
    ),
    Mutant(
        name="miss-what-changed-meanwhile",
        says="a broker whose session ended hears of no change of settings any more",
        stands_for="KIP-21: settings are changed while brokers run, and each of them goes by that",
        scenario="zombie-broker",
        found_by="records",
        rule="setting-unheeded",
        breaks={"looks_for_what_it_missed": no},
    ),
)
