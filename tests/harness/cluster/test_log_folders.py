"""Folders as they lie on disk: those of a real log, and each kind of damage to them."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from crc32c import crc32c

from harness.cluster import log_folders
from harness.cluster.log_folders import _files, read_folder
from nodes.log import Log, cleaner
from nodes.wire.records import build_batch, set_log_append_time, with_max_timestamp
from tests.nodes.log.logs import NOW_MS, batch, files, keyed, open_log

EPOCHS = [
    {"leader_epoch": 2, "first_offset": 0, "last_offset": 19},
    {"leader_epoch": 5, "first_offset": 20, "last_offset": 39},
]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Two leader epochs, several segments, two producers, the newer of which writes less often;
    stopped in order."""
    log = open_log(tmp_path, segment_bytes=1200, index_interval_bytes=200)
    sent = {9: 0, 10: 0}
    for offset in range(40):
        producer_id = 10 if offset % 7 == 3 else 9
        data = batch(
            b"x" * 50,
            timestamp_ms=NOW_MS + 1000 * (offset if offset % 5 else offset - 3),
            producer_id=producer_id,
            producer_epoch=1,
            base_sequence=sent[producer_id],
        )
        sent[producer_id] += 1
        log.append_as_leader(data, 2 if offset < 20 else 5)
    log.close()
    return log


def last(log: Log, suffix: str) -> Path:
    return log.dir / f"{files(log.dir, suffix)[-1]:020d}{suffix}"


def first(log: Log, suffix: str) -> Path:
    return log.dir / f"{files(log.dir, suffix)[0]:020d}{suffix}"


def damage(log: Log) -> set[tuple[str, str]]:
    return {(each["sort"], Path(each["file"]).suffix) for each in read_folder(log.dir)["damage"]}


def patch(file: Path, at: int, data: bytes) -> None:
    content = bytearray(file.read_bytes())
    content[at : at + len(data)] = data
    file.write_bytes(content)


