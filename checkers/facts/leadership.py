"""Committed leadership: which leader epochs a partition went through, and when each was over.

Evidence: `leadership` rows, whose ``t`` is never before the commit. Four facts shape this module:

- Leader epochs are dense: every one from 0 up was committed once. A watch may see epoch e and then
  e+2 only; then e+1 was committed in between, and both e and e+1 were over when e+2 was seen. So
  an epoch is *superseded* at the earliest sighting of any higher one, and gaps are filled in.
- A topic that is deleted and created again starts at epoch 0: a new *incarnation*. The store says
  so, never the epochs themselves: another czxid of the state znode with the topic's deletion in
  ZooKeeper's log, or another topic id. An incarnation may have begun as early as the last sighting
  of the one before. Histories without that column: the topic's deletion in ZooKeeper alone.
- A leader epoch that goes back within one incarnation is a *regression* (`Regression`), and no new
  beginning: the partition is judged on as it is.
- A partition with several incarnations is judged by the watch's rows alone: the order between two
  writers' rows is not sharp enough to tell a late row from a new incarnation.

The order of the states of one incarnation is that of their partition epochs, which the store counts
up with each write; only where they are not told it is that of their times.

Commits do not grow with the load, so all of this is plain Python on the driver; what is joined with
the load is the small table of `epochs_table`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.history.parts import alike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

TP: Final = ["arm", "trial", "topic", "partition"]
Key = tuple[str, int, str, int]
Row = Mapping[str, Any]
_Draft = dict[str, Any]
"""What an `Epoch` will be made of."""

SHOWN: Final = "shown"
"""Source of rows that only prove that a leader was committed by then (a black box)."""
ALWAYS: Final = -(2**62)
NEVER: Final = 2**62
SEEN_WITHIN_NS: Final = 1_000_000_000
"""A commit is seen so soon, where its own time is not told."""
_MS: Final = 1_000_000
_WIDEST_GAP: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One committed leader epoch. Times in ns; ``committed_t``, ``earliest_t``, ``leader`` and
    ``isr_size`` (the smallest seen) are None when it is only implied; ``superseded_t`` is None for
    the last one. It was committed at or before ``committed_t``, and not before ``earliest_t``.

    A row with this epoch at time t means this incarnation when valid_from <= t < valid_to.
    """

    leader_epoch: int
    incarnation: int
    committed_t: int | None = None
    earliest_t: int | None = None
    superseded_t: int | None = None
    leader: int | None = None
    isr_size: int | None = None
    valid_from: int = ALWAYS
    valid_to: int = NEVER


@dataclass(frozen=True, slots=True)
class Regression:
    """``after`` came next to ``before`` in one life of the partition, and its leader epoch is lower
    (or its state znode was made anew although the topic was not deleted). Both are `leadership`
    rows. ``sure``: false where the history has no word about deletions, so that the topic may have
    been created again; nobody can say then."""

    before: Row
    after: Row
    sure: bool = True


