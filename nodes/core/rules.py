"""The rules that decide what a broker does, gathered so that single ones can be broken.

Threads and sockets call ``rules.<name>(...)`` instead of the functions themselves. A correct broker
uses `RULES`; `nodes.mutants` replaces fields of it with wrong ones, to show that the checkers find
what such a bug does (the list of planted bugs is there, not here).

Not every rule is switchable: only those whose breaking a history can show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodes.core import acks, election, epochs, isr, planes, truncation
from nodes.core.acks import Acknowledgement
from nodes.core.errors import Errors
from nodes.core.isr import IsrState
from nodes.core.leader_and_isr import LeaderAndIsr
from nodes.core.truncation import EpochEnd, Truncation


def verifies_log_tail() -> bool:
    """After anything but a clean shutdown a log's tail may be torn: it is checked and cut."""
    return True


def appends_per_batch() -> int:
    """How often a leader writes each accepted batch. Asked once a partition, not once a request."""
    return 1


def lets_go_of_the_old() -> bool:
    """Every so often what is beyond its retention goes."""
    return True


def counts_what_remains() -> bool:
    """Who asks to go is told what it leads once others have been elected
    (KafkaController.doControlledShutdown)."""
    return True


def looks_for_what_it_missed() -> bool:
    """With a new session a broker reads what changed while it had none, and watches it again."""
    return True


def checks_controller_znode() -> bool:
    """A controller writes on condition that the znode of the controller epoch still has the version
    that its own election left there (KAFKA-6082)."""
    return True


def elected_leader_epoch(_previous: int, elected: int) -> int:
    """Each election is an epoch of its own: brokers refuse what does not raise it."""
    return elected


def tells_all_of_elections() -> bool:
    """Whoever is elected is made known to every broker, not only to the replicas."""
    return True


def registers_again() -> bool:
    """A broker whose session is over registers anew with the next one."""
    return True


def known_broker_epoch(_before: int, registered: int) -> int:
    """A broker's epoch is that of its newest registration (KIP-380)."""
    return registered


def deletion_is_complete(deleted: int, replicas: int) -> bool:
    """A topic may go when each of its replicas has answered that its log is deleted."""
    return deleted == replicas


def applies_in_spite_of(_error: Errors) -> bool:
    """A partition's new state that is answered with an error is not applied."""
    return False


def stop_deletes(asked: bool) -> bool:
    """A StopReplica takes a log with it when it says so (by partition, KIP-570), and only then."""
    return asked


def assignment_of(assignments: Mapping[str, bytes], member_id: str) -> bytes:
    """What a member of a group is given of what its leader assigned."""
    return assignments.get(member_id, b"")


def sends_isr_changes() -> bool:
    """What a leader proposes reaches the controller (AlterPartition)."""
    return True


def may_append_as_follower() -> bool:
    """Producers' records are for the leader only. Asked once a partition, not once a request."""
    return False


def skipped_offsets() -> int:
    """How far behind the offset that was asked for a consumer's answer begins. Asked once a
    partition, not once a request."""
    return 0


def loads_groups() -> bool:
    """Who becomes a coordinator reads what is known of its groups from the log."""
    return True


def offsets_commit_acks() -> int:
    """How many replicas must have a group's offsets before they are acknowledged: -1 is all."""
    return -1


def counts_diverging_fetches() -> bool:
    """A follower whose log parts from its leader's proves nothing by its fetch offset. Asked once a
    partition, not once a request."""
    return False


def is_present_generation(generation: int, present: int) -> bool:
    """Only members of a group's present generation may say anything for it (KIP-62)."""
    return generation == present


def searched_time_ms(asked_ms: int) -> int:
    """The record that is listed for a time is the first at that time or after it (KIP-79)."""
    return asked_ms


def told_epoch_end(end_offset: int, _log_end_offset: int) -> int:
    """A leader epoch ends where the next one begins, for clients as for followers (KIP-320)."""
    return end_offset


