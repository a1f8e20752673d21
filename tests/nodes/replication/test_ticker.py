"""A task on a clock: how long is waited before each of its turns."""

from __future__ import annotations

import pytest

from nodes.replication.ticker import Ticker


class Stopped:
    """In the place of the event that ends a ticker: tells how long was waited for it, and is set
    at the third time."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    def wait(self, timeout_s: float) -> bool:
        self.waited_s.append(timeout_s)
        return len(self.waited_s) == 3

    def set(self) -> None: ...


@pytest.mark.parametrize(("first_ms", "first_s"), [(None, 7.0), (0, 0.0), (30_000, 30.0)])
def test_the_first_wait_may_be_another(first_ms: float | None, first_s: float) -> None:
    ran: list[int] = []
    ticker = Ticker("t", 7_000, lambda: ran.append(1), first_ms)
    stopped = ticker._stopped = Stopped()  # type: ignore[assignment]
    ticker.start()
    ticker.stop()
    assert (stopped.waited_s, len(ran)) == ([first_s, 7.0, 7.0], 2)


def test_a_turn_that_fails_is_not_the_last() -> None:
    ran: list[int] = []

    def fails() -> None:
        ran.append(1)
        raise ValueError

    ticker = Ticker("t", 1, fails)
    ticker._stopped = Stopped()  # type: ignore[assignment]
    ticker.start()
    ticker.stop()
    assert len(ran) == 2
