"""Runs a plan against a cluster: each entry injected and healed at its offset in time.

One thread an entry, so that a fault that takes long to set in (640 connections to dial, a broker
to start) does not delay the others: the same plan has the same offsets on every system. Entries
that make up a story together say so (``after``): each of these waits for the one before. Each entry
draws from a random source of its own, seeded by (plan seed, entry id), so that the order in which
threads run changes nothing.

Every step is an event of kind ``fault`` (inject, injected, heal, healed, failed). A fault that
cannot be put in place fails the run's assumption, not the run: the others go on, and the checkers
make of it an `unknown`. Healing is certain: on a stop request, on an error, and once more at the
end for whatever was injected.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from faults.protocol import Context, Entry, Fault, FaultFailed

_LOOK_S: Final = 0.1
"""How often who waits for another entry looks whether the run is being stopped."""


@dataclass(slots=True)
class Step:
    """One entry under way."""

    entry: Entry
    fault: Fault
    context: Context
    injected: bool = False
    healed: bool = False
    failure: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)
    """It has been healed, or never will be begun."""
    over_ns: int = 0
    """Since when."""


class Schedule:
    """Owned by the run's main thread; `stop` may be called from any (a signal handler's too)."""

    def __init__(
        self,
        entries: Sequence[tuple[Entry, Fault]],
        *,
        seed: int,
        context_for: Callable[[random.Random, threading.Event], Context],
        record: Callable[..., None],
        now_ns: Callable[[], int],
        on_step: Callable[[Entry, str], None] = lambda _entry, _phase: None,
    ) -> None:
        self._stop = threading.Event()
        self._record, self._now_ns, self._on_step = record, now_ns, on_step
        self._steps = [
            Step(entry, fault, context_for(random.Random(f"{seed}:{entry.id}"), self._stop))
            for entry, fault in entries
        ]
        self._by_id = {step.entry.id: step for step in self._steps}
        self._threads: list[threading.Thread] = []

    def prepare(self) -> None:
        """Let faults get ready that can (a flood dials) before the clock starts."""
        for step in self._steps:
            prepare = getattr(step.fault, "prepare", None)
            if prepare is None:
                continue
            step.injected = True  # from here on there is something to heal
            try:
                prepare(step.context)
            except FaultFailed as error:
                self._failed(step, str(error))

    def start(self) -> None:
        """Begin the plan: offsets count from now."""
        start_ns = self._now_ns()
        for step in self._steps:
            thread = threading.Thread(
                target=self._run,
                args=(step, start_ns),
                name=f"nemesis-{step.entry.id}",
                daemon=True,
            )
            self._threads.append(thread)
            thread.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until every entry has been healed; False when the time was not enough."""
        deadline = None if timeout_s is None else self._now_ns() + int(timeout_s * 1e9)
        for thread in self._threads:
            left = None if deadline is None else max(0.0, (deadline - self._now_ns()) / 1e9)
            thread.join(left)
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """End the plan now; the threads heal what they injected."""
        self._stop.set()

    def heal_all(self) -> None:
        """Heal whatever is still in place, newest first. Safe to repeat."""
        self.stop()
        self.join(timeout_s=30.0)
        for step in reversed(self._steps):
            self._heal(step)

    @property
    def failures(self) -> list[str]:
        return [f"{step.entry.id}: {step.failure}" for step in self._steps if step.failure]

    # -- one entry ------------------------------------------------------------------------------

    def _run(self, step: Step, start_ns: int) -> None:
        try:
            begin_ns = start_ns + step.entry.at_ms * 1_000_000
            if step.failure is not None or not self._wait_until(begin_ns):
                return
            if step.entry.after in self._by_id:
                if not self._wait_for(self._by_id[step.entry.after], step.entry):
                    return
                begin_ns = self._now_ns()
            self._inject(step)
            self._wait_until(begin_ns + step.entry.duration_ms * 1_000_000)
        finally:
            self._heal(step)
            step.over_ns = self._now_ns()
            step.over.set()

    def _wait_until(self, t_ns: int) -> bool:
        return not self._stop.wait(max(0.0, (t_ns - self._now_ns()) / 1e9))

    def _wait_for(self, before: Step, entry: Entry) -> bool:
        """Until that one has been healed for as long as the plan has between the two: what is slow
        does not eat a rest."""
        while not before.over.wait(_LOOK_S):
            if self._stop.is_set():
                return False
        rest_ms = entry.at_ms - before.entry.at_ms - before.entry.duration_ms
        return self._wait_until(before.over_ns + max(0, rest_ms) * 1_000_000)

    def _inject(self, step: Step) -> None:
        self._event(step, "inject")
        step.injected = True
        try:
            step.fault.inject(step.context)
        except FaultFailed as error:
            self._failed(step, str(error))
        except KeyboardInterrupt:  # out of `Context.sleep`: the run is being stopped
            self._failed(step, "the run was stopped")
        except Exception as error:
            self._failed(step, f"{error!r}\n{traceback.format_exc()}")
        else:
            self._event(step, "injected")

    def _heal(self, step: Step) -> None:
        with step.lock:
            if not step.injected or step.healed:
                return
            self._event(step, "heal")
            try:
                step.fault.heal(step.context)
            except Exception as error:
                self._failed(step, f"healing: {error!r}\n{traceback.format_exc()}")
                return
            step.healed = True
            self._event(step, "healed")

    def _failed(self, step: Step, why: str) -> None:
        step.failure = why
        self._event(step, "failed", why=why)

    def _event(self, step: Step, phase: str, **detail: Any) -> None:
        seen: dict[str, Any] = {**(getattr(step.fault, "detail", None) or {}), **detail}
        measurable = phase in ("injected", "healed")
        self._record(
            "fault",
            t=self._now_ns(),
            fault=step.entry.fault,
            id=step.entry.id,
            phase=phase,
            nodes=list(getattr(step.fault, "nodes", None) or []),
            took_hold=getattr(step.fault, "took_hold", None) if measurable else None,
            detail=orjson.dumps(seen).decode(),
        )
        self._on_step(step.entry, phase)
