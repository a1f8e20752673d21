"""The schedule heals what it injected, whatever happened in between."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from faults.protocol import Entry, FaultFailed
from harness.schedule import Schedule


class Probe:
    """A fault that writes down what was done to it."""

    name = "probe"
    needs: frozenset[Any] = frozenset()

    def __init__(self, *, fail: Exception | None = None, block: threading.Event | None = None):
        self.calls: list[str] = []
        self.fail, self.block = fail, block
        self.nodes, self.took_hold, self.detail = [2], True, {"seen": 1}
        self.drawn: float | None = None

    def inject(self, ctx: Any) -> None:
        self.calls.append("inject")
        self.drawn = ctx.random()
        if self.block is not None:
            self.block.wait(60)
        if self.fail is not None:
            raise self.fail

    def heal(self, ctx: Any) -> None:
        self.calls.append("heal")


def entry(name: str, at_ms: int = 0, duration_ms: int = 0) -> Entry:
    return Entry(id=name, fault="probe", at_ms=at_ms, duration_ms=duration_ms, params={})


def schedule(*pairs: tuple[Entry, Probe], seed: int = 1) -> tuple[Schedule, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    made = Schedule(
        list(pairs),
        seed=seed,
        context_for=lambda rng, _stop: rng,
        record=lambda kind, **fields: rows.append({"f": kind, **fields}),
        now_ns=time.monotonic_ns,
    )
    return made, rows


def phases(rows: list[dict[str, Any]], name: str) -> list[str]:
    return [row["phase"] for row in rows if row["id"] == name]


def test_an_entry_is_injected_and_healed_in_order() -> None:
    probe = Probe()
    plan, rows = schedule((entry("a", 5, 5), probe))
    plan.start()
    assert plan.join(60)
    assert probe.calls == ["inject", "heal"]
    assert phases(rows, "a") == ["inject", "injected", "heal", "healed"]
    assert [r["took_hold"] for r in rows] == [None, True, None, True]
    assert not plan.failures


def test_a_failed_injection_is_told_and_healed() -> None:
    probe = Probe(fail=FaultFailed("nobody answered"))
    plan, rows = schedule((entry("a"), probe))
    plan.start()
    assert plan.join(60)
    assert phases(rows, "a") == ["inject", "failed", "heal", "healed"]
    assert plan.failures == ["a: nobody answered"]


def test_a_slow_injection_delays_nobody(wait_until: Callable[..., None]) -> None:
    gate = threading.Event()
    slow, quick = Probe(block=gate), Probe()
    plan, _ = schedule((entry("slow"), slow), (entry("quick", 10), quick))
    plan.start()
    wait_until(lambda: quick.calls == ["inject", "heal"])
    assert slow.calls == ["inject"]
    gate.set()
    assert plan.join(60)


def test_stopping_heals_what_is_in_place_and_injects_nothing_more(
    wait_until: Callable[..., None],
) -> None:
    now, later = Probe(), Probe()
    plan, _ = schedule((entry("now", 0, 60_000), now), (entry("later", 60_000), later))
    plan.start()
    wait_until(lambda: "inject" in now.calls)
    plan.heal_all()
    assert now.calls == ["inject", "heal"]
    assert later.calls == []
    plan.heal_all()
    assert now.calls == ["inject", "heal"]


def test_random_choices_depend_on_seed_and_entry_only() -> None:
    def drawn(seed: int, *names: str) -> dict[str, float | None]:
        probes = {name: Probe() for name in names}
        plan, _ = schedule(*((entry(n), p) for n, p in probes.items()), seed=seed)
        plan.start()
        plan.join(60)
        return {name: probe.drawn for name, probe in probes.items()}

    assert drawn(7, "a", "b") == drawn(7, "b", "a")
    assert drawn(7, "a")["a"] != drawn(8, "a")["a"]
    assert drawn(7, "a")["a"] == random.Random("7:a").random()


def test_an_entry_waits_for_the_one_that_it_comes_after(wait_until: Callable[..., None]) -> None:
    """However late that is; others keep their offsets, and it lasts as long as it should."""
    gate = threading.Event()
    slow, next_one, other = Probe(block=gate), Probe(), Probe()
    after = Entry(id="b", fault="probe", at_ms=1, duration_ms=50, params={}, after="a")
    plan, rows = schedule((entry("a"), slow), (after, next_one), (entry("c", 1), other))
    plan.start()
    wait_until(lambda: phases(rows, "c") == ["inject", "injected", "heal", "healed"])
    assert phases(rows, "b") == []
    gate.set()
    assert plan.join(60)
    told = [(row["id"], row["phase"]) for row in rows]
    assert told.index(("a", "healed")) < told.index(("b", "inject"))
    at = {row["phase"]: row["t"] for row in rows if row["id"] == "b"}
    assert at["heal"] - at["inject"] >= 50_000_000


def test_what_is_slow_does_not_eat_a_rest(wait_until: Callable[..., None]) -> None:
    gate = threading.Event()
    slow, next_one = Probe(block=gate), Probe()
    after = Entry(id="b", fault="probe", at_ms=90, duration_ms=0, params={}, after="a")
    plan, rows = schedule((entry("a", 0, 10), slow), (after, next_one))
    plan.start()
    wait_until(lambda: phases(rows, "a") == ["inject"])
    time.sleep(0.1)
    gate.set()
    assert plan.join(60)
    at = {(row["id"], row["phase"]): row["t"] for row in rows}
    assert at["b", "inject"] - at["a", "healed"] >= 79_000_000


def test_an_entry_goes_on_after_one_that_failed_or_is_not_there() -> None:
    failed, next_one, last = Probe(fail=FaultFailed("nobody answered")), Probe(), Probe()
    after = Entry(id="b", fault="probe", at_ms=0, duration_ms=0, params={}, after="a")
    alone = Entry(id="c", fault="probe", at_ms=0, duration_ms=0, params={}, after="left-out")
    plan, rows = schedule((entry("a"), failed), (after, next_one), (alone, last))
    plan.start()
    assert plan.join(60)
    for name in ("b", "c"):
        assert phases(rows, name) == ["inject", "injected", "heal", "healed"]


def test_who_waits_for_another_entry_ends_with_the_run(wait_until: Callable[..., None]) -> None:
    gate = threading.Event()
    slow, next_one = Probe(block=gate), Probe()
    after = Entry(id="b", fault="probe", at_ms=0, duration_ms=0, params={}, after="a")
    plan, rows = schedule((entry("a"), slow), (after, next_one))
    plan.start()
    wait_until(lambda: phases(rows, "a") == ["inject"])
    plan.stop()
    gate.set()
    assert plan.join(60)
    assert next_one.calls == []