@dataclass(slots=True)
class Leadership:
    """One partition's epochs, by incarnation and leader epoch."""

    epochs: list[Epoch] = field(default_factory=list)
    reborn_t: list[int] = field(default_factory=list)
    """First sighting of each incarnation but the first. Where a regression is not `sure`, the
    partition counts as created again, so that nobody is accused; it excuses nothing."""
    regressions: list[Regression] = field(default_factory=list)
    states: list[list[Row]] = field(default_factory=list)
    """By incarnation, the `leadership` rows in the store's order; ``t`` with its error added."""
    last: Epoch = field(init=False)
    """What was committed in the end."""

    @property
    def incarnations(self) -> int:
        return len(self.reborn_t) + 1

    @property
    def newest(self) -> int:
        """The highest leader epoch of any incarnation."""
        return max(e.leader_epoch for e in self.epochs)

    @property
    def commits(self) -> list[Epoch]:
        """The epochs that were seen."""
        return [e for e in self.epochs if e.committed_t is not None]

    @property
    def shown(self) -> bool:
        """Whether it is known only from what brokers showed: of an epoch that nobody was shown,
        nobody knows the leader."""
        return bool(self.states) and self.states[-1][-1]["source"] == SHOWN

    @property
    def unsure(self) -> bool:
        """Whether the topic was created again, nobody can say."""
        return any(not r.sure for r in self.regressions)

    @property
    def last_isr(self) -> tuple[int, ...]:
        """The in-sync set that was committed last."""
        return tuple(self.states[-1][-1]["isr"] or ())

    @property
    def unclean(self) -> list[Row]:
        """States whose leader was not in the in-sync set before it (or may not have been), nor
        eligible besides (KIP-966). Of what was only shown nobody knows its in-sync set."""
        found = []
        for life in () if self.shown else self.states:
            for before, after in pairwise(life):
                elected = after["leader_epoch"] > before["leader_epoch"]
                leader = after["leader"]
                if elected and (leader or 0) >= 0 and leader not in able(before):
                    found.append(after)
        return found


def able(state: Row) -> set[int]:
    """Who may be elected next: those in sync, and in KRaft those who were last (KIP-966)."""
    return {*(state["isr"] or ()), *(state.get("elr") or ())}


def leadership(history: History) -> dict[Key, Leadership]:
    """Every partition of which leadership was seen; gathered once a history."""

    def gather() -> dict[Key, Leadership]:
        rows: dict[Key, list[Row]] = {}
        telling: set[tuple[str, int]] = set()
        for row in alike(_timed(history, row) for row in history.rows("leadership")):
            known = row["leader_epoch"]
            if row["incarnation"] is not None:
                telling.add((row["arm"], row["trial"]))
            if row["topic"] is not None and known is not None and known >= 0:
                rows.setdefault(key_of(row), []).append(row)
        gone: dict[tuple[str, int, str], list[int]] = {}
        for row in history.rows("topic_deletion"):
            telling.add((row["arm"], row["trial"]))
            if row["step"] == "gone":
                earliest = row["t"] - (row["error_ns"] or 0)
                gone.setdefault((row["arm"], row["trial"], row["topic"]), []).append(earliest)
        return {
            key: _partition(of, gone.get(key[:3], ()), key[:2] in telling)
            for key, of in rows.items()
        }

    found: dict[Key, Leadership] = history.memo("leadership", gather)
    return found


def black_boxes(history: History) -> list[str]:
    """The arms of which leaders are known only from what brokers showed."""

    def gather() -> list[str]:
        sources: dict[str, set[str]] = {}
        for row in history.rows("leadership"):
            sources.setdefault(row["arm"], set()).add(row["source"])
        return sorted(arm for arm, of in sources.items() if of == {SHOWN})

    found: list[str] = history.memo("black boxes", gather)
    return found


def _timed(history: History, row: Row) -> Row:
    """The row with ``t`` and ``earliest_t``: between them it was committed. "Never before the
    commit" holds for t with its error (`checkers.facts.spans`)."""
    error_ns = row["error_ns"] or 0
    seen_t = row["t"] + error_ns
    if row["source"] == SHOWN:  # it may have been committed long before anybody was shown it
        return {**row, "t": seen_t, "earliest_t": ALWAYS}
    offset_ns = history.run.clock_offset_ns
    if row["commit_ms"] is not None and offset_ns is not None:
        written_t = row["commit_ms"] * _MS + offset_ns - history.run.clock_error_ns - error_ns
        return {**row, "t": seen_t, "earliest_t": min(written_t, seen_t)}
    return {**row, "t": seen_t, "earliest_t": row["t"] - error_ns - SEEN_WITHIN_NS}


def key_of(row: Any) -> Key:
    return (row["arm"], row["trial"], row["topic"], row["partition"])


