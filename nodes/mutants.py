"""Planted bugs: single rules of `nodes.core.rules.Rules` swapped for wrong ones.

A checker that has never found anything proves nothing. Each mutant here is a bug that a broker
could plausibly have; in a whole run of its `scenario`, on a cluster that has it (config
``biplane.mutants``), the check named in `found_by` must find a violation, and none without it:
``biplane mutants`` plays them all. A correct broker runs `nodes.core.rules.RULES` and none of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from nodes.core.acks import ACKNOWLEDGED, Acknowledgement
from nodes.core.errors import Errors
from nodes.core.isr import FollowerState, IsrState
from nodes.core.leader_and_isr import LeaderAndIsr
from nodes.core.rules import RULES, Rules
from nodes.core.truncation import EpochEnd, Truncation


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`says`: what the bug is, for reports; `stands_for`: the bug of Kafka's, or the promise of a
    KIP, that it is modelled on; `scenario`: whose whole runs expose it; `found_by`: the check that
    must notice it there, and `rule`: how that calls it; `breaks`: which rules it replaces."""

    name: str
    says: str
    stands_for: str
    scenario: str
    found_by: str
    rule: str
    breaks: Mapping[str, Any]


class UnknownMutant(ValueError):
    """A name that is not in the registry; the message lists those that are."""


def _never_stale(_request_epoch: int, _known_epoch: int) -> bool:
    return False


def _no_epoch_error(_request_leader_epoch: int, _current_leader_epoch: int) -> Errors:
    return Errors.NONE


def _acknowledge_at_once(
    _required_offset: int, _high_watermark: int, _isr_size: int, _min_isr: int
) -> Acknowledgement:
    return ACKNOWLEDGED


def _one_is_enough(_min_insync_replicas: int, _replication_factor: int) -> int:
    return 1


def _keep_everything(
    _leader_end: EpochEnd, _own_end: EpochEnd, log_end_offset: int, _high_watermark: int
) -> Truncation:
    return Truncation(log_end_offset, True)


def _cut_to_high_watermark(
    _leader_end: EpochEnd, _own_end: EpochEnd, log_end_offset: int, high_watermark: int
) -> Truncation:
    return Truncation(min(high_watermark, log_end_offset), True)


def _no() -> bool:
    return False


def _anyone_may_join(_follower_end: int, _high_watermark: int, _epoch_start: int) -> bool:
    return True


def _read_to_the_end(_reads_log_end: bool, _high_watermark: int, log_end_offset: int) -> int:
    return log_end_offset


def _any_generation(_generation: int, _present: int) -> bool:
    return True


def _later(asked_ms: int) -> int:
    return asked_ms + 1


def _log_end(_end_offset: int, log_end_offset: int) -> int:
    return log_end_offset


def _nobody(*_: Any, **__: Any) -> frozenset[int]:
    return frozenset()


def _already_without(state: IsrState, leaving: Iterable[int]) -> IsrState:
    left = state.isr - frozenset(leaving)
    return IsrState(state.isr, left, left)


def _all_is_committed(_high_watermark: int, log_end_offset: int) -> int:
    return log_end_offset


def _inter_broker_for_clients(_asked_by: str, inter_broker: str) -> str:
    return inter_broker


def _hours(asked_ms: int) -> int:
    return asked_ms * 1000


def _first_replica() -> int:
    return 1


def _one() -> int:
    return 1


def _twice() -> int:
    return 2


def _yes() -> bool:
    return True


def _nobody_may_join(_follower_end: int, _high_watermark: int, _epoch_start: int) -> bool:
    return False


def _never_deletes(_asked: bool) -> bool:
    return False


def _always_deletes(_asked: bool) -> bool:
    return True


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


def _longest(assignments: Mapping[str, bytes], _member_id: str) -> bytes:
    return max(assignments.values(), key=len, default=b"")


def _always_inter_broker(inter_broker: str, _control_plane: str | None) -> str:
    return inter_broker