def high_watermark_at_election(high_watermark: int, _log_end_offset: int) -> int:
    """A new leader knows what is committed as far as it was told while it followed."""
    return high_watermark


def forgets_followers() -> bool:
    """Who comes to lead knows of no follower how far it is before that asks, however often it led
    before (Replica.resetReplicaState)."""
    return True


def asks_before_append() -> bool:
    """What too few replicas are in sync for is refused before it is in the log. Asked once a
    partition, not once a request."""
    return True


def goes_on_with_moves() -> bool:
    """A new controller goes on with the reassignments that it finds in ZooKeeper (KIP-455)."""
    return True


def clients_listener(asked_by: str, _inter_broker: str) -> str:
    """Whose endpoints a client is told: those of the listener that it asked by (KIP-103)."""
    return asked_by


def asks_for_all_topics(topics: Sequence[object] | None, version: int) -> bool:
    """Metadata's first version asks for all topics by naming none, later ones by null
    (MetadataRequest.isAllTopics)."""
    return topics is None or (version == 0 and not topics)


def session_timeout_ms(asked_ms: int) -> int:
    """A member of a group that says nothing for so long is none any more."""
    return asked_ms


def hands_over() -> bool:
    """What a broker leads goes to others before it may stop (KAFKA-340)."""
    return True


def keeps_producers() -> bool:
    """A new leader knows the sequences of what it took in as a follower (KIP-98)."""
    return True


def remembers_batches() -> bool:
    """And of each producer as many batches as it may have in flight (KAFKA-5494)."""
    return True


def answers_at_demotion() -> bool:
    """Who waits at a leader that now follows another is answered at once."""
    return True


def follower_log_start(_own: int, leaders: int) -> int:
    """A follower's log begins where its leader's does (KIP-107)."""
    return leaders


def low_watermark(own: int, followers: Iterable[int]) -> int:
    """Below it no live replica can be read: the least of all log starts (KIP-107)."""
    return min([own, *followers])


def holds_deletions_up(is_alive: bool) -> bool:
    """A deletion waits for live replicas alone (Partition.lowWatermarkIfLeader)."""
    return is_alive


def deletable_end(high_watermark: int, _log_end_offset: int) -> int:
    """So far records may be deleted: what is not committed may yet be cut by a new leader."""
    return high_watermark


def move_is_complete(targets: Collection[int], isr: Collection[int]) -> bool:
    """A partition has moved when all that it moves to are in sync (KIP-455)."""
    return set(targets) <= set(isr)


def forgets_at_resignation() -> bool:
    """Who coordinates a group no more knows nothing of it when it does so again."""
    return True


def tells_all_to_who_comes() -> bool:
    """A broker that registers is told of all partitions, not only of those that it has."""
    return True


def looks_for_the_dead() -> bool:
    """Who takes office takes those who are gone out of all in-sync sets: nobody else tells it."""
    return True


def awaits_duplicates() -> bool:
    """A batch that is in the log already is acknowledged when it is replicated, as any other."""
    return True


def commits_below_min_isr() -> bool:
    """While too few are in sync the high watermark stays where it is (KIP-966)."""
    return False


def heartbeats_count() -> bool:
    """A member's heartbeats keep its session alive (KIP-62)."""
    return True


def erases_on_load() -> bool:
    """Who becomes a coordinator knows nothing of what was erased: records without a value."""
    return True


def groups_upto(_high_watermark: int, log_end_offset: int) -> int:
    """Who becomes a coordinator reads its whole log: of what its predecessor acknowledged the last
    may lie above the high watermark that it knows."""
    return log_end_offset


def deletes_settings() -> bool:
    """A topic that is deleted takes its configuration with it: the next of its name has its own."""
    return True


def replicas_after_move(targets: tuple[int, ...]) -> tuple[int, ...]:
    """A move ends with the replicas that were asked for, in their order (KIP-455)."""
    return targets


