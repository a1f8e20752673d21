"""Measures what a controller's request would have to wait: harmless control requests on a clock.

For each broker and plane, probes are planned at a fixed rate, alternately LeaderAndIsr and
UpdateMetadata (see `control_messages` for why they change nothing, and when UpdateMetadata must be
left out). Latency counts from the *planned* time: a probe that waits for a free connection is late
because of the broker, and leaving that out would flatter it. There are several connections to each
listener, since a broker reads nothing further from a connection that awaits its answer.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from harness.cluster.control_requests import VERSIONS
from harness.workload.control_messages import leader_and_isr, update_metadata
from harness.workload.lifecycle import Lifecycle
from harness.workload.links import Channel, Links
from harness.workload.pacing import Clock
from harness.workload.priority import prefer_this_thread
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import WorkloadError, WorkloadSpec
from harness.workload.zk_state import Snapshot, ZkState
from nodes.wire.apis import ApiKey
from nodes.wire.codec import WireError, decode_response

APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA")
PLANES: Final = ("control", "data")
_CONNECT_S: Final = 20.0
_CORRELATION_AT: Final = 8
_I32: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``listeners``: by broker, by plane ("control", "data"), host:port; ``rate_per_s``: for each.

    ``topics``: whose partitions LeaderAndIsr names. ``metadata_topics``: whose partitions
    UpdateMetadata names: only such as nobody moves (see `control_messages`)."""

    zookeeper: str
    listeners: dict[int, dict[str, str]]
    topics: tuple[str, ...] = ()
    metadata_topics: tuple[str, ...] = ()
    rate_per_s: float = 20.0
    apis: tuple[str, ...] = APIS
    connections: int = 8
    timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        for api in self.apis:
            if api not in APIS:
                raise ValueError(
                    f"field 'params.apis': {api!r} is not allowed; allowed: {', '.join(APIS)}"
                )
        for planes in self.listeners.values():
            for plane in planes:
                if plane not in PLANES:
                    raise ValueError(
                        f"field 'params.listeners': {plane!r} is not allowed; "
                        f"allowed: {', '.join(PLANES)}"
                    )
        if not self.apis or not self.listeners or self.connections < 1 or self.rate_per_s <= 0:
            raise ValueError(
                "fields apis, listeners, connections, rate_per_s; allowed: not empty, above 0"
            )


class _Probe(NamedTuple):
    """A probe in flight."""

    op: int
    api: str
    planned_t: int
    invoke_t: int


@dataclass(slots=True, eq=False)
class _Listener:
    """One listener under measurement."""

    node: int
    plane: str
    clock: Clock
    channels: list[Channel]
    planned: deque[int] = field(default_factory=deque)
    turns: int = 0


