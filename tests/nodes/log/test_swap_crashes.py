"""kill -9 at every step of a cleaned segment's way into its log, and of the start that completes it
(LogLoader's passes over ``.swap`` files).

Before the swap file is there the log is what it was. From then on it is what was cleaned: nothing
of the segments that went into it may come back, and nothing else may go.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodes.log import Log, LogConfig
from nodes.log.cleaner import SCRATCH, SWAP_SUFFIX
from nodes.wire.records import Record
from tests.nodes.log.logs import NOW_MS, files, keyed, open_log
from tests.nodes.log.test_cleaner import records

SMALL = {"segment_bytes": 600, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
LARGE = {**SMALL, "segment_bytes": 1 << 20}


def many_segments(directory: Path, *, last_survives: bool) -> Log:
    """Several segments that will be one. In each a key that nothing overrides, but for the last one
    of them, if so asked; and one that all share, which the active segment overrides."""
    log = open_log(directory, **SMALL)
    number = 0
    while log.segment_count < 6:
        is_last = log.segment_count == 5
        own = b"own%d" % (log.segment_count if last_survives or not is_last else 0)
        for key in (own, b"shared"):
            log.append_as_leader(keyed((key, b"%040d" % number), timestamp_ms=NOW_MS + number), 0)
            number += 1
    for key in (b"own0", b"own1", b"shared"):
        log.append_as_leader(keyed((key, b"newest"), timestamp_ms=NOW_MS + number), 0)
    assert log.segment_count == 6
    log.update_config(LogConfig(**LARGE))  # type: ignore[arg-type]
    return log


class Crashes:
    """A copy of a log's directory before each change to the names in it."""

    def __init__(self, directory: Path, target: Path) -> None:
        self._directory, self._target = directory, target
        self.copies: list[Path] = []

    def take(self) -> None:
        copy = self._target / str(len(self.copies))
        shutil.copytree(self._directory, copy / "t-0")
        self.copies.append(copy)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        def before(real: Callable[..., object]) -> Callable[..., object]:
            def step(path: Path, *args: object, **options: object) -> object:
                if path.parent == self._directory or self._directory in path.parents:
                    self.take()
                return real(path, *args, **options)

            return step

        with pytest.MonkeyPatch.context() as patch:
            for name in ("rename", "unlink"):
                patch.setattr(Path, name, before(getattr(Path, name)))
            yield
        self.take()


def is_swapped(directory: Path, cleaned: bytes) -> bool:
    """Whether the cleaned segment has come out of the scratch folder."""
    swap = list(directory.glob(f"*{SWAP_SUFFIX}"))
    return bool(swap) or (directory / f"{0:020d}.log").read_bytes() == cleaned


def reopened(directory: Path, flushed_upto: int) -> Log:
    """Below that offset segments are taken over by their indexes."""
    log = open_log(directory, clean=False, recovery_point=flushed_upto, **LARGE)
    assert not list(log.dir.glob(f"*{SWAP_SUFFIX}"))
    assert not (log.dir / SCRATCH).exists()
    assert files(log.dir, ".index") == files(log.dir, ".log") == files(log.dir, ".timeindex")
    found = records(log)
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    for record in found:  # by the indexes, too
        first = next(r for r in found if r.timestamp_ms >= record.timestamp_ms)
        assert log.offset_for_timestamp(record.timestamp_ms) == (
            first.timestamp_ms,
            first.offset,
            0,
        )
    return log


def check(
    directory: Path, before: list[Record], after: list[Record], *, swapped: bool, exactly: bool
) -> None:
    log = reopened(directory, before[-1].offset - 2)
    found = records(log)
    if not swapped:
        assert found == before
    elif exactly:
        assert found == after
        assert len(files(log.dir, ".log")) == 2
    else:  # a segment of which nothing is left may still be there; it is cleaned again
        assert set(after) <= set(found) < set(before)
        assert log.clean(log.log_end_offset)
        assert records(log) == after
    assert log.log_end_offset == before[-1].offset + 1


@pytest.mark.slow
@pytest.mark.parametrize("last_survives", [True, False])
def test_killed_at_any_step(tmp_path: Path, last_survives: bool) -> None:
    log = many_segments(tmp_path, last_survives=last_survives)
    before = records(log)
    crashes = Crashes(log.dir, tmp_path / "killed")
    with crashes.recorded():
        assert log.clean(log.log_end_offset)
    after = records(log)
    assert log.segment_count == 2
    assert len(after) < len(before)
    cleaned = (log.dir / f"{0:020d}.log").read_bytes()
    outcomes = []
    for copy in crashes.copies:
        swapped = is_swapped(copy / "t-0", cleaned)
        outcomes.append(swapped)
        again = Crashes(tmp_path / "start" / "t-0", tmp_path / "killed-again")
        shutil.copytree(copy, tmp_path / "start")
        with again.recorded():
            check(
                tmp_path / "start",
                before,
                after,
                swapped=swapped,
                exactly=last_survives or copy is crashes.copies[-1],
            )
        for second in again.copies if last_survives else ():
            check(second, before, after, swapped=swapped, exactly=True)
        shutil.rmtree(tmp_path / "start")
        shutil.rmtree(tmp_path / "killed-again")
    # Two outcomes, one after the other, and a dozen steps in which files are still going.
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) >= 1
    assert outcomes.count(True) > 10