def knows_its_end(high_watermark: int, leader_epoch_start: int) -> bool:
    """A new leader knows what is committed once its high watermark has come to the start of its own
    leader epoch, and tells no client its end before (KIP-207)."""
    return high_watermark >= leader_epoch_start


def epoch_answered_for(found: int, _asked: int) -> int:
    """Who is asked where a leader epoch ends that its log never had answers for the newest before
    it, and says so (KIP-279)."""
    return found


def looks_at_all_who_wait() -> bool:
    """Whoever waits for a partition is looked at when something changed there: one that waits for
    another partition as well keeps nobody behind it waiting. Asked once a broker."""
    return True


def is_out_of_range(offset: int, log_start: int, log_end: int) -> bool:
    """Who asks for what is not in the log any more, or not yet, is to look where it begins."""
    return not log_start <= offset <= log_end


def notes_epoch_at_election() -> bool:
    """A new leader knows its leader epoch, and where that begins, before its first record
    (KIP-101)."""
    return True


def awaits_beside_refusals() -> bool:
    """What one partition of a request refuses does not acknowledge what the others have yet to
    replicate (ReplicaManager.delayedProduceRequestRequired)."""
    return True


def tells_producer_epochs_apart() -> bool:
    """A batch that has the sequences of one of another producer epoch is another batch
    (ProducerStateEntry.findDuplicateBatch)."""
    return True


def keeps_overrides() -> bool:
    """New settings of a broker are no topic's whose own say otherwise (DynamicLogConfig)."""
    return True


def fails_when_bounced() -> bool:
    """Who ended and began anew unseen is taken for one that failed, and then for one that started
    (KIP-380)."""
    return True


def erases_what_expires() -> bool:
    """A position that is too old goes from the log as well, so that no other coordinator reads it
    there (GroupMetadataManager.cleanupGroupMetadata)."""
    return True


def wakes_who_waits() -> bool:
    """A consumer that waits for records is answered when they are committed, not when its time is
    up (DelayedFetch)."""
    return True


def calls_off_moves() -> bool:
    """A move that is called off leaves the replicas that there were (KIP-455)."""
    return True


def lists_moves() -> bool:
    """Who asks for all that is being moved is told of all of it (ListPartitionReassignments)."""
    return True


def takes_in_what_is_kept() -> bool:
    """A group has a position once all in sync have it, and whoever asks is told the one before
    until then (GroupMetadata.onOffsetCommitAppend)."""
    return True


def lets_go() -> bool:
    """Who leaves a group is no member of it from then on, however long its session would last."""
    return True


def tells_of_rebalances() -> bool:
    """Members hear by their next heartbeats that their group comes together anew (KIP-62)."""
    return True


def commits_until_joined() -> bool:
    """A member may commit what it has read until it joins anew (GroupCoordinator.doCommitOffsets,
    PreparingRebalance)."""
    return True


def forgets_with_topics() -> bool:
    """Positions in a topic go with it: its namesake is another
    (GroupCoordinator.handleDeletedPartitions)."""
    return True


def goes_on_with_deletions() -> bool:
    """A new controller goes on with the deletions that it finds in ZooKeeper
    (KafkaController.onControllerFailover, TopicDeletionManager.tryTopicDeletion)."""
    return True


def goes_on_for_who_comes() -> bool:
    """A deletion goes on when a broker comes back that it waited for
    (KafkaController.onBrokerStartup)."""
    return True


def goes_on_after_moves() -> bool:
    """A deletion goes on when a move is over that it waited for
    (KafkaController.onPartitionReassignment, TopicDeletionManager.resumeDeletionForTopics)."""
    return True


def tries_new_ones() -> bool:
    """As brokers come and go, partitions that never had a leader are tried like those that lost it
    (PartitionStateMachine.triggerOnlinePartitionStateChange)."""
    return True


def heeds_what_is_allowed() -> bool:
    """Where nobody leads, an unclean election that is allowed now is held now
    (KafkaController.processTopicUncleanLeaderElectionEnable)."""
    return True


