"""No path leaves the log directory, whatever a name says and whatever lies on the disk already."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import LogConfig, LogManager
from nodes.log.checkpoints import RECOVERY_POINTS, read_offsets
from nodes.log.paths import OutsideLogDir, inside, partition_dir, partition_of
from nodes.log.removal import is_deleted, rename_for_deletion

HEX = "0123456789abcdef" * 2
NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.lists(
        st.sampled_from(["..", ".", "/", "a", "data", "-evil", "\0", "-0", "~"]), max_size=7
    ).map("".join),
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """With neighbours whose paths begin as its own does."""
    for name in ("data", "data-evil", "dat"):
        (tmp_path / name).mkdir()
    return tmp_path / "data"


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(name=NAMES)
def test_a_path_is_directly_inside_or_there_is_none(log_dir: Path, name: str) -> None:
    try:
        path = inside(log_dir, name)
    except OutsideLogDir:
        single = name not in ("", ".", "..") and not {"/", "\0"} & set(name)
        assert not single or len(name.encode()) > 255
        return
    assert path == log_dir / name
    assert os.path.dirname(os.path.realpath(path)) == os.path.realpath(log_dir)
    assert os.listdir(log_dir) == []


@pytest.mark.parametrize(
    "name", ["../data-evil", "../data", "../data/x", "x/../y", "x/y", "./x", "/etc", "..", ".", ""]
)
def test_names_that_are_paths(log_dir: Path, name: str) -> None:
    with pytest.raises(OutsideLogDir) as refused:
        inside(log_dir, name)
    assert refused.value.error is Errors.KAFKA_STORAGE_ERROR


def test_links(log_dir: Path, tmp_path: Path) -> None:
    """The log directory may be one; what lies in it may not, wherever it leads."""
    (tmp_path / "link").symlink_to(log_dir)
    assert inside(tmp_path / "link", "t-0") == tmp_path / "link" / "t-0"
    (log_dir / "own-0").mkdir()
    for name, target in (
        ("out-0", tmp_path / "data-evil"),
        ("none-0", tmp_path / "nothing"),
        ("other-0", log_dir / "own-0"),
        ("self-0", log_dir / "self-0"),
    ):
        (log_dir / name).symlink_to(target)
        for folder in (log_dir, tmp_path / "link"):
            with pytest.raises(OutsideLogDir):
                inside(folder, name)
    assert inside(log_dir, "own-0").is_dir()


def test_partitions(log_dir: Path) -> None:
    assert partition_dir(log_dir, TopicPartition("t", 7)) == log_dir / "t-7"
    for topic, partition in (("..", 0), ("a/b", 0), ("", 0), ("t", -1), ("t", 2**31)):
        with pytest.raises(ApiError) as refused:
            partition_dir(log_dir, TopicPartition(topic, partition))
        assert refused.value.error is Errors.INVALID_TOPIC_EXCEPTION


def test_names_of_folders() -> None:
    assert partition_of("b-c-12") == TopicPartition("b-c", 12)
    assert partition_of("a--1") == TopicPartition("a-", 1)
    assert partition_of("t-2147483647") == TopicPartition("t", 2**31 - 1)
    for name in (
        *("lost+found", "a-", "-1", "a-x", "a-0.abc-delete", "a", "", "a-+1", "a-1_0", "a- 1"),
        *(
            "a-00",
            "a-01",
            "a-²",
            "a-\N{ARABIC-INDIC DIGIT ONE}",
            "t-2147483648",
            "a-" + "9" * 5000,
            "é-0",
            "a b-0",
        ),
        *("..-0", ".-0", "x" * 250 + "-0", f"{'x' * 249}-100000", "a-0\n"),
    ):
        assert partition_of(name) is None, name


def test_deletion_renames_within_the_log_directory(log_dir: Path) -> None:
    for tp in (TopicPartition("t", 0), TopicPartition("x" * 249, 99_999)):
        directory = partition_dir(log_dir, tp)
        directory.mkdir()
        renamed = rename_for_deletion(directory, tp)
        assert renamed.parent == log_dir
        assert is_deleted(renamed.name)
        assert os.listdir(log_dir) == [renamed.name]
        renamed.rmdir()


def test_a_start_takes_only_what_is_its_own(
    log_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Folders with strange names and links are left alone, and so is what the links lead to."""
    kept = ["t-00", "t-²", "é-0", "please-do-not-delete", "x-0.future", f"z.{HEX[:-1]}-delete"]
    for name in ("t-0", f"t-0.{HEX}-delete", *kept):
        (log_dir / name).mkdir()
        (log_dir / name / "file").write_text("")
    (tmp_path / "data-evil" / "file").write_text("")
    links = ["linked-0", f"linked-1.{HEX}-delete"]
    for name in links:
        (log_dir / name).symlink_to(tmp_path / "data-evil")
    lines = ["t 0 0", "../data-evil 0 5", "t -1 5", "t 4294967296 5", "ok 3 9"]
    text = "\n".join(["0", str(len(lines)), *lines, ""])
    (log_dir / RECOVERY_POINTS).write_text(text)

    manager = LogManager([log_dir], LogConfig(), now_ms=lambda: 0, broker_id=1)
    manager.load()
    assert [log.tp for log in manager.all()] == [TopicPartition("t", 0)]
    assert read_offsets(log_dir / RECOVERY_POINTS) == {
        TopicPartition("t", 0): 0,
        TopicPartition("ok", 3): 9,
    }
    assert set(os.listdir(log_dir)) >= {*kept, *links}
    assert f"t-0.{HEX}-delete" not in os.listdir(log_dir)
    assert os.listdir(tmp_path / "data-evil") == ["file"]
    for name in (*kept, *links):
        assert f"{log_dir}/{name}" in caplog.text
    manager.close()
    assert os.listdir(tmp_path / "data-evil") == ["file"]


def test_files_that_are_no_segments(log_dir: Path) -> None:
    """`str.isdigit` calls more than ten characters digits, of which `int` takes only some."""
    (log_dir / "t-0").mkdir()
    names = [
        "².log",
        "1.log",
        "\N{ARABIC-INDIC DIGIT ONE}.log",
        "00000000000000000000.log.bak",
        "².snapshot",
        "x.snapshot",
        "\N{ARABIC-INDIC DIGIT NINE}.snapshot",
        "x.log.swap",
        "².log.swap",
    ]
    for name in names:
        (log_dir / "t-0" / name).write_bytes(b"mine")
    manager = LogManager([log_dir], LogConfig(), now_ms=lambda: 0, broker_id=1)
    manager.load()
    log = manager.get(TopicPartition("t", 0))
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset, log.segment_count) == (0, 0, 1)
    log.truncate_fully_and_start_at(7)
    for name in names:
        assert (log_dir / "t-0" / name).read_bytes() == b"mine"
    manager.close()
