"""Every partition's states one after the other, in each life of its topic.

Two sources, by trial (`from_log`, `from_copies`):

    ZooKeeper's own log (`zk_write`)   complete, ordered by zxid; lives begin where znodes were made
    what was watched or told           `leadership` rows that are proved (a watch; two copies of a
                                       metadata log), in order of their commits

In the second a new life shows only as a partition epoch that fell. There a life that began anew
without anybody seeing its first state cannot be told from a fall, so a partition epoch of its own
is held against nobody with ZooKeeper (whose versions cannot fall); in a metadata log every copy
holds a life's first state, which has partition epoch 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.committed import committed
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order
from checkers.judging.witness import Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Trial = tuple[str, int]
CONTENT: Final = ("leader", "leader_epoch", "controller_epoch", "partition_epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One committed state. ``kind``: the kind of the row that tells of it; ``replicas``: all that
    were ever assigned by then in this life, None where nobody says; ``elr``: who may be elected
    besides those in sync (KIP-966; KRaft)."""

    key: Key
    kind: str
    leader: int | None
    leader_epoch: int
    controller_epoch: int | None
    partition_epoch: int
    isr: tuple[int, ...] | None
    elr: tuple[int, ...] = ()
    replicas: frozenset[int] | None
    commit_ms: int | None = None

    @property
    def content(self) -> tuple[Any, ...]:
        return content_of({name: getattr(self, name) for name in (*CONTENT, "isr")})

    @property
    def pick(self) -> Pick:
        """The row that tells of it."""
        where = {"topic": self.key[2], "partition": self.key[3]}
        return Pick(self.kind, {**where, **{n: getattr(self, n) for n in CONTENT}}, rows=1)


Life = list[Decision]


def from_log(history: History) -> set[Trial]:
    """The trials in which ZooKeeper's own log was read."""

    def make() -> set[Trial]:
        return {(row["arm"], row["trial"]) for row in history.rows("zk_write")}

    found: set[Trial] = history.memo("in ZooKeeper's log", make)
    return found


def from_copies(history: History) -> set[Trial]:
    """The trials of which two copies, and more, of a metadata log tell, and nobody else: they hold
    every state of every partition, and those that were replaced at the end of one copy besides."""

    def make() -> set[Trial]:
        tellers: dict[Trial, set[tuple[str, str]]] = {}
        for row in history.rows("leadership"):
            of = tellers.setdefault((row["arm"], row["trial"]), set())
            of.add((row["source"], row["process"]))
        return {
            trial
            for trial, of in tellers.items()
            if len(of) > 1 and {source for source, _ in of} == {"controller"}
        } - from_log(history)

    found: set[Trial] = history.memo("in copies of a metadata log", make)
    return found


def lives(history: History) -> dict[Key, list[Life]]:
    """Each partition's states, life by life; gathered once a history."""

    def make() -> dict[Key, list[Life]]:
        logged = from_log(history)
        found = _told(history, logged)
        found.update(_logged(history))
        return found

    found: dict[Key, list[Life]] = history.memo("decisions", make)
    return found


def is_lost(history: History, key: Key, partition_epoch: int | None) -> bool:
    """Whether ZooKeeper's own log lacks that partition epoch, below its highest one: a znode's
    version counts its writes from 0, so that it was written, and its row is lost, or of before the
    log that was read begins. Whoever tells of it is not refuted by it."""

    def make() -> dict[Key, set[int]]:
        logged = from_log(history)
        return {
            key: {state.partition_epoch for life in of for state in life}
            for key, of in lives(history).items()
            if key[:2] in logged
        }

    known: dict[Key, set[int]] = history.memo("logged epochs", make)
    there = known.get(key)
    if not there or partition_epoch is None or partition_epoch in there:
        return False
    return 0 <= partition_epoch < max(there)


def _logged(history: History) -> dict[Key, list[Life]]:
    found: dict[Key, list[Life]] = {}
    assigned: dict[Key, set[int]] = {}
    for row in in_order(history):
        if row["what"] == "topic":
            _assign(assigned, row)
        if row["what"] != "state" or row["topic"] is None or row["step"] == "removed":
            continue
        key = key_of(row)
        if row["step"] == "created" or key not in found:
            found.setdefault(key, []).append([])
        if row["leader_epoch"] is not None and row["partition_epoch"] is not None:
            replicas = assigned.get(key)
            found[key][-1].append(
                _decision(row, "zk_write", frozenset(replicas) if replicas else None)
            )
    return found


def _assign(assigned: dict[Key, set[int]], row: Row) -> None:
    if row["step"] == "removed":
        for key in [key for key in assigned if key[:3] == (row["arm"], row["trial"], row["topic"])]:
            del assigned[key]
    elif row["partition"] is not None:
        assigned.setdefault(key_of(row), set()).update(row["replicas"] or ())


def _told(history: History, logged: set[Trial]) -> dict[Key, list[Life]]:
    found: dict[Key, list[Life]] = {}
    for key, of in committed(history).items():
        if key[:2] not in logged:
            rows = [s.row for s in of.states if s.row["partition_epoch"] is not None]
            found[key] = _split(sorted(_once(rows), key=_order))
    return found


def _once(rows: Iterable[Row]) -> list[Row]:
    """One row a state, though several told of it; the one that the store's clock dates, if any."""
    found: dict[tuple[Any, ...], Row] = {}
    dated: set[tuple[Any, ...]] = set()
    for row in sorted(rows, key=lambda row: row["commit_ms"] is None):
        content = content_of(row)
        if row["commit_ms"] is not None:
            dated.add(content)
            found.setdefault((*content, row["commit_ms"]), row)
        elif content not in dated:
            found.setdefault(content, row)
    return list(found.values())


def _order(row: Row) -> tuple[int, int, int]:
    if row["commit_ms"] is not None:
        return (row["commit_ms"], 0, row["partition_epoch"])
    return (0, row["t"], row["partition_epoch"])


def _split(rows: Iterable[Row]) -> list[Life]:
    """``rows`` in order of their commits."""
    found: list[Life] = []
    assigned: set[int] = set()
    for row in rows:
        before = found[-1][-1] if found else None
        fell = before is not None and row["partition_epoch"] < before.partition_epoch
        first = row["partition_epoch"] == 0 == row["leader_epoch"]
        if before is None or (fell and (first or row["source"] == "zk")):
            found.append([])
            assigned = set()
        assigned.update(row.get("replicas") or ())
        found[-1].append(_decision(row, "leadership", frozenset(assigned) or None))
    return found


def content_of(row: Row) -> tuple[Any, ...]:
    """What a state says."""
    return (*(row[name] for name in CONTENT), tuple(row["isr"] or ()))


def _decision(row: Row, kind: str, replicas: frozenset[int] | None) -> Decision:
    return Decision(
        key=key_of(row),
        kind=kind,
        leader=row["leader"],
        leader_epoch=row["leader_epoch"],
        controller_epoch=row["controller_epoch"],
        partition_epoch=row["partition_epoch"],
        isr=None if row["isr"] is None else tuple(row["isr"]),
        elr=tuple(row.get("elr") or ()),
        replicas=replicas,
        commit_ms=row["commit_ms"],
    )
