"""What is brought to the disk, when, and how far a crash makes the next start look."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nodes.config import BrokerConfig
from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import Log, LogConfig, LogManager
from nodes.log.checkpoints import read_offsets
from nodes.log.segment import Segment
from tests.nodes.log.logs import NOW_MS, TP, batch, contents, copy_as_killed, open_log


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files whose batches were brought to the disk, in order."""
    names: list[str] = []
    real = os.fdatasync

    def noted(fd: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).name
        if name.endswith(".log"):
            names.append(name)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", noted)
    return names


def manager(
    directory: Path, now_ms: Callable[[], int] = lambda: NOW_MS, **settings: object
) -> LogManager:
    config = LogConfig(**settings)  # type: ignore[arg-type]
    made = LogManager([directory], config, now_ms=now_ms, broker_id=1)
    made.load()
    return made


def fill(log: Log, count: int = 20) -> None:
    for number in range(count):
        log.append_as_leader(batch(b"%050d" % number), 0)


def recovery_points(directory: Path) -> dict[TopicPartition, int]:
    return read_offsets(directory / "recovery-point-offset-checkpoint")


class TestWhen:
    def test_never_by_itself(self, tmp_path: Path, synced: list[str]) -> None:
        log = open_log(tmp_path)
        fill(log)
        assert (synced, log.recovery_point) == ([], 0)
        log.flush()
        assert (len(synced), log.recovery_point) == (1, 20)
        log.flush()
        assert len(synced) == 1

    def test_every_so_many_messages(self, tmp_path: Path, synced: list[str]) -> None:
        log = open_log(tmp_path, flush_messages=3)
        points = []
        for _ in range(7):
            log.append_as_leader(batch(b"x"), 0)
            points.append(log.recovery_point)
        assert (points, len(synced)) == ([0, 0, 3, 3, 3, 6, 6], 2)
        log.append_as_leader(batch(b"x", b"x", b"x", b"x"), 0)
        assert log.recovery_point == 11
        log.update_config(LogConfig(flush_messages=1))
        log.append_as_leader(batch(b"x"), 0)
        assert log.recovery_point == 12

    def test_a_follower_counts_messages_too(self, tmp_path: Path) -> None:
        log = open_log(tmp_path, flush_messages=3)
        log.append_as_follower(batch(b"x") + batch(b"x", base_offset=1))
        assert log.recovery_point == 0
        log.append_as_follower(batch(b"x", base_offset=2) + batch(b"x", base_offset=3))
        assert log.recovery_point == 4

    def test_after_so_much_time(self, tmp_path: Path, synced: list[str]) -> None:
        now = [NOW_MS]
        logs = manager(tmp_path, lambda: now[0], flush_ms=1000)
        log = logs.get_or_create(TP, None, None)
        fill(log, 3)
        now[0] += 999
        logs.flush_dirty_logs()
        assert (synced, log.recovery_point) == ([], 0)
        now[0] += 1
        logs.flush_dirty_logs()
        assert (len(synced), log.recovery_point) == (1, 3)
        fill(log, 1)
        logs.flush_dirty_logs()
        assert log.recovery_point == 3

    def test_after_a_roll(
        self, tmp_path: Path, synced: list[str], wait_until: Callable[..., None]
    ) -> None:
        """Off the appending thread, all but the active segment."""
        logs = manager(tmp_path, segment_bytes=500)
        log = logs.get_or_create(TP, None, None)
        fill(log)
        active = int(sorted(p.stem for p in log.dir.glob("*.log"))[-1])
        assert active > 3
        wait_until(lambda: log.recovery_point == active)
        assert f"{active:020d}.log" not in synced
        logs.close()
        assert log.recovery_point == 20

    def test_an_append_does_not_wait_for_a_rolled_segment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        released = threading.Event()
        monkeypatch.setattr(os, "fdatasync", lambda _fd: released.wait(60))
        logs = manager(tmp_path, segment_bytes=500)
        log = logs.get_or_create(TP, None, None)
        fill(log)
        assert (log.log_end_offset, log.recovery_point) == (20, 0)
        assert len(contents(log)) == 20
        released.set()
        logs.close()

    @pytest.mark.parametrize("settings", [{"flush_messages": 1}, {"flush_ms": 0}])
    def test_a_disk_that_refuses(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int]
    ) -> None:
        failures: list[Path] = []
        logs = LogManager(
            [tmp_path],
            LogConfig(**settings),  # type: ignore[arg-type]
            now_ms=lambda: NOW_MS,
            broker_id=1,
            on_failure=lambda directory, _error: failures.append(directory),
        )
        logs.load()
        log = logs.get_or_create(TP, None, None)

        def refuse(_fd: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "fdatasync", refuse)
        if "flush_ms" in settings:
            fill(log, 1)
            logs.flush_dirty_logs()
        else:
            with pytest.raises(ApiError) as refused:
                fill(log, 1)
            assert refused.value.error is Errors.KAFKA_STORAGE_ERROR
        assert (failures, log.recovery_point) == ([tmp_path], 0)


