"""Where requests spent their time, per API: Kafka's RequestMetrics.

The hot path pays for one tuple and one append per request: each processor keeps the times of the
newest requests of each API. Everything else happens when somebody reads. Segments::

    receive --RequestQueueTimeMs-- dequeue --LocalTimeMs-- handled --RemoteTimeMs-- ready
            --ResponseQueueTimeMs + ResponseSendTimeMs-- sent            TotalTimeMs: all of it

The response's wait in its processor's queue and the writing are not told apart; the sum is exported
as ResponseSendTimeMs. RequestQueueTimeMs counts from the complete receive, as Kafka's does, so it
includes the blocking put.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nodes.metrics import QUANTILES, RESERVOIR, quantiles
from nodes.network.request_channel import Request

Times = tuple[int, int, int, int, int]
"""receive, dequeue, handled, ready, sent; nanoseconds."""

SEGMENTS: Final[tuple[tuple[str, int, int], ...]] = (
    ("RequestQueueTimeMs", 0, 1),
    ("LocalTimeMs", 1, 2),
    ("RemoteTimeMs", 2, 3),
    ("ResponseSendTimeMs", 3, 4),
    ("TotalTimeMs", 0, 4),
)


class RequestTimes:
    """The newest requests of one processor. Written by its thread alone; read by any."""

    __slots__ = ("counts", "windows")

    def __init__(self) -> None:
        self.windows: dict[int, deque[Times]] = {}
        self.counts: dict[int, int] = {}

    def record(self, request: Request, sent_ns: int) -> None:
        api_key = request.api_key
        window = self.windows.get(api_key)
        if window is None:
            window = deque(maxlen=RESERVOIR)
            self.counts[api_key] = 0
            self.windows[api_key] = window
        window.append(
            (
                request.receive_ns,
                request.dequeue_ns,
                request.handled_ns,
                request.ready_ns,
                sent_ns,
            )
        )
        self.counts[api_key] += 1


def request_metrics(
    processors: Iterable[RequestTimes], api_name: Callable[[int], str]
) -> Iterator[tuple[str, float]]:
    """(MBean name, value) pairs over all processors."""
    counts: dict[int, int] = {}
    windows: dict[int, list[Times]] = {}
    for times in processors:
        for api_key, window in list(times.windows.items()):
            counts[api_key] = counts.get(api_key, 0) + times.counts[api_key]
            windows.setdefault(api_key, []).extend(window.copy())
    for api_key, rows in windows.items():
        request = f"request={api_name(api_key)}"
        prefix = "kafka.network:type=RequestMetrics,name="
        yield f"{prefix}RequestsPerSec,{request}", counts[api_key]
        for name, start, end in SEGMENTS:
            values = quantiles((row[end] - row[start]) / 1e6 for row in rows)
            for q in QUANTILES:
                if q in values:
                    yield f"{prefix}{name},{request},quantile={q:g}", values[q]
