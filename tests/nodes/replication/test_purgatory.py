"""Waiting operations: exactly one completion, by event or by deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from nodes.core.deadlines import SLACK
from nodes.replication.purgatory import DelayedOperation, Purgatory
from tests.nodes.replication.conftest import wait_for

DAYS_MS = 2**31 - 1
"""The longest timeout that a request can ask for."""


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


@pytest.mark.parametrize("looks_at_all", [True, False])
def test_who_cannot_go_keeps_nobody_behind_it(looks_at_all: bool) -> None:
    purgatory: Purgatory[Probe] = Purgatory(
        "Probe", 1, time.monotonic_ns, looks_at_all=looks_at_all
    )
    first, second, third = Probe(), Probe(), Probe()
    for probe in (first, second, third):
        purgatory.try_complete_else_watch(probe, ["a"])
    first.is_ready = third.is_ready = True
    assert purgatory.check_and_complete("a") == (2 if looks_at_all else 1)
    assert (first.completions, second.completions, third.completions) == (1, 0, int(looks_at_all))


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


@pytest.mark.parametrize("timeout_ms", [DAYS_MS, 30_000])
def test_what_was_completed_is_kept_nowhere(timeout_ms: int) -> None:
    """acks=all, satisfied long before its deadline, 50,000 times over; some wait all the while."""
    now_ms = 0

    def now_ns() -> int:
        return now_ms * 1_000_000

    purgatory: Purgatory[Probe] = Purgatory("Probe", 1, now_ns)  # not started: nothing expires
    patient = [Probe() for _ in range(10)]
    for probe in patient:
        purgatory.try_complete_else_watch(probe, ["idle", "busy"])
    most = 0
    for number in range(50_000):
        now_ms += number % 3
        probe = Probe()
        probe.deadline_ns = now_ns() + timeout_ms * 1_000_000
        purgatory.try_complete_else_watch(probe, ["busy", f"of request {number}"])
        probe.is_ready = True
        # Completed through one key, so the other's list has to be told.
        assert purgatory.check_and_complete("busy" if number % 2 else f"of request {number}") == 1
        most = max(most, purgatory.entries)
    assert set(purgatory.watched) == {"idle", "busy"}
    assert (purgatory.size, purgatory.delayed) == (20, 10)
    assert most <= 2 * (len(patient) + 1) + SLACK
    assert not any(probe.is_completed for probe in patient)


def test_what_nobody_waits_for_is_dropped(
    purgatory: Purgatory[Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.replication.purgatory.SWEEP_NS", 10_000_000)
    gone: set[int] = set()
    probes = [Probe(DAYS_MS) for _ in range(20)]
    for number, probe in enumerate(probes):
        probe.is_abandoned = lambda number=number: number in gone  # type: ignore[misc]
        purgatory.try_complete_else_watch(probe, [number % 2, "all"])
    assert (purgatory.delayed, purgatory.size) == (20, 40)
    gone |= set(range(0, 20, 2))
    wait_for(lambda: purgatory.delayed == 10)
    assert [p.completions for p in probes] == [int(n % 2 == 0) for n in range(20)]
    assert [p.expirations for p in probes] == [int(n % 2 == 0) for n in range(20)]
    assert set(purgatory.watched) == {1, "all"}
    # Who asks wrongly does not end the reaper.
    probes[1].is_abandoned = lambda: bool(1 // 0)
    gone.add(3)
    wait_for(lambda: probes[3].is_completed)
    assert not probes[1].is_completed


@pytest.mark.parametrize("delay_ms", [-(2**31), -1, 0])
def test_a_deadline_in_the_past_is_now(purgatory: Purgatory[Probe], delay_ms: int) -> None:
    probe = Probe(delay_ms)
    assert not purgatory.try_complete_else_watch(probe, ["a"])
    wait_for(lambda: probe.expirations == 1)
    wait_for(lambda: (purgatory.size, purgatory.delayed, purgatory.entries) == (0, 0, 0))


def test_what_changes_between_the_try_and_the_watch_is_not_lost(
    purgatory: Purgatory[Probe],
) -> None:
    """When it is tried last before it waits, whoever changes something finds it under each of its
    keys: one of the two sees the change (tryCompleteElseWatch)."""
    seen: list[set[object]] = []

    class Watching(Probe):
        def try_complete(self) -> bool:
            seen.append({key for key, waiting in purgatory.watched.items() if self in waiting})
            return super().try_complete()

    probe = Watching()
    assert not purgatory.try_complete_else_watch(probe, ["a", "b"])
    assert seen[-1] == {"a", "b"}
