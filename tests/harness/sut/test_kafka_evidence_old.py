# ruff: noqa: E501  (lines of a log are as long as they are)
"""Log lines of older releases become the same history rows (as each release wrote them, shortened)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.history import HistoryError
from harness.sut.kafka_evidence.broker import BEYOND
from harness.sut.kafka_versions import Version
from harness.sut.protocol import EVIDENCE_SUMMARY
from tests.harness.sut.test_kafka_evidence import log, rows, write

SERVER = "kafka.server.KafkaServer"
DATA = "data-plane-kafka-request-handler-3"


def kind(folder: Path, name: str, version: Version) -> list[dict[str, Any]]:
    return [row for row in rows(folder, str(version), version) if row["f"] == name]


def began(folder: Path, version: Version, *more: str) -> None:
    lines = [
        log(1, "starting", SERVER),
        log(2, f"Kafka version: {version}", "org.apache.kafka.common.utils.AppInfoParser"),
        *more,
    ]
    write(folder, "server.log", lines)


# What a broker says of a LeaderAndIsr by which it leads a-b-3 in epoch 5, by release.
STATE_24 = (
    "LeaderAndIsrPartitionState(topicName='a-b', partitionIndex=3, controllerEpoch=7, leader=1, "
    "leaderEpoch=5, isr=[1, 2], zkVersion=9, replicas=[1, 2], addingReplicas=[], "
    "removingReplicas=[], isNew=false)"
)
STATE_21 = "PartitionState(controllerEpoch=7, leader=1, leaderEpoch=5, isr=1,2, zkVersion=9, replicas=1,2, isNew=false)"
COMPLETED = "[Broker id=1] Completed LeaderAndIsr request correlationId 4 from controller 3 epoch 8 for the become-leader transition for partition a-b-3"
LEADERS = {
    Version(2, 1, 1): (
        "[Partition a-b-3 broker=1] a-b-3 starts at Leader Epoch 5 from offset 12. Previous Leader Epoch was: 4",
        [f"[Broker id=1] Received LeaderAndIsr request {STATE_21} correlation id 4 from controller 3 epoch 8 for partition a-b-3", COMPLETED],
        None,
    ),
    Version(2, 4, 1): (
        "[Partition a-b-3 broker=1] a-b-3 starts at leader epoch 5 from offset 12 with high watermark 8. Previous leader epoch was 4.",
        [f"[Broker id=1] Received LeaderAndIsr request {STATE_24} correlation id 4 from controller 3 epoch 8", COMPLETED],
        8,
    ),
    Version(2, 8, 0): (
        None,
        [
            "[Broker id=1] Handling LeaderAndIsr request correlationId 4 from controller 3 for 1 partitions",
            f"[Broker id=1] Received LeaderAndIsr request {STATE_24} correlation id 4 from controller 3 epoch 8",
            "[Broker id=1] Leader a-b-3 starts at leader epoch 5 from offset 12 with high watermark 8 ISR [1,2] addingReplicas [] removingReplicas []. Previous leader epoch was 4.",
            COMPLETED,
        ],
        8,
    ),
    Version(3, 3, 2): (
        None,
        [
            "[Broker id=1] Handling LeaderAndIsr request correlationId 4 from controller 3 for 1 partitions",
            f"[Broker id=1] Received LeaderAndIsr request {STATE_24} correlation id 4 from controller 3 epoch 8",
            "[Broker id=1] Leader a-b-3 with topic id Some(mXSGRXN5QWaFIyLQGRDnyA) starts at leader epoch 5 from offset 12 with partition epoch 9, high watermark 8, ISR [1,2], adding replicas [] and removing replicas []. Previous leader epoch was 4.",
        ],
        8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", LEADERS, ids=str)
def test_a_leader_of_any_release_is_one_row(tmp_path: Path, version: Version) -> None:
    server, changes, mark = LEADERS[version]
    began(tmp_path, version, *([log(50, server, "kafka.cluster.Partition")] if server else []))
    write(tmp_path, "state-change.log", [log(51, line, thread=DATA) for line in changes])
    (row,) = kind(tmp_path, "leader_change", version)
    told = ("topic", "partition", "role", "leader", "leader_epoch", "controller_epoch")
    assert tuple(row[name] for name in told) == ("a-b", 3, "leader", 1, 5, 7)
    assert (row["correlation_id"], row["log_end_offset"], row["high_watermark"]) == (4, 12, mark)


FOLLOWS_28 = "[Broker id=1] Follower a-b-3 starts at leader epoch 5 from offset 12 with high watermark 8. Previous leader epoch was 4."


def test_a_follower_of_2_8_is_told_its_leader_by_the_request(tmp_path: Path) -> None:
    version = Version(2, 8, 1)
    state = STATE_24.replace("leader=1,", "leader=2,")
    began(tmp_path, version)
    lines = [
        f"[Broker id=1] Received LeaderAndIsr request {state} correlation id 4 from controller 3 epoch 8",
        FOLLOWS_28,
    ]
    write(tmp_path, "state-change.log", [log(51, line) for line in lines])
    (row,) = kind(tmp_path, "leader_change", version)
    assert (row["role"], row["leader"], row["log_end_offset"]) == ("follower", 2, 12)


def test_a_follower_of_2_4_has_no_end(tmp_path: Path) -> None:
    version = Version(2, 4, 1)
    state = STATE_24.replace("leader=1,", "leader=2,")
    began(tmp_path, version)
    lines = [
        f"[Broker id=1] Received LeaderAndIsr request {state} correlation id 4 from controller 3 epoch 8",
        COMPLETED.replace("become-leader", "become-follower") + " with leader 2",
    ]
    write(tmp_path, "state-change.log", [log(51, line) for line in lines])
    (row,) = kind(tmp_path, "leader_change", version)
    assert (row["role"], row["leader"], row["log_end_offset"]) == ("follower", 2, None)


@pytest.mark.parametrize("leader", [2, -1])
def test_who_could_not_follow_took_nothing_up(tmp_path: Path, leader: int) -> None:
    """And says that it completed it all the same; another partition of the request is not meant."""
    version = Version(2, 4, 1)
    state = STATE_24.replace("leader=1,", f"leader={leader},")
    other = STATE_24.replace("partitionIndex=3", "partitionIndex=4").replace(
        "leader=1,", "leader=3,"
    )
    follows = COMPLETED.replace("become-leader", "become-follower") + f" with leader {leader}"
    began(tmp_path, version)
    lines = [
        *(
            f"[Broker id=1] Received LeaderAndIsr request {one} correlation id 4 from controller 3 epoch 8"
            for one in (state, other)
        ),
        "[Broker id=1] Received LeaderAndIsrRequest with correlation id 4 from controller 3 epoch 8 for "
        "partition a-b-3 (last update controller epoch 7) but cannot become follower since the new "
        f"leader {leader} is unavailable.",
        follows,
        follows.replace("a-b-3", "a-b-4"),
    ]
    write(tmp_path, "state-change.log", [log(51, line) for line in lines])
    (row,) = kind(tmp_path, "leader_change", version)
    assert (row["partition"], row["leader"]) == (4, 3)


@pytest.mark.parametrize("version", [Version(2, 1, 1), Version(2, 4, 1)])
def test_a_stop_has_no_leader_epoch_and_deletes_as_the_log_is_renamed(
    tmp_path: Path, version: Version
) -> None:
    renamed = (
        "Log for partition a-b-3 is renamed to /d/a-b-3.1f-delete and is scheduled for deletion"
    )
    began(tmp_path, version, log(70, renamed, "kafka.log.LogManager"))
    lines = [
        (ms, f"[Broker id=1] {word} stop replica (delete={delete}) for partition a-b-3")
        for ms, word, delete in (
            (50, "Handling", "false"),
            (52, "Finished handling", "false"),
            (60, "Handling", "true"),
            (80, "Finished handling", "true"),
        )
    ]
    write(tmp_path, "state-change.log", [log(ms, line) for ms, line in lines])
    found = kind(tmp_path, "replica_stop", version)
    told = [(row["t"] // 1_000_000, row["delete"], row["leader_epoch"]) for row in found]
    assert told == [(50, False, -1), (70, True, -1)]


def cached(partition: int, correlation_id: int) -> str:
    state = f"PartitionState(controllerEpoch=7, leader=2, leaderEpoch=5, isr=[2], zkVersion=9, replicas=[1, 2], offlineReplicas=[]) for partition a-b-{partition}"
    return f"[Broker id=1] Cached leader info {state} in response to UpdateMetadata request sent by controller 3 epoch 8 with correlation id {correlation_id}"


def test_an_update_without_an_end_ends_with_its_last_line(tmp_path: Path) -> None:
    version = Version(2, 3, 1)
    began(tmp_path, version)
    lines = [(50, cached(3, 4)), (52, cached(4, 4)), (60, cached(3, 5))]
    write(tmp_path, "state-change.log", [log(ms, line) for ms, line in lines])
    found = kind(tmp_path, "metadata_update", version)
    whens = {(row["partition"], row["correlation_id"]): row["t"] // 1_000_000 for row in found}
    assert whens == {(3, 4): 52, (4, 4): 52, (3, 5): 60}


def test_the_same_number_long_after_is_another_update(tmp_path: Path) -> None:
    """Of another connection: each counts from 0."""
    version = Version(2, 5, 1)
    began(tmp_path, version)
    lines = [(50, cached(3, 4)), (9_050, cached(4, 4)), (9_051, cached(3, 4))]
    write(tmp_path, "state-change.log", [log(ms, line) for ms, line in lines])
    found = kind(tmp_path, "metadata_update", version)
    assert sorted((row["t"] // 1_000_000, row["partition"]) for row in found) == [
        (50, 3),
        (9_051, 3),
        (9_051, 4),
    ]


def test_a_cut_of_2_4_reaches_beyond_what_anybody_told(tmp_path: Path) -> None:
    version = Version(2, 4, 1)
    line = "[Log partition=a-b-3, dir=/d] Truncating to offset 8"
    began(tmp_path, version, log(60, line, "kafka.log.Log"))
    state = STATE_24.replace("leader=1,", "leader=2,")
    lines = [
        f"[Broker id=1] Received LeaderAndIsr request {state} correlation id 4 from controller 3 epoch 8",
        COMPLETED.replace("become-leader", "become-follower") + " with leader 2",
    ]
    write(tmp_path, "state-change.log", [log(51, line) for line in lines])
    (row,) = kind(tmp_path, "truncation", version)
    assert (row["to_offset"], row["from_offset"], row["leader_epoch"]) == (8, BEYOND, 5)


@pytest.mark.parametrize(
    ("thread", "followed_ms", "epoch"),
    [
        ("ReplicaFetcherThread-1-2", 61, 6),
        ("ReplicaFetcherThread-1-3", 61, 5),  # from whom it fetched before
        ("ReplicaFetcherThread-1-2", 5_062, 5),  # of another request, long after
        ("log-recovery", 61, 5),
    ],
)
def test_a_cut_is_of_the_role_that_made_its_thread_fetch(
    tmp_path: Path, thread: str, followed_ms: int, epoch: int
) -> None:
    """Who led in one epoch and follows in the next says so when it has cut its log for that."""
    version = Version(2, 4, 1)
    line = "[Log partition=a-b-3, dir=/d] Truncating to offset 8"
    began(tmp_path, version, log(60, line, "kafka.log.Log", thread))
    follows = STATE_24.replace("leader=1, leaderEpoch=5", "leader=2, leaderEpoch=6")
    received = (
        "[Broker id=1] Received LeaderAndIsr request {} correlation id 4 from controller 3 epoch 8"
    )
    lines = [
        log(51, received.format(STATE_24)),
        log(52, COMPLETED),
        log(followed_ms, received.format(follows)),
        log(followed_ms, COMPLETED.replace("become-leader", "become-follower") + " with leader 2"),
    ]
    write(tmp_path, "state-change.log", lines)
    (row,) = kind(tmp_path, "truncation", version)
    assert (row["leader_epoch"], row["to_offset"]) == (epoch, 8)


def test_an_update_that_has_an_end_needs_it(tmp_path: Path) -> None:
    version = Version(2, 8, 1)
    began(tmp_path, version)
    write(tmp_path, "state-change.log", [log(50, cached(3, 4))])
    assert kind(tmp_path, "metadata_update", version) == []


@pytest.mark.parametrize(
    ("version", "line"),
    [
        (Version(2, 5, 1), "ISR updated to [1,3] and zkVersion updated to [5]"),
        (Version(2, 7, 1), "ISR updated from AlterIsr to 1,3 and version updated to [5]"),
        (Version(2, 8, 1), "ISR updated to 1,3 and version updated to [5]"),
        (Version(3, 3, 2), "ISR updated to 1,3 and version updated to 5"),
        (Version(3, 9, 2), "ISR updated to 1,3  and version updated to 5"),
    ],
    ids=lambda value: str(value) if isinstance(value, Version) else "",
)
def test_an_in_sync_set_of_any_release(tmp_path: Path, version: Version, line: str) -> None:
    began(
        tmp_path, version, log(50, f"[Partition a-b-3 broker=1] {line}", "kafka.cluster.Partition")
    )
    (row,) = kind(tmp_path, "isr_change", version)
    assert (row["isr"], row["partition_epoch"]) == ([1, 3], 5)


@pytest.mark.parametrize("version", [Version(2, 1, 1), Version(2, 4, 1)])
@pytest.mark.parametrize(("isr_ms", "epoch"), [(95, 5), (85, None)])
def test_an_in_sync_set_is_of_the_leader_epoch_that_had_begun(
    tmp_path: Path, version: Version, isr_ms: int, epoch: int | None
) -> None:
    """The request by which it began is done only later."""
    starts, _, _ = LEADERS[version]
    assert starts
    isr = "[Partition a-b-3 broker=1] ISR updated to [1,3] and zkVersion updated to [5]"
    said = sorted([(90, starts), (isr_ms, isr)])
    began(tmp_path, version, *(log(ms, line, "kafka.cluster.Partition") for ms, line in said))
    write(tmp_path, "state-change.log", [log(100, line) for line in LEADERS[version][1]])
    (row,) = kind(tmp_path, "isr_change", version)
    assert row["leader_epoch"] == epoch


@pytest.mark.parametrize(
    ("version", "name"), [(Version(2, 8, 1), "Log"), (Version(3, 3, 2), "UnifiedLog")]
)
def test_a_truncation_of_any_release(tmp_path: Path, version: Version, name: str) -> None:
    line = f"[{name} partition=a-b-3, dir=/d] Truncating to offset 8"
    began(tmp_path, version, log(50, line, "kafka.log.Log"))
    (row,) = kind(tmp_path, "truncation", version)
    assert (row["partition"], row["to_offset"]) == (3, 8)


@pytest.mark.parametrize(
    ("version", "untold"),
    [
        (Version(2, 5, 1), {"control-sends.log", "control-requests.log"}),
        (Version(2, 7, 1), {"control-sends.log", "control-requests.log"}),
        (Version(2, 8, 1), set()),
    ],
)
def test_what_a_release_cannot_tell_is_said(
    tmp_path: Path, version: Version, untold: set[str]
) -> None:
    began(tmp_path, version)
    rows(tmp_path, str(version), version)
    assert set(json.loads((tmp_path / EVIDENCE_SUMMARY).read_text())["untold"]) == untold


SENT_26 = "[Controller id=1, targetBrokerId=2] Sending UPDATE_METADATA request with header RequestHeader(apiKey=UPDATE_METADATA, apiVersion=6, clientId=1, correlationId=0) and timeout 30000 to node 2: {controller_id=1,controller_epoch=1,broker_epoch=65,topic_states=[]}"


def test_sends_that_do_not_say_how_they_were_answered_are_left_out(tmp_path: Path) -> None:
    """They are of another form, not of another Kafka."""
    version = Version(2, 6, 0)
    began(tmp_path, version)
    client = "org.apache.kafka.clients.NetworkClient"
    write(tmp_path, "control-sends.log", [log(50 + n, SENT_26, client) for n in range(20)])
    assert not kind(tmp_path, "control_send", version)
    version = Version(2, 8, 2)
    began(tmp_path, version)
    with pytest.raises(HistoryError, match=r"20 of 20 lines are not as Kafka 2\.8\.2"):
        rows(tmp_path, str(version), version)


def test_2_1_writes_its_version_otherwise(tmp_path: Path) -> None:
    line = log(2, "Kafka version : 2.1.1", "org.apache.kafka.common.utils.AppInfoParser")
    write(tmp_path, "server.log", [log(1, "starting", SERVER), line])
    rows(tmp_path, "2.1.1", Version(2, 1, 1))
    assert json.loads((tmp_path / EVIDENCE_SUMMARY).read_text())["version"] == "2.1.1"
    with pytest.raises(HistoryError, match=r"written by Kafka 2\.1\.1; allowed: 2\.2\.0"):
        rows(tmp_path, "2.2.0", Version(2, 2, 0))


@pytest.mark.parametrize(
    "line",
    [
        "Received stop replica request from an old controller epoch 3. Latest known controller epoch is 4",
        "Received LeaderAndIsrRequest with correlation id 4 from controller 3 epoch 8 for partition a-b-3 (last update controller epoch 8) but cannot become follower since the new leader 2 is unavailable.",
        "Skipped the adding-fetcher step of the become-follower state change with correlation id 4",
        "Skipped the update topic ID step of the become-follower state change for partition a-b-3",
        "A ZooKeeper client exception has occurred. makeFollower will be skipping the state change",
        "Topic Id in memory: mXSGRXN5QWaFIyLQGRDnyA does not match the topic Id provided in the request: x.",
        "Topic ID in memory: mXSGRXN5QWaFIyLQGRDnyA does not match the topic ID for partition a-b-3",
        "The topic partition a-b-3 was marked as RECOVERING. Leader log recovery is not implemented.",
        "Deleting 2 partition(s).",
        "Unable to bring up new local leader a-b-3 with topic id x because it resides in an offline log directory.",
        "Expected partition a-b-3 with topic id x to exist, but it was missing. Creating...",
    ],
)
def test_what_is_known_and_makes_no_row_is_no_stranger(tmp_path: Path, line: str) -> None:
    version = Version(2, 8, 2)
    began(tmp_path, version)
    write(tmp_path, "state-change.log", [log(50, f"[Broker id=1] {line}")])
    assert not kind(tmp_path, "leader_change", version)
    told = json.loads((tmp_path / EVIDENCE_SUMMARY).read_text())
    assert told["lines"]["state-change.log"] == {"ignored": 1}


def test_lines_that_no_release_writes_are_counted(tmp_path: Path) -> None:
    version = Version(2, 5, 1)
    began(tmp_path, version)
    write(tmp_path, "state-change.log", [log(50, "[Broker id=1] Leading the way for a-b-3")])
    rows(tmp_path, str(version), version)
    told = json.loads((tmp_path / EVIDENCE_SUMMARY).read_text())
    assert told["lines"]["state-change.log"] == {"unknown": 1}
