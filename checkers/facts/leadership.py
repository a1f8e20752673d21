"""Committed leadership: which leader epochs a partition went through, and when each was over.

Evidence: `leadership` rows, whose ``t`` is never before the commit. Three facts shape this module:

- Leader epochs are dense: every one from 0 up was committed once. A watch may see epoch e and then
  e+2 only; then e+1 was committed in between, and both e and e+1 were over when e+2 was seen. So
  an epoch is *superseded* at the earliest sighting of any higher one, and gaps are filled in.
- A topic that is deleted and created again starts at epoch 0: a new *incarnation*. It shows in the
  watch's rows as a leader epoch or a partition epoch that went back (or the same ones at another
  commit time). An incarnation may have begun as early as the last sighting of the one before.
- A partition with several incarnations is judged by the watch's rows alone: the order between two
  writers' rows is not sharp enough to tell a late row from a new incarnation.

Commits do not grow with the load, so all of this is plain Python on the driver; what is joined with
the load is the small table of `epochs_table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

TP: Final = ["arm", "trial", "topic", "partition"]
Key = tuple[str, int, str, int]
Row = Mapping[str, Any]

ALWAYS: Final = -(2**62)
NEVER: Final = 2**62
_WIDEST_GAP: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One committed leader epoch. Times in ns; ``committed_t``, ``leader`` and ``isr_size`` (the
    smallest seen) are None when it is only implied; ``superseded_t`` is None for the last one.

    A row with this epoch at time t means this incarnation when valid_from <= t < valid_to.
    """

    leader_epoch: int
    incarnation: int
    committed_t: int | None = None
    superseded_t: int | None = None
    leader: int | None = None
    isr_size: int | None = None
    valid_from: int = ALWAYS
    valid_to: int = NEVER


@dataclass(slots=True)
class Leadership:
    """One partition's epochs, by incarnation and leader epoch."""

    epochs: list[Epoch] = field(default_factory=list)
    reborn_t: list[int] = field(default_factory=list)
    """First sighting of each incarnation but the first."""

    @property
    def incarnations(self) -> int:
        return len(self.reborn_t) + 1

    @property
    def newest(self) -> int:
        """The highest leader epoch of any incarnation."""
        return max(e.leader_epoch for e in self.epochs)

    @property
    def last(self) -> Epoch:
        """What was committed in the end."""
        return self.epochs[-1]

    @property
    def commits(self) -> list[Epoch]:
        """The epochs that were seen."""
        return [e for e in self.epochs if e.committed_t is not None]


def leadership(history: History) -> dict[Key, Leadership]:
    """Every partition of which leadership was seen; gathered once a history."""

    def gather() -> dict[Key, Leadership]:
        rows: dict[Key, list[Row]] = {}
        for row in history.rows("leadership"):
            known = row["leader_epoch"]
            if row["topic"] is not None and known is not None and known >= 0:
                # "Never before the commit" holds for t with its error (`checkers.facts.spans`).
                seen_t = row["t"] + (row["error_ns"] or 0)
                rows.setdefault(key_of(row), []).append({**row, "t": seen_t})
        for of in rows.values():
            of.sort(key=lambda row: row["t"])
        return {key: _partition(of) for key, of in rows.items()}

    found: dict[Key, Leadership] = history.memo("leadership", gather)
    return found


def key_of(row: Any) -> Key:
    return (row["arm"], row["trial"], row["topic"], row["partition"])


def _partition(rows: Sequence[Row]) -> Leadership:
    """``rows`` in order of t."""
    watched = [r for r in rows if r["source"] == "zk"]
    lives = _incarnations(watched or rows)
    if len(lives) == 1:
        lives = [list(rows)]
    found = Leadership(reborn_t=[life[0]["t"] for life in lives[1:]])
    born_after = [ALWAYS] + [life[-1]["t"] for life in lives[:-1]]
    by_epoch: dict[int, list[Epoch]] = {}
    for number, life in enumerate(lives):
        for epoch in _filled(_superseded(_seen(life, number))):
            dated = replace(epoch, valid_from=born_after[number])
            by_epoch.setdefault(dated.leader_epoch, []).append(dated)
    for same in by_epoch.values():
        ends = [later.valid_from for later in same[1:]] + [NEVER]
        found.epochs += [replace(e, valid_to=end) for e, end in zip(same, ends, strict=True)]
    found.epochs.sort(key=lambda e: (e.incarnation, e.leader_epoch))
    return found