class Prober:
    """Everything but the reading of ZooKeeper happens on the thread that calls `run`."""

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        self._spec, self._params = spec, params
        self._links = Links(self._answered, self._lost)
        self._by_channel: dict[Channel, _Listener] = {}
        self._frames: dict[tuple[int, str], bytes | None] = {}
        self._frames_of = -1  # version of the snapshot that they were made from
        self._recorder: LiveRecorder | None = None
        self._op = 0

    def run(self, recorder: LiveRecorder, life: Lifecycle) -> None:
        self._recorder = recorder
        topics = dict.fromkeys((*self._params.topics, *self._params.metadata_topics))
        state = ZkState(self._params.zookeeper, tuple(topics))
        try:
            state.start(_CONNECT_S)
            listeners = self._connect(life)
            deadline = time.monotonic() + _CONNECT_S
            while state.snapshot is None and not life.over:
                if time.monotonic() > deadline:
                    raise WorkloadError(f"workload {self._spec.process!r}: there is no controller")
                self._links.step(0.01)
            life.ready()
            prefer_this_thread()
            while not life.over:
                self._serve(listeners, state)
        finally:
            self._links.close()
            state.close()

    def _connect(self, life: Lifecycle) -> list[_Listener]:
        listeners = []
        start = time.monotonic_ns()
        for node, planes in sorted(self._params.listeners.items()):
            for plane, address in sorted(planes.items()):
                host, _, port = address.rpartition(":")
                channels = [
                    self._links.add(node, (host, int(port)))
                    for _ in range(self._params.connections)
                ]
                listener = _Listener(node, plane, Clock(self._params.rate_per_s, start), channels)
                self._by_channel |= dict.fromkeys(channels, listener)
                listeners.append(listener)
        if not self._links.dial_all(_CONNECT_S, lambda: life.over):
            raise WorkloadError(f"workload {self._spec.process!r}: not every listener answers")
        now, period_ns = time.monotonic_ns(), int(1e9 / self._params.rate_per_s)
        for i, listener in enumerate(listeners):  # in turn, not all at once
            listener.clock = Clock(
                self._params.rate_per_s, now + period_ns * i // max(1, len(listeners))
            )
        return listeners

    def _serve(self, listeners: list[_Listener], state: ZkState) -> None:
        now = time.monotonic_ns()
        limit_ns = self._params.timeout_ms * 1_000_000
        for listener in listeners:
            while (planned := listener.clock.take(now)) is not None:
                listener.planned.append(planned)
            while listener.planned and now - listener.planned[0] > limit_ns:
                self._give_up(listener, listener.planned.popleft(), now)
            for channel in listener.channels:
                if channel.state == "busy" and now - channel.tag.invoke_t > limit_ns:
                    self._links.drop(channel, "timeout")
                elif channel.state == "free" and listener.planned:
                    self._probe(listener, channel, state)
        after = time.monotonic_ns()
        self._links.step(min(one.clock.wait_s(after, 0.05) for one in listeners))

    def _probe(self, listener: _Listener, channel: Channel, state: ZkState) -> None:
        planned_t = listener.planned.popleft()
        snapshot = state.snapshot
        if snapshot is None:
            return  # between two controllers there is nobody to speak for
        if snapshot.version != self._frames_of:
            self._frames.clear()
            self._frames_of = snapshot.version
        api = self._params.apis[listener.turns % len(self._params.apis)]
        listener.turns += 1
        key = (listener.node, api)
        if key not in self._frames:
            self._frames[key] = self._encode(snapshot, listener.node, api)
        frame = self._frames[key]
        if frame is None:
            return
        assert self._recorder is not None
        op = self._op
        self._op += 1
        data = bytearray(frame)
        _I32.pack_into(data, _CORRELATION_AT, op & 0x7FFFFFFF)
        invoke_t = time.monotonic_ns()
        self._recorder.invoke(
            "probe",
            op,
            invoke_t,
            node=listener.node,
            api=api,
            plane=listener.plane,
            planned_t=planned_t,
        )
        self._links.send(channel, bytes(data), _Probe(op, api, planned_t, invoke_t))

    def _encode(self, snapshot: Snapshot, node: int, api: str) -> bytes | None:
        if api == "LEADER_AND_ISR":
            return leader_and_isr(snapshot, node, self._spec.process)
        return update_metadata(snapshot, node, self._spec.process, self._params.metadata_topics)

    def _answered(self, channel: Channel, payload: bytes, t: int) -> None:
        sent: _Probe = channel.tag
        key = ApiKey[sent.api]
        try:
            _, answer = decode_response(key, VERSIONS[key], payload)
        except WireError as error:
            self._complete(channel, sent, "info", t, failure=str(error))
            return
        self._complete(channel, sent, "ok", t, error=int(answer.error_code))

    def _lost(self, channel: Channel, reason: str, t: int) -> None:
        self._complete(channel, channel.tag, "info", t, failure=reason)

    def _give_up(self, listener: _Listener, planned_t: int, t: int) -> None:
        """No connection came free in time: certainly not sent, and the broker's latency all the
        same.
        """
        assert self._recorder is not None
        api = self._params.apis[listener.turns % len(self._params.apis)]
        self._recorder.complete(
            "probe",
            self._op,
            "fail",
            planned_t,
            t,
            node=listener.node,
            api=api,
            plane=listener.plane,
            planned_t=planned_t,
            failure="no free connection",
        )
        self._op += 1

    def _complete(
        self,
        channel: Channel,
        sent: _Probe,
        outcome: str,
        t: int,
        *,
        error: int | None = None,
        failure: str | None = None,
    ) -> None:
        assert self._recorder is not None
        listener = self._by_channel[channel]
        self._recorder.complete(
            "probe",
            sent.op,
            outcome,
            sent.invoke_t,
            t,
            node=listener.node,
            api=sent.api,
            plane=listener.plane,
            planned_t=sent.planned_t,
            error=error,
            failure=failure,
        )
