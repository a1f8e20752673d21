"""A busy plane's threads meet on one core, and come loose again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.network.home_core import (
    BUSY_PER_S,
    CROWDED,
    FREE_NS,
    LONGEST_FREE_NS,
    LOOK_NS,
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


class Clock:
    def __init__(self) -> None:
        self.ns = 1_000_000_000

    def __call__(self) -> int:
        return self.ns


class Worker:
    """A thread of its own, so that nothing happens to the tests' thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def do(self, call: Callable[[], Any]) -> Any:
        return self._pool.submit(call).result(60)

    def cores(self) -> set[int]:
        found: set[int] = self.do(lambda: os.sched_getaffinity(0))
        return found

    def end(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    made = [Worker(), Worker()]
    yield made
    for worker in made:
        worker.end()


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Machine:
    """Cores that work as much as a test says, for others and, where we keep to, for us."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin_ns = self._last_ns = clock()
        self._worked_ns = dict.fromkeys(CORES, 0.0)
        self.others = dict.fromkeys(CORES, 0.0)
        """Shares of each core's time; `own`: of one core's."""
        self.own = 1.0
        self.home: HomeCore | None = None

    def own_ns(self) -> int:
        return int(self.own * (self._clock() - self._begin_ns))

    def busy_ns(self) -> dict[int, int]:
        at_home = self.home._core if self.home is not None else None
        passed_ns, self._last_ns = self._clock() - self._last_ns, self._clock()
        for core, share in self.others.items():
            self._worked_ns[core] += (share + (self.own if core == at_home else 0)) * passed_ns
        return {core: int(worked) for core, worked in self._worked_ns.items()}


@pytest.fixture
def machine(clock: Clock) -> Machine:
    return Machine(clock)


@pytest.fixture
def home(clock: Clock, machine: Machine) -> HomeCore:
    machine.home = HomeCore(clock, machine.own_ns, machine.busy_ns)
    return machine.home


def be_busy(home: HomeCore, clock: Clock, worker: Worker, for_ns: int = FREE_NS) -> None:
    """Visits twice as often as a busy plane must."""
    worker.do(home.visit)
    visits = 2 * BUSY_PER_S * for_ns // SECOND_NS
    for _ in range(visits):
        clock.ns += for_ns // visits + 1
        worker.do(home.visit)


@needs_cores
def test_threads_of_a_busy_plane_meet(home: HomeCore, clock: Clock, workers: list[Worker]) -> None:
    first, second = workers
    be_busy(home, clock, first)
    (core,) = first.cores()
    assert second.cores() == CORES
    second.do(home.visit)
    assert second.cores() == {core}
    be_busy(home, clock, first, 5 * LOOK_NS)
    assert first.cores() == {core}


@needs_cores
def test_a_plane_that_is_not_busy_is_left_alone(
    home: HomeCore, clock: Clock, workers: list[Worker]
) -> None:
    for _ in range(100):
        clock.ns += 2_000_000_000 // BUSY_PER_S
        workers[0].do(home.visit)
        assert workers[0].cores() == CORES


@needs_cores
def test_a_plane_that_is_not_busy_any_more_is_free(
    home: HomeCore, clock: Clock, workers: list[Worker]
) -> None:
    be_busy(home, clock, workers[0])
    assert len(workers[0].cores()) == 1
    clock.ns += LOOK_NS
    workers[0].do(home.visit)
    assert workers[0].cores() == CORES


@needs_cores
def test_it_moves_away_from_somebody_who_shares_its_core(
    home: HomeCore, clock: Clock, machine: Machine, workers: list[Worker]
) -> None:
    machine.own = 0.7
    be_busy(home, clock, workers[0])
    (core,) = workers[0].cores()
    machine.others[core] = 0.3
    be_busy(home, clock, workers[0], LOOK_NS)
    (moved_to,) = workers[0].cores()
    assert moved_to != core


@needs_cores
def test_a_machine_with_more_to_do_than_cores_is_left_alone_for_longer_and_longer(
    home: HomeCore, clock: Clock, machine: Machine, workers: list[Worker]
) -> None:
    machine.own = 0.5
    machine.others = dict.fromkeys(CORES, 1.0)
    free_ns = []
    be_busy(home, clock, workers[0])
    assert home.is_ours  # nobody has looked yet
    for _ in range(10):
        be_busy(home, clock, workers[0], LOOK_NS)
        assert workers[0].cores() == CORES
        begin_ns = clock.ns
        while len(workers[0].cores()) > 1:
            be_busy(home, clock, workers[0])
            assert not home.is_ours
        free_ns.append(clock.ns - begin_ns)
        assert not home.is_ours
    assert free_ns == sorted(free_ns)
    assert free_ns[0] < 4 * FREE_NS
    assert 0.9 * LONGEST_FREE_NS < free_ns[-1] < 1.1 * LONGEST_FREE_NS
    machine.own, machine.others = 1.0, dict.fromkeys(CORES, 0.0)
    be_busy(home, clock, workers[0], 2 * LOOK_NS)
    assert home.is_ours


@needs_cores
def test_who_left_starts_threads_that_are_free(
    home: HomeCore, clock: Clock, workers: list[Worker]
) -> None:
    worker = workers[0]
    be_busy(home, clock, worker)
    worker.do(home.leave)
    assert worker.cores() == CORES
    found: list[set[int]] = []

    def start_one() -> None:
        thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join(60)

    worker.do(start_one)
    assert found == [CORES]
    worker.do(home.visit)
    assert len(worker.cores()) == 1


@needs_cores
def test_cores_that_are_refused_are_not_asked_for_again(
    home: HomeCore, clock: Clock, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[int]] = []

    def refuse(_thread: int, cores: set[int]) -> None:
        asked.append(cores)
        raise OSError("planted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    be_busy(home, clock, workers[0])
    be_busy(home, clock, workers[0])
    clock.ns += LOOK_NS
    be_busy(home, clock, workers[0])
    assert len(asked) == 1


@needs_cores
def test_busy_handlers_stay_together_and_others_are_free(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow this machine is, and whoever else works on it.
    monkeypatch.setattr("nodes.network.home_core.BUSY_PER_S", 0)
    monkeypatch.setattr("nodes.network.home_core.core_times", dict)
    running = start(num_network_threads="2", num_io_threads="2")
    quick, other = set(), set()

    def handle(req: Any) -> None:
        (other if req.api_key else quick).add(frozenset(os.sched_getaffinity(0)))
        wire.echo(req)

    running.handle = handle
    clients = [running.client() for _ in range(4)]

    def is_on_one_core() -> bool:
        for api_key in (0, 0, 0, 3):
            for client in clients:
                client.send(wire.request(api_key, 1))
            for client in clients:
                client.answer()
        return any(len(cores) == 1 for cores in quick)

    wire.eventually(is_on_one_core)
    for _ in range(20):
        is_on_one_core()
    assert other == {frozenset(CORES)}


@needs_cores
def test_a_plane_that_is_idle_lets_go_of_those_that_sleep(
    home: HomeCore, clock: Clock, workers: list[Worker]
) -> None:
    first, second = workers
    be_busy(home, clock, first)
    second.do(home.visit)
    assert len(second.cores()) == 1
    clock.ns += LOOK_NS
    first.do(home.visit)
    assert second.cores() == CORES


@needs_cores
@pytest.mark.parametrize("is_at_home", [True, False])
def test_who_confines_the_process_is_obeyed(
    clock: Clock, machine: Machine, workers: list[Worker], is_at_home: bool
) -> None:
    allowed = set(CORES)
    home = HomeCore(clock, machine.own_ns, machine.busy_ns, lambda: set(allowed))
    be_busy(home, clock, workers[0])
    workers[1].do(home.visit)
    (core,) = workers[0].cores()
    allowed &= {core} if is_at_home else CORES - {core}
    for worker in workers:  # as `taskset -a` does
        worker.do(lambda: os.sched_setaffinity(0, allowed))
    for _ in range(3):
        be_busy(home, clock, workers[0], LOOK_NS)
        workers[1].do(home.leave)
        assert workers[0].cores() <= allowed
        assert workers[1].cores() <= allowed
    allowed |= CORES
    be_busy(home, clock, workers[0], LOOK_NS)
    assert len(workers[0].cores()) == 1  # there is a choice again
    clock.ns += LOOK_NS
    workers[0].do(home.visit)
    assert [worker.cores() for worker in workers] == [CORES, CORES]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_handler_yields_a_core_that_is_the_planes_alone(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch, is_ours: bool
) -> None:
    yields = []
    monkeypatch.setattr(os, "sched_yield", lambda: yields.append(True))
    running = start()
    running.server._data.baton.home = SimpleNamespace(
        visit=lambda: None, leave=lambda: None, is_ours=is_ours
    )
    client = running.client()
    for _ in range(5):
        client.send(wire.request(0, 1))
        client.answer()
    running.stop()
    assert bool(yields) == is_ours
