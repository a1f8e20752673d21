"""Handling a broker that is not ours: by the commands that its file gives, and by asking it.

A command that ended well proves nothing: a broker counts as ended when it answers no more, as
paused when it is silent, as started when it answers again. Whether it ended by itself is seen the
same way, by one thread that asks all brokers that should answer: connections that are refused or
closed, several times in a row. Silence alone ends nobody, for a flooded broker is silent too.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Final

from faults.protocol import FaultFailed
from harness.cluster.ask import CLIENT_ID, request
from harness.runtime.protocol import Address, Handle, ProcessSpec, RuntimeFailed, StartFailed
from harness.runtime.readiness import tail
from harness.sut.external.form import COMMANDS, ClusterForm, command_of
from harness.sut.external.owed import Owed
from nodes.wire.apis import ApiKey
from nodes.wire.client import Connection, RequestTimedOut, WireClientError
from nodes.wire.codec import WireError

_ASK_TIMEOUT_S: Final = 1.0
_POLL_S: Final = 0.05
_WATCH_S: Final = 0.5
_REFUSALS: Final = 3
_PAUSE_WITHIN_S: Final = 10.0
AGAIN_S: Final = 5.0


class WayFailed(FaultFailed):
    """A command failed, or did not bring about what it is for."""


class Sign(StrEnum):
    """What came of a question."""

    ANSWERS = "answers"
    SILENT = "silent"
    REFUSES = "refuses"


def sign_of_life(address: Address, timeout_s: float = _ASK_TIMEOUT_S) -> Sign:
    """Ask one broker which APIs it has."""
    try:
        with Connection(*address, CLIENT_ID, timeout_s) as connection:
            connection.request(request(ApiKey.API_VERSIONS, 0))
    except RequestTimedOut:
        return Sign.SILENT
    except (WireClientError, WireError, OSError):
        return Sign.REFUSES
    return Sign.ANSWERS


def run_command(argv: Sequence[str], *, env: Mapping[str, str], within_s: float, log: Path) -> None:
    """Run it to its end; what it says goes to ``log``. Raises `WayFailed`.

    It has a session of its own, so that Ctrl-C is the harness's alone and what it starts lives
    on."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        out.write(f"$ {shlex.join(argv)}\n".encode())
        out.flush()
        begin = out.tell()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **env},
            )
        except OSError as error:
            raise WayFailed(f"{shlex.join(argv)}: {error.strerror}") from error
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise WayFailed(f"{shlex.join(argv)}: not done within {within_s:g} s") from None
    if code != 0:
        raise WayFailed(f"{shlex.join(argv)}: ended with {code}; {tail(log, begin)}")


