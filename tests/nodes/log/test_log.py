"""One log: appends, reads, truncation, epochs, retention, restarts and crashes."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.core.errors import ApiError, Errors, RecordsRefused
from nodes.log import AppendInfo, Log, LogConfig
from nodes.log.log import UnexpectedOffset
from nodes.wire.records import build_batch, check_crc, iter_batches, iter_records, read_header
from tests.nodes.log.logs import NOW_MS, TP, batch, contents, copy_as_killed, open_log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path)


def error_of(call: Callable[[], object]) -> Errors:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.error


def test_leader_gives_offsets_and_epochs(log: Log) -> None:
    assert log.latest_epoch is None
    assert log.append_as_leader(batch(b"a", b"b"), 3) == AppendInfo(0, 1, -1, False)
    assert log.append_as_leader(memoryview(batch(b"c")), 5) == AppendInfo(2, 2, -1, False)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (0, 3, 5)
    assert log.epoch_entries == [(3, 0), (5, 2)]
    assert contents(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert [v.header.leader_epoch for v in iter_batches(log.read(0, 1 << 20))] == [3, 5]
    assert log.size_bytes == len(log.read(0, 1 << 20))


def test_log_append_time_is_stamped(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    assert log.append_as_leader(batch(b"a", timestamp_ms=1), 0).log_append_time_ms == NOW_MS
    data = log.read(0, 1 << 20)
    assert check_crc(data)
    assert [record.timestamp_ms for record in iter_records(data)] == [NOW_MS]


def test_bad_batches_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, max_message_bytes=200, segment_bytes=1000)
    good = batch(b"v")
    corrupt = good[:-2] + b"?\0"
    assert error_of(lambda: log.append_as_leader(corrupt, 0)) is Errors.CORRUPT_MESSAGE
    assert error_of(lambda: log.append_as_leader(good[:-1], 0)) is Errors.CORRUPT_MESSAGE
    assert error_of(lambda: log.append_as_leader(good[:30], 0)) is Errors.CORRUPT_MESSAGE
    assert error_of(lambda: log.append_as_leader(good + good, 0)) is Errors.INVALID_RECORD
    assert error_of(lambda: log.append_as_leader(b"", 0)) is Errors.INVALID_RECORD
    old = good[:16] + b"\1" + good[17:]
    assert error_of(lambda: log.append_as_leader(old, 0)) is Errors.INVALID_RECORD
    control = batch(b"v", attributes=0x20)
    assert error_of(lambda: log.append_as_leader(control, 0)) is Errors.INVALID_RECORD
    large = batch(b"v" * 200)
    assert error_of(lambda: log.append_as_leader(large, 0)) is Errors.MESSAGE_TOO_LARGE
    shifted = batch(b"v", base_offset=5)
    assert error_of(lambda: log.append_as_leader(shifted, 0)) is Errors.INVALID_RECORD
    assert (log.log_end_offset, log.latest_epoch) == (0, None)


def recounted(good: bytes, count: int) -> bytes:
    """The same batch with another number of records, consistent but for its content."""
    changed = bytearray(good)
    struct.pack_into(">i", changed, 23, count - 1)
    struct.pack_into(">i", changed, 57, count)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


@pytest.mark.parametrize("count", [1, 2, 4, 2**31 - 1])
def test_records_must_be_as_many_as_the_batch_says(log: Log, count: int) -> None:
    """Or one small batch would move the log's end by two thousand million."""
    good = batch(b"a", b"b" * 300, b"c")
    bad = recounted(good, count)
    assert error_of(lambda: log.append_as_leader(bad, 0)) is Errors.INVALID_RECORD
    assert log.append_as_leader(recounted(good, 3), 0).last_offset == 2


def test_compacted_topics_need_keys(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy="compact")
    assert error_of(lambda: log.append_as_leader(batch(b"v"), 0)) is Errors.INVALID_RECORD
    log.append_as_leader(build_batch([(b"k", b"v", NOW_MS)]), 0)