def _partition(rows: Sequence[Row], gone: Sequence[int], telling: bool) -> Leadership:
    """``gone``: when (ns, at the earliest) the topic was gone, each time; ``telling``: whether the
    history would say so."""
    watched = [r for r in rows if r["source"] == "zk"]
    told = watched or list(rows)
    named = all(row["incarnation"] is not None for row in told)
    lives, regressions = _named(told, gone) if named else _unnamed(told, gone, telling)
    dating = [_dating(lives[0], rows)] if len(lives) == 1 else lives
    found = Leadership(reborn_t=[_first_t(life) for life in lives[1:]], states=lives)
    found.regressions = regressions
    born_after = [ALWAYS] + [max(row["t"] for row in life) for life in lives[:-1]]
    by_epoch: dict[int, list[_Draft]] = {}
    for number, life in enumerate(dating):
        for epoch in _filled(_superseded(_seen(life, number))):
            epoch["valid_from"] = born_after[number]
            by_epoch.setdefault(epoch["leader_epoch"], []).append(epoch)
    for same in by_epoch.values():
        ends = [later["valid_from"] for later in same[1:]] + [NEVER]
        found.epochs += [Epoch(**e, valid_to=end) for e, end in zip(same, ends, strict=True)]
    found.epochs.sort(key=lambda e: (e.incarnation, e.leader_epoch))
    found.last = _last(found)
    return found