class BrokerHandle:
    """Implements `harness.runtime.protocol.Handle` for a broker that runs already: `start` is what
    brings it back. Thread-safe."""

    def __init__(
        self,
        spec: ProcessSpec,
        node: int,
        address: Address,
        commands: Mapping[str, tuple[str, ...]],
        *,
        env: Mapping[str, str],
        within_s: float,
        owed: Owed,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec = spec
        self.output: Final = spec.workdir / "commands.log"
        self.starts = 1
        self.paused = False
        self._node, self._address, self._commands = node, address, dict(commands)
        self._env, self._within_s, self._owed, self._now_s = dict(env), within_s, owed, now_s
        self._lock = RLock()
        self._up = True
        self._serving = True
        """It has answered since its last start: refusals mean that it ended."""
        self._refusals = 0
        self._back_by_s: float | None = None
        """Of ``now_s``: until when it is waited for, since it was first told to come back."""

    @property
    def alive(self) -> bool:
        return self._up and self._refusals < _REFUSALS

    @property
    def exit_code(self) -> int | None:
        return None

    @property
    def pid(self) -> int | None:
        return None

    def serves(self) -> bool:
        """Whether it answers now."""
        return self._sign() is Sign.ANSWERS

    def start(self) -> None:
        with self._lock:
            if self.alive:
                raise RuntimeFailed(f"{self.spec.name} runs already")
            self._serving, self._refusals = False, 0
            if self._back_by_s is None:
                self._back_by_s = self._now_s() + self._within_s
            self._run("start")
            self._up, self.paused = True, False
            self.starts += 1

    def respec(self, spec: ProcessSpec) -> None:
        raise RuntimeFailed(f"{self.spec.name} is not ours: it keeps its configuration")

    def wait_ready(self, timeout_s: float | None = None) -> None:
        within_s = self._within_s if timeout_s is None else timeout_s
        if not self._await(lambda sign: sign is Sign.ANSWERS, within_s):
            raise StartFailed(
                f"{self.spec.name} ({self._address}) did not answer within {within_s:g} s; "
                f"{tail(self.output)}"
            )
        self._refusals, self._serving, self._back_by_s = 0, True, None
        if not self.paused:
            self._owed.undone(self._node)

    def kill(self) -> None:
        self._end("kill")

    def terminate(self, timeout_s: float = 30.0) -> bool:
        """True: it has gone when this returns."""
        self._end("stop")
        return True

    def pause(self) -> None:
        with self._lock:
            self._serving = False
            self._owed.undo(self._node, "resume")
            self._run("pause")
            self.paused = True
            if not self._await(lambda sign: sign is not Sign.ANSWERS, _PAUSE_WITHIN_S):
                raise WayFailed(f"{self.spec.name} was paused, and answers")

    def resume(self) -> None:
        with self._lock:
            self._run("resume")
            self.paused, self._serving = False, True
            self._refusals = 0
            self._owed.undone(self._node)

    def restore(self) -> None:
        """Undo whatever was done to it, and see that it answers. It is started again and again: one
        that was killed finds its own registration taken until its session has ended, and ends. A
        fault that waited for it in vain has used its time up: then it is tried once more."""
        deadline = self._back_by_s or self._now_s() + self._within_s
        with self._lock:
            if self.paused:
                self.resume()
            while True:
                if not self.alive and "start" in self._commands:
                    self.start()
                try:
                    self.wait_ready(min(AGAIN_S, self._within_s))
                    return
                except StartFailed:
                    if self._now_s() > deadline:
                        raise
                    self._up = False

    def look(self) -> None:
        """See whether it has ended by itself."""
        if not self._serving or self.paused:
            return
        sign = self._sign()
        with self._lock:
            if self._serving and not self.paused:
                self._refusals = self._refusals + 1 if sign is Sign.REFUSES else 0

    def _end(self, command: str) -> None:
        with self._lock:
            if not self.alive:
                return
            self._serving = False
            self._owed.undo(self._node, "start")
            try:
                self._run(command)
                if not self._await(lambda sign: sign is not Sign.ANSWERS, self._within_s):
                    raise WayFailed(f"{self.spec.name} answers after {command!r}")
            except WayFailed:
                self._up = self.serves()
                raise
            self._up, self.paused, self._refusals = False, False, 0

    def _run(self, command: str) -> None:
        argv = self._commands.get(command)
        if argv is None:
            raise WayFailed(f"{self.spec.name}: its file has no command for {command!r}")
        run_command(argv, env=self._env, within_s=self._within_s, log=self.output)

    def _sign(self) -> Sign:
        return sign_of_life(self._address)

    def _await(self, met: Callable[[Sign], bool], within_s: float) -> bool:
        deadline = self._now_s() + within_s
        while not met(self._sign()):
            if self._now_s() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


class Brokers:
    """The place where a fleet finds its brokers: all run already. One daemon thread looks on."""

    def __init__(self, form: ClusterForm, here: Path, owed: Owed) -> None:
        self._form, self._here, self._owed = form, here, owed
        self._handles: dict[int, BrokerHandle] = {}
        self._over = Event()
        self._thread = Thread(target=self._run, name="biplane-brokers", daemon=True)

    def spawn(self, spec: ProcessSpec) -> Handle:
        """A handle on the broker; nothing is started."""
        node = int(spec.name.rpartition("-")[2])
        form = self._form
        found = {name: command_of(form, name, node, self._here) for name in COMMANDS}
        handle = BrokerHandle(
            spec,
            node,
            form.address(node),
            {name: argv for name, argv in found.items() if argv is not None},
            env=form.ways.env,
            within_s=form.ways.within_s,
            owed=self._owed,
        )
        self._handles[node] = handle
        return handle

    def serves(self, node: int) -> bool:
        handle = self._handles.get(node)
        return handle is not None and handle.serves()

    def watch(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Idempotent."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def restore(self) -> list[str]:
        """Every broker as it was; what could not be, in words."""
        failed = []
        for handle in self._handles.values():
            try:
                handle.restore()
            except Exception as error:  # the others are owed their turn
                failed.append(f"{handle.spec.name}: {error}")
        return failed

    def _run(self) -> None:
        while not self._over.wait(_WATCH_S):
            for handle in list(self._handles.values()):
                handle.look()
