"""Watches what the run stands on: a dead toxiproxy or ZooKeeper makes every finding worthless.

One daemon thread looks at the processes four times a second, and every two seconds asks each
service something that it must answer. A service that is only slow (a flooded machine) is given
several tries. What failed is recorded once as an ``infra`` event. Nodes that end by themselves are
no infrastructure: they get a ``node_event`` ``exited``, for the checkers to weigh.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final

from harness.cluster.record import Record
from harness.runtime.protocol import Handle

log = logging.getLogger(__name__)

_POLL_S: Final = 0.25
_PROBE_EVERY: Final = 8  # polls
_PROBE_FAILURES: Final = 3  # in a row


@dataclass(slots=True)
class Watched:
    """A service: its process (None: it is not ours), and a probe that raises when it does not
    answer."""

    handle: Handle | None
    probe: Callable[[], None]
    tries: int = _PROBE_FAILURES
    """How many probes in a row must fail. 1: no load makes it slow, a failure is its end; it is
    looked at once more when the monitor stops, however short the run was."""
    failures: int = field(default=0)


class HealthMonitor:
    """`start` once all is up, `stop` before anything is taken down."""

    def __init__(
        self,
        services: Mapping[str, Watched],
        note_exits: Callable[[], object],
        record: Record,
    ) -> None:
        self._services = dict(services)
        self._note_exits = note_exits
        self._record = record
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="biplane-health", daemon=True)
        self.failed: dict[str, str] = {}
        """Component -> reason, for whoever wants to end the run early."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Idempotent."""
        if self._stopped.is_set():
            return
        for component, watched in self._services.items():
            if watched.tries == 1 and component not in self.failed:
                self._look(component, watched, probe=True)
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        polls = 0
        while not self._stopped.wait(_POLL_S):
            polls += 1
            for component, watched in self._services.items():
                if component not in self.failed:
                    self._look(component, watched, probe=polls % _PROBE_EVERY == 0)
            try:
                self._note_exits()
            except Exception:
                log.exception("looking for nodes that ended failed")

    def _look(self, component: str, watched: Watched, *, probe: bool) -> None:
        if watched.handle is not None and not watched.handle.alive:
            self._fail(component, f"exited with {watched.handle.exit_code}")
        elif probe:
            try:
                watched.probe()
                watched.failures = 0
            except Exception as e:
                watched.failures += 1
                if watched.failures >= watched.tries:
                    self._fail(component, f"does not answer: {e}")

    def _fail(self, component: str, reason: str) -> None:
        if self._stopped.is_set():
            return
        self.failed[component] = reason
        self._record("infra", process="monitor", component=component, reason=reason)
