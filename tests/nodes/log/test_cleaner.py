"""Compaction: what of a log stays, when it happens, and what a crash in it leaves."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.log import Log, LogConfig, LogManager
from nodes.log.cleaner import SCRATCH
from nodes.wire.records import Record, check_crc, iter_batches, iter_records
from tests.nodes.log.logs import NOW_MS, TP, files, keyed, open_log

SMALL = {"segment_bytes": 600, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
DAY_MS = 24 * 3600 * 1000


def records(log: Log) -> list[Record]:
    found: list[Record] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20):
        for view in iter_batches(data):
            assert check_crc(data, view.position, view.size_bytes)
            found += iter_records(data[view.position : view.position + view.size_bytes])
            offset = view.header.next_offset
    return found


def put(log: Log, *rows: tuple[bytes, bytes | None], **options: int) -> None:
    log.append_as_leader(keyed(*rows, **options), 0)


def latest(found: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in found}


def filled(directory: Path, count: int = 60, keys: int = 5, **settings: object) -> Log:
    log = open_log(directory, **{**SMALL, **settings})
    for number in range(count):
        put(log, (b"k%d" % (number % keys), b"%030d" % number), (b"other", b"%d" % number))
    return log


def test_the_last_of_each_key_stays_where_it_was(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before = records(log)
    active = files(log.dir, ".log")[-1]
    assert log.clean(log.log_end_offset)
    after = records(log)
    assert set(after) <= set(before)
    below = [record for record in after if record.offset < active]
    assert sorted(record.key for record in below) == [b"k0", b"k1", b"k2", b"k3", b"k4", b"other"]
    assert [r for r in after if r.offset >= active] == [r for r in before if r.offset >= active]
    assert latest(after) == latest(before)
    assert log.cleaned_upto == active
    assert (log.log_start_offset, log.log_end_offset) == (0, 120)
    assert not (log.dir / SCRATCH).exists()
    assert not log.clean(log.log_end_offset)


def test_nothing_above_the_high_watermark_is_touched(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before = records(log)
    bases = files(log.dir, ".log")
    assert not log.clean(bases[1] - 1)
    assert log.clean(bases[3])
    after = records(log)
    assert log.cleaned_upto == bases[3]
    assert [r for r in after if r.offset >= bases[3]] == [r for r in before if r.offset >= bases[3]]
    assert len(after) < len(before)


def test_not_before_enough_is_dirty(tmp_path: Path) -> None:
    log = filled(tmp_path, keys=60, min_cleanable_dirty_ratio=0.5)
    assert log.clean(log.log_end_offset)
    size = log.size_bytes
    put(log, (b"k0", b"x" * 400))
    put(log, (b"k1", b"x" * 400))
    assert not log.clean(log.log_end_offset)
    assert log.size_bytes > size
    for number in range(60):
        put(log, (b"k%d" % number, b"x" * 100))
    assert log.clean(log.log_end_offset)


def test_not_before_its_records_are_old_enough(tmp_path: Path) -> None:
    """min.compaction.lag.ms: from the first segment on that holds a younger record."""
    now = [NOW_MS]
    log = open_log(tmp_path, now_ms=lambda: now[0], min_compaction_lag_ms=1000, **SMALL)
    for number in range(40):
        put(log, (b"k", b"%060d" % number))
    now[0] += 999
    assert not log.clean(log.log_end_offset)
    young = log.log_end_offset
    for number in range(40):
        log.append_as_leader(keyed((b"k", b"%060d" % number), timestamp_ms=now[0]), 0)
    now[0] += 1
    assert log.clean(log.log_end_offset)
    assert {record.offset for record in records(log)} >= set(range(young, young + 40))
    assert len(records(log)) < 40 + 10


def test_not_later_than_its_records_may_wait(tmp_path: Path) -> None:
    """max.compaction.lag.ms goes before min.cleanable.dirty.ratio."""
    now = [NOW_MS]
    settings = SMALL | {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 1000}
    log = open_log(tmp_path, now_ms=lambda: now[0], **settings)
    for number in range(40):
        put(log, (b"k", b"%060d" % number))
    now[0] += 1000
    assert not log.clean(log.log_end_offset)
    now[0] += 1
    assert log.clean(log.log_end_offset)
    assert len(records(log)) < 10


def test_tombstones_stay_for_their_time(tmp_path: Path) -> None:
    now = [NOW_MS]
    log = open_log(tmp_path, now_ms=lambda: now[0], delete_retention_ms=DAY_MS, **SMALL)

    def more() -> None:
        for _ in range(20):
            put(log, (b"fill", b"x" * 60))

    put(log, (b"gone", b"v"), (b"kept", b"v"))
    put(log, (b"gone", None))
    more()
    assert log.clean(log.log_end_offset)
    assert latest(records(log))[b"gone"] is None
    (tombstone,) = [record for record in records(log) if record.key == b"gone"]
    assert (tombstone.offset, tombstone.timestamp_ms) == (2, NOW_MS)
    now[0] += DAY_MS - 1
    more()
    assert log.clean(log.log_end_offset)
    assert b"gone" in latest(records(log))
    now[0] += 1
    more()
    assert log.clean(log.log_end_offset)
    assert b"gone" not in latest(records(log))
    assert latest(records(log))[b"kept"] == b"v"


def test_the_last_batch_of_a_producer_stays_as_its_memory(tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    for sequence in range(3):
        put(log, (b"k", b"v"), producer_id=7, producer_epoch=0, base_sequence=sequence)
    for _ in range(30):
        put(log, (b"k", b"x" * 60))
    assert log.clean(log.log_end_offset)
    headers = [view.header for view in iter_batches(log.read(0, 1 << 20))]
    (left,) = [header for header in headers if header.producer_id == 7]
    assert (left.base_offset, left.record_count, left.base_sequence) == (2, 0, 2)
    for path in log.dir.glob("*.snapshot"):
        path.unlink()
    log.close()
    for path in log.dir.glob("*.snapshot"):
        path.unlink()
    again = open_log(tmp_path, clean=False, **SMALL)
    assert [producer.last_sequence for producer in again.active_producers()] == [2]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_cleaned_log_comes_back(tmp_path: Path, clean: bool, policy: str) -> None:
    """Its gaps are no losses, whatever the policy is by then."""
    logs = LogManager([tmp_path], LogConfig(**SMALL), now_ms=lambda: NOW_MS, broker_id=1)  # type: ignore[arg-type]
    logs.load()
    log = logs.get_or_create(TP, None, None)
    for number in range(200):
        put(log, (b"k%d" % (number % 3), b"%030d" % number))
    assert logs.clean_logs(lambda tp: log.log_end_offset) == 1
    before = records(log)
    if clean:
        logs.close()
    config = LogConfig(**{**SMALL, "cleanup_policy": policy})  # type: ignore[arg-type]
    again = LogManager([tmp_path], config, now_ms=lambda: NOW_MS, broker_id=1)
    again.load()
    found = again.get(TP)
    assert found is not None
    assert records(found) == before
    assert found.log_end_offset == 200
    assert found.cleaned_upto == log.cleaned_upto > 0


def test_only_what_asks_for_it_is_cleaned(tmp_path: Path) -> None:
    logs = LogManager([tmp_path], LogConfig(segment_bytes=600), now_ms=lambda: NOW_MS, broker_id=1)
    logs.load()
    log = logs.get_or_create(TP, None, None)
    for number in range(60):
        put(log, (b"k", b"%030d" % number))
    assert logs.clean_logs(lambda tp: 60) == 0
    log.update_config(LogConfig(**SMALL))  # type: ignore[arg-type]
    assert logs.clean_logs(lambda tp: None) == 0
    assert logs.clean_logs(lambda tp: 60) == 1


@pytest.mark.parametrize(
    "when",
    ["while it copies", "before the swap", "after the swap came", "in the middle of the swap"],
)
def test_a_crash_while_cleaning(tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path, count=200, keys=20)
    assert log.clean(log.log_end_offset)  # small segments, of which the next run makes fewer
    for number in range(0, 20, 2):
        put(log, (b"k%d" % number, b"x" * 60))
    before = records(log)
    killed = tmp_path / "k" / "t-0"
    real_rename = Path.rename
    renamed: list[str] = []

    def crash(self: Path, target: Path) -> Path:
        renamed.append(self.name)
        if when == "before the swap" and self.name.endswith(".log") and not killed.exists():
            shutil.copytree(log.dir, killed)
        if (
            when == "in the middle of the swap"
            and self.name.endswith(".swap")
            and not killed.exists()
        ):
            shutil.copytree(log.dir, killed)
        return real_rename(self, target)

    def copied(directory: Path) -> None:
        if when == "after the swap came" and list(directory.glob("*.swap")) and not killed.exists():
            shutil.copytree(directory, killed)

    monkeypatch.setattr(Path, "rename", crash)
    monkeypatch.setattr("nodes.log.upkeep.sync_directory", copied)
    assert log.clean(log.log_end_offset)
    if when == "while it copies":
        shutil.copytree(log.dir, killed)
        (killed / SCRATCH).mkdir()
        (killed / SCRATCH / f"{0:020d}.log").write_bytes(b"half")
    assert any(name.endswith(".swap") for name in renamed)
    monkeypatch.undo()
    again = open_log(tmp_path / "k", clean=False, **SMALL)
    offsets = [record.offset for record in records(again)]
    assert offsets == sorted(set(offsets))
    assert set(records(again)) <= set(before)
    assert latest(records(again)) == latest(before)
    assert again.log_end_offset == log.log_end_offset
    assert not list(again.dir.glob("*.swap"))
    assert not (again.dir / SCRATCH).exists()
    again.clean(again.log_end_offset)
    assert latest(records(again)) == latest(before)


def test_a_log_that_is_cut_or_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path)
    replace = log.replace_segments

    def cut_before(*arguments: object) -> bool:
        log.truncate_to(3)
        return replace(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(log, "replace_segments", cut_before)
        assert not log.clean(log.log_end_offset)
    assert (log.log_end_offset, log.cleaned_upto) == (3, -1)
    for number in range(60):
        put(log, (b"k", b"%030d" % number))

    def deleted_before(*arguments: object) -> bool:
        log.rename_for_deletion()
        return replace(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "replace_segments", deleted_before)
    assert not log.clean(log.log_end_offset)


def test_a_truncation_makes_it_dirty_again(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert log.clean(log.log_end_offset)
    log.truncate_to(7)
    assert log.cleaned_upto == 7


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=80), st.integers(0, 2**16))
def test_what_a_reader_ends_up_with_never_changes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, bool]], seed: int
) -> None:
    draw = random.Random(seed)
    log = open_log(tmp_path_factory.mktemp("log"), **SMALL)
    written: dict[bytes | None, bytes | None] = {}
    for number, (key, erase) in enumerate(rows):
        name, value = b"key-%d" % key, None if erase else b"%020d" % number
        put(log, (name, value), attributes=draw.choice((0, 0, 1)))
        written[name] = value
        if draw.random() < 0.1:
            log.clean(draw.randint(0, log.log_end_offset))
            assert latest(records(log)) == written
    offsets = [record.offset for record in records(log)]
    assert offsets == sorted(set(offsets))
    assert log.log_end_offset == len(rows)