def gives_up_requests() -> bool:
    """Who gives a broker up does not wait for what it was asked last (KAFKA-6846,
    RequestSendThread.initiateShutdown)."""
    return True


def frees_who_syncs() -> bool:
    """Who waits for its part is told to join anew when a member goes: that may be the one who was
    to assign (GroupCoordinator.removeMemberAndUpdateGroup)."""
    return True


def keeps_who_came_back() -> bool:
    """The new id of a member that came back in its own name is in the log before the member is told
    (KAFKA-10284, GroupCoordinator.updateStaticMemberAndRebalance)."""
    return True


def asks_again_who_has_not_heard() -> bool:
    """A leader that has not heard of its leader epoch yet will: its follower asks it again
    (KIP-320, UNKNOWN_LEADER_EPOCH)."""
    return True


def next_generation(present: int, _anybody_is_new: bool) -> int:
    """Each time a group comes together anew it is of a later generation
    (GroupMetadata.initNextGeneration)."""
    return present + 1


def chosen_protocol(offers: Sequence[Sequence[str]]) -> str:
    """Of what each member would have, in its own order: each votes for the first that all offer
    (GroupMetadata.selectProtocol)."""
    common = set(offers[0]).intersection(*offers)
    votes = Counter(next(name for name in offered if name in common) for offered in offers)
    return votes.most_common(1)[0][0]


def loaded_generation(stored: int) -> int:
    """A group goes on in the generation in which it was kept, whoever coordinates it
    (GroupMetadata.loadGroup)."""
    return stored


def watches_who_is_loaded() -> bool:
    """Each member of a group that comes to a coordinator has its session anew from then on
    (GroupCoordinator.onGroupLoaded)."""
    return True


def deadlines_end() -> bool:
    """The time to join anew ends with the rebalance that it is of (DelayedJoin)."""
    return True


def ack_wait_ms(asked_ms: int) -> int:
    """acks=all waits for as long as its request allows (DelayedProduce)."""
    return asked_ms


def halts_without_disks() -> bool:
    """Who has no log directory left ends at once (KIP-112, LogManager.handleLogDirFailure)."""
    return True


def first_in_sync(live: tuple[int, ...], _replicas: tuple[int, ...]) -> tuple[int, ...]:
    """A new partition's first in-sync set is who lives of its replicas
    (ZkPartitionStateMachine.initializeLeaderAndIsrForPartitions)."""
    return live