def test_a_segment_that_is_about_to_go_is_waited_for(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention tells of the new start first, and takes the file then."""
    gone, following = first(log, ".log"), files(log.dir, ".log")[1]
    begun = following if following < 20 else 20
    checkpoint = log.dir / "leader-epoch-checkpoint"
    checkpoint.write_text(f"0\n2\n2 {begun}\n5 20\n")
    looks: list[float] = []

    def look(pause_s: float) -> None:
        looks.append(pause_s)
        if len(looks) == 3:
            gone.unlink()

    # Its own clock, not everybody's: other threads sleep, too.
    clock = SimpleNamespace(sleep=look, monotonic=time.monotonic)
    monkeypatch.setattr(log_folders, "time", clock)
    found = read_folder(log.dir)
    assert len(looks) == 3
    assert found["start_offset"] == following
    assert found["checkpoint"][0] == {"leader_epoch": 2, "offset": begun}


def test_one_that_stays_is_told_of(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_folders, "_GOES_S", 0.0)
    following = files(log.dir, ".log")[1]
    (log.dir / "leader-epoch-checkpoint").write_text(f"0\n2\n2 {following}\n5 20\n")
    found = read_folder(log.dir)
    assert found["start_offset"] == 0
    assert found["checkpoint"][0]["offset"] == following


def test_a_segment_that_goes_while_it_is_read_is_none(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [_files(log.dir, ".log")]
    first(log, ".log").unlink()

    def before_it_went(folder: Path, suffix: str) -> list[Path]:
        return listed.pop() if suffix == ".log" and listed else _files(folder, suffix)

    monkeypatch.setattr(log_folders, "_files", before_it_went)
    found = read_folder(log.dir)
    assert "error" not in found
    assert found["start_offset"] == files(log.dir, ".log")[0]


def test_a_sound_folder(log: Log) -> None:
    found = read_folder(log.dir)
    assert found["damage"] == []
    assert (found["segments"], found["batches"]) == (len(files(log.dir, ".log")), 40)
    assert found["segments"] > 2
    sizes = [file.stat().st_size for file in sorted(log.dir.glob("*.log"))]
    assert [segment["bytes"] for segment in found["kept"]] == sizes
    begins = [segment["base_offset"] for segment in found["kept"]]
    assert begins == [int(file.stem) for file in sorted(log.dir.glob("*.log"))]
    times = [segment["newest_ms"] for segment in found["kept"]]
    assert times == sorted(times)
    assert times[0] > 0
    assert (found["start_offset"], found["end_offset"]) == (0, 40)
    assert found["epochs"] == EPOCHS
    assert found["checkpoint"] == [
        {"leader_epoch": 2, "offset": 0},
        {"leader_epoch": 5, "offset": 20},
    ]
    assert found["snapshots"] == len(files(log.dir, ".snapshot")) > 2
    assert found["index_entries"] > 10
    assert found["topic_id"] is None
    (log.dir / "partition.metadata").write_text("version: 0\ntopic_id: Q3o-BIrrTv2gu74u48kt6g\n")
    assert read_folder(log.dir)["topic_id"] == "Q3o-BIrrTv2gu74u48kt6g"


LawfulChange = Callable[[Log], object]


def _grown(log: Log) -> None:
    """As Kafka maps them."""
    for suffix in (".index", ".timeindex"):
        with last(log, suffix).open("ab") as file:
            file.write(bytes(240))


def _cut_and_grown(log: Log) -> None:
    """As Kafka leaves them: it moves its count, and the bytes stand there."""
    with last(log, ".timeindex").open("ab") as file:
        file.write(struct.pack(">qi", NOW_MS - 60_000, 400) + bytes(240))
    with last(log, ".index").open("ab") as file:
        file.write(struct.pack(">ii", 400, 7) + bytes(240))


LAWFUL: dict[str, LawfulChange] = {
    "indexes grown in advance": _grown,
    "no index": lambda log: last(log, ".index").unlink(),
    "fewer entries": lambda log: patch(first(log, ".index"), 8, bytes(200)),
    "an empty segment": lambda log: (log.dir / f"{40:020d}.log").write_bytes(b""),
    "a snapshot beyond the end": lambda log: (log.dir / f"{99:020d}.snapshot").write_bytes(b"?"),
    "what is about to be removed": lambda log: (log.dir / f"{0:020d}.log.deleted").write_text("?"),
    "a stranger's": lambda log: (log.dir / "²0.log").write_text("?"),
    "segments removed": lambda log: [first(log, s).unlink() for s in (".log", ".index")],
    "an empty checkpoint": lambda log: (log.dir / "leader-epoch-checkpoint").write_text(""),
}


def test_what_a_cut_may_have_left_is_told_as_that(log: Log) -> None:
    _cut_and_grown(log)
    damage = read_folder(log.dir)["damage"]
    assert sorted((d["sort"], d["file"][-6:]) for d in damage) == [
        ("stale-index", ".index"),
        ("stale-index", "eindex"),
    ]


@pytest.mark.parametrize("change", LAWFUL)
def test_what_is_lawful(log: Log, change: str) -> None:
    LAWFUL[change](log)
    assert damage(log) == set()


def _resigned(file: Path, at: int, data: bytes) -> None:
    """A snapshot that is whole, and says something else."""
    patch(file, 10 + at, data)
    content = file.read_bytes()
    patch(file, 2, struct.pack(">I", crc32c(content[6:])))


def _without_a_producer(file: Path) -> None:
    content = struct.pack(">i", 1) + file.read_bytes()[10 : 10 + 46]
    file.write_bytes(struct.pack(">hI", 1, crc32c(content)) + content)


BROKEN: dict[str, tuple[LawfulChange, tuple[str, str]]] = {
    "a flipped byte": (lambda log: patch(first(log, ".log"), 100, b"?"), ("batch", ".log")),
    "half a batch": (
        lambda log: patch(last(log, ".log"), last(log, ".log").stat().st_size, b"\0" * 30),
        ("batch", ".log"),
    ),
    "another format": (lambda log: patch(first(log, ".log"), 16, b"\1"), ("batch", ".log")),
    "an offset again": (
        lambda log: patch(last(log, ".log"), 0, struct.pack(">q", 3)),
        ("batch", ".log"),
    ),
    "beyond its segment": (
        lambda log: patch(first(log, ".log"), 0, struct.pack(">q", 90)),
        ("batch", ".log"),
    ),
    "no batch there": (
        lambda log: patch(first(log, ".index"), 4, struct.pack(">i", 7)),
        ("index", ".index"),
    ),
    "leads too far": (
        lambda log: patch(first(log, ".index"), 0, struct.pack(">i", 0)),
        ("index", ".index"),
    ),
    "out of order": (
        lambda log: patch(first(log, ".index"), 8, first(log, ".index").read_bytes()[:8]),
        ("index", ".index"),
    ),
    "a later one before": (
        lambda log: patch(first(log, ".timeindex"), 0, struct.pack(">q", NOW_MS - 5)),
        ("index", ".timeindex"),
    ),
    "zeros before an entry": (
        lambda log: patch(first(log, ".timeindex"), 0, bytes(12)),
        ("index", ".timeindex"),
    ),
    "zeros amid entries": (
        lambda log: patch(first(log, ".index"), 8, bytes(8)),
        ("index", ".index"),
    ),
    "an entry that outlived what was cut": (
        lambda log: patch(
            first(log, ".timeindex"),
            len(first(log, ".timeindex").read_bytes()),
            struct.pack(">qi", NOW_MS + 60_000, 400),
        ),
        ("index", ".timeindex"),
    ),
    "another offset": (
        lambda log: patch(first(log, ".timeindex"), 8, struct.pack(">i", 400)),
        ("index", ".timeindex"),
    ),
    "a flipped byte of a snapshot": (
        lambda log: patch(first(log, ".snapshot"), 20, b"?"),
        ("snapshot", ".snapshot"),
    ),
    "an older sequence": (
        lambda log: _resigned(first(log, ".snapshot"), 10, struct.pack(">i", 0)),
        ("snapshot", ".snapshot"),
    ),
    "another producer epoch": (
        lambda log: _resigned(first(log, ".snapshot"), 8, struct.pack(">h", 0)),
        ("snapshot", ".snapshot"),
    ),
    "an older last offset": (
        lambda log: _resigned(last(log, ".snapshot"), 14, struct.pack(">q", 0)),
        ("snapshot", ".snapshot"),
    ),
    "a producer forgotten": (
        lambda log: _without_a_producer(last(log, ".snapshot")),
        ("snapshot", ".snapshot"),
    ),
    "a snapshot cut short": (
        lambda log: last(log, ".snapshot").write_bytes(b"\0\1"),
        ("snapshot", ".snapshot"),
    ),
    "a checkpoint that tells of fewer": (
        lambda log: (log.dir / "leader-epoch-checkpoint").write_text("0\n2\n2 0\n"),
        ("epochs", ""),
    ),
    "no numbers": (
        lambda log: (log.dir / "leader-epoch-checkpoint").write_text("0\n1\n2 x\n"),
        ("epochs", ""),
    ),
}


@pytest.mark.parametrize("change", BROKEN)
def test_what_is_damaged(log: Log, change: str) -> None:
    apply, wanted = BROKEN[change]
    apply(log)
    assert wanted in damage(log)


SPREAD = build_batch([(None, b"v", NOW_MS + after_ms) for after_ms in (0, 300, 200)])


def test_a_batch_tells_the_time_of_its_latest_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(SPREAD, 0)
    log.close()
    assert damage(log) == set()
    last(log, ".log").write_bytes(with_max_timestamp(SPREAD, NOW_MS + 200))
    assert damage(log) == {("times", ".log")}


def test_an_entry_is_of_the_first_batch_that_has_its_time(tmp_path: Path) -> None:
    """Who searches for just that time begins there."""
    log = open_log(tmp_path, index_interval_bytes=100)
    for after_ms in (0, 5, 5, 5, 3):
        log.append_as_leader(batch(b"x" * 200, timestamp_ms=NOW_MS + after_ms), 0)
    log.close()
    times = last(log, ".timeindex")
    assert list(struct.iter_unpack(">qi", times.read_bytes())) == [(NOW_MS + 5, 1)]
    assert damage(log) == set()
    for offset in (2, 3, 4):
        patch(times, 8, struct.pack(">i", offset))
        assert damage(log) == {("index", ".timeindex")}


def test_a_batch_that_was_given_its_time_has_no_other(tmp_path: Path) -> None:
    given = bytearray(SPREAD)
    set_log_append_time(given, 0, len(given), NOW_MS + 900)
    (tmp_path / f"{0:020d}.log").write_bytes(given)
    assert read_folder(tmp_path)["damage"] == []


def _followed(tmp_path: Path, *sent: tuple[int, int]) -> Log:
    """What a leader that refused nothing would have sent: producer epochs and sequences, two
    records a batch."""
    log = open_log(tmp_path)
    for offset, (epoch, sequence) in enumerate(sent):
        data = batch(
            b"x",
            b"y",
            producer_id=9,
            producer_epoch=epoch,
            base_sequence=sequence,
            base_offset=2 * offset,
        )
        log.append_as_follower(data)
    log.close()
    return log


@pytest.mark.parametrize(
    "sent",
    [
        [(0, 0), (0, 2), (1, 0), (1, 2)],
        [(0, 0), (0, 4)],  # what lies between was compacted
        [(0, 2**31 - 2), (0, 0)],
    ],
)
def test_what_a_producer_may_have_written(tmp_path: Path, sent: list[tuple[int, int]]) -> None:
    assert damage(_followed(tmp_path, *sent)) == set()


@pytest.mark.parametrize(
    "sent",
    [
        [(0, 0), (1, 0), (0, 2)],
        [(0, 0), (0, 2), (0, 2)],
        [(0, 0), (0, 2), (0, 1)],
        [(0, 0), (0, 2), (0, 0), (0, 4)],
    ],
)
def test_what_no_leader_takes_of_a_producer(tmp_path: Path, sent: list[tuple[int, int]]) -> None:
    assert damage(_followed(tmp_path, *sent)) == {("producer", ".log")}


def test_a_checkpoint_that_is_not_there_yet(log: Log) -> None:
    (log.dir / "leader-epoch-checkpoint").unlink()
    assert read_folder(log.dir)["checkpoint"] == []


def test_a_log_that_is_nowhere_and_a_folder_that_cannot_be_read(log: Log, tmp_path: Path) -> None:
    """The first its broker should have; of the second nobody can say anything."""
    nowhere: dict[str, Any] = read_folder(tmp_path / "t-1")
    assert (nowhere["segments"], nowhere["end_offset"]) == (0, 0)
    assert "no folder" in read_folder(tmp_path / "elsewhere" / "t-1")["error"]
    (log.dir / "partition.metadata").mkdir()
    assert "IsADirectoryError" in read_folder(log.dir)["error"]


@pytest.fixture
def overridden(tmp_path: Path) -> Log:
    """A producer that wrote in the beginning, and whose keys another one has overridden since."""
    settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
    log = open_log(tmp_path, segment_bytes=400, **settings)
    for producer_id, count in ((7, 3), (8, 40)):
        for sequence in range(count):
            of = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            log.append_as_leader(keyed((b"k", b"%030d" % sequence), **of), 0)
    return log


def _closed(log: Log) -> set[tuple[str, str]]:
    log.close()
    return damage(log)


def test_what_compaction_leaves_of_a_producer_is_enough(overridden: Log) -> None:
    assert overridden.clean(overridden.log_end_offset)
    assert _closed(overridden) == set()
    known = {one["producer_id"]: one for one in read_folder(overridden.dir)["producers"]}
    assert known[7]["last_sequence"] == 2


def test_what_compaction_has_emptied_tells_of_no_time(tmp_path: Path) -> None:
    settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
    log = open_log(tmp_path, segment_bytes=400, **settings)
    of = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(keyed((b"k", b"%030d" % 0), timestamp_ms=NOW_MS + 50, **of), 0)
    for number in range(40):
        log.append_as_leader(keyed((b"k", b"%030d" % number)), 0)
    assert log.clean(log.log_end_offset)
    assert _closed(log) == set()
    found = read_folder(log.dir)
    assert [one["producer_id"] for one in found["producers"]] == [7]
    assert max(one["newest_ms"] for one in found["kept"]) == NOW_MS


def test_a_producer_whose_last_batch_compaction_took_is_forgotten(
    overridden: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps = cleaner.clean_batch
    monkeypatch.setattr(
        cleaner,
        "clean_batch",
        lambda *a, is_producers_last, **more: keeps(*a, is_producers_last=False, **more),
    )
    assert overridden.clean(overridden.log_end_offset)
    assert _closed(overridden) == {("forgotten", ".snapshot")}
    (told,) = read_folder(overridden.dir)["damage"]
    assert told["says"] == "producer 7 has written up to 2; the log has no such batch of it"


def test_a_producer_whose_segments_are_gone_may_be(overridden: Log) -> None:
    for base in files(overridden.dir, ".log")[:4]:
        (overridden.dir / f"{base:020d}.log").unlink()
    assert ("forgotten", ".snapshot") not in _closed(overridden)


@pytest.mark.parametrize("to", [1, 2, 3, 20])
def test_a_cut_takes_along_what_snapshots_know(overridden: Log, to: int) -> None:
    overridden.truncate_to(to)
    assert _closed(overridden) == set()
