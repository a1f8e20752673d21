"""Waiting operations: exactly one completion, by event or by deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from nodes.replication.purgatory import DelayedOperation, Purgatory
from tests.nodes.replication.conftest import wait_for


class Probe(DelayedOperation):
    def __init__(self, delay_ms: float = 60_000) -> None:
        super().__init__(time.monotonic_ns() + int(delay_ms * 1e6))
        self.is_ready = False
        self.completions = 0
        self.expirations = 0
        self.completed_ns = 0

    def try_complete(self) -> bool:
        return self.is_ready and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1
        self.completed_ns = time.monotonic_ns()

    def on_expiration(self) -> None:
        self.expirations += 1


@pytest.fixture
def purgatory() -> Iterator[Purgatory[Probe]]:
    purgatory: Purgatory[Probe] = Purgatory("Probe", 1, time.monotonic_ns)
    purgatory.startup()
    yield purgatory
    purgatory.shutdown()


def test_completable_at_once(purgatory: Purgatory[Probe]) -> None:
    probe = Probe()
    probe.is_ready = True
    assert purgatory.try_complete_else_watch(probe, ["a", "b"])
    assert (probe.completions, purgatory.size, purgatory.delayed) == (1, 0, 0)
    assert purgatory.watched == {}


def test_completed_through_any_of_its_keys(purgatory: Purgatory[Probe]) -> None:
    one, other = Probe(), Probe()
    purgatory.try_complete_else_watch(one, ["a", "b"])
    purgatory.try_complete_else_watch(other, ["b"])
    assert (purgatory.size, purgatory.delayed) == (3, 2)
    one.is_ready = True
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("b") == 1
    assert set(purgatory.watched) == {"b"}
    assert (one.completions, other.completions, purgatory.delayed) == (1, 0, 1)


def test_deadlines(purgatory: Purgatory[Probe]) -> None:
    probes = [Probe(delay) for delay in (40, 5, 20, 60_000, 5)]
    for probe in probes:
        purgatory.try_complete_else_watch(probe, ["a"])
    wait_for(lambda: sum(p.expirations for p in probes) == 4)
    for probe in probes:
        if probe.completions:
            assert probe.completed_ns >= probe.deadline_ns
    assert not probes[3].is_completed
    assert (purgatory.size, purgatory.delayed) == (1, 1)


def test_a_failing_answer_does_not_hold_up_the_others(purgatory: Purgatory[Probe]) -> None:
    class Broken(Probe):
        def on_complete(self) -> None:
            raise OSError("connection closed")

    broken, sound, late = Broken(), Probe(), Broken(1)
    for probe in (broken, sound, late):
        purgatory.try_complete_else_watch(probe, ["a"])
    broken.is_ready = sound.is_ready = True
    assert purgatory.check_and_complete("a") >= 1
    assert sound.completions == 1
    wait_for(lambda: purgatory.delayed == 0)
    after = Probe(1)
    purgatory.try_complete_else_watch(after, ["a"])
    wait_for(lambda: after.expirations == 1, what="the reaper lives on")


def test_events_and_deadlines_race_for_one_completion(purgatory: Purgatory[Probe]) -> None:
    probes = [Probe(delay_ms=1 + i % 7) for i in range(600)]
    stop = threading.Event()

    def poke() -> None:
        while not stop.is_set():
            for key in range(5):
                purgatory.check_and_complete(key)

    pokers = [threading.Thread(target=poke) for _ in range(2)]
    for poker in pokers:
        poker.start()
    for i, probe in enumerate(probes):
        purgatory.try_complete_else_watch(probe, [i % 5, (i + 1) % 5])
        probe.is_ready = bool(i % 3)
    wait_for(lambda: all(probe.is_completed for probe in probes))
    stop.set()
    for poker in pokers:
        poker.join()
    wait_for(lambda: all(probe.completions == 1 for probe in probes))
    assert (purgatory.size, purgatory.delayed, purgatory.watched) == (0, 0, {})
