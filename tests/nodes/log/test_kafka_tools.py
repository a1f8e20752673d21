"""Apache Kafka reads what we write, and we read what it writes (its jars, where they are)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.runtime.protocol import SetupError
from harness.sut.kafka_jars import ZOOKEEPER_LINE, libs_dir
from nodes.log import Log
from nodes.wire.compression import is_readable
from nodes.wire.records import iter_batches
from tests.nodes.log.logs import NOW_MS, batch, files, keyed, open_log

pytestmark = pytest.mark.slow

_JVM_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_DEADLINE_S = 120
DENSE = {"index_interval_bytes": 200}


@pytest.fixture(scope="module")
def libs() -> Path:
    if shutil.which("java") is None:
        pytest.skip("needs java")
    try:
        return libs_dir(ZOOKEEPER_LINE)
    except SetupError as lacking:
        pytest.skip(str(lacking))


def java(libs: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["java", *_JVM_FLAGS, "-cp", f"{libs}/*", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )


def dump(libs: Path, paths: Sequence[Path], *options: str) -> tuple[str, str]:
    """What `kafka-dump-log.sh` says: (its findings, what it complains of)."""
    names = ",".join(map(str, paths))
    done = java(libs, "kafka.tools.DumpLogSegments", "--files", names, *options)
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if not re.match(r"SLF4J|log4j", line)]
    return done.stdout, "\n".join(complaints)


def of_all_kinds(directory: Path) -> Log:
    """Several segments, the last one active and in use; a truncation, times that go back, batches
    of many records, compressed ones, and an idempotent producer."""
    log = open_log(directory, segment_bytes=2000, **DENSE)
    codecs = [codec for codec in (0, 1, 2, 3, 4) if is_readable(codec)]
    for number in range(50):
        time_ms = NOW_MS + (number * 37 % 23) * 1000
        values = [b"%040d" % n for n in range(1 + number % 4)]
        log.append_as_leader(
            batch(*values, timestamp_ms=time_ms, attributes=codecs[number % len(codecs)]),
            number // 9,
        )
        if number == 36:
            end = log.log_end_offset
    log.truncate_to(end)
    sequence = 0
    for number in range(30):
        values = [b"after", b"%050d" % number]
        data = batch(
            *values,
            timestamp_ms=NOW_MS + 5000 + number,
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
        )
        log.append_as_leader(data, 9)
        sequence += 2
    assert log.segment_count > 3
    return log


def parts(log: Log) -> list[Path]:
    return [
        p for suffix in (".log", ".index", ".timeindex") for p in sorted(log.dir.glob("*" + suffix))
    ]


def test_kafkas_own_tool_finds_no_fault(libs: Path, tmp_path: Path) -> None:
    """Also with the active segment as it is while the broker runs."""
    log = of_all_kinds(tmp_path)
    log.flush()
    snapshots = sorted(log.dir.glob("*.snapshot"))
    findings, complaints = dump(libs, [*parts(log), *snapshots], "--deep-iteration")
    assert complaints == ""
    assert len(re.findall(r"^\| offset: ", findings, re.M)) == log.log_end_offset
    assert findings.count("isvalid: true") == findings.count("baseOffset: ") > 50
    assert len(re.findall(r"^offset: \d+ position: ", findings, re.M)) > 10
    assert len(re.findall(r"^timestamp: \d+ offset: ", findings, re.M)) > 5
    assert "producerId: 7 producerEpoch: 0" in findings


def test_its_sanity_check_passes(libs: Path, tmp_path: Path) -> None:
    log = of_all_kinds(tmp_path)
    indexes = [path for path in parts(log) if path.suffix != ".log"]
    findings, complaints = dump(libs, indexes, "--index-sanity-check")
    assert complaints == ""
    passed = findings.count("passed sanity check.") + findings.count("is empty.")
    assert passed == len(indexes) > 6


def test_the_tool_would_say_so(libs: Path, tmp_path: Path) -> None:
    """What the silence above is worth."""
    log = of_all_kinds(tmp_path)
    for suffix, at in ((".index", 3), (".timeindex", 7)):
        path = sorted(log.dir.glob("*" + suffix))[0]
        data = bytearray(path.read_bytes())
        data[at] += 1
        path.write_bytes(data)
    _, complaints = dump(libs, parts(log), "--deep-iteration")
    assert "Mismatches in :" in complaints
    assert "Found timestamp mismatch in :" in complaints


@pytest.mark.parametrize("clean", [True, False])
def test_what_kafka_wrote_is_read(libs: Path, tmp_path: Path, clean: bool) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    source = Path(__file__).parent / "java" / "WriteSegments.java"
    done = java(libs, source, directory)
    assert done.returncode == 0, done.stderr
    assert files(directory, ".log") == [0, 40, 80]
    assert (directory / f"{80:020d}.index").stat().st_size == 4096  # grown in advance
    sealed = {p.name: p.read_bytes() for p in directory.glob("*index") if int(p.stem) < 80}
    log = open_log(tmp_path, clean=clean, recovery_point=80, **DENSE)
    assert (log.log_start_offset, log.log_end_offset) == (0, 120)
    codecs = set()
    offset = 0
    while data := log.read(offset, 1 << 20):
        for view in iter_batches(data):
            assert view.header.base_offset == offset
            codecs.add(view.header.compression)
            offset = view.header.next_offset
    assert (offset, codecs) == (120, {0, 1, 2, 3, 4})
    # Taken over, not made again.
    assert {name: (directory / name).read_bytes() for name in sealed} == sealed
    newest = log.offset_of_max_timestamp()
    assert newest is not None
    assert newest[0] == NOW_MS + 19003
    log.append_as_leader(batch(b"x" * 500, timestamp_ms=NOW_MS + 10**6), 1)
    log.append_as_leader(batch(b"x" * 500, timestamp_ms=NOW_MS + 10**7), 1)
    log.close()
    assert dump(libs, parts(log), "--deep-iteration")[1] == ""


def test_a_cleaned_log_has_gaps_and_no_other_fault(libs: Path, tmp_path: Path) -> None:
    log = open_log(
        tmp_path,
        segment_bytes=2000,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=0.0,
        **DENSE,
    )
    codecs = [codec for codec in (0, 1, 2, 3, 4) if is_readable(codec)]
    for number in range(200):
        rows = [(b"k%d" % (number % 7), b"%030d" % number), (b"gone", None), (b"k", b"v")]
        data = keyed(
            *rows,
            timestamp_ms=NOW_MS + (number * 37 % 23) * 1000,
            attributes=codecs[number % len(codecs)],
            producer_id=number // 50,
            producer_epoch=0,
            base_sequence=number % 50 * 3,
        )
        log.append_as_leader(data, 0)
    assert log.clean(log.log_end_offset)
    log.close()
    findings, complaints = dump(libs, parts(log), "--deep-iteration")
    assert findings.count("isvalid: true") == findings.count("baseOffset: ") > 5
    assert "deleteHorizonMs: OptionalLong[" in findings
    assert re.search(r"count: 0 baseSequence: ", findings)
    gaps = [line for line in complaints.splitlines() if not line.startswith("  ")]
    assert gaps
    assert all(line.startswith("Non-consecutive offsets in ") for line in gaps)