def _dating(told: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """With what the writer itself traced, sooner than any watch: of what the store has as well."""
    known = {(row["leader_epoch"], row["leader"]) for row in told}
    mine = {id(row) for row in told}
    others = [r for r in rows if id(r) not in mine and (r["leader_epoch"], r["leader"]) in known]
    return [*told, *others]


def _last(found: Leadership) -> Epoch:
    """That of the last state. It is not the highest one where epochs went back; then it is dated
    by the first state of those that have it in the end."""
    final = found.states[-1][-1]["leader_epoch"]
    number = len(found.states) - 1
    last = found.epochs[-1]
    if last.leader_epoch == final:
        return last
    (same,) = [e for e in found.epochs if (e.incarnation, e.leader_epoch) == (number, final)]
    began = found.states[-1][-1]
    for row in reversed(found.states[-1]):
        if row["leader_epoch"] != final:
            break
        began = row
    times = {"committed_t": began["t"], "earliest_t": began["earliest_t"], "superseded_t": None}
    return replace(same, leader=began["leader"], **times)


def _named(told: Sequence[Row], gone: Sequence[int]) -> tuple[list[list[Row]], list[Regression]]:
    """Lives as the store names them, each in the store's order. A state znode that was made anew
    although ZooKeeper's log has no deletion of the topic begins none; another topic id does."""
    by_name: dict[str, list[Row]] = {}
    for row in told:
        by_name.setdefault(row["incarnation"], []).append(row)
    named = sorted(by_name.values(), key=_first_t)
    lives: list[list[Row]] = []
    regressions: list[Regression] = []
    for rows in named:
        rows.sort(key=_by_version)
        regressions += _regressions(rows)
        deleted = rows[0]["source"] != "zk" or sum(t <= _first_t(rows) for t in gone) >= len(lives)
        if lives and not deleted:
            regressions.append(Regression(lives[-1][-1], rows[0]))
            lives[-1] += rows
        else:
            lives.append(rows)
    return lives, regressions


def _regressions(life: Sequence[Row]) -> list[Regression]:
    proved = _proved(life)
    return [
        Regression(before, after)
        for before, after in pairwise(proved)
        if after["leader_epoch"] < before["leader_epoch"]
    ]


def _proved(life: Sequence[Row]) -> list[Row]:
    """The rows of a watch; of copies of a metadata log those that two nodes have: the end of one
    copy alone may hold what was never committed."""

    def state(row: Row) -> tuple[Any, ...]:
        return tuple(row[n] for n in ("partition_epoch", "leader_epoch", "controller_epoch"))

    tellers = Counter(state(row) for row in life)
    return [row for row in life if row["source"] == "zk" or tellers[state(row)] > 1]


def _unnamed(
    told: Sequence[Row], gone: Sequence[int], telling: bool
) -> tuple[list[list[Row]], list[Regression]]:
    """Lives of a history that does not name them: one ends where epochs went back *and* the topic
    was gone by then, once more than before."""
    lives: list[list[Row]] = [[]]
    regressions: list[Regression] = []
    for row in sorted(told, key=_by_time):
        if lives[-1] and _goes_back(lives[-1][-1], row):
            deleted = sum(t <= row["t"] for t in gone) >= len(lives)
            if not deleted:
                regressions.append(Regression(lives[-1][-1], row, sure=telling))
            if deleted or not telling:
                lives.append([])
        lives[-1].append(row)
    return lives, regressions


def _first_t(life: Sequence[Row]) -> int:
    return min(int(row["t"]) for row in life)


def _by_time(row: Row) -> tuple[int, int, int]:
    return (row["t"], row["leader_epoch"], row["partition_epoch"] or 0)


def _by_version(row: Row) -> tuple[int, int, int]:
    version = row["partition_epoch"]
    return (-1 if version is None else version, row["t"], row["leader_epoch"])


def _goes_back(before: Row, row: Row) -> bool:
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


def _seen(rows: Iterable[Row], incarnation: int) -> list[_Draft]:
    found: dict[int, _Draft] = {}
    firsts: dict[int, int | None] = {}
    for row in sorted(rows, key=_by_time):  # the first sighting dates the commit
        number, size = row["leader_epoch"], len(row["isr"] or ())
        known = found.get(number)
        if known is None:
            firsts[number] = row["partition_epoch"]
            found[number] = {
                "leader_epoch": number,
                "incarnation": incarnation,
                "committed_t": row["t"],
                "earliest_t": row["earliest_t"],
                "leader": row["leader"],
                "isr_size": size,
            }
        else:
            earliest_t = known["earliest_t"]
            if row["partition_epoch"] == firsts[number]:  # the same write, told again
                known["earliest_t"] = max(row["earliest_t"], earliest_t or row["earliest_t"])
            known["isr_size"] = min(size, known["isr_size"] or size)
    return [found[number] for number in sorted(found)]


def _superseded(epochs: list[_Draft]) -> list[_Draft]:
    """Date the end of each by the earliest sighting of any higher one."""
    earliest: int | None = None
    for epoch in reversed(epochs):
        epoch["superseded_t"] = earliest
        committed_t = epoch["committed_t"]
        earliest = committed_t if earliest is None else min(earliest, committed_t)
    return epochs


def _filled(epochs: list[_Draft]) -> list[_Draft]:
    """Add the epochs that were never seen, each over when the next seen one was."""
    filled: list[_Draft] = []
    for index, epoch in enumerate(epochs):
        filled.append(epoch)
        if index + 1 < len(epochs):
            gap = range(epoch["leader_epoch"] + 1, epochs[index + 1]["leader_epoch"])
            implied = ("incarnation", "superseded_t")
            filled += [
                {"leader_epoch": number, **{name: epoch[name] for name in implied}}
                for number in gap[:_WIDEST_GAP]
            ]
    return filled


def epochs_table(history: History) -> DataFrame:
    """Every epoch for joins: TP, leader_epoch, superseded_t (null: it is the last one), valid_from,
    valid_to, incarnations."""

    def make() -> DataFrame:
        rows = []
        for key, of in leadership(history).items():
            for epoch in of.epochs:
                row = dict(zip(TP, key, strict=True), leader_epoch=epoch.leader_epoch)
                row |= {"superseded_t": epoch.superseded_t, "incarnations": of.incarnations}
                rows.append({**row, "valid_from": epoch.valid_from, "valid_to": epoch.valid_to})
        return history.table(
            rows,
            "arm string, trial int, topic string, partition int, leader_epoch int, "
            "superseded_t bigint, valid_from bigint, valid_to bigint, incarnations int",
        )

    found: DataFrame = history.memo("epochs", make)
    return found


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