def _incarnations(rows: Sequence[Row]) -> list[list[Row]]:
    ordered = sorted(rows, key=lambda r: (r["t"], r["leader_epoch"], r["partition_epoch"] or 0))
    lives: list[list[Row]] = [[]]
    for row in ordered:
        if lives[-1] and _is_reborn(lives[-1][-1], row):
            lives.append([])
        lives[-1].append(row)
    return lives


def _is_reborn(before: Row, row: Row) -> bool:
    """Within one life of a znode both epochs only grow, the partition epoch with every write."""
    if row["leader_epoch"] < before["leader_epoch"]:
        return True
    versions = (before["partition_epoch"], row["partition_epoch"])
    if None in versions:
        return False
    if versions[0] != versions[1]:
        return bool(versions[1] < versions[0])
    moved = row["leader_epoch"] != before["leader_epoch"]
    stamps = (before["commit_ms"], row["commit_ms"])
    return moved or (None not in stamps and stamps[0] != stamps[1])


def _seen(rows: Iterable[Row], incarnation: int) -> list[Epoch]:
    found: dict[int, Epoch] = {}
    for row in rows:  # in order of t: the first sighting dates the commit
        number, size = row["leader_epoch"], len(row["isr"] or ())
        known = found.get(number)
        if known is None:
            found[number] = Epoch(
                leader_epoch=number,
                incarnation=incarnation,
                committed_t=row["t"],
                leader=row["leader"],
                isr_size=size,
            )
        else:
            found[number] = replace(known, isr_size=min(size, known.isr_size or size))
    return [found[number] for number in sorted(found)]


def _superseded(epochs: list[Epoch]) -> list[Epoch]:
    """Date the end of each by the earliest sighting of any higher one."""
    earliest: int | None = None
    dated = []
    for epoch in reversed(epochs):
        dated.append(replace(epoch, superseded_t=earliest))
        assert epoch.committed_t is not None
        earliest = epoch.committed_t if earliest is None else min(earliest, epoch.committed_t)
    return dated[::-1]


def _filled(epochs: list[Epoch]) -> list[Epoch]:
    """Add the epochs that were never seen, each over when the next seen one was."""
    filled: list[Epoch] = []
    for index, epoch in enumerate(epochs):
        filled.append(epoch)
        if index + 1 < len(epochs):
            gap = range(epoch.leader_epoch + 1, epochs[index + 1].leader_epoch)
            filled += [
                replace(epoch, leader_epoch=number, committed_t=None, leader=None, isr_size=None)
                for number in gap[:_WIDEST_GAP]
            ]
    return filled


def epochs_table(
    history: History, over: Mapping[tuple[Key, Epoch], int] | None = None
) -> DataFrame:
    """Superseded epochs for joins: TP, leader_epoch, superseded_t, valid_from, valid_to.

    ``over`` may give an earlier ``superseded_t`` for an epoch.
    """
    rows = []
    for key, of in leadership(history).items():
        for epoch in of.epochs:
            end = (over or {}).get((key, epoch), epoch.superseded_t)
            if end is None:
                continue
            row = dict(zip(TP, key, strict=True), leader_epoch=epoch.leader_epoch)
            row |= {"superseded_t": end, "valid_from": epoch.valid_from, "valid_to": epoch.valid_to}
            rows.append(row)
    return history.table(
        rows,
        "arm string, trial int, topic string, partition int, leader_epoch int, "
        "superseded_t bigint, valid_from bigint, valid_to bigint",
    )


def last_sighting(history: History) -> dict[tuple[str, int], int]:
    """By (arm, trial): until when (ns) leadership was certainly being watched: the last row, or
    the end of a phase in which the harness and its watch were alive."""
    until: dict[tuple[str, int], int] = {}
    for row in history.rows("leadership"):
        key = (row["arm"], row["trial"])
        until[key] = max(until.get(key, 0), row["t"])
    for row in history.rows("phase"):
        key = (row["arm"], row["trial"])
        if row["name"] in ("chaos", "heal", "quiesce", "settle") and key in until:
            until[key] = max(until[key], row["t"])
    return until