def is_under_replicated(in_sync: int, assigned: int) -> bool:
    """A leader counts those of its partitions of which a replica is not in sync: what operators
    are woken by (ReplicaManager's UnderReplicatedPartitions)."""
    return in_sync < assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Each field is a function of `nodes.core`; its docstring is there."""

    broker_epoch_is_stale: Callable[[int, int], bool] = epochs.broker_epoch_is_stale
    controller_epoch_is_stale: Callable[[int, int], bool] = epochs.controller_epoch_is_stale
    metadata_epoch_is_stale: Callable[[int, int], bool] = epochs.metadata_epoch_is_stale
    leader_and_isr_error: Callable[[int, int], Errors] = epochs.leader_and_isr_error
    stop_replica_error: Callable[[int, int], Errors] = epochs.stop_replica_error
    client_epoch_error: Callable[[int, int], Errors] = epochs.client_epoch_error
    may_join_isr: Callable[[int, int, int], bool] = isr.may_join_isr
    acknowledgement: Callable[[int, int, int, int], Acknowledgement] = acks.acknowledgement
    acknowledgement_after_demotion: Callable[[], Acknowledgement] = (
        acks.acknowledgement_after_demotion
    )
    leader_high_watermark: Callable[..., int] = isr.leader_high_watermark
    follower_high_watermark: Callable[[int, int, int], int] = isr.follower_high_watermark
    effective_min_isr: Callable[[int, int], int] = acks.effective_min_isr
    readable_end: Callable[[bool, int, int], int] = acks.readable_end
    awaited_end: Callable[[bool, int, int], int] = acks.readable_end
    truncation_for: Callable[[EpochEnd, EpochEnd, int, int], Truncation] = truncation.truncation_for
    asks_leader_for_divergence: Callable[[], bool] = truncation.asks_leader_for_divergence
    """False makes followers cut at their high watermark without asking (before KIP-101)."""
    verifies_log_tail: Callable[[], bool] = verifies_log_tail
    appends_per_batch: Callable[[], int] = appends_per_batch
    checks_controller_znode: Callable[[], bool] = checks_controller_znode
    controllers_listener: Callable[[str, str | None], str] = planes.controllers_listener
    replication_listener: Callable[[str, str | None], str] = planes.replication_listener
    elect_for_offline: Callable[..., LeaderAndIsr | None] = election.elect_for_offline
    elect_preferred: Callable[..., LeaderAndIsr | None] = election.elect_preferred
    elect_for_controlled_shutdown: Callable[..., LeaderAndIsr | None] = (
        election.elect_for_controlled_shutdown
    )
    elected_leader_epoch: Callable[[int, int], int] = elected_leader_epoch
    tells_all_of_elections: Callable[[], bool] = tells_all_of_elections
    registers_again: Callable[[], bool] = registers_again
    known_broker_epoch: Callable[[int, int], int] = known_broker_epoch
    deletion_is_complete: Callable[[int, int], bool] = deletion_is_complete
    applies_in_spite_of: Callable[[Errors], bool] = applies_in_spite_of
    stop_deletes: Callable[[bool], bool] = stop_deletes
    without_replica: Callable[[LeaderAndIsr, int], LeaderAndIsr] = election.without_replica
    assignment_of: Callable[[Mapping[str, bytes], str], bytes] = assignment_of
    sends_isr_changes: Callable[[], bool] = sends_isr_changes
    may_append_as_follower: Callable[[], bool] = may_append_as_follower
    skipped_offsets: Callable[[], int] = skipped_offsets
    loads_groups: Callable[[], bool] = loads_groups
    keeps_producers: Callable[[], bool] = keeps_producers
    remembers_batches: Callable[[], bool] = remembers_batches
    awaits_commit: Callable[[int], bool] = acks.awaits_commit
    offsets_commit_acks: Callable[[], int] = offsets_commit_acks
    counts_diverging_fetches: Callable[[], bool] = counts_diverging_fetches
    hands_over: Callable[[], bool] = hands_over
    high_watermark_at_election: Callable[[int, int], int] = high_watermark_at_election
    forgets_followers: Callable[[], bool] = forgets_followers
    asks_before_append: Callable[[], bool] = asks_before_append
    goes_on_with_moves: Callable[[], bool] = goes_on_with_moves
    clients_listener: Callable[[str, str], str] = clients_listener
    asks_for_all_topics: Callable[[Sequence[object] | None, int], bool] = asks_for_all_topics
    session_timeout_ms: Callable[[int], int] = session_timeout_ms
    out_of_sync: Callable[..., frozenset[int]] = isr.out_of_sync
    proposing_expansion: Callable[[IsrState, int], IsrState] = isr.proposing_expansion
    proposing_shrink: Callable[[IsrState, Iterable[int]], IsrState] = isr.proposing_shrink
    is_present_generation: Callable[[int, int], bool] = is_present_generation
    searched_time_ms: Callable[[int], int] = searched_time_ms
    told_epoch_end: Callable[[int, int], int] = told_epoch_end
    answers_at_demotion: Callable[[], bool] = answers_at_demotion
    commits_below_min_isr: Callable[[], bool] = commits_below_min_isr
    heartbeats_count: Callable[[], bool] = heartbeats_count
    erases_on_load: Callable[[], bool] = erases_on_load
    follower_log_start: Callable[[int, int], int] = follower_log_start
    low_watermark: Callable[[int, Iterable[int]], int] = low_watermark
    holds_deletions_up: Callable[[bool], bool] = holds_deletions_up
    deletable_end: Callable[[int, int], int] = deletable_end
    awaits_duplicates: Callable[[], bool] = awaits_duplicates
    awaits_beside_refusals: Callable[[], bool] = awaits_beside_refusals
    tells_producer_epochs_apart: Callable[[], bool] = tells_producer_epochs_apart
    keeps_overrides: Callable[[], bool] = keeps_overrides
    fails_when_bounced: Callable[[], bool] = fails_when_bounced
    is_out_of_range: Callable[[int, int, int], bool] = is_out_of_range
    notes_epoch_at_election: Callable[[], bool] = notes_epoch_at_election
    wakes_who_waits: Callable[[], bool] = wakes_who_waits
    erases_what_expires: Callable[[], bool] = erases_what_expires
    calls_off_moves: Callable[[], bool] = calls_off_moves
    lists_moves: Callable[[], bool] = lists_moves
    takes_in_what_is_kept: Callable[[], bool] = takes_in_what_is_kept
    lets_go: Callable[[], bool] = lets_go
    tells_of_rebalances: Callable[[], bool] = tells_of_rebalances
    commits_until_joined: Callable[[], bool] = commits_until_joined
    forgets_with_topics: Callable[[], bool] = forgets_with_topics
    goes_on_with_deletions: Callable[[], bool] = goes_on_with_deletions
    goes_on_for_who_comes: Callable[[], bool] = goes_on_for_who_comes
    goes_on_after_moves: Callable[[], bool] = goes_on_after_moves
    tries_new_ones: Callable[[], bool] = tries_new_ones
    heeds_what_is_allowed: Callable[[], bool] = heeds_what_is_allowed
    gives_up_requests: Callable[[], bool] = gives_up_requests
    frees_who_syncs: Callable[[], bool] = frees_who_syncs
    keeps_who_came_back: Callable[[], bool] = keeps_who_came_back
    asks_again_who_has_not_heard: Callable[[], bool] = asks_again_who_has_not_heard
    loaded_generation: Callable[[int], int] = loaded_generation
    next_generation: Callable[[int, bool], int] = next_generation
    chosen_protocol: Callable[[Sequence[Sequence[str]]], str] = chosen_protocol
    watches_who_is_loaded: Callable[[], bool] = watches_who_is_loaded
    deadlines_end: Callable[[], bool] = deadlines_end
    first_in_sync: Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = first_in_sync
    is_under_replicated: Callable[[int, int], bool] = is_under_replicated
    looks_for_the_dead: Callable[[], bool] = looks_for_the_dead
    forgets_at_resignation: Callable[[], bool] = forgets_at_resignation
    tells_all_to_who_comes: Callable[[], bool] = tells_all_to_who_comes
    move_is_complete: Callable[[Collection[int], Collection[int]], bool] = move_is_complete
    groups_upto: Callable[[int, int], int] = groups_upto
    deletes_settings: Callable[[], bool] = deletes_settings
    replicas_after_move: Callable[[tuple[int, ...]], tuple[int, ...]] = replicas_after_move
    knows_its_end: Callable[[int, int], bool] = knows_its_end
    epoch_answered_for: Callable[[int, int], int] = epoch_answered_for
    looks_at_all_who_wait: Callable[[], bool] = looks_at_all_who_wait
    ack_wait_ms: Callable[[int], int] = ack_wait_ms
    halts_without_disks: Callable[[], bool] = halts_without_disks
    lets_go_of_the_old: Callable[[], bool] = lets_go_of_the_old
    looks_for_what_it_missed: Callable[[], bool] = looks_for_what_it_missed
    counts_what_remains: Callable[[], bool] = counts_what_remains
    mutes_who_waits: Callable[[], bool] = planes.mutes_who_waits
    measures_own_plane: Callable[[], bool] = planes.measures_own_plane
    hears_until_relieved: Callable[[], bool] = planes.hears_until_relieved


RULES = Rules()
