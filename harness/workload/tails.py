"""Where logs grow, and how long one waits there: what the offset reader asks a leader as a consumer
that is up to date does.

A partition is read from a little before its end, at once, and then from behind what was given, by
one who waits: until there are ``min_bytes``, mostly a single record and now and then several, or
until ``max_wait_ms`` are over (KIP-74; Kafka's DelayedFetch). The read before it shows that there
was nothing to be given at once, and that what had been given last lies in the middle of a segment.
A broker is asked of the partitions that it leads, of one after another, by one who believes in the
leader epoch in which it told its end. Where it leads a partition of another topic it is waited for
what comes to either, and that one is named first: of two topics one may be silent, and records of
the other are not to wait for it (ReplicaManager.fetchMessages watches all that was asked for).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

AT_ONCE: Final = {"max_wait_ms": 0, "min_bytes": 0}
MAX_WAIT_MS: Final = 1_500
BESIDE_MS: Final = 2_500
"""The same where two are asked for: its broker is to tell meanwhile, asked by somebody else, that
there is something."""
_MIN_BYTES: Final = (1, 1, 2_000)
_MOST_BYTES: Final = 64 * 1024
_BACK: Final = 5
"""So many offsets before the end it begins."""

Place = tuple[str, int]
Questions = dict[Place, dict[str, int]]


class Tails:
    """One thread."""

    def __init__(self) -> None:
        self._led: dict[Place, tuple[int, int]] = {}
        """The newest leader epoch in which an end was told, and by whom."""
        self._ends: dict[Place, int] = {}
        self._turn: dict[int, int] = {}
        self._waited: dict[Place, int] = {}

    def told(self, place: Place, node: int, leader_epoch: int, end: int) -> None:
        """A broker told the end of a log."""
        known = self._led.get(place, (-1, -1))
        if leader_epoch > known[0]:
            self._led[place], self._ends[place] = (leader_epoch, node), end
        elif (leader_epoch, node) == known:
            self._ends[place] = max(end, self._ends[place])

    def begin(self, node: int) -> Questions:
        """For what is there, of the next partition that this broker leads; none: empty."""
        led = [place for place, (_, leader) in self._led.items() if leader == node]
        if not led:
            return {}
        turn = self._turn[node] = self._turn.get(node, -1) + 1
        place = led[turn % len(led)]
        return {place: self._read(place, max(0, self._ends[place] - _BACK))}

    def go_on(self, place: Place, asked: Mapping[str, int], given: Mapping[str, int]) -> Questions:
        """For what comes behind what was given; of a leader epoch that is over nobody asks on."""
        if asked["believed_epoch"] != self._led[place][0]:
            return {}
        end = given["found_end"] if given["found_end"] >= 0 else given["high_watermark"]
        self._ends[place] = max(end, self._ends[place])
        turn = self._waited[place] = self._waited.get(place, -1) + 1
        wait = {"max_wait_ms": MAX_WAIT_MS, "min_bytes": _MIN_BYTES[turn % len(_MIN_BYTES)]}
        ends = [(place, end)]
        if beside := self._beside(place):
            other = beside[turn % len(beside)]
            ends.insert(0, (other, self._ends[other]))
            wait["max_wait_ms"] = BESIDE_MS
        return {at: {**self._read(at, to), **wait} for at, to in ends}

    def _beside(self, place: Place) -> list[Place]:
        """What its leader leads of other topics."""
        leader = self._led[place][1]
        return [
            other
            for other, (_, node) in self._led.items()
            if node == leader and other[0] != place[0]
        ]

    def _read(self, place: Place, offset: int) -> dict[str, int]:
        most = {"max_bytes": _MOST_BYTES, "partition_max_bytes": _MOST_BYTES}
        return {"believed_epoch": self._led[place][0], "offset": offset, **most}
