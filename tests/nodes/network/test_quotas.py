"""``max.connections`` and ``max.connections.per.ip`` (Kafka's ConnectionQuotas), against what they
say: nobody is counted twice, forgotten, or let in by mistake."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from nodes.network.quotas import ConnectionQuotas, TooManyConnections
from tests.nodes.network.conftest import eventually

LISTENERS = ("PROTECTED", "OTHER")


@pytest.mark.parametrize("seed", range(20))
def test_every_connection_is_counted_once_while_it_lasts(seed: int) -> None:
    """Random comings and goings: an address over its limit is refused and not counted; who is
    protected is let in above the broker's limit, others as long as there is room; above the limit
    the others are to close some, the protected one is not."""
    rng = random.Random(seed)
    most, per_ip = rng.randint(1, 6), rng.randint(1, 4)
    quotas = ConnectionQuotas(most, per_ip, "PROTECTED")
    open_from: Counter[str] = Counter()
    for _ in range(300):
        host, listener = rng.choice("abc"), rng.choice(LISTENERS)
        total = open_from.total()
        if rng.random() < 0.4:
            if open_from[host]:
                quotas.remove(host)
                open_from[host] -= 1
        elif listener == "PROTECTED" or total < most:
            if open_from[host] < per_ip:
                assert quotas.add(listener, host) == 0, "nobody had to wait"
                open_from[host] += 1
            else:
                with pytest.raises(TooManyConnections):
                    quotas.add(listener, host)
        total = open_from.total()
        assert quotas.total == total
        assert dict(quotas._per_ip) == dict(+open_from), "whoever has left is forgotten"
        assert [quotas.exceeded(name) for name in LISTENERS] == [False, total > most]


class Waiting(threading.Thread):
    """An acceptor with a connection in its hand."""

    def __init__(self, quotas: ConnectionQuotas, host: str) -> None:
        super().__init__(daemon=True)
        self.quotas, self.host = quotas, host
        self.waited_ns: int | None = None
        self.refused = False
        self.start()

    def run(self) -> None:
        try:
            self.waited_ns = self.quotas.add("OTHER", self.host)
        except TooManyConnections:
            self.refused = True


def test_who_waits_gets_in_one_by_one_as_others_go() -> None:
    quotas = ConnectionQuotas(2, 100, None)
    for _ in range(2):
        quotas.add("OTHER", "a")
    waiting = [Waiting(quotas, "b") for _ in range(3)]
    for left in (2, 1, 0):
        for each in waiting:
            each.join(0.005)
        assert sum(each.is_alive() for each in waiting) == left + 1
        quotas.remove("a" if left else "b")
        eventually(lambda left=left: sum(each.is_alive() for each in waiting) == left)
        assert quotas.total == 2
    assert all((each.waited_ns or 0) > 0 for each in waiting)


def test_an_address_over_its_limit_waits_for_room_like_others() -> None:
    """ConnectionQuotas.inc: the slot first, then the address. It is refused when it has its turn,
    and takes nothing."""
    quotas = ConnectionQuotas(2, 1, None)
    for host in ("a", "b"):
        quotas.add("OTHER", host)
    late = Waiting(quotas, "a")
    late.join(0.02)
    assert late.is_alive()
    quotas.remove("b")
    late.join(60)
    assert (late.refused, late.waited_ns) == (True, None)
    assert quotas.total == 1


def test_a_slot_that_is_not_taken_is_the_next_ones() -> None:
    """ConnectionQuotas.inc counts whoever is refused, and closing it wakes the others: a listener
    does not stand still for somebody else's address."""
    quotas = ConnectionQuotas(2, 1, None)
    for host in ("a", "b"):
        quotas.add("OTHER", host)
    waiting = []
    for host in ("a", "a", "c"):
        waiting.append(Waiting(quotas, host))
        eventually(lambda: len(quotas._changed._waiters) == len(waiting))
    quotas.remove("b")
    for each in waiting:
        each.join(5)
    assert [(each.is_alive(), each.refused) for each in waiting] == [
        (False, True),
        (False, True),
        (False, False),
    ]
    assert quotas.total == 2


def test_nobody_waits_after_the_end() -> None:
    """Neither who did, nor who comes then."""
    quotas = ConnectionQuotas(1, 100, None)
    quotas.add("OTHER", "a")
    waiting = [Waiting(quotas, "b") for _ in range(3)]
    for each in waiting:
        each.join(0.005)
        assert each.is_alive()
    quotas.close()
    waiting.append(Waiting(quotas, "c"))
    for each in waiting:
        each.join(60)
        assert not each.is_alive()
