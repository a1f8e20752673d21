"""Planted bugs: what is in a log, what is cut from it, and what is told of it."""

from __future__ import annotations

from typing import Final

from nodes.core.truncation import EpochEnd, Truncation
from nodes.mutants.model import Mutant, no


def _keep_everything(
    _leader_end: EpochEnd, _own_end: EpochEnd, log_end_offset: int, _high_watermark: int
) -> Truncation:
    return Truncation(log_end_offset, True)


def _cut_to_high_watermark(
    _leader_end: EpochEnd, _own_end: EpochEnd, log_end_offset: int, high_watermark: int
) -> Truncation:
    return Truncation(min(high_watermark, log_end_offset), True)


def _later(asked_ms: int) -> int:
    return asked_ms + 1


def _log_end(_end_offset: int, log_end_offset: int) -> int:
    return log_end_offset


def _as_asked(_found: int, asked: int) -> int:
    return asked


def _always(_high_watermark: int, _leader_epoch_start: int) -> bool:
    return True


def _one() -> int:
    return 1


def _twice() -> int:
    return 2


def _never_deletes(_asked: bool) -> bool:
    return False


def _all(_is_alive: bool) -> bool:
    return True


def _always_deletes(_asked: bool) -> bool:
    return True


def _beyond_the_end(offset: int, _log_start: int, log_end: int) -> bool:
    return offset > log_end


LOGS: Final = (
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
            "asks_leader_for_divergence": no,
        },
    ),
    Mutant(
        name="drop-torn-tail-check",
        says="after a crash the log's tail is trusted instead of checked",
        stands_for="KAFKA-10471: after a crash the logs are taken for cleanly closed",
        scenario="log-recovery",
        found_by="replicas",
        rule="replica-differs",
        breaks={"verifies_log_tail": no},
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
        name="keep-deleted-logs",
        says="a StopReplica that deletes leaves the log where it is",
        stands_for="KAFKA-14616: stray logs of deleted topics",
        scenario="topic-deletion",
        found_by="recovery",
        rule="left-behind",
        breaks={"stop_deletes": _never_deletes},
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
        name="confuse-producer-epochs",
        says="a batch of a new producer epoch is taken for one that an older epoch had written",
        stands_for="KIP-360: a producer that raises its epoch begins anew with sequence 0",
        scenario="broker-restart",
        found_by="truncation-loss",
        rule="acked-all-lost",
        breaks={"tells_producer_epochs_apart": no},
    ),
    Mutant(
        name="wipe-out-overrides",
        says="new settings of a broker become those of topics, too, which have their own",
        stands_for="KAFKA-9254: the second change of a broker's config wipes out its topics'",
        scenario="zombie-broker",
        found_by="records",
        rule="setting-unheeded",
        breaks={"keeps_overrides": no},
    ),
    Mutant(
        name="forget-producers",
        says="a new leader knows nothing of the sequences that it replicated",
        stands_for="KIP-98: an idempotent producer's retry is written once",
        scenario="group-rebalance",
        found_by="records",
        rule="idempotent-duplicate",
        breaks={"keeps_producers": no},
    ),
    Mutant(
        name="remember-last-batches-alone",
        says="a new leader knows of each producer the last batch alone that it replicated",
        stands_for="KAFKA-5494: a producer may send again up to five batches",
        scenario="group-rebalance",
        found_by="records",
        rule="repeat-refused",
        breaks={"remembers_batches": no},
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
        name="tell-the-end-too-soon",
        says="a new leader tells clients an end before it knows what is committed",
        stands_for="KAFKA-6880 (KIP-207): an offset that was told goes back after an election",
        scenario="leader-handover",
        found_by="offsets",
        rule="end-too-early",
        breaks={"knows_its_end": _always},
    ),
    Mutant(
        name="answer-for-the-asked-epoch",
        says="the end of an epoch that a leader never had is told as that of the asked one",
        stands_for="KAFKA-6361 (KIP-279): logs diverge after a fast failover",
        scenario="double-failover",
        found_by="replicas",
        rule="replica-differs",
        breaks={"epoch_answered_for": _as_asked},
    ),
    Mutant(
        name="note-epochs-with-records",
        says="a new leader knows nothing of its leader epoch before its first record",
        stands_for="KIP-101: a leader epoch begins with its leader, whether anybody writes or not",
        scenario="idle-elections",
        found_by="offsets",
        rule="own-epoch-ends-otherwise",
        breaks={"notes_epoch_at_election": no},
    ),
    Mutant(
        name="serve-below-the-start",
        says="who asks for what was deleted is told that there is nothing yet",
        stands_for="KIP-107: below the log's start a fetch is refused with OFFSET_OUT_OF_RANGE",
        scenario="broker-restart",
        found_by="log-starts",
        rule="served-below-start",
        breaks={"is_out_of_range": _beyond_the_end},
    ),
    Mutant(
        name="go-on-without-a-disk",
        says="a broker whose only log directory failed keeps what it leads, and serves nothing",
        stands_for="KIP-112: a broker with no log directory left ends, so that others lead",
        scenario="disk-lost",
        found_by="departures",
        rule="went-on-without-a-disk",
        breaks={"halts_without_disks": no},
    ),
    Mutant(
        name="keep-what-is-old",
        says="nothing goes from a log by its age or size",
        stands_for="KAFKA-3894: nobody looks after logs any more, and the disk runs full",
        scenario="zombie-broker",
        found_by="retention",
        rule="kept-beyond-size",
        breaks={"lets_go_of_the_old": no},
    ),
    Mutant(
        name="wait-for-the-gone",
        says="who deletes records is answered when replicas of brokers that are gone have them out",
        stands_for="KIP-107: DeleteRecords waits for live replicas alone",
        scenario="zombie-broker",
        found_by="log-starts",
        rule="waits-for-the-gone",
        breaks={"holds_deletions_up": _all},
    ),
)
