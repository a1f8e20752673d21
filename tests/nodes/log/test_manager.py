"""All logs of a broker: loading, creating, deleting, checkpoints; settings of a log."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import LogConfig, LogManager
from nodes.log.checkpoints import (
    CheckpointError,
    read_offsets,
    read_partition_metadata,
    topic_id_from_text,
    topic_id_text,
    write_offsets,
    write_partition_metadata,
)
from nodes.log.config import LogConfigError
from nodes.log.manager import LogDirError
from nodes.wire.records import build_batch

NOW_MS = 1_700_000_000_000
A, B = TopicPartition("a", 0), TopicPartition("b-c", 12)
ID = uuid.UUID(int=77)


def manager(*directories: Path, broker_id: int = 1, now_ms: int = NOW_MS) -> LogManager:
    made = LogManager(directories, LogConfig(), now_ms=lambda: now_ms, broker_id=broker_id)
    made.load()
    return made


def test_logs_come_back(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = logs.get_or_create(B, LogConfig(), ID)
    log.append_as_leader(build_batch([(None, b"v", NOW_MS)]), 4)
    logs.checkpoint_high_watermarks({B: 1, A: 9})
    logs.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nb-c 12 1\n"
    again = manager(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    found = again.get(B)
    assert found is not None
    assert (found.log_end_offset, found.latest_epoch) == (1, 4)
    assert again.topic_id(B) == ID
    assert again.read_high_watermarks() == {B: 1}
    assert again.get(A) is None
    assert [log.tp for log in again.all()] == [B]


@pytest.mark.parametrize(
    ("write", "name", "synced"),
    [
        (lambda logs: logs.checkpoint_recovery_points(), "recovery-point-offset-checkpoint", True),
        (lambda logs: logs.checkpoint_log_starts(), "log-start-offset-checkpoint", True),
        (lambda logs: logs._checkpoint_cleaned(), "cleaner-offset-checkpoint", True),
        (
            lambda logs: logs.checkpoint_high_watermarks({A: 0}),
            "replication-offset-checkpoint",
            False,
        ),
    ],
)
def test_checkpoints_survive_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, name: str, synced: bool
) -> None:
    """Those without which records would be gone or come back. A high watermark that is old is
    only learnt again."""
    logs = manager(tmp_path)
    logs.get_or_create(A, LogConfig(), ID)
    on_disk: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        on_disk.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    write(logs)
    assert (tmp_path / name).exists()
    assert (f"{name}.tmp" in on_disk) is synced
    logs.close()


def test_unclean_restart(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = logs.get_or_create(A, None, None)
    log.append_as_leader(build_batch([(None, b"v", NOW_MS)]), 4)
    logs.checkpoint_recovery_points()
    again = manager(tmp_path)
    assert again.all()[0].log_end_offset == 1


def test_logs_spread_over_directories(tmp_path: Path) -> None:
    logs = manager(tmp_path / "1", tmp_path / "2")
    for partition in range(4):
        logs.get_or_create(TopicPartition("t", partition), None, None)
    assert sorted(log.dir.parent.name for log in logs.all()) == ["1", "1", "2", "2"]
    logs.close()
    assert len(manager(tmp_path / "1", tmp_path / "2").all()) == 4


def test_deletion_frees_the_name_at_once(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.get_or_create(A, LogConfig(file_delete_delay_ms=0), ID).append_as_leader(
        build_batch([(None, b"v", NOW_MS)]), 0
    )
    logs.async_delete(A)
    logs.async_delete(A)
    assert logs.get(A) is None
    assert logs.topic_id(A) is None
    assert [p.name.endswith("-delete") for p in tmp_path.iterdir() if p.is_dir()] == [True]
    fresh = logs.get_or_create(A, None, uuid.UUID(int=78))
    assert fresh.log_end_offset == 0
    logs.cleanup(lambda tp: 0)
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == ["a-0"]


def test_deletion_is_finished_by_the_next_start(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.get_or_create(A, None, ID)
    logs.async_delete(A)
    assert manager(tmp_path).all() == []
    assert [p for p in tmp_path.iterdir() if p.is_dir()] == []


def test_topic_ids_must_agree(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.get_or_create(A, None, None)
    log = logs.get_or_create(A, None, ID)
    assert read_partition_metadata(log.dir) == ID
    with pytest.raises(ApiError) as caught:
        logs.get_or_create(A, None, uuid.UUID(int=1))
    assert caught.value.error is Errors.INCONSISTENT_TOPIC_ID


def test_directory_of_another_broker(tmp_path: Path) -> None:
    manager(tmp_path, broker_id=1)
    with pytest.raises(LogDirError, match=r"broker\.id=1, but this broker is 2"):
        manager(tmp_path, broker_id=2)
    logs = manager(tmp_path, broker_id=1)
    logs.claim_cluster("one")
    with pytest.raises(LogDirError, match=r"cluster\.id=one"):
        logs.claim_cluster("two")


def test_a_log_is_in_one_directory(tmp_path: Path) -> None:
    """By whatever names (LogManager.createAndValidateLogDirs, loadLog)."""
    one, two, link = (tmp_path / name for name in ("one", "two", "link"))
    manager(one, two).get_or_create(A, None, ID)
    link.symlink_to(one)
    for twice in (one, link, one / ".." / "one"):
        with pytest.raises(LogDirError, match="one directory twice"):
            manager(one, twice)
    (two / "a-0").mkdir()
    with pytest.raises(LogDirError, match="both the log of a-0"):
        manager(one, two)
    (two / "a-0").rmdir()
    assert [log.tp for log in manager(one, two).all()] == [A]


def test_checkpoint_files(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    write_offsets(path, {B: 5, A: 0}, sync=True)
    assert path.read_text() == "0\n2\na 0 0\nb-c 12 5\n"
    assert read_offsets(path) == {A: 0, B: 5}
    for text in ("", "0\n"):  # a loss of power leaves that of what was not synced
        path.write_text(text)
        assert read_offsets(path) == {}
    for text in ("1\n0\n", "1\n", "0\n2\na 0 0\n", "0\n1\na 0\n", "0\n²\n", "\n"):
        path.write_text(text)
        with pytest.raises(CheckpointError, match="offsets"):
            read_offsets(path)
    path.write_bytes(b"\xff\xfe\0")
    with pytest.raises(CheckpointError, match="line 1"):
        read_offsets(path)


def test_topic_ids_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    assert read_partition_metadata(tmp_path) is None
    write_partition_metadata(tmp_path, ID)
    assert read_partition_metadata(tmp_path) == ID
    path.write_bytes(b"")
    assert read_partition_metadata(tmp_path) is None
    for content in (b"\n", b"version: 0\n", b"topic_id: x\n", b"\0\0", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"partition\.metadata"):
            read_partition_metadata(tmp_path)


def test_topic_ids_as_kafka_prints_them() -> None:
    assert topic_id_text(uuid.UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert topic_id_from_text(topic_id_text(ID)) == ID


def test_config_overrides() -> None:
    config = LogConfig.from_overrides(
        LogConfig(),
        {"retention.ms": "-1", "unclean.leader.election.enable": "TRUE", "segment.bytes": "2048"},
    )
    assert (config.retention_ms, config.unclean_leader_election_enable) == (-1, True)
    assert config.segment_bytes == 2048
    assert LogConfig.from_overrides(config, {"message.format.version": "3.0-IV1"}) == config
    for name, value, says in (
        ("retention.ms", "soon", "integers from -1"),
        ("segment.bytes", "1", "integers from 14"),
        ("message.timestamp.type", "Never", "CreateTime, LogAppendTime"),
        ("preallocate", "yes", "true and false"),
        ("no.such", "1", "unknown topic config"),
        ("retention.ms", "5_0", "integers from -1"),
        ("min.cleanable.dirty.ratio", "0.0_1", "numbers from 0 to 1"),
        ("min.compaction.lag.ms", "-1", "integers from 0"),
        ("compression.gzip.level", "0", "integers from -1 to 9 without 0"),
        ("compression.gzip.level", "10", "integers from -1 to 9"),
        ("compression.lz4.level", "18", "integers from 1 to 17"),
        ("compression.zstd.level", "23", "integers from -131072 to 22"),
        ("max.compaction.lag.ms", "0", "integers from 1"),
        ("segment.jitter.ms", "-1", "integers from 0"),
        ("message.timestamp.before.max.ms", "-1", "integers from 0"),
        ("message.timestamp.after.max.ms", "x", "integers from 0"),
        ("message.timestamp.difference.max.ms", "-1", "integers from 0"),
        ("message.downconversion.enable", "x", "true and false"),
        ("message.format.version", "x", "allowed is"),
        ("leader.replication.throttled.replicas", "x", "allowed is"),
        ("follower.replication.throttled.replicas", "1:2,*", "allowed is"),
    ):
        with pytest.raises(LogConfigError, match=says):
            LogConfig.from_overrides(LogConfig(), {name: value})
    lags = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}
    with pytest.raises(LogConfigError, match="10"):
        LogConfig.from_overrides(LogConfig(), lags)
    for throttled in ("", "*", "0:1", "0:1,1:2", "0:1, 1:2"):
        LogConfig.from_overrides(LogConfig(), {"leader.replication.throttled.replicas": throttled})


def test_new_defaults_are_of_every_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And of those that are made later; what a topic says itself stays, and one whose own do not go
    with them stays as it was."""
    logs = manager(tmp_path)
    own = {"a": {"retention.ms": "5"}, "odd": {"min.compaction.lag.ms": "100"}}
    for tp in (A, B, TopicPartition("odd", 0)):
        config = LogConfig.from_overrides(LogConfig(), own.get(tp.topic, {}))
        logs.get_or_create(tp, config, None)
    defaults = LogConfig(retention_ms=7, max_compaction_lag_ms=50, max_message_bytes=9)
    logs.reconfigure(defaults, lambda topic: own.get(topic, {}))
    later = logs.get_or_create(TopicPartition("later", 0), None, None)
    found = {each.tp.topic: each.config for each in logs.all()}
    assert (found["a"].retention_ms, found["a"].max_message_bytes) == (5, 9)
    assert found["b-c"] == later.config == logs.default_config == defaults
    assert found["odd"] == LogConfig(min_compaction_lag_ms=100)
    assert "Topic odd keeps its configs: min.compaction.lag.ms" in caplog.text
