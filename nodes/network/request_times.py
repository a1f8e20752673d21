"""Where requests spent their time, per API: Kafka's RequestMetrics.

A Fetch is shown twice, as Fetch and as FetchFollower or FetchConsumer (a replica's, or anybody
else's); its errors only as Fetch. Whatever can be asked for is shown from the start, with zeros.

The hot path pays for one tuple and one append per request: each processor keeps the times of the
newest requests of each API and version. Everything else happens when somebody reads. Segments::

    receive --RequestQueueTimeMs-- dequeue --LocalTimeMs-- handled --RemoteTimeMs-- ready
            --ResponseQueueTimeMs-- taken --ResponseSendTimeMs-- sent    TotalTimeMs: all of it

RequestQueueTimeMs counts from the complete receive, as Kafka's does, so it includes the blocking
put. ThrottleTimeMs is always 0: this broker throttles nobody. RequestBytes is of the body, without
header. Nothing is said of conversions (MessageConversionsTimeMs, TemporaryMemoryBytes): there are
none. `taken` is when the network thread turned to its answers, for all that it wrote in that turn.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from nodes.metrics import RESERVOIR, Rate, Row, histogram_attributes
from nodes.network.request_channel import Request

Times = tuple[int, int, int, int, int, int, int]
"""receive, dequeue, handled, ready, taken, sent; nanoseconds. Then the body's bytes."""

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
_FOLLOWERS: Final = 1 << 32
_FETCH: Final = 1
_BODY: Final = 6
_NO_ERROR: Final = 0


class RequestTimes:
    """The newest requests of one processor. Written by its thread alone; read by any.

    Keys are api_key * 65536 + api_version, and 2**32 more for a follower's Fetch.
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
        if request.is_followers:
            key += _FOLLOWERS
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
                request.body_bytes,
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
    """Rates of counts that are known only when somebody asks: since these were made."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._start_ns = now_ns()
        self._counts: dict[str, int] = {}
        self._rates: dict[str, Rate] = {}

    def rows(self, mbean: str, count: int) -> Iterator[Row]:
        for attribute, value in self._rate(mbean, count).attributes():
            yield mbean, attribute, value

    def tick(self, counts: Iterable[tuple[str, int]]) -> None:
        """Lets the rates move on, though nobody reads."""
        for mbean, count in counts:
            self._rate(mbean, count).tick()

    def _rate(self, mbean: str, count: int) -> Rate:
        if mbean not in self._rates:
            self._counts[mbean] = 0
            self._rates[mbean] = Rate(
                lambda: self._counts[mbean],
                per_ns=1_000_000_000,
                now_ns=self._now_ns,
                since_ns=self._start_ns,
            )
        self._counts[mbean] = count
        return self._rates[mbean]


def request_counts(
    processors: Iterable[RequestTimes],
    api_name: Callable[[int], str],
    error_name: Callable[[int], str] = str,
) -> Iterator[tuple[str, int]]:
    """What RequestsPerSec and ErrorsPerSec count, of all processors, by MBean name."""
    requests: Counter[tuple[str, int]] = Counter()
    errors: Counter[tuple[int, int]] = Counter()
    for times in processors:
        for key, count in times.counts.copy().items():
            api_key, version, names = _names(key, api_name)
            errors[api_key, _NO_ERROR] += count
            for name in names:
                requests[name, version] += count
        errors.update(times.errors.copy())
    for (name, version), count in requests.items():
        if count:
            yield f"{_BEAN}RequestsPerSec,request={name},version={version}", count
    for (api_key, error), count in errors.items():
        if count > 0:
            names_of = f"request={api_name(api_key)},error={error_name(error)}"
            yield f"{_BEAN}ErrorsPerSec,{names_of}", count


def request_metrics(
    processors: Sequence[RequestTimes],
    meters: Meters,
    api_name: Callable[[int], str],
    error_name: Callable[[int], str] = str,
    apis: Iterable[int] = (),
) -> Iterator[Row]:
    """Rows over all processors. `apis`: those that are shown even if nobody asked for them yet;
    their rates begin with the first request, as in Kafka."""
    totals: Counter[str] = Counter()
    windows: dict[str, list[Times]] = {}
    for api_key in apis:
        for name in (api_name(api_key), *(_fetches(api_name) if api_key == _FETCH else ())):
            windows[name] = []
    for times in processors:
        for key, window in list(times.windows.items()):
            count, rows = times.counts[key], window.copy()
            for name in _names(key, api_name)[2]:
                totals[name] += count
                windows.setdefault(name, []).extend(rows)
    for mbean, count in request_counts(processors, api_name, error_name):
        yield from meters.rows(mbean, count)
    for name, found in windows.items():
        for segment, start, end in SEGMENTS:
            values = [(row[end] - row[start]) / 1e6 for row in found]
            yield from _histogram(f"{segment},request={name}", totals[name], values)
        sizes = [row[_BODY] for row in found]
        yield from _histogram(f"RequestBytes,request={name}", totals[name], sizes)


def _names(key: int, api_name: Callable[[int], str]) -> tuple[int, int, list[str]]:
    """(api key, version, names that it is shown by) of a key of `RequestTimes`."""
    of_followers, api_and_version = divmod(key, _FOLLOWERS)
    api_key, version = divmod(api_and_version, _VERSIONS)
    names = [api_name(api_key)]
    if api_key == _FETCH:
        names.append(_fetches(api_name)[of_followers])
    return api_key, version, names


def _fetches(api_name: Callable[[int], str]) -> tuple[str, str]:
    name = api_name(_FETCH)
    return f"{name}Consumer", f"{name}Follower"


def _histogram(name: str, count: int, values: Iterable[float]) -> Iterator[Row]:
    for attribute, value in histogram_attributes(count, values):
        yield f"{_BEAN}{name}", attribute, value
