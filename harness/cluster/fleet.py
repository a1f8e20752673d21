"""The brokers' processes: start, stop, kill, pause, with every step in the history.

Each call returns when it is done and writes ``node_event`` rows (start, ready, stop, stopped, kill,
pause, resume, exited). ``boot`` is the number of the start, from 1, which is also what a bundled
node counts for itself.

A killed broker's registration outlives it by its session; a broker that starts in that time finds
its own id taken, and Kafka refuses to start then. `start` therefore waits for the old registration
to go first, as a supervisor's restarts would in effect.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final, Protocol

from faults.protocol import FaultFailed, Link, Links
from harness.cluster.ask import NoAnswer, cluster_idea
from harness.cluster.errors import StateUnreadable
from harness.cluster.record import Record
from harness.cluster.view import StateView
from harness.runtime.protocol import Handle, ProcessSpec, StartFailed
from harness.runtime.readiness import tail

_POLL_S: Final = 0.05
_READY_TIMEOUT_S: Final = 60.0
_HALT_POLL_S: Final = 0.02
_STOP_TIMEOUT_S: Final = 60.0
_ASK_TIMEOUT_S: Final = 5.0
_NO_CONTROLLER_S: Final = 25.0
"""Besides its session: with KRaft nobody ends one while a majority of the controllers is away, and
the next active controller gives each broker a new one (ClusterControlManager.activate)."""


Respec = Callable[[int, Mapping[str, str], Collection[Link], str | None], ProcessSpec]
"""(node, properties on top, links without a listener, None or what to call a process of another
folder that is to have them) -> what to run."""


class Place(Protocol):
    """The part of a runtime that a fleet needs."""

    def spawn(self, spec: ProcessSpec) -> Handle: ...


class NodeFleet:
    """Implements `faults.protocol.Nodes`. Thread-safe; one operation at a time a node."""

    def __init__(
        self,
        runtime: Place,
        specs: Mapping[int, ProcessSpec],
        respec: Respec,
        log_dirs: Mapping[int, Path],
        *,
        view: StateView,
        links: Links,
        record: Record,
        session_timeout_ms: int,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._runtime = runtime
        self._specs = dict(specs)
        self._respec = respec
        self._tries = 0
        self._log_dirs = dict(log_dirs)
        self._view = view
        self._links = links
        self._record = record
        self._unregister_timeout_s = session_timeout_ms / 1000 * 2 + _NO_CONTROLLER_S
        self._now_ns = now_ns
        self._handles: dict[int, Handle] = {}
        self._locks = {node: Lock() for node in self._specs}
        self._ended: set[tuple[int, int]] = set()
        """(node, boot) whose end is in the history already."""
        self._deserted: set[tuple[int, int]] = set()
        """(node, boot) that ended without being told to."""
        self._winding_up = Event()

    @property
    def ids(self) -> Sequence[int]:
        return tuple(self._specs)

    def is_running(self, node: int) -> bool:
        """Whether it exists and is not paused."""
        handle = self._handles.get(node)
        return handle is not None and handle.alive and not handle.paused

    def has_deserted(self, node: int) -> bool:
        """Whether it ended by itself and was not started since."""
        return (node, self._boot(node)) in self._deserted

    def log_dir(self, node: int) -> str:
        return str(self._log_dirs[self._known(node)])

    def pid(self, node: int) -> int | None:
        handle = self._handles.get(node)
        return None if handle is None else handle.pid

    def wind_up(self) -> None:
        """From now on nothing is waited for: who waits, or begins to, gets a `FaultFailed`. Nodes
        can still be resumed, killed and stopped."""
        self._winding_up.set()

    def end(self) -> None:
        """The trial is over: end every node at once, with no row of it. `RuntimeFailed` of one
        leaves none of the others alive."""
        with contextlib.ExitStack() as stack:
            for handle in self._handles.values():
                stack.callback(handle.kill)

    def start(self, node: int, *, wait_ready: bool = True) -> None:
        with self._locks[self._known(node)]:
            if self._alive(node):
                return
            self._await_unregistered(node)
            handle = self._handles.get(node)
            if handle is None:
                self._handles[node] = handle = self._runtime.spawn(self._specs[node])
            else:
                handle.start()
            self._event(node, "start")
            if wait_ready:
                self._wait_ready(node, handle)

    def wait_ready(self, node: int) -> None:
        """Wait for a node that was started without waiting."""
        with self._locks[self._known(node)]:
            handle = self._handles.get(node)
            if handle is None:
                raise FaultFailed(f"node {node} was never started")
            self._wait_ready(node, handle)

    def stop(self, node: int) -> None:
        with self._locks[self._known(node)]:
            if self._alive(node):
                self._event(node, "stop")
                self._ended.add((node, self._boot(node)))
                graceful = self._handles[node].terminate(_STOP_TIMEOUT_S)
                self._event(node, "stopped", graceful=graceful)

    def kill(self, node: int) -> None:
        with self._locks[self._known(node)]:
            if self._alive(node):
                self._ended.add((node, self._boot(node)))
                self._handles[node].kill()
                self._event(node, "kill")

    def halts(self, node: int, why: Callable[[], object], within_s: float) -> bool:
        with self._locks[self._known(node)]:
            handle, boot = self._handles[node], self._boot(node)
            if not handle.alive:
                raise FaultFailed(f"node {node} does not run")
            why()
            deadline_ns = self._now_ns() + int(within_s * 1e9)
            while handle.alive and self._now_ns() < deadline_ns:
                if self._winding_up.wait(_HALT_POLL_S):
                    raise FaultFailed(f"the trial is being ended: nobody waits for node {node}")
            if handle.alive:
                return False
            self._ended.add((node, boot))
            self._event(node, "kill", halted=handle.exit_code)
            return True

    def pause(self, node: int) -> None:
        with self._locks[self._known(node)]:
            if not self._alive(node):
                raise FaultFailed(f"node {node} cannot be paused: it does not run")
            self._handles[node].pause()
            self._event(node, "pause")

    def resume(self, node: int) -> None:
        with self._locks[self._known(node)]:
            if self._alive(node) and self._handles[node].paused:
                self._event(node, "resume")  # before: it may act before this thread goes on
                self._handles[node].resume()

    def reconfigure(
        self, node: int, properties: Mapping[str, str], *, without: Collection[Link] = ()
    ) -> None:
        with self._locks[self._known(node)]:
            self._specs[node] = spec = self._respec(node, properties, without, None)
            handle = self._handles.get(node)
            if handle is not None:
                handle.respec(spec)

    def refusal(
        self, node: int, properties: Mapping[str, str], *, without: Collection[Link] = ()
    ) -> str:
        self._known(node)
        self._tries += 1
        spec = self._respec(node, properties, without, f"try-{self._tries}")
        handle = self._runtime.spawn(spec)
        try:
            self._await(f"{spec.name} to end", lambda: not handle.alive, _READY_TIMEOUT_S)
        finally:
            handle.kill()
        return tail(handle.output)

    def note_exits(self) -> Sequence[int]:
        """Record, once each, the nodes that ended without being told to; returns their ids."""
        ended = []
        for node, handle in list(self._handles.items()):
            boot, lock = handle.starts, self._locks[node]
            if handle.alive or (node, boot) in self._ended or not lock.acquire(blocking=False):
                continue
            try:
                if not handle.alive and handle.starts == boot and (node, boot) not in self._ended:
                    self._note_exit(node, handle)
                    ended.append(node)
            finally:
                lock.release()
        return ended

    def _note_exit(self, node: int, handle: Handle) -> None:
        self._ended.add((node, handle.starts))
        self._deserted.add((node, handle.starts))
        last = tail(handle.output)[-2000:]
        self._event(node, "exited", exit_code=handle.exit_code, output=last)

    def _known(self, node: int) -> int:
        if node not in self._specs:
            raise FaultFailed(f"no node {node}; allowed: {', '.join(map(str, self._specs))}")
        return node

    def _alive(self, node: int) -> bool:
        handle = self._handles.get(node)
        return handle is not None and handle.alive

    def _boot(self, node: int) -> int:
        handle = self._handles.get(node)
        return 0 if handle is None else handle.starts

    def _event(self, node: int, event: str, **detail: Any) -> None:
        self._record(
            "node_event",
            t=self._now_ns(),
            process="harness",
            node=node,
            boot=self._boot(node),
            event=event,
            detail=json.dumps(detail),
        )

    def _await_unregistered(self, node: int) -> None:
        self._await(
            f"the old registration of node {node} to expire",
            lambda: self._view.broker_epoch(node) is None,
            self._unregister_timeout_s,
        )

    def _wait_ready(self, node: int, handle: Handle) -> None:
        """Serving, registered, and telling its clients of itself."""
        address = self._links.address(node, Link.CLIENT, direct=True)

        def serves() -> bool:
            if not handle.alive:
                self._note_exit(node, handle)
                raise FaultFailed(f"node {node} exited while starting; {tail(handle.output)}")
            try:
                return (
                    self._view.broker_epoch(node) is not None
                    and node in cluster_idea(address, _ASK_TIMEOUT_S).brokers
                )
            except (NoAnswer, StateUnreadable):
                return False

        try:
            handle.wait_ready()
        except StartFailed as e:
            if not handle.alive:
                self._note_exit(node, handle)
            raise FaultFailed(str(e)) from e
        self._await(f"node {node} to register and serve", serves, _READY_TIMEOUT_S)
        self._event(node, "ready")

    def _await(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise FaultFailed(f"waited {timeout_s:g} s in vain for {what}")
            if self._winding_up.wait(_POLL_S):
                raise FaultFailed(f"the trial is being ended: nobody waits for {what}")