@pytest.mark.parametrize("codec", [0, 1])
def test_which_records_were_at_fault_is_told(tmp_path: Path, codec: int) -> None:
    """KIP-467, in Kafka's words; a wrong time is what such a batch is refused for."""
    log = open_log(tmp_path, cleanup_policy="compact", message_timestamp_before_max_ms=100)

    def refusal(*rows: tuple[bytes | None, int]) -> RecordsRefused:
        data = build_batch([(key, b"v", NOW_MS + ms) for key, ms in rows], attributes=codec)
        with pytest.raises(RecordsRefused) as refused:
            log.append_as_leader(data, 0)
        return refused.value

    keyless = "Compacted topic cannot accept message without key in topic partition t-0"
    refused = refusal((b"k", 0), (None, 0), (b"k", 0), *[(None, 0)] * 3)
    assert refused.error is Errors.INVALID_RECORD
    assert refused.record_errors == [(n, keyless) for n in (1, 3, 4, 5)]
    shown = ", ".join(f"RecordError(batchIndex={n}, message='{keyless}')" for n in (1, 3, 4))
    assert str(refused) == (
        "One or more records have been rejected due to 4 record errors in total, and only showing "
        f"the first three errors at most: [{shown}]"
    )
    refused = refusal((None, -101), (b"k", -100), (b"k", -101))
    assert refused.error is Errors.INVALID_TIMESTAMP
    assert str(refused) == "One or more records have been rejected due to invalid timestamp"
    assert refused.record_errors == [
        (0, keyless),
        (
            2,
            f"Timestamp {NOW_MS - 101} of message with offset 2 is out of range. "
            f"The timestamp should be within [{NOW_MS - 100}, {NOW_MS - (1 << 63) - 1}]",
        ),
    ]


def test_every_record_at_fault_is_told_up_to_what_a_plain_batch_could_hold(
    tmp_path: Path,
) -> None:
    """Kafka tells of all of them, but a small batch may unpack to millions."""
    log = open_log(tmp_path, cleanup_policy="compact", max_message_bytes=14_000)
    for count, told in ((2_000, 2_000), (2_001, 2_000), (10_000, 2_000)):
        data = build_batch([(None, b"", NOW_MS)] * count, attributes=1)
        assert len(data) < 14_000
        with pytest.raises(RecordsRefused, match=f" {count} record errors") as refused:
            log.append_as_leader(data, 0)
        assert len(refused.value.record_errors) == told


INVALID = Errors.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({}, ()),
        ({"before_max_ms": 100}, (-101,)),
        ({"after_max_ms": 100}, (101,)),
        ({"difference_max_ms": 100}, (-101, 101)),
        ({"difference_max_ms": 50, "before_max_ms": 100}, (-101, 51, 100, 101)),
        ({"difference_max_ms": 50, "after_max_ms": 100}, (-101, -100, -51, 101)),
        ({"before_max_ms": 100, "type": "LogAppendTime"}, ()),
    ],
)
def test_records_of_another_time_are_refused(
    tmp_path: Path, settings: dict[str, object], refused: tuple[int, ...]
) -> None:
    """message.timestamp.*.max.ms (KIP-937): each record's own time, but not one without."""
    log = open_log(tmp_path, **{f"message_timestamp_{k}": v for k, v in settings.items()})
    for away_ms in (-101, -100, -51, -50, 0, 50, 51, 100, 101):
        for codec in (0, 1):
            rows = [(None, b"v", time_ms) for time_ms in (NOW_MS, NOW_MS + away_ms, NOW_MS)]
            send = partial(log.append_as_leader, build_batch(rows, attributes=codec), 0)
            if away_ms in refused:
                assert error_of(send) is Errors.INVALID_TIMESTAMP
            else:
                send()
    log.append_as_leader(batch(b"v", timestamp_ms=-1), 0)


@pytest.mark.parametrize(
    ("producer_epoch", "error"), [(-1, None), (-2, INVALID), (-(2**15), INVALID)]
)
def test_no_producer_begins_below_no_epoch(
    log: Log, producer_epoch: int, error: Errors | None
) -> None:
    data = batch(b"v", producer_id=7, producer_epoch=producer_epoch, base_sequence=0)
    send = partial(log.append_as_leader, data, 0)
    if error is None:
        send()
    else:
        assert error_of(send) is error
    assert bool(log.active_producers()) is (error is None)


