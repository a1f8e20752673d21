"""The baton goes round, never gets lost, and is not waited for when its holder is stuck."""

from __future__ import annotations

import threading
import time

import pytest

from nodes.network.baton import Baton
from nodes.network.processor import Processor
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import RequestChannel


def test_one_at_a_time_and_everybody_gets_it() -> None:
    baton = Baton(patience_s=600)
    inside = 0
    turns = [0] * 4

    def work(index: int) -> None:
        nonlocal inside
        held = baton.take()
        for _ in range(200):
            inside += 1
            assert inside == 1
            turns[index] += 1
            inside -= 1
            held = baton.offer(held)
        held.release()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert turns == [200] * 4


def test_a_stuck_holder_is_passed_over() -> None:
    baton = Baton()
    stuck = []
    baton.on_stuck = lambda: stuck.append(True)
    lost = baton.take()
    taken = []
    taker = threading.Thread(target=lambda: taken.append(baton.take()), daemon=True)
    taker.start()
    taker.join(60)
    (held,) = taken
    assert stuck == [True]
    lost.release()  # it comes back at last, and gives back what nobody wants
    held.release()
    baton.take().release()
    assert stuck == [True]


def test_only_the_handler_with_the_baton_can_put_calls_off() -> None:
    baton = Baton()
    made: list[int] = []
    assert not baton.put_off(lambda: made.append(0))
    held = baton.take()
    calls = baton.begin_handling()
    assert baton.put_off(lambda: made.append(1))
    answers: list[bool] = []
    other = threading.Thread(target=lambda: answers.append(baton.put_off(lambda: made.append(2))))
    other.start()
    other.join(60)
    assert answers == [False]
    assert made == []
    baton.give_after_handling(held, calls)
    assert made == [1]
    assert not baton.put_off(lambda: made.append(3))


@pytest.mark.parametrize("gave_way", [False, True])
def test_a_network_thread_that_has_not_given_way_does_so_before_it_reads_on(gave_way: bool) -> None:
    baton = Baton(patience_s=600)
    processor = Processor(
        0,
        listener="L",
        plane="data",
        channel=RequestChannel(10),
        parse=lambda frame: (frame, None),
        quotas=ConnectionQuotas(10, 10, None),
        baton=baton,
        max_request_bytes=100,
        max_idle_ms=-1,
    )
    processor._held = baton.take()
    processor._wake()  # an event that waits to be polled
    processor._is_busy, processor._gave_way = True, gave_way
    had_it: list[bool] = []

    def want_it() -> None:
        held = baton.take()
        had_it.append(True)
        held.release()

    other = threading.Thread(target=want_it)
    other.start()
    while not baton.is_wanted():
        time.sleep(0.001)
    assert len(processor._poll()) == 1
    assert had_it == ([] if gave_way else [True])
    assert not processor._gave_way
    processor._held.release()
    other.join(60)
    processor._close_all()