class TestRecoveryPoint:
    @pytest.fixture
    def recovered(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        bases: list[int] = []
        real = Segment.recover

        def noted(self: Segment, **options: bool) -> int:
            bases.append(self.base_offset)
            return real(self, **options)

        monkeypatch.setattr(Segment, "recover", noted)
        return bases

    def test_only_what_lies_above_is_recovered(self, tmp_path: Path, recovered: list[int]) -> None:
        log = open_log(tmp_path, segment_bytes=500)
        fill(log)
        bases = sorted(int(p.stem) for p in log.dir.glob("*.log"))
        killed = copy_as_killed(log, tmp_path / "k")
        for point, upwards in ((0, 0), (bases[2], 2), (bases[2] + 1, 2), (bases[-1], -1)):
            recovered.clear()
            again = open_log(killed, clean=False, recovery_point=point, segment_bytes=500)
            assert recovered == bases[upwards:]
            assert again.recovery_point == point
        assert contents(again) == contents(log)

    def test_it_comes_back_from_its_checkpoint(self, tmp_path: Path, recovered: list[int]) -> None:
        logs = manager(tmp_path, segment_bytes=500)
        log = logs.get_or_create(TP, None, None)
        fill(log, 10)
        log.flush()
        logs.checkpoint_recovery_points()
        assert recovery_points(tmp_path) == {TP: 10}
        fill(log)
        recovered.clear()
        again = manager(tmp_path, segment_bytes=500).get(TP)
        assert again is not None
        assert again.recovery_point == 10
        assert recovered[0] > 0
        assert contents(again) == contents(log)

    def test_a_truncation_takes_its_checkpoint_back_at_once(self, tmp_path: Path) -> None:
        """Or the records that take the place of the cut ones would pass for flushed."""
        logs = manager(tmp_path)
        log = logs.get_or_create(TP, None, None)
        fill(log, 10)
        log.flush()
        logs.checkpoint_recovery_points()
        log.truncate_to(10)
        log.truncate_to(4)
        assert recovery_points(tmp_path) == {TP: 4}
        log.truncate_fully_and_start_at(2)
        assert recovery_points(tmp_path) == {TP: 2}

    def test_a_flush_during_a_truncation_proves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(tmp_path)
        fill(log, 10)
        real, own = os.fdatasync, threading.get_ident()

        def meanwhile(fd: int) -> None:
            real(fd)
            if threading.get_ident() == own:  # and not the flusher of somebody else's logs
                log.truncate_to(2)
                fill(log, 5)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", meanwhile)
            log.flush()
        assert (log.log_end_offset, log.recovery_point) == (7, 0)
        log.flush()
        assert log.recovery_point == 7

    def test_a_topic_of_the_same_name_begins_anew(self, tmp_path: Path) -> None:
        """Its positions are not those of the deleted one, not even after a crash."""
        logs = manager(tmp_path, segment_bytes=500)
        log = logs.get_or_create(TP, None, None)
        fill(log)
        log.flush()
        log.advance_log_start_offset(19, "test")
        logs.checkpoint_recovery_points()
        logs.checkpoint_log_starts()
        logs.async_delete(TP)
        fresh = logs.get_or_create(TP, None, None)
        fill(fresh, 5)
        again = manager(tmp_path, segment_bytes=500).get(TP)
        assert again is not None
        assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 5, 0)

    def test_and_also_when_the_deletion_was_in_another_life(self, tmp_path: Path) -> None:
        logs = manager(tmp_path)
        fill(logs.get_or_create(TP, None, None))
        logs.get_or_create(TP, None, None).advance_log_start_offset(19, "test")
        logs.checkpoint_log_starts()
        logs.async_delete(TP)
        fresh = manager(tmp_path).get_or_create(TP, None, None)
        fill(fresh, 5)
        again = manager(tmp_path).get(TP)
        assert again is not None
        assert (again.log_start_offset, again.log_end_offset) == (0, 5)


def test_the_brokers_configs() -> None:
    given = {"broker.id": "1", "zookeeper.connect": "z:1"}
    config = BrokerConfig.from_properties(given)
    assert config.log_flush_interval_ms == config.log_flush_interval_messages == 2**63 - 1
    config = BrokerConfig.from_properties({**given, "log.flush.scheduler.interval.ms": "2000"})
    assert config.log_flush_interval_ms == 2000
    given |= {"log.flush.scheduler.interval.ms": "2000", "log.flush.interval.ms": "5"}
    assert BrokerConfig.from_properties(given).log_flush_interval_ms == 5
