"""What every fault has in common: its entry, what it found out, and idempotent healing.

A fault owns no row of kind ``fault``: the schedule writes those (inject, injected, heal, healed,
failed) around `inject` and `heal` and reads three attributes for them: ``nodes`` (whom it hit),
``took_hold`` (was the effect observed; None when it cannot be) and ``detail`` (how symbolic targets
were resolved, what was measured).

States: new -> [prepared] -> injecting -> in place -> healed. `heal` may be called in each of them,
from another thread than `inject` (Ctrl-C), and again after it failed: what is to be undone is noted
*before* it is done, and forgotten once it was undone (`BaseFault.owe`, `BaseFault.settle`).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

from faults.protocol import Capability, Context, Entry, FaultFailed, Link

POLL_S: Final = 0.02
_DOWN: Final = "down"

Owed = tuple[Any, ...]
"""What is to be undone: its kind, and where."""


class BaseFault:
    """Template: subclasses write ``apply`` and read their `Params` in __init__. What they do with
    `kill`, `pause`, `cut` and the like is undone by heal, last first, unless they did so before."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = frozenset()

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.id = entry.id
        self.nodes: list[int] = []
        self.took_hold: bool | None = None
        self.detail: dict[str, Any] = {}
        self._healing = threading.Lock()
        self._owed: dict[Owed, Callable[[Context], object]] = {}

    @classmethod
    def from_entry(cls, entry: Entry) -> BaseFault:
        return cls(entry)

    def inject(self, ctx: Context) -> None:
        missing = self.needs - ctx.capabilities
        if missing:
            raise FaultFailed(f"{self.name} needs {', '.join(sorted(missing))}")
        self.apply(ctx)

    def heal(self, ctx: Context) -> None:
        with self._healing:
            self.undo(ctx)

    def apply(self, ctx: Context) -> None:
        """Put the effect in place and see it. Sets nodes, took_hold and detail."""
        raise NotImplementedError

    def undo(self, ctx: Context) -> None:
        """Undo whatever is in place; a no-op when nothing is. Who starts again needs the others:
        what is down comes when all else is as it was."""
        while self._owed:
            self.settle(ctx, min(reversed(self._owed), key=lambda what: what[0] == _DOWN))

    # -- what is undone ---------------------------------------------------------------------------

    def owe(self, what: Owed, undo: Callable[[Context], object]) -> None:
        """Note how to undo what is about to be done."""
        self._owed[what] = undo

    def settle(self, ctx: Context, what: Owed) -> None:
        """Undo it now; a no-op when nothing of the kind is in place."""
        if (undo := self._owed.get(what)) is not None:
            undo(ctx)
            self._owed.pop(what, None)

    def kill(self, ctx: Context, node: int) -> None:
        self.owe_start(node)
        ctx.nodes.kill(node)

    def stop(self, ctx: Context, node: int) -> None:
        self.owe_start(node)
        ctx.nodes.stop(node)

    def start(self, ctx: Context, node: int) -> None:
        """Start what was killed or stopped, unless it runs again."""
        self.settle(ctx, (_DOWN, node))

    def owe_start(self, node: int) -> None:
        """Whatever ends it, heal starts it."""

        def start(ctx: Context) -> None:
            if not ctx.nodes.is_running(node):
                ctx.nodes.start(node)

        self.owe((_DOWN, node), start)

    def pause(self, ctx: Context, node: int) -> None:
        """SIGSTOP; a no-op when it is paused by this fault already."""
        if ("paused", node) not in self._owed:
            self.owe(("paused", node), lambda ctx: ctx.nodes.resume(node))
            ctx.nodes.pause(node)

    def resume(self, ctx: Context, node: int) -> None:
        self.settle(ctx, ("paused", node))

    def cut(self, ctx: Context, node: int, link: Link) -> None:
        """The link is down; a no-op when this fault took it down already."""
        if ("cut", node, link) not in self._owed:
            self.owe(("cut", node, link), lambda ctx: ctx.links.enable(node, link))
            ctx.links.disable(node, link)

    def mend(self, ctx: Context, node: int, link: Link) -> None:
        self.settle(ctx, ("cut", node, link))

    def delay_answers(self, ctx: Context, node: int, link: Link, latency_ms: int) -> None:
        """Whatever comes back on the link is late; until `let_answers`."""
        self._toxic(ctx, node, link, "latency", {"latency": latency_ms, "jitter": 0})

    def hold_answers(self, ctx: Context, node: int, link: Link) -> None:
        """Whatever comes back on the link is thrown away; until `let_answers`, which closes its
        connections."""
        self._toxic(ctx, node, link, "timeout", {"timeout": 0})

    def let_answers(self, ctx: Context, node: int, link: Link) -> None:
        self.settle(ctx, ("toxic", node, link))

    def _toxic(
        self, ctx: Context, node: int, link: Link, kind: str, attributes: dict[str, Any]
    ) -> None:
        self.owe(
            ("toxic", node, link), lambda ctx: ctx.links.remove_toxic(node, link, name=self.id)
        )
        ctx.links.add_toxic(
            node,
            link,
            name=self.id,
            kind=kind,
            stream="downstream",
            toxicity=1.0,
            attributes=attributes,
        )


def wait_for(
    ctx: Context, met: Callable[[], bool], *, timeout_ms: int, what: str, poll_s: float = POLL_S
) -> None:
    """Return once ``met``; `FaultFailed` saying what was waited for when it is not in time."""
    deadline = ctx.now_ns() + timeout_ms * 1_000_000
    while not met():
        if ctx.now_ns() >= deadline:
            raise FaultFailed(f"not within {timeout_ms} ms: {what}")
        ctx.sleep(poll_s)


class _UntilStopped:
    """A context whose `sleep` ends with `FaultFailed` once the background is being stopped, so that
    heal need not wait for a turn that waits for something which the fault itself broke."""

    def __init__(self, ctx: Context, stop: threading.Event) -> None:
        self._ctx, self._stop = ctx, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def sleep(self, seconds: float) -> None:
        if self._stop.is_set():
            raise FaultFailed("being healed")
        self._ctx.sleep(seconds)


class Background:
    """A repeated action on a thread of its own, between a fault's inject and its heal.

    ``turn(ctx, rng)`` is called every ``interval_ms`` until `stop`. It draws from its own random
    source, seeded from the fault's. A `FaultFailed` turn is counted and the next one tried: under
    chaos a topic that could not be created now and then is no reason to stop creating topics.
    """

    def __init__(
        self,
        ctx: Context,
        turn: Callable[[Context, random.Random], None],
        *,
        interval_ms: int,
        name: str,
    ) -> None:
        self._turn = turn
        self._interval_s = interval_ms / 1000
        self._rng = random.Random(ctx.rng.getrandbits(64))
        self._stop = threading.Event()
        self._ctx = cast(Context, _UntilStopped(ctx, self._stop))
        self.turns = 0
        self.failures: list[str] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self._turn(self._ctx, self._rng)
            except FaultFailed as failure:
                if not self._stop.is_set():
                    self.failures.append(str(failure))
            except BaseException as error:  # the run's stop signal among them: the thread ends
                self.error = error
                return
            else:
                self.turns += 1

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self, timeout_s: float = 30.0) -> None:
        self._stop.set()
        self._thread.join(timeout_s)

    def summary(self) -> dict[str, Any]:
        return {
            "turns": self.turns,
            "failed_turns": len(self.failures),
            "last_failure": self.failures[-1] if self.failures else None,
            "error": repr(self.error) if self.error else None,
        }
