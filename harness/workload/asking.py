"""Every broker asked, each on a clock of its own and over one connection (or a few), with one
question in flight on each.

Questions go to each broker by itself (a client library would ask whichever it likes). One that is
still unanswered when the next is due delays it: a broker that answers late is seen late, as any
client would see it. After ``timeout_ms`` the question is lost, and the connection made anew. What
is in flight in the end is waited for a moment, and then lost as well: it may have been done.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from harness.workload.lifecycle import Lifecycle
from harness.workload.links import Channel, Links
from harness.workload.pacing import Clock
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import WorkloadError, WorkloadSpec

_CONNECT_S: Final = 20.0
_STEP_S: Final = 0.05
_LAST_S: Final = 1.0


class Asks(Protocol):
    """The parameters that such a role has."""

    @property
    def rate_per_s(self) -> float:
        """Questions a second to each broker."""
        ...

    @property
    def timeout_ms(self) -> int: ...


class AskEach:
    """Subclasses send a question in `ask`, whose tag says when (``invoke_t``, ns), and write down
    in `answered` and `lost` what came of it. Everything happens on the thread that calls `run`."""

    connections: ClassVar[int] = 1
    """To each broker."""

    def __init__(self, spec: WorkloadSpec, asks: Asks) -> None:
        """Raises WorkloadError when it would never ask."""
        if asks.rate_per_s <= 0:
            raise spec.error("rate_per_s", "allowed: above 0")
        self._spec, self._asks = spec, asks
        self._recorder: LiveRecorder | None = None
        self._links = Links(self.answered, self.lost)

    def ask(self, channel: Channel) -> None:
        """It is due, and the channel is free."""
        raise NotImplementedError

    def waits(self, channel: Channel, now: int) -> None:
        """It has a question in flight; called again and again, every `_STEP_S` at least."""

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        raise NotImplementedError

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        raise NotImplementedError

    @property
    def recorder(self) -> LiveRecorder:
        assert self._recorder is not None, "run comes first"
        return self._recorder

    def run(self, recorder: LiveRecorder, life: Lifecycle) -> None:
        self._recorder = recorder
        nodes = sorted(self._spec.bootstrap)
        channels = [
            self._links.add(node, self._spec.address(node))
            for node in nodes
            for _ in range(self.connections)
        ]
        try:
            if not self._links.dial_all(_CONNECT_S, lambda: life.over):
                raise WorkloadError(f"workload {self._spec.process!r}: not every broker answers")
            life.ready()
            start, rate = time.monotonic_ns(), self._asks.rate_per_s
            clocks = [  # brokers are asked in turn, not all at once
                Clock(rate, start + int(1e9 / rate) * i // len(channels), max_behind_ns=0)
                for i in range(len(channels))
            ]
            while not life.over:
                now = time.monotonic_ns()
                for channel, clock in zip(channels, clocks, strict=True):
                    self._serve(channel, clock, now)
                wait_s = min(clock.wait_s(time.monotonic_ns(), _STEP_S) for clock in clocks)
                self._links.step(wait_s)
            self._end_all(channels)
        finally:
            self._links.close()

    def _end_all(self, channels: Sequence[Channel]) -> None:
        """Every question that was sent leaves its rows."""
        deadline = time.monotonic() + _LAST_S
        while any(one.state == "busy" for one in channels) and time.monotonic() < deadline:
            self._links.step(_STEP_S)
        for channel in channels:
            if channel.state == "busy":
                self.lost(channel, "the run ended", time.monotonic_ns())

    def _serve(self, channel: Channel, clock: Clock, now: int) -> None:
        late_ns = self._asks.timeout_ms * 1_000_000
        if channel.state == "busy" and now - channel.tag.invoke_t > late_ns:
            self._links.drop(channel, "timeout")
        elif channel.state == "busy":
            self.waits(channel, now)
        if clock.take(now) is not None and channel.state == "free":
            self.ask(channel)
