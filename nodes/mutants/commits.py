"""Planted bugs: who is in sync, what is committed, and what is acknowledged or given for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from nodes.core.acks import ACKNOWLEDGED, Acknowledgement
from nodes.core.isr import FollowerState, IsrState, out_of_sync
from nodes.mutants.model import Mutant, no


def _acknowledge_at_once(
    _required_offset: int, _high_watermark: int, _isr_size: int, _min_isr: int
) -> Acknowledgement:
    return ACKNOWLEDGED


def _one_is_enough(_min_insync_replicas: int, _replication_factor: int) -> int:
    return 1


def _anyone_may_join(_follower_end: int, _high_watermark: int, _epoch_start: int) -> bool:
    return True


def _read_to_the_end(_reads_log_end: bool, _high_watermark: int, log_end_offset: int) -> int:
    return log_end_offset


def _nobody(*_: Any, **__: Any) -> frozenset[int]:
    return frozenset()


def _already_without(state: IsrState, leaving: Iterable[int]) -> IsrState:
    left = state.isr - frozenset(leaving)
    return IsrState(state.isr, left, left)


def _as_before(state: IsrState, joining: int) -> IsrState:
    return IsrState(state.isr, state.isr, state.isr | {joining})


def _hastily(
    state: IsrState, followers: Mapping[int, FollowerState], *, lag_max_ms: int, **more: int
) -> frozenset[int]:
    return out_of_sync(state, followers, lag_max_ms=lag_max_ms // 8, **more)


def _all_is_committed(_high_watermark: int, log_end_offset: int) -> int:
    return log_end_offset


def _whoever_wants_an_answer(required_acks: int) -> bool:
    return required_acks != 0


def _never(_in_sync: int, _assigned: int) -> bool:
    return False


def _a_minute(asked_ms: int) -> int:
    return max(asked_ms, 60_000)


def _yes() -> bool:
    return True


def _who_has_the_watermark_may_join(end: int, high_watermark: int, _epoch_start: int) -> bool:
    return end >= high_watermark


def _nobody_may_join(_follower_end: int, _high_watermark: int, _epoch_start: int) -> bool:
    return False


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


def _acknowledge_after_demotion() -> Acknowledgement:
    return ACKNOWLEDGED


def _own_start(own: int, _leaders: int) -> int:
    return own


def _leaders_start(own: int, _followers: Iterable[int]) -> int:
    return own


def _no_fetch_for_long(
    state: IsrState, followers: Mapping[int, FollowerState], **of_the_leader: int
) -> frozenset[int]:
    fetching = {
        replica: replace(
            follower, last_caught_up_ms=max(follower.last_caught_up_ms, follower.last_fetch_ms)
        )
        for replica, follower in followers.items()
    }
    return out_of_sync(state, fetching, **of_the_leader)


def _to_the_end(_high_watermark: int, log_end_offset: int) -> int:
    return log_end_offset


COMMITS: Final = (
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
        name="no-isr-check",
        says="a follower that lags joins the ISR and may then be elected",
        stands_for="KIP-497: who joins the in-sync set has caught up (Partition.isFollowerInSync)",
        scenario="returning-follower",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"may_join_isr": _anyone_may_join},
    ),
    Mutant(
        name="join-below-the-epoch",
        says="who has reached a new leader's high watermark is in sync, whatever lies above that",
        stands_for="KAFKA-7128: a follower joins below the start of the leader epoch",
        scenario="forgotten-watermark",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"may_join_isr": _who_has_the_watermark_may_join},
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
        breaks={"sends_isr_changes": no},
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
        name="count-diverging-fetch",
        says="a follower whose log parts from its leader's counts as one that holds the same",
        stands_for="KAFKA-13141: positions of diverging followers advance the high watermark",
        scenario="returning-leader",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"counts_diverging_fetches": _yes},
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
        name="keep-who-fetches",
        says="whoever goes on fetching is in sync, however far behind",
        stands_for="KIP-16: a follower lags from when it last had all that its leader had",
        scenario="isr-by-lag",
        found_by="departures",
        rule="lagging-in-sync",
        breaks={"out_of_sync": _no_fetch_for_long},
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
        name="join-when-it-is-agreed",
        says="who is to join the in-sync set counts only once its leader has heard that it did",
        stands_for="KIP-497: from the proposal on who may be in sync is waited for",
        scenario="isr-by-lag",
        found_by="truncation-loss",
        rule="acked-without-in-sync",
        breaks={"proposing_expansion": _as_before},
    ),
    Mutant(
        name="drop-who-lags-for-a-moment",
        says="a follower is dropped when it has lagged for an eighth of replica.lag.time.max.ms",
        stands_for="KIP-16: who lags for less than replica.lag.time.max.ms is in sync",
        scenario="isr-by-lag",
        found_by="departures",
        rule="dropped-too-soon",
        breaks={"out_of_sync": _hastily},
    ),
    Mutant(
        name="let-who-waits-wait",
        says="a consumer that waits for records is answered when its time is up, and not before",
        stands_for="KAFKA-6653: delayed operations that could be completed, and wait on",
        scenario="preferred-leaders",
        found_by="polls",
        rule="given-late",
        breaks={"wakes_who_waits": no},
    ),
    Mutant(
        name="answer-for-what-is-appended",
        says="a consumer that waits is answered when records are appended, not when committed",
        stands_for="KIP-74: who waits is answered when there is enough, or when its time is up",
        scenario="group-rebalance",
        found_by="offsets",
        rule="answered-too-soon",
        breaks={"awaited_end": _read_to_the_end},
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
        name="remember-followers",
        says="who leads again believes what its followers had reported when it led before",
        stands_for="KAFKA-13790: with a leader epoch what is known of followers begins anew",
        scenario="lagging-follower",
        found_by="truncation-loss",
        rule="acked-without-in-sync",
        breaks={"forgets_followers": no},
    ),
    Mutant(
        name="append-what-is-refused",
        says="acks=all is refused for too few replicas, and is in the log all the same",
        stands_for="KAFKA-1555: NOT_ENOUGH_REPLICAS is said before anything is appended",
        scenario="isr-by-lag",
        found_by="records",
        rule="failed-write-visible",
        breaks={"asks_before_append": no},
    ),
    Mutant(
        name="leave-waiting-when-demoted",
        says="who waits for acks=all at a leader that now follows another waits until the time-out",
        stands_for="KAFKA-8334: delayed produces that nobody completes wait for their time-out",
        scenario="leader-handover",
        found_by="departures",
        rule="left-waiting",
        breaks={"answers_at_demotion": no},
    ),
    Mutant(
        name="commit-below-min-isr",
        says="the high watermark goes on while fewer than min.insync.replicas are in sync",
        stands_for="KAFKA-15583: the high watermark only advances while enough are in sync",
        scenario="isr-by-lag",
        found_by="truncation-loss",
        rule="given-below-min-isr",
        breaks={"commits_below_min_isr": _yes},
    ),
    Mutant(
        name="keep-own-log-start",
        says="a follower does not take over its leader's log start",
        stands_for="KIP-107: records are deleted on every replica",
        scenario="broker-restart",
        found_by="log-starts",
        rule="never-deleted",
        breaks={"follower_log_start": _own_start},
    ),
    Mutant(
        name="delete-on-the-leader-alone",
        says="DeleteRecords is answered before the followers have done it",
        stands_for="KIP-107: the low watermark is the least of all live replicas' log starts",
        scenario="broker-restart",
        found_by="log-starts",
        rule="deleted-alone",
        breaks={"low_watermark": _leaders_start},
    ),
    Mutant(
        name="delete-what-is-not-committed",
        says="DeleteRecords takes all that its leader has, committed or not",
        stands_for="KIP-107: nothing beyond the high watermark is deleted",
        scenario="broker-restart",
        found_by="log-starts",
        rule="begins-beyond-end",
        breaks={"deletable_end": _to_the_end},
    ),
    Mutant(
        name="acknowledge-duplicates-at-once",
        says="an idempotent producer's retry is acknowledged because it is in the leader's log",
        stands_for="KIP-98: a retry is promised what its first try would have been",
        scenario="returning-leader",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"awaits_duplicates": no},
    ),
    Mutant(
        name="acknowledge-beside-a-refusal",
        says="a request of which one partition is refused has the others acknowledged at once",
        stands_for="KIP-679: what acks=all promises holds for each partition of a request",
        scenario="broker-restart",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"awaits_beside_refusals": no},
    ),
    Mutant(
        name="stop-at-who-cannot-go",
        says="who waits for acks=all is not looked at behind one who waits for something else too",
        stands_for="KAFKA-6653: delayed operations that could be completed, and wait on",
        scenario="isr-by-lag",
        found_by="departures",
        rule="left-unanswered",
        breaks={"looks_at_all_who_wait": no},
    ),
    Mutant(
        name="wait-beyond-timeouts",
        says="acks=all waits for a minute, whatever its producer allows",
        stands_for="KIP-19: request.timeout.ms is what the broker is told to wait for replicas",
        scenario="isr-by-lag",
        found_by="departures",
        rule="kept-waiting",
        breaks={"ack_wait_ms": _a_minute},
    ),
    Mutant(
        name="let-one-wait-for-all",
        says="acks=1 waits for all that are in sync, as acks=all does",
        stands_for="KIP-679: with acks=1 a leader answers without awaiting its followers",
        scenario="isr-by-lag",
        found_by="departures",
        rule="one-kept-waiting",
        breaks={"awaits_commit": _whoever_wants_an_answer},
    ),
    Mutant(
        name="report-all-in-sync",
        says="UnderReplicatedPartitions counts nothing, whoever lags",
        stands_for="KIP-16: who lags is out of sync, and UnderReplicatedPartitions says so",
        scenario="isr-by-lag",
        found_by="descriptions",
        rule="gauge-otherwise",
        breaks={"is_under_replicated": _never},
    ),
)