def _control_plane_too(inter_broker: str, control_plane: str | None) -> str:
    return control_plane or inter_broker


def _watermark_stays(_leader_high_watermark: int, log_start: int, _log_end: int) -> int:
    return log_start


def _fastest_follower(
    current: int,
    leader_end: int,
    followers: Iterable[tuple[FollowerState, bool, bool]],
    *,
    now_ms: int,
    lag_max_ms: int,
) -> int:
    del now_ms, lag_max_ms
    return max([current, *(min(leader_end, state.log_end_offset) for state, _, _ in followers)])


def _slowest_replica(
    current: int,
    leader_end: int,
    followers: Iterable[tuple[FollowerState, bool, bool]],
    *,
    now_ms: int,
    lag_max_ms: int,
) -> int:
    del now_ms, lag_max_ms
    return max(current, min([leader_end, *(state.log_end_offset for state, _, _ in followers)]))


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


def _epoch_of_before(previous: int, _elected: int) -> int:
    return previous


def _first_epoch(before: int, _registered: int) -> int:
    return before


def _is_another_epoch(request_broker_epoch: int, own_broker_epoch: int) -> bool:
    return request_broker_epoch not in (-1, own_broker_epoch)


def _at_once(_deleted: int, _replicas: int) -> bool:
    return True


def _if_stale(error: Errors) -> bool:
    return error is Errors.STALE_CONTROLLER_EPOCH


def _stop_with_another_error(request_leader_epoch: int, current_leader_epoch: int) -> Errors:
    error = RULES.stop_replica_error(request_leader_epoch, current_leader_epoch)
    return Errors.STALE_CONTROLLER_EPOCH if error else error


def _acknowledge_after_demotion() -> Acknowledgement:
    return ACKNOWLEDGED


