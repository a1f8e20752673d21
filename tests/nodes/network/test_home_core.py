"""A busy plane's threads meet on one core, and come loose again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nodes.network.home_core import (
    BUSY_PER_S,
    CROWDED,
    LONGEST_FREE,
    LOOK_S,
    HomeCore,
    choose,
    core_times,
)

CORES = os.sched_getaffinity(0)
needs_cores = pytest.mark.skipif(len(CORES) < 2, reason="one core is where everybody is")

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("own", "busy", "chosen"),
    [
        (1.0, {0: 1.0, 1: 0.3}, 0),  # the core works for us alone
        (0.9, {0: 0.89 + CROWDED, 1: 0.0}, 0),
        (0.75, {0: 1.0, 1: 0.1}, 1),  # somebody shares it while another core is quiet
        (0.5, {0: 1.0, 1: 0.4, 2: 0.2}, 2),
        (0.75, {0: 1.0, 1: 0.2}, None),  # not quiet enough to go there
        (0.5, {0: 1.0, 1: 1.0}, None),  # more to do than there are cores
        (0.75, {0: 1.0, 3: 0.0}, None),  # a core that is not for us
        (0.75, {0: 1.0}, None),
        (1.3, {0: 1.0, 1: 1.0}, 0),  # what we did elsewhere is not held against others
        (0.75, {}, 0),  # nobody tells
    ],
)
def test_where_to_be(own: float, busy: dict[int, float], chosen: int | None) -> None:
    assert choose(0, own, busy, {0, 1, 2}) == chosen


def test_cores_say_how_much_they_worked() -> None:
    before = core_times()
    assert before.keys() >= CORES
    end = time.thread_time() + 0.1
    worked = 0
    while time.thread_time() < end or (worked < 50_000_000 and time.thread_time() < end + 10):
        worked = sum(core_times().values()) - sum(before.values())
    assert 50_000_000 <= worked < 3600 * SECOND_NS


class Worker:
    """A thread of its own, so that nothing happens to the tests' thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self.id: int = self.do(threading.get_native_id)

    def do(self, call: Callable[[], Any]) -> Any:
        return self._pool.submit(call).result(60)

    def cores(self) -> set[int]:
        return os.sched_getaffinity(self.id)

    def end(self) -> None:
        self._pool.shutdown()


class Plane:
    """Two threads, and a machine whose cores work as much as a test says: for others (`others`, a
    share of each core) and, where the plane keeps to, for us (`own`, a share of one)."""

    def __init__(self) -> None:
        self.workers = [Worker(), Worker()]
        self.allowed = set(CORES)
        self.others = dict.fromkeys(CORES, 0.0)
        self.own = 1.0
        self._now_ns = SECOND_NS
        self._own_ns = 0.0
        self._handled = 0
        self._worked_ns = dict.fromkeys(CORES, 0.0)
        self.home = HomeCore(
            lambda: [worker.id for worker in self.workers],
            lambda: self._handled,
            now_ns=lambda: self._now_ns,
            own_ns=lambda: int(self._own_ns),
            busy_ns=lambda: {core: int(ns) for core, ns in self._worked_ns.items()},
            allowed=lambda: set(self.allowed),
        )

    def be_busy(self) -> None:
        """Long enough to have a home."""
        self.go_on(looks=2)

    def go_on(self, requests_per_s: float = 2 * BUSY_PER_S, looks: int = 1) -> None:
        """A tenth of a second for each look."""
        passed_ns = SECOND_NS // 10
        for _ in range(looks):
            self._now_ns += passed_ns
            self._handled += int(requests_per_s / 10)
            self._own_ns += self.own * passed_ns
            for core, share in self.others.items():
                own = self.own if core == self.home.core else 0.0
                self._worked_ns[core] += (share + own) * passed_ns
            self.home.look()

    def cores(self) -> list[set[int]]:
        return [worker.cores() for worker in self.workers]


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane()
    yield made
    for worker in made.workers:
        worker.end()


def together(plane: Plane) -> int:
    """The core that all of them keep to."""
    first, second = plane.cores()
    assert first == second
    (core,) = first
    assert core == plane.home.core
    return core


@needs_cores
@pytest.mark.parametrize(("requests_per_s", "is_busy"), [(0, 0), (990, 0), (1000, 1), (5000, 1)])
def test_busy_is_a_thousand_requests_a_second(
    plane: Plane, requests_per_s: int, is_busy: bool
) -> None:
    """Of fewer nobody gains anything."""
    plane.go_on(requests_per_s, looks=3)
    assert (plane.home.core is not None) == is_busy
    plane.go_on(990)
    assert plane.home.core is None


def test_how_patient_it_is() -> None:
    """Ten looks a second; others may take 15% of a core; free for 16 looks at the longest."""
    assert (LOOK_S, CROWDED, LONGEST_FREE) == (0.1, 0.15, 16)


@needs_cores
def test_threads_of_a_busy_plane_meet_and_stay(plane: Plane) -> None:
    plane.be_busy()
    core = together(plane)
    plane.go_on(looks=20)
    assert together(plane) == core


@needs_cores
@pytest.mark.parametrize("quietest", [min(CORES), max(CORES)])
def test_they_meet_on_the_quietest_core(plane: Plane, quietest: int) -> None:
    plane.others = {core: 0.0 if core == quietest else 0.5 for core in CORES}
    plane.go_on(looks=2)
    assert together(plane) == quietest


@needs_cores
@pytest.mark.parametrize("requests_per_s", [0, BUSY_PER_S - 50])
def test_a_plane_that_is_not_busy_is_left_alone(plane: Plane, requests_per_s: float) -> None:
    plane.go_on(requests_per_s, looks=20)
    assert plane.cores() == [CORES, CORES]