def test_idempotent_producers(log: Log) -> None:
    def send(sequence: int, count: int = 1, epoch: int = 0) -> AppendInfo:
        values = [b"v%d" % n for n in range(count)]
        return log.append_as_leader(
            batch(*values, producer_id=9, producer_epoch=epoch, base_sequence=sequence), 0
        )

    offsets = [send(0, 2)[:2], *(send(sequence)[:2] for sequence in range(2, 7))]
    assert offsets == [(0, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]
    assert send(3) == AppendInfo(3, 3, -1, True)
    assert log.log_end_offset == 7
    # The first batch is the sixth newest: no longer known as a duplicate.
    assert error_of(lambda: send(0, 2)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(lambda: send(8)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(lambda: send(1, epoch=1)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, epoch=1).first_offset == 7
    assert error_of(lambda: send(7)) is Errors.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("clean", [True, False])
def test_producers_survive_a_restart(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path, segment_bytes=400)
    for sequence in range(10):
        log.append_as_leader(
            batch(b"x" * 50, producer_id=9, producer_epoch=2, base_sequence=sequence), 0
        )
    assert log.segment_count > 2
    if clean:
        log.close()
    again = open_log(tmp_path if clean else copy_as_killed(log, tmp_path / "k"), clean=clean)
    duplicate = batch(b"x" * 50, producer_id=9, producer_epoch=2, base_sequence=9)
    assert again.append_as_leader(duplicate, 0) == AppendInfo(9, 9, -1, True)
    following = batch(b"x", producer_id=9, producer_epoch=2, base_sequence=10)
    assert again.append_as_leader(following, 0).first_offset == 10


def test_producers_that_wrote_nothing_for_long_are_forgotten(log: Log) -> None:
    """When the check comes (PeriodicProducerExpirationCheck), and not with retention."""

    def send(sequence: int) -> None:
        row = {"producer_id": 9, "producer_epoch": 0, "base_sequence": sequence}
        log.append_as_leader(batch(b"x", timestamp_ms=NOW_MS, **row), 0)

    send(0)
    log.delete_old_segments(0, NOW_MS + 10**12)
    log.expire_producers(NOW_MS - 1)
    assert error_of(lambda: send(7)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.expire_producers(NOW_MS)
    send(7)


def test_truncation_takes_producer_state_back(log: Log) -> None:
    for sequence in range(4):
        log.append_as_leader(
            batch(b"x", producer_id=1, producer_epoch=0, base_sequence=sequence), 0
        )
    log.truncate_to(2)
    again = log.append_as_leader(batch(b"y", producer_id=1, producer_epoch=0, base_sequence=2), 0)
    assert again == AppendInfo(2, 2, -1, False)


def test_follower_takes_what_the_leader_sends(log: Log, tmp_path: Path) -> None:
    for number in range(5):
        log.append_as_leader(batch(b"%d" % number, b"+"), number)
    follower = open_log(tmp_path / "f")
    data = log.read(0, 1 << 20)
    half = len(data) // 2 + 7
    assert follower.append_as_follower(data[:half]) == AppendInfo(0, 3, -1, False)
    rest = log.read(follower.log_end_offset, 1 << 20)
    assert follower.append_as_follower(rest) == AppendInfo(4, 9, -1, False)
    assert follower.read(0, 1 << 20) == data
    assert follower.epoch_entries == log.epoch_entries
    assert follower.append_as_follower(b"") is None
    with pytest.raises(UnexpectedOffset):
        follower.append_as_follower(rest)
    bad = bytearray(batch(b"x", base_offset=10))
    bad[-1] ^= 1
    assert error_of(lambda: follower.append_as_follower(bytes(bad))) is Errors.CORRUPT_MESSAGE


def test_follower_keeps_gaps(log: Log) -> None:
    log.append_as_follower(batch(b"a") + batch(b"b", base_offset=7))
    assert log.log_end_offset == 8
    assert contents(log, 3) == [(7, b"b")]


def test_reads_are_bounded(log: Log) -> None:
    for number in range(100):
        log.append_as_leader(batch(b"%03d" % number * 20), 0)
    size = len(log.read(0, 1))
    assert log.read(0, 1, min_one=False) == b""
    assert len(log.read(10, 3 * size + 5)) == 3 * size
    assert len(log.read(0, 1 << 20, max_offset=42)) == 42 * size
    assert len(log.read(41, 1 << 20, max_offset=42)) == size
    assert log.read(42, 1 << 20, max_offset=42) == b""
    assert log.read(100, 1 << 20) == b""
    for offset in (-1, 101):
        assert error_of(lambda at=offset: log.read(at, 10)) is Errors.OFFSET_OUT_OF_RANGE  # type: ignore[misc]


def test_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=1000)
    for number in range(50):
        log.append_as_leader(batch(b"%050d" % number), number // 10)
    assert not log.truncate_to(50)
    assert log.truncate_to(23)
    assert (log.log_end_offset, log.latest_epoch) == (23, 2)
    assert [offset for offset, _ in contents(log)] == list(range(23))
    log.append_as_leader(batch(b"new"), 7)
    assert contents(log)[-1] == (23, b"new")
    assert log.epoch_entries == [(0, 0), (1, 10), (2, 20), (7, 23)]
    log.truncate_fully_and_start_at(77)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (77, 77, None)
    assert log.append_as_leader(batch(b"z"), 9).first_offset == 77
    log.close()
    assert contents(open_log(tmp_path)) == [(77, b"z")]


def test_epoch_end_offsets(log: Log) -> None:
    assert log.end_offset_for_epoch(0) == (-1, -1)
    log.start_epoch(2, 0)
    log.append_as_leader(batch(b"a", b"b"), 2)
    log.start_epoch(5, 2)
    log.append_as_leader(batch(b"c"), 5)
    assert log.end_offset_for_epoch(5) == (5, 3)
    assert log.end_offset_for_epoch(4) == (2, 2)
    assert log.end_offset_for_epoch(2) == (2, 2)
    assert log.end_offset_for_epoch(1) == (1, 0)
    assert log.end_offset_for_epoch(6) == (-1, -1)
    assert log.end_offset_for_epoch(-1) == (-1, -1)
    # An epoch that begins where another one began takes its place.
    log.start_epoch(6, 2)
    assert log.epoch_entries == [(2, 0), (6, 2)]


def test_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=2000, index_interval_bytes=100)
    for number in range(100):
        log.append_as_leader(batch(b"x" * 40, timestamp_ms=1000 + number * 10), 1)
    assert log.offset_for_timestamp(0) == (1000, 0, 1)
    assert log.offset_for_timestamp(1495) == (1500, 50, 1)
    assert log.offset_for_timestamp(1990) == (1990, 99, 1)
    assert log.offset_for_timestamp(1991) is None
    assert log.offset_of_max_timestamp() == (1990, 99, 1)


def test_log_start_offset_moves_forward_only(log: Log) -> None:
    for number in range(5):
        log.append_as_leader(batch(b"x"), number)
    assert log.advance_log_start_offset(3, "test")
    assert not log.advance_log_start_offset(2, "test")
    assert not log.advance_log_start_offset(9, "test")
    assert error_of(lambda: log.read(2, 10)) is Errors.OFFSET_OUT_OF_RANGE
    assert [offset for offset, _ in contents(log)] == [3, 4]


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_cut_after_a_restart_still_knows_its_newest_time(
    tmp_path: Path, clean: bool
) -> None:
    """Kafka's segments do not (BIPLANE-2): who asks for a later time then finds nothing."""
    log = open_log(tmp_path, segment_ms=1000)
    for number in range(10):
        log.append_as_leader(batch(b"x", timestamp_ms=1000 + number), 1)
    log.close()
    again = open_log(tmp_path, clean=clean, segment_ms=1000)
    again.truncate_to(8)
    again.append_as_leader(batch(b"y", timestamp_ms=5000), 2)
    assert [segment.name for segment in sorted(log.dir.glob("*.log"))] == [
        f"{0:020d}.log",
        f"{8:020d}.log",
    ]
    assert again.offset_for_timestamp(1007) == (1007, 7, 1)
    assert again.offset_for_timestamp(1008) == (5000, 8, 2)


@pytest.mark.parametrize("preallocate", [True, False])
def test_clean_restart_trims_and_continues(tmp_path: Path, preallocate: bool) -> None:
    log = open_log(tmp_path, segment_bytes=5000, preallocate=preallocate)
    for number in range(200):
        log.append_as_leader(batch(b"%060d" % number), 1)
    before = contents(log)
    path = next(iter(sorted(log.dir.glob("*.log"), reverse=True)))
    assert path.stat().st_size >= log.size_bytes % 5000
    log.close()
    assert sum(p.stat().st_size for p in log.dir.glob("*.log")) == log.size_bytes
    again = open_log(tmp_path, segment_bytes=5000)
    assert contents(again) == before
    assert contents(again, 111)[0][0] == 111
    assert again.append_as_leader(batch(b"x"), 1).first_offset == 200


def test_kill_leaves_preallocated_zeros(tmp_path: Path) -> None:
    log = open_log(tmp_path, preallocate=True)
    for number in range(10):
        log.append_as_leader(batch(b"%d" % number), number)
    assert (log.dir / f"{0:020d}.log").stat().st_size > log.size_bytes
    (log.dir / "leader-epoch-checkpoint").unlink()
    again = open_log(copy_as_killed(log, tmp_path / "k"), clean=False)
    assert contents(again) == contents(log)
    assert again.epoch_entries == log.epoch_entries
    assert again.append_as_leader(batch(b"x"), 10).first_offset == 10


@pytest.mark.parametrize("cut", [2, 30, 61, 70])
def test_torn_tail_is_cut(tmp_path: Path, cut: int) -> None:
    log = open_log(tmp_path)
    for number in range(10):
        log.append_as_leader(batch(b"%d" % number * 30), number)
    size = log.size_bytes
    killed = copy_as_killed(log, tmp_path / "k")
    path = killed / "t-0" / f"{0:020d}.log"
    with open(path, "r+b") as file:
        file.seek(size - cut)
        file.write(b"\0" * cut)
    again = open_log(killed, clean=False)
    assert (again.log_end_offset, again.latest_epoch) == (9, 8)
    assert len(contents(again)) == 9
    assert path.stat().st_size == again.size_bytes
    again.append_as_leader(batch(b"x"), 20)
    assert contents(again)[-1] == (9, b"x")


def test_planted_bug_keeps_a_torn_tail(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(batch(b"abc"), 0)
    size = log.size_bytes
    with open(log.dir / f"{0:020d}.log", "r+b") as file:
        file.seek(size - 2)
        file.write(b"zz")
    killed = copy_as_killed(log, tmp_path / "k")
    kept = Log.open(
        killed / "t-0",
        TP,
        LogConfig(),
        clean_shutdown=False,
        now_ms=lambda: NOW_MS,
        verify_tail=False,
    )
    assert kept.log_end_offset == 1
    assert open_log(killed, clean=False).log_end_offset == 0


def test_garbage_after_the_last_batch_is_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(batch(b"a"), 0)
    with open(log.dir / f"{0:020d}.log", "ab") as file:
        file.write(os.urandom(3000))
    again = open_log(copy_as_killed(log, tmp_path / "k"), clean=False)
    assert contents(again) == [(0, b"a")]


def test_a_large_batch_is_recovered(tmp_path: Path) -> None:
    log = open_log(tmp_path, max_message_bytes=5 << 20)
    log.append_as_leader(batch(b"small"), 0)
    log.append_as_leader(batch(os.urandom(3 << 20)), 0)
    log.append_as_leader(batch(b"small"), 0)
    again = open_log(copy_as_killed(log, tmp_path / "k"), clean=False)
    assert again.log_end_offset == 3
    assert len(again.read(1, 10)) > 3 << 20


@pytest.mark.slow
def test_reads_and_truncations_may_race(log: Log) -> None:
    for number in range(200):
        log.append_as_leader(batch(b"%0100d" % number), 0)
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            try:
                data = log.read(100, 1 << 20)
                for view in iter_batches(data):
                    if not check_crc(data, view.position, view.size_bytes):
                        wrong.append(view)
            except ApiError:
                pass
            except Exception as error:
                wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for round_ in range(100):
        log.truncate_to(90 + round_ % 20)
        for number in range(20):
            log.append_as_leader(batch(b"%050d" % number), round_ + 1)
    stop.set()
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()
    assert wrong == []


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 3)),
            st.tuples(st.just("truncate"), st.integers(0, 40)),
            st.tuples(st.just("restart"), st.booleans()),
        ),
        max_size=30,
    )
)
def test_against_a_list(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """The log is a list of batches; a batch goes as a whole."""
    directory = tmp_path_factory.mktemp("log")
    options = {"segment_bytes": 500, "index_interval_bytes": 100}
    log = open_log(directory, **options)
    model: list[tuple[int, bytes | None]] = []
    end = 0
    batches: list[tuple[int, int]] = []
    for number, (step, argument) in enumerate(steps):
        if step == "append":
            values = [b"%d.%d" % (number, index) * 10 for index in range(argument)]
            assert log.append_as_leader(batch(*values), number).first_offset == end
            model += [(end + index, value) for index, value in enumerate(values)]
            batches.append((end, end + argument - 1))
            end += argument
        elif step == "truncate":
            assert log.truncate_to(argument) == (argument < end)
            if argument < end:
                batches = [(base, last) for base, last in batches if last < argument]
                kept = batches[-1][1] if batches else -1
                model = [entry for entry in model if entry[0] <= kept]
                end = argument
        else:
            if argument:
                log.close()
            reopened = open_log(directory, clean=bool(argument), **options)
            # A gap at the end (a batch cut in its middle) is not remembered on disk.
            end = reopened.log_end_offset
            log = reopened
        assert log.log_end_offset == end
        assert contents(log) == model
    for offset, _ in model:
        assert read_header(log.read(offset, 1)).base_offset <= offset
