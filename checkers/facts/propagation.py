"""Propagation: from the commit of a leader epoch until each broker had it.

Two sightings: what a broker's metadata cache took in (``applied``), and what it answered to readers
(which adds the wait for the next read, and the read's own).

``stale_time_ms`` is a sum: how long brokers, partition by partition, were behind. It is made of
three parts that say different things, so that each is also given apart:

    flooded   commits that came while a flood lay on this very broker: what planes are for
    beside    commits that came while a flood lay on another: the floor. Nothing stands between
              such a broker and its news but the controller's own time and a round trip
    (rest)    commits without any flood, most of them from before the faults began

A sum over all of them moves towards the floor with every broker that nobody floods, in every plane
mode alike, and its ratio towards 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import shown
from checkers.facts.floods import floods
from checkers.facts.histogram import Histogram, bucket_number
from checkers.facts.leadership import TP, Key, Leadership, key_of, leadership
from checkers.facts.lives import with_life
from checkers.judging.outcome import Outcome

if TYPE_CHECKING:
    from checkers.history.frames import History

FLOODED: Final = "flooded"
BESIDE: Final = "beside"
_AGREEABLE_GAP: Final = 10_000


@dataclass(frozen=True, slots=True)
class Shown:
    """What one broker showed in one life of one partition's epoch (times in ns)."""

    key: Key
    node: int
    life: int | None  # None: the read spans the end of a life, and is compared with nothing
    leader_epoch: int
    first_t: int
    last_invoke_t: int
    last_t: int
    era: int | None = 0
    """Of a topic that is deleted and made again, how often by then; None: under way."""
    n: int = 1

    @classmethod
    def of(cls, row: dict[str, Any]) -> Shown:
        return cls(
            key_of(row),
            row["node"],
            row["life"],
            row["leader_epoch"],
            row["first_t"],
            row["last_invoke_t"],
            row["last_t"],
        )


def applied(history: History) -> list[Shown]:
    """What each broker's metadata cache took in; gathered once a history."""

    def make() -> list[Shown]:
        if not history.has("metadata_update"):
            return []
        rows = history.frame("metadata_update").where("leader_epoch >= 0 and leader >= -1")
        rows = with_life(history, rows, F.col("t"), F.col("t"))
        found = rows.groupBy(*TP, "node", "life", "leader_epoch").agg(
            F.min("t").alias("first_t"),
            F.max("t").alias("last_invoke_t"),
            F.max("t").alias("last_t"),
        )
        return [Shown.of(row) for row in found.toArrow().to_pylist()]

    found: list[Shown] = history.memo("applied", make)
    return found


def answered(history: History) -> list[Shown]:
    """What brokers showed to readers, but for what a forger had told them; gathered once."""

    def make() -> list[Shown]:
        found: dict[tuple[Any, ...], Shown] = {}
        for one in shown(history):
            if one.forged:
                continue
            place = (one.key, one.node, one.life, one.era, one.leader_epoch)
            folded = Shown(
                one.key,
                one.node,
                one.life,
                one.leader_epoch,
                one.first_t,
                one.last_invoke_t,
                one.last_t,
                one.era,
                one.n,
            )
            known = found.get(place, folded)
            found[place] = replace(
                folded,
                first_t=min(known.first_t, folded.first_t),
                last_invoke_t=max(known.last_invoke_t, folded.last_invoke_t),
                last_t=max(known.last_t, folded.last_t),
                n=folded.n + (known.n if known is not folded else 0),
            )
        return list(found.values())

    found: list[Shown] = history.memo("answered", make)
    return found


Place = tuple[Key, int, int, int]


def by_epoch(shown: Iterable[Shown]) -> dict[Place, list[Shown]]:
    """By (partition, node, life, era), in order of leader epoch."""
    found: dict[Place, list[Shown]] = {}
    for one in shown:
        if one.life is not None and one.era is not None:
            found.setdefault((one.key, one.node, one.life, one.era), []).append(one)
    for rows in found.values():
        rows.sort(key=lambda r: r.leader_epoch)
    return found


@dataclass(slots=True)
class _Late:
    """How late epochs were: their histogram, and their sum."""

    histogram: Histogram = field(default_factory=Histogram)
    total_ns: int = 0

    def add(self, late_ns: int) -> None:
        self.histogram.add(bucket_number(late_ns), 1, late_ns)
        self.total_ns += late_ns

    def summary(self) -> dict[str, Any]:
        return {**self.histogram.summary(), "stale_time_ms": round(self.total_ns / 1e6, 3)}


def propagation(history: History, outcome: Outcome, shown: list[Shown], name: str) -> None:
    """Figures ``name`` (all brokers), ``<name>_by_node``, ``<name>_flooded``, ``<name>_beside``.

    A broker's first epoch of a life tells nothing: nobody asked it before.
    """
    whole: dict[str, _Late] = {}
    parts: dict[tuple[str, str], _Late] = {}
    nodes: dict[tuple[str, int], _Late] = {}
    known = leadership(history)
    for (key, node, _, _), rows in by_epoch(shown).items():
        of = known.get(key)
        if of is None or of.incarnations > 1:
            continue
        arm = key[0]
        for committed_t, late_ns in _delays(of, rows):
            whole.setdefault(arm, _Late()).add(late_ns)
            nodes.setdefault((arm, node), _Late()).add(late_ns)
            part = under_flood(history, key[:2], node, committed_t)
            if part is not None:
                parts.setdefault((arm, part), _Late()).add(late_ns)
    for arm, late in whole.items():
        outcome.arm(arm)[name] = late.summary()
    for (arm, part), late in parts.items():
        outcome.arm(arm)[f"{name}_{part}"] = late.summary()
    for (arm, node), late in sorted(nodes.items()):
        outcome.arm(arm).setdefault(f"{name}_by_node", {})[str(node)] = late.summary()
    outcome.figures[name] = [
        {"arm": arm, "node": node, "bucket": bucket, "n": n}
        for (arm, node), late in nodes.items()
        for bucket, n in late.histogram.counts.items()
    ]


def under_flood(history: History, trial: tuple[str, int], node: int, t: int) -> str | None:
    """Whether a flood lay on this broker at ``t``, or on others only; None: there was none."""
    here = {
        flood.node
        for flood in floods(history)
        if (flood.arm, flood.trial) == trial and flood.from_t <= t < flood.to_t
    }
    if not here:
        return None
    return FLOODED if node in here else BESIDE


def _delays(of: Leadership, rows: list[Shown]) -> Iterator[tuple[int, int]]:
    """For each committed epoch that came while the broker was being asked: when it was committed,
    and how much later the broker had it (or a higher one)."""
    arrived: dict[int, int] = {}
    earliest: int | None = None
    for before, row in zip([None, *rows[:-1]][::-1], rows[::-1], strict=True):
        earliest = row.first_t if earliest is None else min(earliest, row.first_t)
        if before is not None and row.leader_epoch - before.leader_epoch < _AGREEABLE_GAP:
            for number in range(before.leader_epoch + 1, row.leader_epoch + 1):
                arrived[number] = earliest
    for epoch in of.commits:
        if epoch.leader_epoch in arrived and epoch.leader is not None and epoch.leader >= 0:
            assert epoch.committed_t is not None
            yield epoch.committed_t, max(0, arrived[epoch.leader_epoch] - epoch.committed_t)