@needs_cores
def test_a_plane_that_is_not_busy_any_more_is_free(plane: Plane) -> None:
    plane.be_busy()
    together(plane)
    plane.go_on(requests_per_s=0)
    assert plane.cores() == [CORES, CORES]
    plane.be_busy()
    together(plane)


@needs_cores
def test_it_moves_away_from_somebody_who_shares_its_core(plane: Plane) -> None:
    plane.be_busy()
    core = together(plane)
    plane.own, plane.others[core] = 0.7, 0.3
    plane.go_on()
    assert together(plane) != core


@needs_cores
def test_a_machine_with_more_to_do_than_cores_is_left_alone_for_longer_and_longer(
    plane: Plane,
) -> None:
    plane.be_busy()
    plane.own, plane.others = 0.5, dict.fromkeys(CORES, 0.5)
    free: list[int] = []
    for _ in range(8):
        plane.go_on()
        assert plane.cores() == [CORES, CORES]
        looks = 1
        while plane.home.core is None:
            plane.go_on()
            looks += 1
            assert looks < 10 * LONGEST_FREE
        free.append(looks)
    assert free == sorted(free)
    assert free[0] < 5
    assert LONGEST_FREE <= free[-1] <= LONGEST_FREE + 2
    plane.own, plane.others = 1.0, dict.fromkeys(CORES, 0.0)
    plane.go_on(looks=3)
    together(plane)
    plane.own, plane.others = 0.5, dict.fromkeys(CORES, 0.5)
    plane.go_on()  # crowded again, for the first time in a row
    plane.go_on(looks=2)
    assert plane.home.core is not None


@needs_cores
@pytest.mark.parametrize("is_at_home", [True, False])
def test_who_confines_the_process_is_obeyed(plane: Plane, is_at_home: bool) -> None:
    plane.be_busy()
    core = together(plane)
    plane.allowed &= {core} if is_at_home else CORES - {core}
    for worker in plane.workers:  # as `taskset -a` does
        os.sched_setaffinity(worker.id, plane.allowed)
    plane.go_on(looks=3)
    for cores in plane.cores():
        assert cores <= plane.allowed
    plane.allowed = set(CORES)
    plane.be_busy()
    together(plane)  # there is a choice again
    plane.go_on(requests_per_s=0)
    assert plane.cores() == [CORES, CORES]


@needs_cores
def test_threads_that_ours_start_are_let_go_of(plane: Plane) -> None:
    plane.be_busy()
    core = together(plane)
    ended = threading.Event()
    numbers: list[int] = []

    def start_one() -> None:
        thread = threading.Thread(target=ended.wait, args=(60,))
        thread.start()
        assert thread.native_id is not None
        numbers.append(thread.native_id)

    plane.workers[0].do(start_one)
    try:
        assert os.sched_getaffinity(numbers[0]) == {core}  # it is inherited
        plane.go_on()
        assert os.sched_getaffinity(numbers[0]) == CORES
        assert together(plane) == core
    finally:
        ended.set()


@needs_cores
def test_cores_that_are_refused_are_not_asked_for_again(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    asked: list[set[int]] = []

    def refuse(_thread: int, cores: set[int]) -> None:
        asked.append(cores)
        raise OSError("planted")

    caplog.set_level("INFO")
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    monkeypatch.setattr("nodes.network.home_core.LOOK_S", 0.0)
    monkeypatch.setattr("nodes.network.home_core.BUSY_PER_S", 0)
    plane.home.start()
    thread = plane.home._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    assert len(asked) == 2  # where to keep to, and that it may go anywhere
    assert "planted" in caplog.text


@needs_cores
def test_threads_that_have_ended_are_no_problem(plane: Plane) -> None:
    plane.workers[0].end()
    plane.be_busy()
    assert len(plane.workers[1].cores()) == 1


@needs_cores
def test_a_busy_servers_data_plane_stays_together_and_nobody_else(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow this machine is, and whoever else works on it.
    monkeypatch.setattr("nodes.network.home_core.BUSY_PER_S", 0)
    monkeypatch.setattr("nodes.network.home_core.core_times", dict)
    running = start(
        num_network_threads="2",
        num_io_threads="2",
        listeners="DATA://127.0.0.1:0,CONTROL://127.0.0.1:0",
        control_plane_listener_name="CONTROL",
    )
    seen: dict[str, set[int]] = {}

    def handle(req: Any) -> None:
        seen[threading.current_thread().name] = os.sched_getaffinity(0)
        wire.echo(req)

    running.handle = handle
    clients = [running.client() for _ in range(4)]
    controller = running.client("CONTROL")

    def are_on_one_core() -> bool:
        for client in (*clients, controller):
            client.send(wire.request(3, 1))
        for client in (*clients, controller):
            client.answer()
        data = [cores for name, cores in seen.items() if name.startswith("data")]
        return len(data) == 2 and data[0] == data[1] and len(data[0]) == 1

    wire.eventually(are_on_one_core)
    assert seen["control-plane-kafka-request-handler-0"] == CORES
    running.stop()
    assert os.sched_getaffinity(0) == CORES


@needs_cores
def test_it_can_be_switched_off(start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.network.home_core.BUSY_PER_S", 0)
    monkeypatch.setattr("nodes.network.home_core.LOOK_S", 0.0)
    running = start(biplane_data_home_core="false")
    seen: set[frozenset[int]] = set()

    def handle(req: Any) -> None:
        seen.add(frozenset(os.sched_getaffinity(0)))
        wire.echo(req)

    running.handle = handle
    client = running.client()
    for _ in range(200):
        client.send(wire.request(3, 1))
        client.answer()
    assert seen == {frozenset(CORES)}
