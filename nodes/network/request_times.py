"""Where requests spent their time, per API: Kafka's RequestMetrics.

The hot path pays for one tuple and one append per request: each processor keeps the times of the
newest requests of each API and version. Everything else happens when somebody reads. Segments::

    receive --RequestQueueTimeMs-- dequeue --LocalTimeMs-- handled --RemoteTimeMs-- ready
            --ResponseQueueTimeMs-- taken --ResponseSendTimeMs-- sent    TotalTimeMs: all of it

RequestQueueTimeMs counts from the complete receive, as Kafka's does, so it includes the blocking
put. ThrottleTimeMs is always 0: this broker throttles nobody. `taken` is when the network thread
turned to its answers, for all that it wrote in that turn.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nodes.metrics import RESERVOIR, Rate, Row, histogram_attributes
from nodes.network.request_channel import Request

Times = tuple[int, int, int, int, int, int]
"""receive, dequeue, handled, ready, taken, sent; nanoseconds."""

SEGMENTS: Final[tuple[tuple[str, int, int], ...]] = (
    ("RequestQueueTimeMs", 0, 1),
    ("LocalTimeMs", 1, 2),
    ("RemoteTimeMs", 2, 3),
    ("ThrottleTimeMs", 0, 0),
    ("ResponseQueueTimeMs", 3, 4),
    ("ResponseSendTimeMs", 4, 5),
    ("TotalTimeMs", 0, 5),
)
_BEAN: Final = "kafka.network:type=RequestMetrics,name="
_VERSIONS: Final = 1 << 16
_NO_ERROR: Final = 0


class RequestTimes:
    """The newest requests of one processor. Written by its thread alone; read by any.

    Keys are api_key * 65536 + api_version.
    """

    __slots__ = ("counts", "errors", "windows")

    def __init__(self) -> None:
        self.windows: dict[int, deque[Times]] = {}
        self.counts: dict[int, int] = {}
        self.errors: dict[tuple[int, int], int] = {}
        """(api key, error) -> how often, for all answers that say more than one "no error"; of a
        request whose `errors` is None only the absence is kept: one NONE less for each that has
        some."""

    def record(self, request: Request, sent_ns: int) -> None:
        key = request.api_key * _VERSIONS + request.api_version
        window = self.windows.get(key)
        if window is None:
            window = deque(maxlen=RESERVOIR)
            self.counts[key] = 0
            self.windows[key] = window
        window.append(
            (
                request.receive_ns,
                request.dequeue_ns,
                request.handled_ns,
                request.ready_ns,
                request.taken_ns,
                sent_ns,
            )
        )
        self.counts[key] += 1
        if request.errors is not None:
            self._count_errors(request.api_key, request.errors)

    def _count_errors(self, api_key: int, errors: Iterable[int]) -> None:
        known = self.errors
        nothing = (api_key, _NO_ERROR)
        known[nothing] = known.get(nothing, 0) - 1
        for error in errors:
            known[api_key, error] = known.get((api_key, error), 0) + 1


class Meters:
    """Rates of counts that are known only when somebody reads: since these were made."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._start_ns = now_ns()
        self._counts: dict[str, int] = {}
        self._rates: dict[str, Rate] = {}

    def rows(self, mbean: str, count: int) -> Iterator[Row]:
        if mbean not in self._rates:
            self._counts[mbean] = 0
            self._rates[mbean] = Rate(
                lambda: self._counts[mbean],
                per_ns=1_000_000_000,
                now_ns=self._now_ns,
                since_ns=self._start_ns,
            )
        self._counts[mbean] = count
        for attribute, value in self._rates[mbean].attributes():
            yield mbean, attribute, value


def request_metrics(
    processors: Iterable[RequestTimes],
    meters: Meters,
    api_name: Callable[[int], str],
    error_name: Callable[[int], str] = str,
) -> Iterator[Row]:
    """Rows over all processors."""
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    errors: Counter[tuple[int, int]] = Counter()
    windows: dict[int, list[Times]] = {}
    for times in processors:
        for key, window in list(times.windows.items()):
            counts[key] += times.counts[key]
            api_key = key // _VERSIONS
            totals[api_key] += times.counts[key]
            errors[api_key, _NO_ERROR] += times.counts[key]
            windows.setdefault(api_key, []).extend(window.copy())
        errors.update(times.errors.copy())
    for key, count in counts.items():
        api_key, version = divmod(key, _VERSIONS)
        names = f"request={api_name(api_key)},version={version}"
        yield from meters.rows(f"{_BEAN}RequestsPerSec,{names}", count)
    for (api_key, error), count in errors.items():
        if count > 0:
            names = f"request={api_name(api_key)},error={error_name(error)}"
            yield from meters.rows(f"{_BEAN}ErrorsPerSec,{names}", count)
    for api_key, rows in windows.items():
        for name, start, end in SEGMENTS:
            values = [(row[end] - row[start]) / 1e6 for row in rows]
            mbean = f"{_BEAN}{name},request={api_name(api_key)}"
            for attribute, value in histogram_attributes(totals[api_key], values):
                yield mbean, attribute, value
