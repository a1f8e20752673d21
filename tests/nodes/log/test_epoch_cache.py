"""Which leader epoch began where: the cases of Kafka's LeaderEpochFileCacheTest, each also as it is
read again from its file; and what any row of changes must keep."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.log.epoch_cache import LeaderEpochCache

Entries = list[tuple[int, int]]
THREE: Entries = [(2, 6), (3, 8), (4, 11)]


def cache_of(folder: Path, entries: Entries) -> LeaderEpochCache:
    cache = LeaderEpochCache(folder / "leader-epoch-checkpoint")
    cache.clear()
    for entry in entries:
        cache.assign(*entry)
    return cache


def seen(cache: LeaderEpochCache) -> Entries:
    """What it holds, and what the next life finds."""
    again = LeaderEpochCache(cache._path)
    assert again.entries == cache.entries
    assert again.latest == cache.latest == (cache.entries[-1][0] if cache.entries else None)
    return cache.entries


@pytest.mark.parametrize(
    ("assigned", "left"),
    [
        ([(2, 6)], [(2, 6)]),
        ([(2, 6), (2, 7)], [(2, 6)]),
        ([(2, 6), (2, 5)], [(2, 5)]),
        ([(2, 9), (3, 9)], [(3, 9)]),
        ([(2, 9), (3, 8)], [(3, 8)]),
        ([(2, 6), (3, 8), (3, 8)], [(2, 6), (3, 8)]),
        ([(2, 6), (3, 8), (1, 9)], [(1, 9)]),
        ([(2, 6), (3, 8), (2, 9)], [(2, 9)]),
        ([(1, 4), (2, 6), (3, 8), (2, 9)], [(1, 4), (2, 9)]),
        ([(5, 5), (6, 6), (7, 7), (9, 6)], [(5, 5), (9, 6)]),
        ([(5, 5), (6, 6), (7, 7), (6, 7)], [(5, 5), (6, 7)]),
        ([(0, 0), (1, 0)], [(1, 0)]),
        ([(-1, 3)], []),
        ([(2, 6), (-1, 9)], [(2, 6)]),
    ],
)
def test_an_epoch_begins(tmp_path: Path, assigned: Entries, left: Entries) -> None:
    """What contradicts it goes: later epochs, and those that began no earlier."""
    assert seen(cache_of(tmp_path, assigned)) == left


@pytest.mark.parametrize(
    ("entries", "asked", "log_end", "answer"),
    [
        ([], 0, 9, (-1, -1)),
        (THREE, -1, 20, (-1, -1)),
        (THREE, 4, 20, (4, 20)),
        (THREE, 4, 11, (4, 11)),
        (THREE, 3, 20, (3, 11)),
        (THREE, 2, 20, (2, 8)),
        (THREE, 5, 20, (-1, -1)),
        (THREE, 1, 20, (1, 6)),
        (THREE, 0, 20, (0, 6)),
        ([(0, 10), (2, 13), (4, 17)], 1, 20, (0, 13)),
        ([(0, 10), (2, 13), (4, 17)], 3, 20, (2, 17)),
    ],
)
def test_an_epochs_end(
    tmp_path: Path, entries: Entries, asked: int, log_end: int, answer: tuple[int, int]
) -> None:
    """The largest epoch known that is not above the one asked for, and where the next began; of the
    newest, the log's end. Before the first known one: itself, and where that began."""
    assert cache_of(tmp_path, entries).end_offset_for(asked, log_end) == answer


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, -1), (5, -1), (6, 2), (7, 2), (8, 3), (10, 3), (11, 4), (99, 4)]
)
def test_the_epoch_of_an_offset(tmp_path: Path, offset: int, epoch: int) -> None:
    assert cache_of(tmp_path, THREE).epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (0, []),
        (6, []),
        (7, THREE[:1]),
        (8, THREE[:1]),
        (9, THREE[:2]),
        (11, THREE[:2]),
        (12, THREE),
    ],
)
def test_the_log_is_cut(tmp_path: Path, end: int, left: Entries) -> None:
    """Epochs that began there or later were never."""
    cache = cache_of(tmp_path, THREE)
    cache.truncate_from_end(end)
    assert seen(cache) == left


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, THREE),
        (6, THREE),
        (7, [(2, 7), (3, 8), (4, 11)]),
        (8, THREE[1:]),
        (9, [(3, 9), (4, 11)]),
        (11, THREE[2:]),
        (12, [(4, 12)]),
    ],
)
def test_the_log_begins_later(tmp_path: Path, start: int, left: Entries) -> None:
    """The epoch that its start lies in begins there."""
    cache = cache_of(tmp_path, THREE)
    cache.truncate_from_start(start)
    assert seen(cache) == left


def test_nothing_is_left(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, THREE)
    cache.clear()
    assert seen(cache) == []


changes = st.lists(
    st.tuples(st.sampled_from(["assign", "end", "start"]), st.integers(0, 6), st.integers(0, 12)),
    max_size=12,
)


@given(row=changes)
def test_entries_rise_and_each_change_is_kept(
    tmp_path_factory: pytest.TempPathFactory, row: list[tuple[str, int, int]]
) -> None:
    cache = cache_of(tmp_path_factory.getbasetemp(), [])
    for what, leader_epoch, offset in row:
        before = {o: cache.epoch_at(o) for o in range(14)}
        if what == "assign":
            latest = cache.latest
            cache.assign(leader_epoch, offset)
            if latest is None or leader_epoch > latest:
                assert all(cache.epoch_at(o) == leader_epoch for o in range(offset, 14))
                first = cache.entries[0][1]
                assert all(cache.epoch_at(o) == before[o] for o in range(first, offset))
        elif what == "end":
            cache.truncate_from_end(offset)
            assert all(o < offset for _, o in cache.entries)
            assert all(cache.epoch_at(o) == before[o] for o in range(offset))
        else:
            cache.truncate_from_start(offset)
            assert all(cache.epoch_at(o) == before[o] for o in range(offset, 14))
            assert all(o >= offset for _, o in cache.entries[1:])
        entries = seen(cache)
        for earlier, later in itertools.pairwise(entries):
            assert earlier[0] < later[0]
            assert earlier[1] < later[1]