_ALL: Final = (
    Mutant(
        name="skip-controller-epoch-check",
        says="LeaderAndIsr and StopReplica of a deposed controller are applied",
        stands_for="KIP-291, motivation: a zombie controller is obeyed",
        scenario="zombie-controller",
        found_by="fencing",
        rule="stale-controller-epoch-accepted",
        breaks={"controller_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="skip-broker-epoch-check",
        says="control requests for this broker's previous registration are applied",
        stands_for="KAFKA-7235 (KIP-380): a broker that bounced obeys what was sent before",
        scenario="zombie-broker",
        found_by="fencing",
        rule="stale-broker-epoch-accepted",
        breaks={"broker_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="skip-leader-epoch-check",
        says="LeaderAndIsr and StopReplica with an older leader epoch are applied",
        stands_for="KAFKA-9539 (KIP-570): a StopReplica that comes late is obeyed",
        scenario="zombie-broker",
        found_by="fencing",
        rule="stale-leader-epoch-accepted",
        breaks={"leader_and_isr_error": _no_epoch_error, "stop_replica_error": _no_epoch_error},
    ),
    Mutant(
        name="ack-before-replication",
        says="acks=all is acknowledged after the local append alone",
        stands_for="KAFKA-1555: acks=all is worth what min.insync.replicas says",
        scenario="leader-handover",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"acknowledgement": _acknowledge_at_once},
    ),
    Mutant(
        name="never-truncate",
        says="a follower keeps the records in which it differs from its leader",
        stands_for="KAFKA-6361 (KIP-279): logs diverge after a fast failover",
        scenario="leader-handover",
        found_by="replicas",
        rule="replica-differs",
        breaks={"truncation_for": _keep_everything},
    ),
    Mutant(
        name="truncate-to-high-watermark",
        says="a follower cuts at its own high watermark, as before KIP-101",
        stands_for="KAFKA-1211 (KIP-101): records lost by cutting at the high watermark",
        scenario="leader-handover",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={
            "truncation_for": _cut_to_high_watermark,
            "asks_leader_for_divergence": _no,
        },
    ),
    Mutant(
        name="no-isr-check",
        says="a follower that lags joins the ISR and may then be elected",
        stands_for="KAFKA-7128: a follower joins below the start of the leader epoch",
        scenario="returning-follower",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"may_join_isr": _anyone_may_join},
    ),
    Mutant(
        name="serve-above-high-watermark",
        says="consumers are served records that are not committed yet",
        stands_for="KAFKA-725: records beyond the high watermark are served",
        scenario="leader-handover",
        found_by="polls",
        rule="poll-went-back",
        breaks={"readable_end": _read_to_the_end},
    ),
    Mutant(
        name="stale-metadata-regress",
        says="UpdateMetadata of a deposed controller overwrites newer metadata",
        stands_for="KIP-291: an old UpdateMetadata is taken in after a newer one",
        scenario="zombie-broker",
        found_by="stale-metadata",
        rule="metadata-went-back",
        breaks={"metadata_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="drop-torn-tail-check",
        says="after a crash the log's tail is trusted instead of checked",
        stands_for="KAFKA-10471: after a crash the logs are taken for cleanly closed",
        scenario="log-recovery",
        found_by="replicas",
        rule="replica-differs",
        breaks={"verifies_log_tail": _no},
    ),
    Mutant(
        name="double-append",
        says="the leader writes every accepted batch twice",
        stands_for="KIP-98: a record that was sent once is written twice",
        scenario="log-recovery",
        found_by="records",
        rule="duplicate-append",
        breaks={"appends_per_batch": _twice},
    ),
    Mutant(
        name="skip-controller-znode-check",
        says="a controller's writes to ZooKeeper do not ask whether it was succeeded",
        stands_for="KAFKA-6082: ZooKeeper is not told which controller writes",
        scenario="controller-pause",
        found_by="succession",
        rule="decided-after-succession",
        breaks={"checks_controller_znode": _no},
    ),
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
        name="keep-follower-watermark",
        says="a follower never takes over its leader's high watermark",
        stands_for="KAFKA-9491: a follower's high watermark is left behind",
        scenario="log-recovery",
        found_by="replicas",
        rule="high-watermark-behind",
        breaks={"follower_high_watermark": _watermark_stays},
    ),
    Mutant(
        name="never-expand-isr",
        says="a follower that has caught up is not let into the ISR again",
        stands_for="KAFKA-12686: an in-sync set that cannot change any more",
        scenario="broker-restart",
        found_by="recovery",
        rule="never-in-sync",
        breaks={"may_join_isr": _nobody_may_join},
    ),
    Mutant(
        name="lose-isr-changes",
        says="a leader takes its AlterPartition for sent, and waits for the answer",
        stands_for="KAFKA-12751: an ISR change that stays in flight for ever",
        scenario="broker-restart",
        found_by="recovery",
        rule="never-in-sync",
        breaks={"sends_isr_changes": _no},
    ),
    Mutant(
        name="keep-deleted-logs",
        says="a StopReplica that deletes leaves the log where it is",
        stands_for="KAFKA-14616: stray logs of deleted topics",
        scenario="topic-deletion",
        found_by="recovery",
        rule="left-behind",
        breaks={"stop_deletes": _never_deletes},
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
        breaks={"tells_all_of_elections": _no},
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
        name="refuse-newer-broker-epoch",
        says="a broker keeps the epoch of its first registration and refuses any other",
        stands_for="KAFKA-9839: newer broker epochs are refused",
        scenario="zombie-broker",
        found_by="refusals",
        rule="current-epoch-refused",
        breaks={"broker_epoch_is_stale": _is_another_epoch, "known_broker_epoch": _first_epoch},
    ),
    Mutant(
        name="apply-what-is-refused",
        says="a LeaderAndIsr that is refused for its leader epoch is applied all the same",
        stands_for="KIP-380: a refusal must be all that comes of a stale request",
        scenario="zombie-broker",
        found_by="refusals",
        rule="refused-but-applied",
        breaks={"applies_in_spite_of": _if_stale},
    ),
    Mutant(
        name="refuse-with-another-error",
        says="a StopReplica with an old leader epoch is refused as that of an old controller",
        stands_for="KAFKA-9539 (KIP-570): FENCED_LEADER_EPOCH",
        scenario="zombie-broker",
        found_by="refusals",
        rule="refused-with-wrong-error",
        breaks={"stop_replica_error": _stop_with_another_error},
    ),
    Mutant(
        name="never-register-again",
        says="a broker whose ZooKeeper session is over does not register again",
        stands_for="KAFKA-7165: the broker znode could not be created again",
        scenario="zombie-broker",
        found_by="recovery",
        rule="never-back",
        breaks={"registers_again": _no},
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
        name="skip-an-offset",
        says="a consumer's fetch begins one offset too late",
        stands_for="KAFKA-5211: a consumer goes on behind a record that it was not given",
        scenario="log-recovery",
        found_by="polls",
        rule="poll-skipped",
        breaks={"skipped_offsets": _one},
    ),
    Mutant(
        name="ack-after-demotion",
        says="what waits for its replication is acknowledged when its leader is deposed",
        stands_for="KAFKA-9198: what waits for a leader that is one no more ends with an error",
        scenario="leader-handover",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"acknowledgement_after_demotion": _acknowledge_after_demotion},
    ),
    Mutant(
        name="append-as-follower",
        says="a leader that was deposed goes on taking records",
        stands_for="KIP-291, motivation: acks=1 records taken by a leader of the past",
        scenario="leader-handover",
        found_by="truncation-loss",
        rule="unexplained-loss",
        breaks={"may_append_as_follower": _yes},
    ),
    Mutant(
        name="commit-with-one-follower",
        says="the high watermark follows the fastest follower, not the slowest of the ISR",
        stands_for="KAFKA-1555: acks=all is worth what min.insync.replicas says",
        scenario="lagging-follower",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"leader_high_watermark": _fastest_follower},
    ),
    Mutant(
        name="ignore-min-isr",
        says="acks=all asks for one replica in sync, whatever min.insync.replicas says",
        stands_for="KAFKA-1555: acks=all is worth what min.insync.replicas says",
        scenario="isr-by-lag",
        found_by="truncation-loss",
        rule="acked-below-min-isr",
        breaks={"effective_min_isr": _one_is_enough},
    ),
    Mutant(
        name="forget-group-offsets",
        says="a new coordinator does not read its groups' offsets from the log",
        stands_for="KAFKA-2841: group metadata is not safely loaded by a new coordinator",
        scenario="group-rebalance",
        found_by="groups",
        rule="group-offset-went-back",
        breaks={"loads_groups": _no},
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
        name="count-diverging-fetch",
        says="a follower whose log parts from its leader's counts as one that holds the same",
        stands_for="KAFKA-13141: positions of diverging followers advance the high watermark",
        scenario="returning-leader",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"counts_diverging_fetches": _yes},
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
        name="list-after-a-time",
        says="the offset listed for a time is that of the first record after it",
        stands_for="KIP-79: the first record at or after a time",
        scenario="leader-handover",
        found_by="offsets",
        rule="time-otherwise",
        breaks={"searched_time_ms": _later},
    ),
    Mutant(
        name="end-past-epochs-at-the-log-end",
        says="clients are told the log's end as the end of every leader epoch",
        stands_for="KIP-320: a consumer learns from an epoch's end that its log was cut",
        scenario="leader-handover",
        found_by="offsets",
        rule="epoch-ends-otherwise",
        breaks={"told_epoch_end": _log_end},
    ),
    Mutant(
        name="never-shrink-isr",
        says="a leader keeps a follower that lags in sync for as long as it lives",
        stands_for="KIP-16: replica.lag.time.max.ms is how long a follower may lag",
        scenario="isr-by-lag",
        found_by="departures",
        rule="lagging-in-sync",
        breaks={"out_of_sync": _nobody},
    ),
    Mutant(
        name="shrink-before-it-is-agreed",
        says="a leader counts on a smaller in-sync set as soon as it has asked for it",
        stands_for="KIP-497: until the controller has agreed, those who are to leave count",
        scenario="isr-by-lag",
        found_by="truncation-loss",
        rule="acked-without-in-sync",
        breaks={"proposing_shrink": _already_without},
    ),
    Mutant(
        name="stop-without-handing-over",
        says="a broker that stops in order is told that it may, and leads until it is gone",
        stands_for="KAFKA-340: a controlled shutdown moves leaders first",
        scenario="broker-restart",
        found_by="handing-over",
        rule="left-leading",
        breaks={"hands_over": _no},
    ),
    Mutant(
        name="forget-producers",
        says="a new leader knows nothing of the sequences that it replicated",
        stands_for="KIP-98: an idempotent producer's retry is written once",
        scenario="group-rebalance",
        found_by="records",
        rule="idempotent-duplicate",
        breaks={"keeps_producers": _no},
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
        name="delete-at-every-stop",
        says="a StopReplica deletes the log, whether it says so or not",
        stands_for="KIP-570: each partition of a StopReplica says whether it is to be deleted",
        scenario="broker-restart",
        found_by="replicas",
        rule="log-went-back",
        breaks={"stop_deletes": _always_deletes},
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
        name="assign-the-same-to-all",
        says="all members of a group are given the same partitions",
        stands_for="KIP-62: a partition is one member's at a time",
        scenario="group-rebalance",
        found_by="groups",
        rule="committed-by-two",
        breaks={"assignment_of": _longest},
    ),
    Mutant(
        name="wait-for-who-is-out",
        says="what is committed waits for every replica, in sync or not",
        stands_for="KIP-16: who lags leaves the in-sync set, so that nobody waits for it any more",
        scenario="isr-by-lag",
        found_by="departures",
        rule="held-up",
        breaks={"leader_high_watermark": _slowest_replica},
    ),
    Mutant(
        name="take-all-for-committed",
        says="a new leader takes all that its log has for committed",
        stands_for="KIP-101: a follower's log may be longer than what is committed",
        scenario="lagging-follower",
        found_by="replicas",
        rule="high-watermark-ahead",
        breaks={"high_watermark_at_election": _all_is_committed},
    ),
    Mutant(
        name="append-what-is-refused",
        says="acks=all is refused for too few replicas, and is in the log all the same",
        stands_for="KAFKA-1555: NOT_ENOUGH_REPLICAS is said before anything is appended",
        scenario="isr-by-lag",
        found_by="records",
        rule="failed-write-visible",
        breaks={"asks_before_append": _no},
    ),
    Mutant(
        name="forget-moves-at-failover",
        says="a new controller does not go on with the reassignments of its predecessor",
        stands_for="KIP-455: what is being moved is in ZooKeeper, for whoever is controller",
        scenario="reassignment",
        found_by="recovery",
        rule="never-ended",
        breaks={"goes_on_with_moves": _no},
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
        name="wait-for-who-is-gone",
        says="a member of a group that says nothing any more keeps its place for hours",
        stands_for="KIP-62: session.timeout.ms is how long a member may be silent",
        scenario="group-rebalance",
        found_by="polls",
        rule="never-delivered",
        breaks={"session_timeout_ms": _hours},
    ),
)

MUTANTS: Final[Mapping[str, Mutant]] = MappingProxyType({m.name: m for m in _ALL})


def rules_with(names: Iterable[str]) -> Rules:
    """The correct rules with the named ones broken. Later names win where two break one rule."""
    rules = RULES
    for name in names:
        mutant = MUTANTS.get(name)
        if mutant is None:
            raise UnknownMutant(f"unknown mutant {name!r}; allowed: {', '.join(MUTANTS)}")
        rules = dataclasses.replace(rules, **mutant.breaks)
    return rules
