"""What is due when: a heap whose cancelled entries do not pile up.

Timers of a broker are cancelled far more often than they come due: a heartbeat renews a session
that would have ended in 10 s (or in 30 minutes), acks=all is met within milliseconds of a deadline
of 30 s (or of 24 days: clients choose). To take an entry out of the middle of a heap is O(n), so it
is only marked; once the marked ones are the majority, and more than a few, the heap is rebuilt
without them. So a heap never has more than ``2 * len(self) + SLACK`` entries, whatever the
deadlines are, and a cancellation costs O(1) amortised. (Kafka's timing wheels cancel in O(1), but
need a thread to turn them.)
"""

from __future__ import annotations

import heapq
import itertools
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

SLACK: Final = 64
"""Cancelled entries that are never worth a rebuild."""


class Deadline(Generic[Item]):
    """One entry, to be handed to `cancel`. `item` is None once it was taken or cancelled."""

    __slots__ = ("item",)

    def __init__(self, item: Item) -> None:
        self.item: Item | None = item


class Deadlines(Generic[Item]):
    """Not thread-safe. Items are given out in the order of their deadlines, then as they came."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Deadline[Item]]] = []
        self._order = itertools.count()
        self._live = 0

    def __len__(self) -> int:
        """Items that are still to come."""
        return self._live

    @property
    def entries(self) -> int:
        """What the heap holds, cancelled entries included."""
        return len(self._heap)

    def add(self, due_ns: int, item: Item) -> Deadline[Item]:
        deadline = Deadline(item)
        heapq.heappush(self._heap, (due_ns, next(self._order), deadline))
        self._live += 1
        return deadline

    def cancel(self, deadline: Deadline[Item]) -> bool:
        """Forget an entry of this heap; False when it was taken or cancelled before."""
        if deadline.item is None:
            return False
        deadline.item = None
        self._live -= 1
        self._tidy()
        return True

    @property
    def next_ns(self) -> int | None:
        """When the next item is due; None when there is none."""
        heap = self._heap
        while heap and heap[0][2].item is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now_ns: int) -> list[Item]:
        """Take out all that is due by now."""
        heap = self._heap
        due: list[Item] = []
        while heap and (heap[0][0] <= now_ns or heap[0][2].item is None):
            deadline = heapq.heappop(heap)[2]
            if deadline.item is not None:
                due.append(deadline.item)
                deadline.item = None
                self._live -= 1
        self._tidy()
        return due

    def items(self) -> list[Item]:
        """All that is still to come, in no order."""
        return [entry[2].item for entry in self._heap if entry[2].item is not None]

    def _tidy(self) -> None:
        if len(self._heap) > 2 * self._live + SLACK:
            self._heap = [entry for entry in self._heap if entry[2].item is not None]
            heapq.heapify(self._heap)
