"""When too few replicas were in sync for acks=all, and the leader certainly knew.

A leader refuses acks=all (NOT_ENOUGH_REPLICAS; after the append NOT_ENOUGH_REPLICAS_AFTER_APPEND)
while fewer replicas than ``min.insync.replicas`` are in sync, as it knows them; of a partition with
fewer replicas than that, all (Partition.appendRecordsToLeader, checkEnoughReplicasReachOffset and
effectiveMinIsr). It learns of a smaller set later than it is committed: by the answer to its own
AlterPartition (`isr_change`), or with the LeaderAndIsr that made it leader in that epoch
(`leader_change`). A larger set counts from its commit on, never before it. So

    from_t   the leader had said that it knew the state
    to_t     the first moment at which the next state can have been written, by the store's clock

and whatever was asked for and answered between the two was answered by somebody who knew. Pure
Python on the driver: commits do not grow with the load.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.cuts import replicas
from checkers.facts.decisions import Decision, lives
from checkers.facts.leadership import NEVER, Key, key_of

if TYPE_CHECKING:
    from checkers.history.frames import History

_MS: Final = 1_000_000
HEARD_NS: Final = 5_000_000_000
"""A leader that asked for a set is answered sooner, and so is one that is told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFew:
    """One committed state with too few in sync. Times in ns; ``from_t`` is None where the leader
    never said that it knew, ``to_t`` where nobody can say when the next state was written."""

    key: Key
    state: Decision
    min_isr: int
    from_t: int | None
    to_t: int | None
    late_t: int | None = None
    """By then its leader must have heard of it, whatever it says; None where nobody dates it."""

    @property
    def untold(self) -> bool:
        """Whether it lasted although its leader never said that it knew."""
        known = self.from_t is not None or self.to_t is None or self.late_t is None
        return not known and (self.late_t or 0) < (self.to_t or 0)

    @property
    def judged(self) -> bool:
        return self.from_t is not None and self.to_t is not None and self.from_t < self.to_t


def too_few(history: History) -> list[TooFew]:
    """Every such state of topics that ask for more than one, in order of partitions."""
    return list(_gather(history))


def _gather(history: History) -> Iterator[TooFew]:
    heard: dict[tuple[Any, ...], int] | None = None
    for key, of in sorted(lives(history).items()):
        wanted = history.run.topic(*key[:3]).min_insync_replicas
        if wanted < 2:
            continue
        for number, life in enumerate(of):
            born = of[number + 1][0] if number + 1 < len(of) else None
            epochs: set[int] = set()
            for state, after in pairwise([*life, born]):
                assert state is not None
                elected = state.leader_epoch not in epochs
                epochs.add(state.leader_epoch)
                fewest = least(history, key, state, wanted)
                if state.isr is None or not is_led(state) or len(state.isr) >= fewest:
                    continue
                if heard is None:
                    heard = known(history)
                yield TooFew(
                    key=key,
                    state=state,
                    min_isr=fewest,
                    from_t=knew(heard, state, elected),
                    to_t=_over(history, state, after, reborn=after is born),
                    late_t=_late(history, state),
                )


def is_led(state: Decision) -> bool:
    return state.leader is not None and state.leader >= 0


def least(history: History, key: Key, state: Decision, wanted: int) -> int:
    """Never more than the partition has replicas."""
    assigned = state.replicas or replicas(history).get(key)
    return min(wanted, len(assigned)) if assigned else wanted


def known(history: History) -> dict[tuple[Any, ...], int]:
    """When each leader had said that it knew: of a set that it had asked for, by partition epoch;
    of one that it was told, by leader epoch."""
    found: dict[tuple[Any, ...], int] = {}
    for kind, epoch in (("isr_change", "partition_epoch"), ("leader_change", "leader_epoch")):
        for row in history.rows(kind):
            if kind == "leader_change" and row["role"] != "leader":
                continue
            place = (kind, key_of(row), row["node"], row[epoch])
            t = row["t"] + (row["error_ns"] or 0)
            found[place] = min(t, found.get(place, t))
    return found


def knew(known: dict[tuple[Any, ...], int], state: Decision, elected: bool) -> int | None:
    asked = known.get(("isr_change", state.key, state.leader, state.partition_epoch))
    told = known.get(("leader_change", state.key, state.leader, state.leader_epoch))
    times = [t for t in (asked, told if elected else None) if t is not None]
    return min(times, default=None)


def _late(history: History, state: Decision) -> int | None:
    offset_ns = history.run.clock_offset_ns
    if state.commit_ms is None or offset_ns is None:
        return None
    written_t = (state.commit_ms + 1) * _MS + offset_ns + history.run.clock_error_ns
    return written_t + HEARD_NS


def _over(history: History, state: Decision, after: Decision | None, *, reborn: bool) -> int | None:
    if after is None:
        return NEVER
    missed = not reborn and after.partition_epoch != state.partition_epoch + 1
    offset_ns = history.run.clock_offset_ns
    if missed or after.commit_ms is None or offset_ns is None:
        return None
    return after.commit_ms * _MS + offset_ns - history.run.clock_error_ns
