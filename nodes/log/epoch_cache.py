"""Which offset each leader epoch began at (Kafka's LeaderEpochFileCache, KIP-101 and KIP-279).

Entries rise in both leader epoch and offset. Followers truncate by them, so the file is written on
each change, before the change is answered to anybody. The owner's lock (the log's) guards changes;
whoever asks needs none, and sees the entries of one moment.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from nodes.log.checkpoints import read_leader_epochs, write_leader_epochs

UNDEFINED = (-1, -1)


class LeaderEpochCache:
    """The entries of one partition and their file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        entries = read_leader_epochs(path)
        self._set(entries)

    def _set(self, entries: list[tuple[int, int]]) -> None:
        self._entries = ([epoch for epoch, _ in entries], [offset for _, offset in entries])
        """Leader epochs, and where they start. Replaced, never changed."""
        self.latest = entries[-1][0] if entries else None
        """The newest leader epoch known."""

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(leader_epoch, start_offset), rising."""
        return list(zip(*self._entries, strict=True))

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """A leader epoch begins at an offset; entries that contradict it are dropped."""
        if leader_epoch < 0:
            return
        if leader_epoch == self.latest and start_offset >= self._entries[1][-1]:
            return
        kept = [
            entry for entry in self.entries if entry[0] < leader_epoch and entry[1] < start_offset
        ]
        self._replace([*kept, (leader_epoch, start_offset)])

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(leader_epoch, end_offset) of the largest epoch <= the asked one; (-1, -1) if unknown.

        The end of an epoch is the start of the next one; of the newest, the log's end.
        """
        leader_epochs, start_offsets = self._entries
        if leader_epoch < 0 or not leader_epochs:
            return UNDEFINED
        if leader_epoch == leader_epochs[-1]:
            return leader_epoch, log_end_offset
        higher = bisect_right(leader_epochs, leader_epoch)
        if higher == len(leader_epochs):
            return UNDEFINED
        found = leader_epochs[higher - 1] if higher else leader_epoch
        return found, start_offsets[higher]

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that an offset was written in, -1 when unknown."""
        leader_epochs, start_offsets = self._entries
        index = bisect_right(start_offsets, offset) - 1
        return leader_epochs[index] if index >= 0 else -1

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`: epochs that began there or later are forgotten."""
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        if len(kept) != len(self._entries[0]):
            self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`: the epoch it lies in starts there, too."""
        start_offsets = self._entries[1]
        index = bisect_right(start_offsets, start_offset) - 1
        if index >= 0 and start_offsets[index] != start_offset:
            kept = self.entries[index:]
            self._replace([(kept[0][0], start_offset), *kept[1:]])
        elif index > 0:
            self._replace(self.entries[index:])

    def clear(self) -> None:
        """Forgets everything (the log was emptied)."""
        if self.latest is not None:
            self._replace([])

    def _replace(self, entries: list[tuple[int, int]]) -> None:
        self._set(entries)
        write_leader_epochs(self._path, entries)
