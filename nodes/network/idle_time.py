"""How long a thread has waited, exact at any moment.

Kafka's request handlers poll for at most 300 ms and mark what they waited after each poll, so that
the idle percentage of a plane that gets no request is right, too. Here a handler sleeps until it
is woken; instead of waking it only to count, a reader adds the wait that is still going on.
"""

from __future__ import annotations


class IdleTime:
    """`begin` and `end` are called by the thread that waits, in turn; `total_ns` by anybody.

    All times are nanoseconds of one monotonic clock, never 0.
    """

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state = (0, 0)
        """What ended waits add up to, and when the present one began (0: there is none). One
        tuple, so that a reader never sees half of a change."""

    def begin(self, now_ns: int) -> None:
        self._state = (self._state[0], now_ns)

    def end(self, now_ns: int) -> None:
        total_ns, since_ns = self._state
        self._state = (total_ns + now_ns - since_ns, 0)

    def total_ns(self, now_ns: int) -> int:
        total_ns, since_ns = self._state
        return total_ns + (max(0, now_ns - since_ns) if since_ns else 0)
