"""Why nobody notices some lies, and nobody suffers by them: read by the study, shown on its page.

A key is ``kind.column``, ``kind[sort].column``, either with ``: way``, or all of a breakage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from checkers.judging.verdict import Verdict
from harness.studies.ledger import Entry
from harness.studies.sensitivity.breaking import Breakage

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "no order is promised, and none is in a set twice": (
        *("metadata.isr: two exchanged", "metadata.brokers: two exchanged"),
        *("leadership.isr: two exchanged", "control_request.partitions: two exchanged"),
        *("control_send.partitions: two exchanged", "final_state.isr: two exchanged"),
        "final_state.replicas: first twice",
        *("log_folder.epochs: two exchanged", "log_folder.checkpoint"),
    ),
    "the harness's own reading of the folder: what is wrong there is told as `damage`": (
        *("log_folder.batches", "log_folder.index_entries", "log_folder.segments"),
        *("log_folder.snapshots", "log_folder.start_offset", "log_folder.kept.bytes"),
        *("log_folder.kept.base_offset", "log_folder.epochs.first_offset"),
        *("log_folder.epochs.last_offset", "log_folder.kept", "log_folder.end_offset"),
    ),
    "a broker's trace beside what others tell of the same: it only explains": (
        *("truncation.from_offset", "truncation.to_offset", "truncation.leader_epoch"),
        *("truncation.partition", "truncation.(row): never told"),
        *("leadership.(row): never told", "exception.(row): never told"),
        *("exception.error", "exception.logger", "exception.place", "exception.says"),
        *("isr_change.topic", "control_send.partition_epochs", "metadata_update.topic: empty"),
    ),
    "by ZooKeeper's clock, where its order (zxid) says what was first": (
        *("zk_write.commit_ms", "topic_deletion.commit_ms"),
    ),
    "ZooKeeper's own log, none of whose words is a broker's": ("zk_write.zxid", "zk_write.step"),
    "numbers that the harness wrote as text, which it never writes so": (
        *("described.told: empty", "described[InitProducerId].told: null"),
        "plane_metric.value: null",
    ),
    "a meter of what goes on: between two readings it may have been any of these": (
        *("channel_queue.queue_time_max_us", "channel_queue.queue_time_p99_us"),
        *("channel_queue.taken", "channel_queue.to", "plane_use.requests"),
        "plane_metric[50thPercentile].value",
    ),
    "nothing is decided by it: who is wrong about it is refused": (
        *("control_request.own_broker_epoch", "control_request.version"),
    ),
    "what the harness found in bytes that consumers read as well": (
        *("read_at.first_bytes", "read_at.found_end", "read_at.given_bytes"),
        *("read_at.leader_epoch: none", "metadata.endpoints"),
    ),
    "no client writes this down: it refuses and has no error, or has one and does not": (
        *("admin_request.error: another's", "admin_request.type: another's"),
        "group_step.type: another's",
    ),
    "lawful of an epoch in which nothing was kept": (
        *("listed_offset[beginning].leader_epoch: one less",),
        "listed_offset[beginning].leader_epoch: none",
    ),
    "that it failed, and not why: judged where it was asked often enough once all was calm": (
        *("admin_request[DELETE_RECORDS].error", "admin_request.error: none"),
        "admin_request.(answer): refused",
    ),
    "that the controller is asked: lawful of who hands it on": (
        "admin_request[INCREMENTAL_ALTER_CONFIGS].error: one more",
    ),
    "opaque to clients, who only give it back": (
        *("group_step[enter].generation: far", "group_step[enter].generation: one less"),
    ),
    "what was asked, in steps that commit": (
        *("group_step[raise].offset", "group_step[keep].offset", "group_step[commit].offset"),
    ),
    "one number of one answer, which the harness writes twice": (
        "coordinator.endpoint: another's",
    ),
    "that there is an answer: what could be told of a stable group is counted by it": (
        "group_step[describe].untold: null",
    ),
    "what the next record makes of it: false for a moment at most": (
        *("listed_offset[end].offset: one more, once", "read_at.high_watermark: one more, once"),
    ),
    "who is none of its members is out of the group either way": (
        "group_step[leave].(answer): granted",
    ),
    "one refusal for another, after which its client asks again": (
        *("listed_offset[beginning].error: one more", "listed_offset[time].error"),
        *("epoch_end.error: one more", "epoch_end.error: one less"),
    ),
    "what then comes with it is compared (`otherwise`)": ("group_step[sync].(answer): granted",),
    "only that there was an answer: the groups' names are what is judged": (
        "described[ListGroups].told: null",
    ),
    "some clients' libraries do not tell it": ("fetch.leader_epoch: none",),
    "clients put brokers into a map by their numbers": ("metadata.brokers: first twice",),
}
REASONS: Final[Mapping[str, str]] = {key: why for why, keys in _KEYS.items() for key in keys}


def unnoticed(entries: Iterable[Entry]) -> list[Breakage]:
    """Of which no run's copy was noticed, or doubted."""
    verdicts: dict[str, set[str]] = {}
    for entry in entries:
        verdicts.setdefault(entry.play.bug, set()).add(entry.verdict)
    return [Breakage.of(bug) for bug, of in verdicts.items() if of == {Verdict.VALID}]


def why_unnoticed(one: Breakage) -> str | None:
    """None: nobody said why."""
    of_all = f"{one.kind}.{one.column}"
    keys = (str(one), f"{one.place}: {one.way}", one.place, f"{of_all}: {one.way}", of_all)
    return next((REASONS[key] for key in keys if key in REASONS), None)
